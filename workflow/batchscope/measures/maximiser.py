"""The largest value of a function in a box, by L-BFGS-B from several starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# L-BFGS-B's first trial step is the gradient. In a flat region, this step is far shorter than the
# box, and around the minimiser of a convex function no curvature lengthens it. The search from
# y = 0 is the published one. For all other starts, a factor on the function makes the mean step
# this many times the mean half edge of the box.
STEP_OVER_WIDTH = 100.0

LossAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]


class NonFiniteValue(ArithmeticError):
    """The function has no finite value at a point. The message has the style of L-BFGS-B."""

    def __init__(self, quantity: str) -> None:
        super().__init__(f"STOP: {quantity} IS NOT FINITE")


@dataclass
class Search:
    """Result of the search from one start."""

    start: str  # `zero`, `gradient_sign`, `random_corner` or `random_interior`
    maximum: float  # largest finite value from this start
    iterations: int
    evaluations: int
    message: str  # message of the optimiser, or the error that ended the search
    share_at_bound: float  # share of the coordinates of the best point
    objective_scale: float  # factor on the function during the search (see STEP_OVER_WIDTH)
    non_finite: int  # evaluations without a finite value; the first one ends the search


def maximise(
    function: LossAndGradient,
    at_zero: tuple[float, np.ndarray],
    width: np.ndarray,
    iterations: int = 10,
    starts: int = 4,
    seed: int = 0,
) -> list[Search]:
    """Search the largest value in the box `-width <= y <= width`, from each of the starts.

    The starts are y = 0, the corner in the direction of the gradient at 0, then alternately random
    corners and random interior points. If the gradient at 0 is zero, a random corner replaces the
    second start. A search ends at the first value that is not finite, and its earlier values count.
    Start k does not depend on `starts`, and only scales with `width`.

    Args:
        at_zero: Value and gradient at y = 0, which are not computed again.
        width: Half edges of the box, shape (n,), all positive.

    Raises:
        NonFiniteValue: If value or gradient at y = 0 are not finite.
    """
    if not (np.isfinite(at_zero[0]) and np.isfinite(at_zero[1]).all()):
        raise NonFiniteValue("THE LOSS OR ITS GRADIENT AT THE WEIGHTS")
    points = (_start(index, at_zero[1], seed) for index in range(starts))
    return [_search(function, at_zero, width, *point, iterations) for point in points]


def _start(index: int, gradient: np.ndarray, seed: int) -> tuple[str, np.ndarray]:
    """Return the kind of a start and its point in a box with half edges 1."""
    if index == 0:
        return "zero", np.zeros_like(gradient)
    if index == 1 and gradient.any():
        return "gradient_sign", np.sign(gradient)
    generator = np.random.default_rng([seed, index])
    if index % 2 and index > 1:
        return "random_interior", generator.uniform(-1.0, 1.0, len(gradient))
    return "random_corner", generator.integers(0, 2, len(gradient)) * 2.0 - 1.0


def _search(
    function: LossAndGradient,
    at_zero: tuple[float, np.ndarray],
    width: np.ndarray,
    kind: str,
    direction: np.ndarray,
    iterations: int,
) -> Search:
    from scipy import optimize

    start = direction * width
    at_start = first = at_zero if kind == "zero" else function(start)
    scale = 1.0 if kind == "zero" else _scale(width, first[1])
    search = Search(kind, -np.inf, 0, 0, "", 0.0, scale, 0)
    best_point = start

    def climb(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal at_start, best_point
        search.evaluations += 1
        value, gradient = at_start or function(point)
        at_start = None  # used once
        if not np.isfinite(value):
            raise NonFiniteValue("THE LOSS")
        if value > search.maximum:
            search.maximum, best_point = value, point
        if not np.isfinite(gradient.sum()):
            raise NonFiniteValue("THE GRADIENT")
        return -scale * value, -scale * gradient

    def count(intermediate_result: optimize.OptimizeResult) -> None:
        search.iterations += 1

    try:
        search.message = optimize.minimize(
            climb,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(-width, width),
            callback=count,
            options={"maxiter": iterations, "ftol": 0.0, "gtol": 0.0},
        ).message
    except NonFiniteValue as stopped:
        search.message, search.non_finite = str(stopped), 1
    # L-BFGS-B sets coordinates exactly to the bound; the margin is for the line search.
    search.share_at_bound = float(np.mean(np.abs(best_point) >= width * (1 - 1e-9)))
    return search


def _scale(width: np.ndarray, gradient: np.ndarray) -> float:
    slope = float(np.abs(gradient).mean())
    scale = STEP_OVER_WIDTH * float(width.mean()) / slope if slope > 0 else 1.0
    return scale if np.isfinite(scale) else 1.0
