"""The largest value of a function in a box, by L-BFGS-B from several starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    pass

# L-BFGS-B's first trial step is the gradient itself. In a flat region that is far shorter than
# the box, and of a convex function (a minimiser's surroundings) no curvature can be learned
# that would lengthen it. So every start but y = 0, which is searched as published, sees the
# function times a factor that makes the mean step this many times the box's mean half edge.
STEP_OVER_WIDTH = 100.0

LossAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]


class NotFinite(ArithmeticError):
    """The function has no finite value at a point; `what` is said in the words of L-BFGS-B."""

    def __init__(self, quantity: str) -> None:
        super().__init__(f"STOP: {quantity} IS NOT FINITE")


@dataclass
class Search:
    """Result of the search from one start."""

    start: str  # `zero`, `gradient_sign`, `random_corner` or `random_interior`
    maximum: float  # largest finite value met, from this start alone
    iterations: int
    evaluations: int
    message: str  # the optimiser's closing one, or what ended the search
    share_at_bound: float  # of the coordinates of the largest point
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

    Starts, in this order: y = 0; the corner that the gradient at 0 points to; then, by turns,
    random corners and random interior points. Where the gradient at 0 is zero throughout, a
    random corner takes the place of the second. A search that meets a value that is not finite
    ends there, and its earlier values count. Start k is the same whatever `starts` and `width`
    are, except for the scale of the box.

    Args:
        at_zero: Value and gradient at y = 0, which are not computed again.
        width: Half the box's edges, shape (n,), all positive.
    """
    if not (np.isfinite(at_zero[0]) and np.isfinite(at_zero[1]).all()):
        raise NotFinite("THE LOSS OR ITS GRADIENT AT THE WEIGHTS")
    points = (_start(index, at_zero[1], seed) for index in range(starts))
    return [_search(function, at_zero, width, *point, iterations) for point in points]


def _start(index: int, gradient: np.ndarray, seed: int) -> tuple[str, np.ndarray]:
    """Return a start's kind and its point in a box of half edges 1."""
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
            raise NotFinite("THE LOSS")
        if value > search.maximum:
            search.maximum, best_point = value, point
        if not np.isfinite(gradient.sum()):
            raise NotFinite("THE GRADIENT")
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
    except NotFinite as stopped:
        search.message, search.non_finite = str(stopped), 1
    # L-BFGS-B sets coordinates to the bound itself; the margin is for the line search.
    search.share_at_bound = float(np.mean(np.abs(best_point) >= width * (1 - 1e-9)))
    return search


def _scale(width: np.ndarray, gradient: np.ndarray) -> float:
    slope = float(np.abs(gradient).mean())
    scale = STEP_OVER_WIDTH * float(width.mean()) / slope if slope > 0 else 1.0
    return scale if np.isfinite(scale) else 1.0
