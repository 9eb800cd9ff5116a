"""Gradient noise scale: how many examples a mean gradient needs to be as large as its noise.

With g_i the gradients of n examples at fixed weights, S their sum, G the expected gradient and
Sigma the covariance of single ones::

    d = mean |g_i|^2          o = (|S|^2 - sum |g_i|^2) / (n (n - 1))
    |G|^2 = o                 tr Sigma = d - o                 B_simple = d / o - 1

Both are unbiased; o is the mean of g_i . g_j over all pairs and may fall below zero, where |G|^2
is not resolved. The standard error is that of the jackknife: leaving out an example needs |g_i|^2
and g_i . S alone, so that all gradients are computed twice and none is kept. Where a gradient is
the mean over a micro-batch of m examples, its covariance is Sigma / m.

Without dropout; batch normalisation uses its moving statistics.

The gradients of normalisation layers alone, a fraction of all weights, foretell that of all of them
(G. Gray et al. 2024, "Normalization Layer Per-Example Gradients are Sufficient to Predict Gradient
Noise Scale in Transformers", arXiv 2411.00999).

Source: S. McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", arXiv 1812.06162,
section 2.2 and appendix A.1 (their estimator from two batch sizes, here 1 and n).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from batchscope import private_interfaces
from batchscope.catalogue import kept_epochs
from batchscope.catalogue.measures.noise_scale import FEWEST_UNITS
from batchscope.errors import UserError
from batchscope.measures import FinishedRun, Measured, finite
from batchscope.training import models
from batchscope.training.losses import Objective

_NORMALISATION = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
)
Gradient = Callable[[int], np.ndarray]


class NoiseScale(NamedTuple):
    """An estimate; NaN where gradients are not finite."""

    norm_squared: float  # |G|^2, unbiased, of any sign
    variance: float  # tr Sigma of single examples, at least 0
    scale: float  # their ratio in examples; NaN where |G|^2 is not above zero
    error: float  # its standard error; NaN where it or one that leaves out an example is


def products(
    gradient: Gradient, count: int, size: int, part: np.ndarray | None = None
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns |g_i|^2 and g_i . S, float64 of shape (count,), of gradients of shape (size,).

    First of all their components, then of some. Each gradient is computed twice, the same both
    times, and not kept.

    Args:
        part: The indices of these components; none where it is None.
    """
    part = np.empty(0, np.intp) if part is None else part
    total, squared, along = np.zeros(size), np.empty((2, count)), np.empty((2, count))
    for index in range(count):
        one = gradient(index).astype(np.float64)
        squared[:, index] = one @ one, one[part] @ one[part]
        total += one
    for index in range(count):
        one = gradient(index).astype(np.float64)
        along[:, index] = one @ total, one[part] @ total[part]
    return (squared[0], along[0]), (squared[1], along[1])


def estimate(squared: np.ndarray, along: np.ndarray, micro_batch: int = 1) -> NoiseScale:
    """Returns the noise scale of single examples, by what `products` returned of three or more.

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
    """Returns the jackknife's standard error of (d - o) / o."""
    count = len(squared)
    # |S - g_i|^2 = |S|^2 - 2 g_i . S + |g_i|^2, and |S|^2 is the sum of all g_i . S.
    totals = along.sum() - 2 * along + squared
    norm_squared, spread = _moments(squared.sum() - squared, totals, count - 1)
    if (norm_squared <= 0).any():
        return math.nan
    left_out = spread / norm_squared
    return math.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())


def of_objective(loss: Objective, micro_batch: int = 1) -> tuple[NoiseScale, NoiseScale]:
    """Returns the noise scale at present weights, and that of normalisation layers alone.

    The second is NaN of a model without any. A last, smaller micro-batch is left out.

    Args:
        loss: Over chunks of `micro_batch` examples.
    """
    count, part = loss.examples // micro_batch, normalisation(loss)
    whole, alone = products(loss.chunk_gradient, count, loss.size, part)
    none = NoiseScale(math.nan, math.nan, math.nan, math.nan)
    found = estimate(*whole, micro_batch)
    return found, estimate(*alone, micro_batch) if len(part) else none


def normalisation(loss: Objective) -> np.ndarray:
    """Returns where a flat gradient has the components of normalisation layers."""
    own = {
        id(variable)
        for layer in private_interfaces.all_layers(loss.model)
        if isinstance(layer, _NORMALISATION)
        for variable in layer.trainable_variables
    }
    mine = [id(variable) in own for variable in loss.variables]
    return np.flatnonzero(np.repeat(mine, loss.sizes))


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measures a run at start and end, or after one epoch; raises `UserError` of few examples."""
    epoch, micro_batch = settings["epoch"], settings["micro_batch"]
    loss, described = run.training_loss(settings, chunk=micro_batch)
    count = loss.examples // micro_batch
    if count < FEWEST_UNITS:
        raise UserError(
            f"noise_scale.examples: received {loss.examples} of {described['subset']['available']} "
            f"training examples; at least {FEWEST_UNITS * micro_batch} are expected, "
            f"{FEWEST_UNITS} gradients of {micro_batch} (micro_batch)."
        )
    places = {"_start": "initial", "": "final"}
    if epoch:
        places = {"": kept_epochs.weights_name(epoch, run.record["epochs_run"])}
    values: dict[str, float | None] = {}
    for suffix, weights in places.items():
        models.set_weights(loss.model, *run.weights(weights))
        found, alone = of_objective(loss, micro_batch)
        columns = {
            "gradient_noise_scale": found.scale,
            "gradient_noise_scale_error": found.error,
            "gradient_norm_squared": found.norm_squared,
            "gradient_variance": found.variance,
            "normalisation_noise_scale": alone.scale,
            "normalisation_noise_ratio": alone.scale / found.scale if found.scale else math.nan,
        }
        values |= finite({f"{column}{suffix}": value for column, value in columns.items()})
    counts = {"gradients": count, "micro_batch": micro_batch, "parameters": loss.size}
    return Measured(values, {**counts, "subset": described["subset"]})
