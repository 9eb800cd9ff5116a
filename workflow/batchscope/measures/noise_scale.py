"""Gradient noise scale of McCandlish et al. 2018 (arXiv 1812.06162) at the start, after the epochs
of `at_epochs` and at the end of the training.

Let g_i be the gradients of n examples at fixed weights, S their sum, G the expected gradient and
Sigma the covariance of the gradients of single examples::

    d = mean |g_i|^2          o = (|S|^2 - sum |g_i|^2) / (n (n - 1))
    |G|^2 = o                 tr Sigma = d - o                 B_simple = d / o - 1

The estimates of |G|^2 and tr Sigma are unbiased. o is the mean of g_i . g_j over all pairs; if it
is negative, |G|^2 is not resolved. The standard error comes from the jackknife. Leaving out an
example needs only |g_i|^2 and g_i . S, so all gradients are computed twice and none is stored.

There is no dropout, and batch normalisation uses its moving statistics.

The noise scale of the normalisation layers, a fraction of the weights, predicts the overall one
(G. Gray et al. 2024, "Normalization Layer Per-Example Gradients are Sufficient to Predict Gradient
Noise Scale in Transformers", arXiv 2411.00999).

Source: S. McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", arXiv 1812.06162,
section 2.2 and appendix A.1 (their estimator from two batch sizes, here 1 and n).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from batchscope.core import private_interfaces
from batchscope.measures import Measured, finite
from batchscope.study.model import Model
from batchscope.study.specifications import Column, Epoch, Examples, Figure, Measure, Panel, Scale

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun
    from batchscope.training.losses import Objective


class NoiseScaleSettings(Model):
    """Settings of `noise_scale`."""

    examples: Examples = 512
    """Training examples for the gradients; 0 means `all`."""
    epoch: Epoch = 0
    """Epoch after which to measure, given by `at_epochs`; 0 for start and end of the training."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if 0 < self.examples < 3:  # the jackknife leaves out one gradient and needs two others
            raise ValueError("examples should be 0 or at least 3")
        return self


_END_COLUMNS = {
    "gradient_noise_scale": Column(
        "gradient_variance / gradient_norm_squared at the last weights: the batch size with "
        "equal noise and signal in a gradient; empty if gradient_norm_squared is not positive.",
        "examples",
    ),
    "gradient_noise_scale_error": Column(
        "Standard error of gradient_noise_scale: jackknife over examples.", "examples"
    ),
    "gradient_norm_squared": Column(
        "Squared norm of the expected gradient at the last weights, unbiased; noise can make "
        "it negative.",
        "nats^2",
    ),
    "gradient_variance": Column(
        "Trace of the covariance of the gradients at the last weights, unbiased.", "nats^2"
    ),
    "normalisation_noise_scale": Column(
        "Noise scale of the normalisation layers at the last weights (Gray et al. 2024, arXiv "
        "2411.00999); empty without such layers, or if not resolved.",
        "examples",
    ),
    "normalisation_noise_ratio": Column(
        "normalisation_noise_scale over gradient_noise_scale.",
        label="Noise scale of normalisation layers over noise scale of all weights",
    ),
}

ENTRY = Measure(
    version="noise_scale-v2",
    settings=NoiseScaleSettings,
    columns={
        **{
            f"{name}_start": Column(f"{name} at the initial weights.", column.unit, at_epochs=False)
            for name, column in _END_COLUMNS.items()
        },
        **_END_COLUMNS,
    },
    at_epochs=True,
    figures=(
        Figure(
            "noise_scale",
            "Gradient noise scale",
            "Gradients",
            "Number of examples with equal noise and signal in their mean gradient (McCandlish et "
            "al. 2018), with its 95 % interval. Far below it, a larger batch saves updates "
            "nearly in proportion; far above it, hardly any. Dotted: batch size of the training.",
            kind="noise_scale",
            panels=(Panel("gradient_noise_scale", "", "noise scale (examples)", Scale.LOG),),
        ),
        Figure(
            "normalisation_noise_scale",
            "Noise scale of normalisation layers",
            "Gradients",
            "Gradient noise scale of the normalisation layers over that of all weights. If the "
            "ratio is about the same at every batch size, the former predicts the latter (Gray et "
            "al. 2024).",
            panels=(
                Panel(
                    "normalisation_noise_ratio", "", "normalisation layers / all weights", Scale.LOG
                ),
            ),
        ),
    ),
    order=5,
)

Gradient = Callable[[int], np.ndarray]  # index of an example -> its gradient, shape (size,)


class NoiseScale(NamedTuple):
    """Estimates of the noise scale and its parts; NaN if gradients are not finite."""

    norm_squared: float  # |G|^2, unbiased, of any sign
    variance: float  # tr Sigma of single examples, at least 0
    scale: float  # variance / norm_squared in examples; NaN unless norm_squared is above zero
    error: float  # standard error of scale; NaN if leaving out an example gives NaN

    @property
    def columns(self) -> dict[str, float]:
        return {
            "gradient_noise_scale": self.scale,
            "gradient_norm_squared": self.norm_squared,
            "gradient_variance": self.variance,
        }


def inner_products(
    gradient: Gradient, count: int, size: int, part: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return |g_i|^2 and g_i . S, float64 of shape (count,), of gradients of shape (size,).

    The first pair uses all components, the second pair a part. Each gradient is computed twice
    with the same result, because all gradients may not fit into memory.

    Args:
        part: Indices of the components of the second pair.
    """
    total, squared_norms, products = np.zeros(size), np.empty((2, count)), np.empty((2, count))
    for index in range(count):
        row = gradient(index).astype(np.float64)
        squared_norms[:, index] = row @ row, row[part] @ row[part]
        total += row
    for index in range(count):
        row = gradient(index).astype(np.float64)
        products[:, index] = row @ total, row[part] @ total[part]
    return (squared_norms[0], products[0]), (squared_norms[1], products[1])


def estimate(squared_norms: np.ndarray, products: np.ndarray) -> NoiseScale:
    """Return the noise scale from |g_i|^2 and g_i . S of at least 3 gradients."""
    count = len(squared_norms)
    norm_squared, variance = _norm_and_variance(squared_norms.sum(), products.sum(), count)
    scale = error = math.nan
    if norm_squared > 0:
        scale = variance / norm_squared
        error = _jackknife_error(squared_norms, products)
    return NoiseScale(float(norm_squared), float(variance), float(scale), float(error))


def _norm_and_variance(sum_of_squares: Any, squared_sum: Any, count: int) -> tuple[Any, Any]:
    """Return |G|^2 and tr Sigma from sum |g_i|^2 and |S|^2."""
    norm_squared = (squared_sum - sum_of_squares) / (count * (count - 1))
    return norm_squared, sum_of_squares / count - norm_squared


def _jackknife_error(squared_norms: np.ndarray, products: np.ndarray) -> float:
    """Return the jackknife's standard error of (d - o) / o."""
    count = len(squared_norms)
    # |S - g_i|^2 = |S|^2 - 2 g_i . S + |g_i|^2, and |S|^2 is the sum of all g_i . S.
    squared_sums = products.sum() - 2 * products + squared_norms
    sums_of_squares = squared_norms.sum() - squared_norms
    norm_squared, variance = _norm_and_variance(sums_of_squares, squared_sums, count - 1)
    if (norm_squared <= 0).any():
        return math.nan
    scales = variance / norm_squared  # each leaves out one example
    return math.sqrt((count - 1) / count * ((scales - scales.mean()) ** 2).sum())


def estimate_noise_scale(loss: Objective) -> tuple[NoiseScale, NoiseScale]:
    """Return the noise scale at the current weights, of all layers and of normalisation layers.

    The second noise scale is NaN for a model without normalisation layers.

    Args:
        loss: Loss over chunks of one example.
    """
    part = normalisation_indices(loss)
    all_layers, norm_layers = inner_products(loss.chunk_gradient, loss.examples, loss.size, part)
    return estimate(*all_layers), estimate(*norm_layers)


def normalisation_indices(loss: Objective) -> np.ndarray:
    """Return the indices of the weights of normalisation layers in a flat gradient."""
    import keras

    kinds = (
        keras.layers.BatchNormalization,
        keras.layers.GroupNormalization,
        keras.layers.LayerNormalization,
        keras.layers.RMSNormalization,
    )
    norm_ids = {
        id(variable)
        for layer in private_interfaces.all_layers(loss.model)
        if isinstance(layer, kinds)
        for variable in layer.trainable_variables
    }
    is_norm = [id(variable) in norm_ids for variable in loss.variables]
    return np.flatnonzero(np.repeat(is_norm, loss.sizes))


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure a run at start and end, or after one epoch."""
    from batchscope.study import snapshot_epochs
    from batchscope.training import models

    epoch, loss = settings["epoch"], run.training_loss(settings, chunk=1)
    weights_names = {"_start": "initial", "": "final"}  # suffix of the columns -> weights
    if epoch:
        weights_names = {"": snapshot_epochs.weights_name(epoch, run.record["epochs_run"])}
    values: dict[str, float | None] = {}
    for suffix, weights_name in weights_names.items():
        models.set_weights(loss.model, *run.weights(weights_name))
        noise, norm_noise = estimate_noise_scale(loss)
        ratio = norm_noise.scale / noise.scale if noise.scale else math.nan
        columns = {
            **noise.columns,
            "gradient_noise_scale_error": noise.error,
            "normalisation_noise_scale": norm_noise.scale,
            "normalisation_noise_ratio": ratio,
        }
        values |= finite({f"{column}{suffix}": value for column, value in columns.items()})
    return Measured(values)
