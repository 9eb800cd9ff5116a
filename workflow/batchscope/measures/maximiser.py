"""The largest value of a function in a box, by L-BFGS-B from several starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from batchscope import private_interfaces

CORRECTIONS = 10  # pairs that L-BFGS-B remembers: 160 bytes per coordinate
LINE_SEARCH_STEPS = 20  # per iteration

# L-BFGS-B's first trial step is the gradient itself. In a flat region that is far shorter than
# the box, and of a convex function (a minimiser's surroundings) no curvature can be learned
# that would lengthen it. So every start but y = 0, which is searched as published, sees the
# function times a factor that makes the mean step this many times the box's mean half edge.
STEP_OVER_WIDTH = 100.0

LossAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]


class NotFinite(ArithmeticError):
    """The function has no finite value at a point; the search from that start ends there.

    Args:
        what: What is not finite, in the words of L-BFGS-B's own messages.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"STOP: {what} IS NOT FINITE")


@dataclass(frozen=True)
class Minimum:
    """Where L-BFGS-B stopped."""

    iterations: int
    evaluations: int  # of the function, as SciPy counts them
    message: str  # the optimiser's closing one, or what ended the search
    non_finite: int = 0  # evaluations without a finite value; the first one ends the search


def minimise_in_box(
    function: LossAndGradient, start: np.ndarray, width: np.ndarray, iterations: int
) -> Minimum:
    """Runs L-BFGS-B on `-width <= y <= width` without any tolerance on value or gradient.

    The same numbers as ``scipy.optimize.minimize(method="L-BFGS-B", jac=True)`` with
    ``maxiter=iterations, ftol=0, gtol=0``. The function sees every point; where it raises
    `NotFinite`, the search ends.

    Args:
        function: Point, shape (n,), -> value and gradient, float64 of shape (n,).
        width: Half the box's edges, shape (n,), all positive.
    """
    # At 350,000 coordinates SciPy's own driver spends 2 s per call on its bounds.
    n, m = len(start), CORRECTIONS
    point = np.clip(start, -width, width)
    lower = -width
    both_bounded = np.full(n, 2, np.int32)
    value: Any = np.array(0.0)
    gradient = np.zeros(n)
    work = np.zeros(2 * m * n + 5 * n + 11 * m * m + 8 * m)
    integers = np.zeros(3 * n, np.int32)
    task, line_task = np.zeros(2, np.int32), np.zeros(2, np.int32)
    line_save, integer_save = np.zeros(4, np.int32), np.zeros(44, np.int32)
    double_save = np.zeros(29)
    seen: np.ndarray | None = None
    slope = gradient
    done = evaluations = 0
    step, message = private_interfaces.lbfgsb()
    while True:
        step(
            *(m, point, lower, width, both_bounded, value, gradient, 0.0, 0.0, work),
            *(integers, task, line_save, integer_save, double_save),
            *(LINE_SEARCH_STEPS, line_task),
        )
        if task[0] == 3:  # wants value and gradient at the point
            if seen is None or not np.array_equal(point, seen):  # a line search may stand still
                seen = point.copy()
                evaluations += 1
                try:
                    value, slope = function(seen)
                except NotFinite as stopped:
                    return Minimum(done, evaluations, str(stopped), non_finite=1)
            gradient = slope.copy()  # the compiled step may write into it
        elif task[0] == 1:  # a new iterate
            done += 1
            if done >= iterations:
                task[:] = 5, 504
        else:
            break
    return Minimum(done, evaluations, message(task))


@dataclass(frozen=True)
class Search:
    """What one start led to."""

    start: str  # `zero`, `gradient_sign`, `random_corner` or `random_interior`
    maximum: float  # largest finite value met, from this start alone
    iterations: int  # these three and `non_finite` as in `Minimum`
    evaluations: int
    message: str
    share_at_bound: float  # of the coordinates of the largest point
    objective_scale: float  # factor on the function during the search (see STEP_OVER_WIDTH)
    non_finite: int


@dataclass(frozen=True)
class Maximum:
    """The largest value that any start led to: a lower bound of the true maximum."""

    value: float  # at least the one at y = 0
    best: int  # index of the search that found it, the first of equals
    searches: tuple[Search, ...]


def maximise(
    function: LossAndGradient,
    at_zero: tuple[float, np.ndarray],
    width: np.ndarray,
    iterations: int = 10,
    starts: int = 4,
    seed: int = 0,
) -> Maximum:
    """Returns the largest value found in the box `-width <= y <= width`.

    Starts, in this order: y = 0; the corner that the gradient at 0 points to; then, by turns,
    random corners and random interior points. Where the gradient at 0 is zero throughout, a
    random corner takes the place of the second. A search that meets a value that is not finite
    ends there, and what it found before counts. Start k is the same whatever `starts` and `width`
    are, but for the scale of the box.

    Args:
        at_zero: Value and gradient at y = 0, which are not computed again.
        width: Half the box's edges, shape (n,), all positive.

    Raises:
        NotFinite: If value or gradient at y = 0 are not finite.
    """
    if not (np.isfinite(at_zero[0]) and np.isfinite(at_zero[1]).all()):
        raise NotFinite("THE LOSS OR ITS GRADIENT AT THE WEIGHTS")
    searches = []
    for index in range(starts):
        kind, direction = _start(index, at_zero[1], seed)
        searches.append(_search(function, at_zero, width, kind, direction, iterations))
    best = max(range(starts), key=lambda index: searches[index].maximum)
    return Maximum(searches[best].maximum, best, tuple(searches))


def _start(index: int, gradient: np.ndarray, seed: int) -> tuple[str, np.ndarray]:
    """Returns a start's kind and its point in a box of half edges 1."""
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
    start = direction * width
    known = first = at_zero if kind == "zero" else function(start)
    scale = 1.0 if kind == "zero" else _scale(width, first[1])
    largest, where = -np.inf, start

    def climb(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal known, largest, where
        value, gradient = known or function(point)
        known = None  # the start's own, not computed again
        if not np.isfinite(value):
            raise NotFinite("THE LOSS")
        if value > largest:
            largest, where = value, point
        if not np.isfinite(gradient.sum()):
            raise NotFinite("THE GRADIENT")
        return -scale * value, -scale * gradient

    found = minimise_in_box(climb, start, width, iterations)
    # L-BFGS-B sets coordinates to the bound itself; the margin is for the line search.
    share = float(np.mean(np.abs(where) >= width * (1 - 1e-9)))
    return Search(
        start=kind,
        maximum=largest,
        **asdict(found),
        share_at_bound=share,
        objective_scale=scale,
    )


def _scale(width: np.ndarray, gradient: np.ndarray) -> float:
    """Returns the factor that makes the gradient a step of STEP_OVER_WIDTH boxes."""
    slope = float(np.abs(gradient).mean())
    scale = STEP_OVER_WIDTH * float(width.mean()) / slope if slope > 0 else 1.0
    return scale if np.isfinite(scale) else 1.0
