"""Gradient noise scale of McCandlish et al. 2018 (arXiv 1812.06162) at the start, after the epochs
of `at_epochs` and at the end of the training.

With g_i the gradients of n examples at fixed weights, S their sum, G the expected gradient and
Sigma the covariance of single ones::

    d = mean |g_i|^2          o = (|S|^2 - sum |g_i|^2) / (n (n - 1))
    |G|^2 = o                 tr Sigma = d - o                 B_simple = d / o - 1

Both are unbiased. o is the mean of g_i . g_j over all pairs; if it is negative, |G|^2 is not
resolved. The standard error is by the jackknife. Leaving out an example needs only |g_i|^2 and
g_i . S, so all gradients are computed twice and none is kept. If a gradient is the mean over a
micro-batch of m examples, its covariance is Sigma / m.

There is no dropout, and batch normalisation uses its moving statistics.

The noise scale of the normalisation layers, a fraction of the weights, predicts the overall one
(G. Gray et al. 2024, "Normalization Layer Per-Example Gradients are Sufficient to Predict Gradient
Noise Scale in Transformers", arXiv 2411.00999).

Source: S. McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", arXiv 1812.06162,
section 2.2 and appendix A.1 (their estimator from two batch sizes, here 1 and n).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from batchscope.core import private_interfaces
from batchscope.measures import Measured, finite
from batchscope.study.common_settings import Epoch, Examples
from batchscope.study.model import Integer, Model
from batchscope.study.setting import Setting
from batchscope.study.specifications import Column, Figure, Measure, Panel, Scale, Values

if TYPE_CHECKING:
    from batchscope.measures.finished_run import FinishedRun
    from batchscope.training.losses import Objective

FEWEST_UNITS = 3  # gradients: the jackknife leaves one out, and two have one pair


class NoiseScaleSettings(Model):
    """Settings of `noise_scale`."""

    examples: Examples = 512
    """Training examples for the gradients; 0 means `all`."""
    micro_batch: Annotated[Integer, Field(ge=1), Setting("mb", "examples")] = 1
    """Examples per gradient; more than 1 if gradients of single examples cost too much."""
    epoch: Epoch = 0
    """Epoch after which to measure, given by `at_epochs`; 0 for start and end of the training."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        least = FEWEST_UNITS * self.micro_batch
        if 0 < self.examples < least:
            units = f"{FEWEST_UNITS} gradients of {self.micro_batch} (micro_batch)"
            raise ValueError(f"examples should be at least {least}, {units}")
        return self


def _problems(
    factors: Values, settings: Values, training_examples: int | None
) -> Iterator[tuple[str, str]]:
    micro_batch = settings["micro_batch"]
    if training_examples is not None and training_examples < FEWEST_UNITS * micro_batch:
        text = f"received {micro_batch}; at most {training_examples // FEWEST_UNITS} is expected: "
        text += f"{FEWEST_UNITS} gradients from {training_examples} training examples."
        yield "micro_batch", text


_UNITS = {
    "gradient_noise_scale": "examples",
    "gradient_noise_scale_error": "examples",
    "gradient_norm_squared": "nats^2",
    "gradient_variance": "nats^2",
    "normalisation_noise_scale": "examples",
    "normalisation_noise_ratio": "",
}

ENTRY = Measure(
    version="noise_scale-v2",
    settings=NoiseScaleSettings,
    columns={
        **{
            f"{name}_start": Column(f"{name} at the initial weights.", unit, at_epochs=False)
            for name, unit in _UNITS.items()
        },
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
            "Trace of the covariance of the gradients at the last weights, unbiased.",
            "nats^2",
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
    },
    problems=_problems,
    at_epochs=True,
    figures=(
        Figure(
            "noise_scale",
            "Gradient noise scale",
            "Gradients",
            "Number of examples with equal noise and signal in their mean gradient (McCandlish et "
            "al. 2018), with Fieller's 95 % interval. Far below it, a larger batch saves updates "
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
                    "normalisation_noise_ratio",
                    "",
                    "normalisation layers / all weights",
                    Scale.LOG,
                ),
            ),
        ),
    ),
    order=5,
)

Gradient = Callable[[int], np.ndarray]


class NoiseScale(NamedTuple):
    """An estimate; NaN if gradients are not finite."""

    norm_squared: float  # |G|^2, unbiased, of any sign
    variance: float  # tr Sigma of single examples, at least 0
    scale: float  # their ratio in examples; NaN unless |G|^2 is above zero
    error: float  # its standard error; NaN if an estimate without an example is NaN

    @property
    def columns(self) -> dict[str, float]:
        return {
            "gradient_noise_scale": self.scale,
            "gradient_norm_squared": self.norm_squared,
            "gradient_variance": self.variance,
        }


def products(
    gradient: Gradient, count: int, size: int, part: np.ndarray | None = None
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return |g_i|^2 and g_i . S, float64 of shape (count,), of gradients of shape (size,).

    The first pair uses all components, the second a part. Each gradient is computed twice
    with the same result, because all gradients may not fit into memory.

    Args:
        part: The indices of these components; none by default.
    """
    part = np.empty(0, np.intp) if part is None else part
    total, squared, along = np.zeros(size), np.empty((2, count)), np.empty((2, count))
    for index in range(count):
        row = gradient(index).astype(np.float64)
        squared[:, index] = row @ row, row[part] @ row[part]
        total += row
    for index in range(count):
        row = gradient(index).astype(np.float64)
        along[:, index] = row @ total, row[part] @ total[part]
    return (squared[0], along[0]), (squared[1], along[1])


def estimate(squared: np.ndarray, along: np.ndarray, micro_batch: int = 1) -> NoiseScale:
    """Return the noise scale of single examples from the `products` of three or more gradients.

    Each g_i is the mean gradient of `micro_batch` examples.
    """
    norm_squared, spread = _moments(squared.sum(), along.sum(), len(squared))
    scale = error = math.nan
    if norm_squared > 0:
        scale = micro_batch * spread / norm_squared
        error = micro_batch * _jackknife_error(squared, along)
    return NoiseScale(float(norm_squared), float(micro_batch * spread), float(scale), float(error))


def _moments(squares: Any, total: Any, count: int) -> tuple[Any, Any]:
    norm_squared = (total - squares) / (count * (count - 1))
    return norm_squared, squares / count - norm_squared


def _jackknife_error(squared: np.ndarray, along: np.ndarray) -> float:
    """Return the jackknife's standard error of (d - o) / o."""
    count = len(squared)
    # |S - g_i|^2 = |S|^2 - 2 g_i . S + |g_i|^2, and |S|^2 is the sum of all g_i . S.
    totals = along.sum() - 2 * along + squared
    norm_squared, spread = _moments(squared.sum() - squared, totals, count - 1)
    if (norm_squared <= 0).any():
        return math.nan
    left_out = spread / norm_squared
    return math.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())


def estimate_noise_scale(loss: Objective, micro_batch: int = 1) -> tuple[NoiseScale, NoiseScale]:
    """Return the noise scale at present weights, of all layers and of normalisation layers.

    The scale of the second is NaN for a model without normalisation layers. A last, smaller
    micro-batch is left out.

    Args:
        loss: Loss over chunks of `micro_batch` examples.
    """
    count, part = loss.examples // micro_batch, normalisation(loss)
    pairs, alone = products(loss.chunk_gradient, count, loss.size, part)
    return estimate(*pairs, micro_batch), estimate(*alone, micro_batch)


def normalisation(loss: Objective) -> np.ndarray:
    """Return the indices of normalisation layers in a flat gradient."""
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
    mine = [id(variable) in norm_ids for variable in loss.variables]
    return np.flatnonzero(np.repeat(mine, loss.sizes))


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure a run at start and end, or after one epoch."""
    from batchscope.study import snapshot_epochs
    from batchscope.training import models

    epoch, micro_batch = settings["epoch"], settings["micro_batch"]
    loss = run.training_loss(settings, chunk=micro_batch)
    places = {"_start": "initial", "": "final"}
    if epoch:
        places = {"": snapshot_epochs.weights_name(epoch, run.record["epochs_run"])}
    values: dict[str, float | None] = {}
    for suffix, weights in places.items():
        models.set_weights(loss.model, *run.weights(weights))
        noise, alone = estimate_noise_scale(loss, micro_batch)
        columns = {
            **noise.columns,
            "gradient_noise_scale_error": noise.error,
            "normalisation_noise_scale": alone.scale,
            "normalisation_noise_ratio": alone.scale / noise.scale if noise.scale else math.nan,
        }
        values |= finite({f"{column}{suffix}": value for column, value in columns.items()})
    return Measured(values)
