"""Sharpness, metric 2.1 of Keskar et al. 2017 (arXiv 1609.04836): a lower bound by L-BFGS-B from
several starts.

Let f be the mean training loss without dropout, x the trainable weights and A+ the pseudo-inverse
of A::

    C = { z in R^p : |z_i| <= epsilon * (|(A+ x)_i| + 1) }
    sharpness = 100 * ( max over y in C of f(x + A y)  -  f(x) ) / ( 1 + f(x) )

In the full space, A is the identity. In the subspace, A is n x p with entries of N(0, 1), not
normalised (`Subspace`). L-BFGS-B searches the maximum from several starts and stops after a few
iterations, so the value is a lower bound of the definition.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from batchscope.core.errors import UserError
from batchscope.measures import Measured
from batchscope.study.model import Integer, Positive, Setting, Unique, number_text
from batchscope.study.specifications import (
    Examples,
    Figure,
    Measure,
    Panel,
    PositiveColumn,
    WeightsSettings,
)

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun


class SharpnessSettings(WeightsSettings):
    """Settings of `sharpness`."""

    epsilons: Annotated[Unique[Positive], Setting("eps")] = (0.001, 0.0005)
    """Box sizes."""
    spaces: Annotated[Unique[Literal["full", "subspace"]], Setting("sp")] = ("full", "subspace")
    """Spaces to search."""
    examples: Examples = 2000
    """Training examples for the loss; 0 means `all`."""
    iterations: Annotated[Integer, Field(ge=1), Setting("it")] = 10
    """L-BFGS-B iterations per start."""
    starts: Annotated[Integer, Field(ge=1), Setting("st")] = 4
    """Starting points of the search."""
    dimensions: Annotated[Integer, Field(ge=1), Setting("dim")] = 100
    """Columns of the subspace."""
    batch_norm: Annotated[Literal["moving", "batch"], Setting("bn")] = "moving"
    """Statistics of batch normalisation."""


ENTRY = Measure(
    version="sharpness-v1",
    settings=SharpnessSettings,
    columns={
        "sharpness_{spaces}_{epsilons}": PositiveColumn(
            "100 * (highest loss found in the box - loss) / (1 + loss), for a box of size epsilon "
            "in the full space or in a random subspace.",
            unit="% of 1 + loss",
            label="Sharpness ({spaces}, epsilon {epsilons})",
            direction="rises",
            words={"full": "full space", "subspace": "random subspace"},
        )
    },
    figures=(
        Figure(
            "sharpness",
            "Sharpness",
            "Sharpness",
            "Highest loss found in a box of size ε around the weights, relative to 1 + loss "
            "(Keskar et al. 2017, metric 2.1). The search is stopped early: a lower bound.",
            panels=(
                Panel(
                    "sharpness_{spaces}_{epsilons}",
                    "{spaces}, ε = {epsilons}",
                    "sharpness (% of 1 + loss)",
                ),
            ),
        ),
    ),
    order=2,
)

# All runs have the same seeds. Runs with the same number of weights are therefore compared in the
# same subspace, from the same starts.
SUBSPACE_SEED = 0
START_SEED = 0
# L-BFGS-B's first trial step is the gradient. In a flat region, this step is far shorter than the
# box, and around the minimiser of a convex function no curvature lengthens it. The published search
# starts from y = 0. For all other starts, the function is scaled so that the mean step is this many
# times the mean half edge of the box.
STEP_OVER_WIDTH = 100.0

MAX_CONDITION = 1e10  # a larger one leaves fewer than 6 reliable digits of the box
TILE_WEIGHTS = 1 << 14  # weights per step of the float64 products, which stay in the cache

# Weights of shape (n,) -> loss and gradient there.
LossAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]


def normal_column(size: int, seed: int, index: int) -> np.ndarray:
    """Return column `index` of A: float32 of N(0, 1), shape (size,).

    Keskar et al. 2017 (arXiv 1609.04836) do not state the scale. Only unit variance without
    normalisation fits the ratios of their tables 3 and 4.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(index,))
    return np.random.default_rng(sequence).standard_normal(size, np.float32)


class Subspace:
    """The matrix A of a random subspace, in a temporary file that the system caches in memory.

    Products are summed in float32, the precision of the weights. The edges of the box are summed in
    float64.

    Args:
        size: Number of weights, n.
        dimensions: Number of columns, p.

    Raises:
        UserError: If there are fewer weights than columns.
    """

    def __init__(self, size: int, dimensions: int, seed: int) -> None:
        if dimensions > size:
            raise UserError(
                f"sharpness.dimensions: received {dimensions}; at most the number of trainable"
                f" weights, {size}, is expected."
            )
        with tempfile.TemporaryFile() as file:
            for index in range(dimensions):
                normal_column(size, seed, index).tofile(file)
            file.flush()
            self._columns = np.memmap(file, np.float32, "r", shape=(dimensions, size))

    def times(self, y: np.ndarray) -> np.ndarray:
        """Return A y, float32 of shape (n,)."""
        return np.asarray(y.astype(np.float32) @ self._columns)

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """Return the transpose of A times a vector of shape (n,): float64 of shape (p,)."""
        return np.asarray(self._columns @ vector.astype(np.float32), np.float64)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Return A's pseudo-inverse, (A^T A)^-1 A^T, times x."""
        dimensions, size = self._columns.shape
        gram, projection = np.zeros((dimensions, dimensions)), np.zeros(dimensions)
        for start in range(0, size, TILE_WEIGHTS):
            rows = slice(start, start + TILE_WEIGHTS)
            tile = self._columns[:, rows].astype(np.float64)
            gram += tile @ tile.T
            projection += tile @ x[rows]
        condition = float(np.linalg.cond(gram))
        if not condition <= MAX_CONDITION:
            raise UserError(
                f"sharpness.dimensions: received {dimensions}, which makes the subspace of"
                f" {size} weights ill-conditioned ({condition:.1e}); fewer are expected."
            )
        return np.linalg.solve(gram, projection)


def sharpness(maximum: float, loss: float) -> float:
    """Return 100 * (maximum - f(x)) / (1 + f(x)), a percentage of 1 + f(x)."""
    return 100.0 * (maximum - loss) / (1.0 + loss)


def measure(
    loss_and_gradient: LossAndGradient, x: np.ndarray, settings: dict[str, Any]
) -> Measured:
    """Measure sharpness in every space and box of the settings.

    All values are None if the loss at x is not finite. The minimiser x, float64 of shape (n,), must
    be exactly representable by the model.
    """
    loss, gradient = loss_and_gradient(x)
    values: dict[str, float | None] = dict.fromkeys(ENTRY.columns_for(settings))
    if not (np.isfinite(loss) and np.isfinite(gradient).all()):
        return Measured(values)
    for space in settings["spaces"]:
        matrix, coordinates, slope = None, x, gradient
        if space == "subspace":
            matrix = Subspace(len(x), settings["dimensions"], SUBSPACE_SEED)
            coordinates, slope = matrix.coordinates(x), matrix.transposed_times(gradient)
        function = functools.partial(_loss_at_y, loss_and_gradient, x, matrix)
        for epsilon in settings["epsilons"]:
            half_edges = epsilon * (np.abs(coordinates) + 1.0)
            limits = settings["iterations"], settings["starts"]
            maximum = search_maximum(function, (loss, slope), half_edges, *limits)
            values[f"sharpness_{space}_{number_text(float(epsilon))}"] = sharpness(maximum, loss)
    return Measured(values)


def _loss_at_y(
    loss_and_gradient: LossAndGradient, x: np.ndarray, matrix: Subspace | None, y: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the loss at the weights x + A y and its gradient by y; A is I without a matrix."""
    if matrix is None:
        return loss_and_gradient(x + y)
    loss, gradient = loss_and_gradient(x + matrix.times(y))
    return loss, matrix.transposed_times(gradient)


def search_maximum(
    function: LossAndGradient,
    result_at_zero: tuple[float, np.ndarray],
    half_edges: np.ndarray,
    iterations: int = 10,
    starts: int = 4,
) -> float:
    """Return the largest value found in the box |y_i| <= `half_edges`_i from several starts.

    The starts are y = 0, the corner in the direction of the gradient at 0, then alternately random
    corners and random interior points. If the gradient at 0 is zero, a random corner replaces the
    second start. A search ends at the first value that is not finite, and its earlier values count.
    Start k does not depend on `starts`; it scales with `half_edges`.

    Args:
        result_at_zero: Finite value and gradient at y = 0, which are not computed again.
        half_edges: Half edges of the box, shape (n,), all positive.
    """
    search_from = functools.partial(_search_from, function, half_edges, iterations)
    maxima = [search_from(np.zeros_like(half_edges), result_at_zero, 1.0)]
    for index in range(1, starts):
        start = _start_point(index, result_at_zero[1]) * half_edges
        value, gradient = function(start)
        slope = float(np.abs(gradient).mean())
        scale = STEP_OVER_WIDTH * float(half_edges.mean()) / slope if slope > 0 else 1.0
        scale = scale if np.isfinite(scale) else 1.0
        maxima.append(search_from(start, (value, gradient), scale))
    return max(maxima)


def _start_point(index: int, gradient: np.ndarray) -> np.ndarray:
    """Return the start with an index from 1, in a box with half edges 1."""
    if index == 1 and gradient.any():
        return np.sign(gradient)
    random = np.random.default_rng([START_SEED, index])
    if index % 2 and index > 1:
        return random.uniform(-1.0, 1.0, len(gradient))
    return random.integers(0, 2, len(gradient)) * 2.0 - 1.0


def _search_from(
    function: LossAndGradient,
    half_edges: np.ndarray,
    iterations: int,
    start: np.ndarray,
    result_at_start: tuple[float, np.ndarray],
    scale: float,
) -> float:
    """Return the largest value of a search from one start; -inf without a finite value."""
    from scipy import optimize

    known_values, largest = [result_at_start], -np.inf  # SciPy first evaluates the start

    def negative(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal largest
        value, gradient = known_values.pop() if known_values else function(point)
        if not np.isfinite(value):
            raise FloatingPointError
        largest = max(largest, value)
        if not np.isfinite(gradient.sum()):
            raise FloatingPointError
        return -scale * value, -scale * gradient

    with contextlib.suppress(FloatingPointError):
        optimize.minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(-half_edges, half_edges),
            options={"maxiter": iterations, "ftol": 0.0, "gtol": 0.0},
        )
    return largest


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    loss = run.training_loss(settings)
    return measure(loss.loss_and_gradient, loss.weights(), settings)
