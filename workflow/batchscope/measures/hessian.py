"""Largest eigenvalue (Lanczos) and trace (Hutchinson) of the training loss's Hessian, each with its
error.

H is the Hessian of the mean training loss, without dropout and with the moving statistics of batch
normalisation. Only its products with vectors are computed, never H itself. The eigenvalue comes
from Lanczos iterations (ARPACK, by SciPy), the trace from Hutchinson's estimator::

    trace = E[ z . H z ],   z with entries of +1 and -1, each with probability 1/2

Source: C. Lanczos 1950; M. F. Hutchinson 1990; B. A. Pearlmutter 1994, "Fast exact multiplication
by the Hessian", for H v.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batchscope.core.errors import UserError
from batchscope.measures import Measured
from batchscope.study.model import Integer, Setting
from batchscope.study.specifications import (
    Column,
    Examples,
    Figure,
    Measure,
    Panel,
    WeightsSettings,
)

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun


class HessianSettings(WeightsSettings):
    """Settings of `hessian`."""

    examples: Examples = 2000
    """Training examples for the loss; 0 means `all`."""
    probes: Annotated[Integer, Field(ge=2), Setting("pr")] = 20
    """Random vectors for the trace."""
    iterations: Annotated[Integer, Field(ge=5), Setting("it")] = 100
    """Maximum number of Lanczos products."""


ENTRY = Measure(
    version="hessian-v1",
    settings=HessianSettings,
    columns={
        "hessian_top_eigenvalue": Column(
            "Largest eigenvalue of the training loss's Hessian.",
            label="Largest eigenvalue of the Hessian",
        ),
        "hessian_top_eigenvalue_error": Column(
            "Norm of H v - lambda v, a bound on the distance to an eigenvalue."
        ),
        "hessian_trace": Column(
            "Trace of the Hessian: mean over random probes.", label="Trace of the Hessian"
        ),
        "hessian_trace_error": Column("Standard error of that mean."),
    },
    figures=(
        Figure(
            "hessian",
            "Curvature",
            "Sharpness",
            "Largest eigenvalue (Lanczos) and trace (Hutchinson) of the Hessian of the "
            "training loss. With one seed, bars are numerical errors.",
            panels=(
                Panel(
                    "hessian_top_eigenvalue",
                    "Largest eigenvalue",
                    "largest eigenvalue λ",
                    error="hessian_top_eigenvalue_error",
                ),
                Panel("hessian_trace", "Trace", "trace", error="hessian_trace_error"),
            ),
        ),
    ),
    order=6,
)

# All runs have the same seeds, and so the same start and probes.
START_SEED = 0
PROBE_SEED = 0

# The search ends when ||H v - lambda v|| is below this share of |lambda|. The relative error of the
# eigenvalue is then about the square of this share.
TOLERANCE = 1e-3
CYCLE_VECTORS = 10  # vectors of a Lanczos cycle; they need 80 bytes per weight
_NO_LIMIT = 1e300  # tolerance that makes ARPACK return the result of one cycle

HessianProduct = Callable[[np.ndarray], np.ndarray]  # v -> H v, both float64 of shape (size,)


def require_finite(product: np.ndarray) -> np.ndarray:
    if not np.isfinite(product).all():
        raise FloatingPointError("a product with the Hessian is not finite")
    return product


def top_eigenvalue(
    hessian_product: HessianProduct, size: int, iterations: int
) -> tuple[float | None, float | None]:
    """Return the largest (most positive) eigenvalue of a symmetric matrix, and its error.

    The error is ||H v - lambda v|| for the best vector v, of length 1: a bound on the distance of
    lambda = v . H v from an eigenvalue. Each Lanczos cycle starts from the best vector of the
    previous cycle. The estimate therefore has a known error when the `iterations` products (at
    least 4) are used up. A start in an invariant subspace of H may need one more product.

    Raises:
        FloatingPointError: If a product is not finite.
    """
    from scipy.sparse import linalg

    products_used = 0

    def product_with(vector: np.ndarray) -> np.ndarray:
        nonlocal products_used
        products_used += 1
        return require_finite(hessian_product(vector))

    vector = np.random.default_rng(START_SEED).standard_normal(size)
    vector /= np.linalg.norm(vector)
    value = error = None
    # A cycle needs one product more than it has vectors, and the error needs another product.
    while (count := min(CYCLE_VECTORS, size, iterations - products_used - 2)) >= min(2, size):
        try:
            vector = _lanczos_cycle(product_with, vector, count)
        except linalg.ArpackError:  # ARPACK fails for a matrix of zeros, for example
            return (value, error) if product_with(vector).any() else (0.0, 0.0)
        product = product_with(vector)
        value = float(vector @ product)
        error = float(np.linalg.norm(product - value * vector))
        if error <= TOLERANCE * abs(value):
            break
    return value, error


def _lanczos_cycle(hessian_product: HessianProduct, start: np.ndarray, count: int) -> np.ndarray:
    """Return the best vector, of length 1, of a Lanczos cycle with `count` vectors."""
    from scipy.sparse import linalg

    size = len(start)
    if size == 1:  # ARPACK needs at least two weights
        return start
    operator = linalg.LinearOperator((size, size), hessian_product, dtype=np.float64)
    _, vectors = linalg.eigsh(
        operator, k=1, which="LA", v0=start, ncv=count, maxiter=1, tol=_NO_LIMIT, rng=START_SEED
    )
    return vectors[:, 0] / np.linalg.norm(vectors[:, 0])


def trace(hessian_product: HessianProduct, size: int, probes: int) -> tuple[float, float]:
    """Return Hutchinson's estimate of a symmetric matrix's trace, and its standard error.

    The estimate is exact for a diagonal matrix. At least 2 probes are needed. A larger number of
    probes begins with the probes of a smaller number.
    """
    random = np.random.default_rng(PROBE_SEED)
    estimates = np.empty(probes)
    for index in range(probes):
        probe = 2.0 * random.integers(0, 2, size, np.int8) - 1.0
        estimates[index] = probe @ require_finite(hessian_product(probe))
    return float(estimates.mean()), float(estimates.std(ddof=1) / math.sqrt(probes))


def measure(hessian_product: HessianProduct, size: int, settings: dict[str, Any]) -> Measured:
    """Measure eigenvalue and trace; they are None if a product with H is not finite."""
    eigenvalue: tuple[float | None, float | None] = None, None
    estimate: tuple[float | None, float | None] = None, None
    with contextlib.suppress(FloatingPointError):
        eigenvalue = top_eigenvalue(hessian_product, size, settings["iterations"])
    with contextlib.suppress(FloatingPointError):
        estimate = trace(hessian_product, size, settings["probes"])
    return Measured(dict(zip(ENTRY.columns, (*eigenvalue, *estimate), strict=True)))


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure a run's curvature; raise `UserError` for a model without second derivatives."""
    loss = run.training_loss(settings)
    try:
        return measure(loss.hessian_times, loss.size, settings)
    except LookupError as error:
        if "gradient" not in str(error):  # TensorFlow's word for a derivative it lacks
            raise
        raise UserError(
            f"hessian: the model of {run.name} has an operation without a second derivative "
            f"({str(error).splitlines()[0]}); layers that have one are expected."
        ) from None
