"""Does the time of a step rise in stairs? A straight line against stairs of 8, 16 and 32 examples.

These sizes are what documents name, so that nothing is searched for. Fits are weighted as those
of `step_cost`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from batchscope import wording
from batchscope.analysis import paired_tests
from batchscope.analysis.step_cost import medians_of, weighted_line
from batchscope.catalogue.outcomes import LEVEL

STAIRS = (8, 16, 32)  # examples
UNABLE = f"Not resolved: these batch sizes cannot show stairs of {wording.listed(STAIRS)} examples."
LEAST_LEVELS = 3  # two levels are one jump, which shows no period
LEAST_TREADS = 2  # levels of two batch sizes or more: with fewer, stairs are a kink
FINEST = 1e-6  # relative residual below which no timing means anything


class Stairs(NamedTuple):
    """Stairs t = a + b * ceil(B / q) against the line t = a + b * B.

    Attributes:
        q: Examples per stair.
        residual: Relative root-mean-square residual of the stairs.
        p: How often a line with this noise shows so much growth in stairs: Student's t.
        p_line: How often stairs with this noise show so much growth between them.
    """

    q: int
    residual: float
    p: float
    p_line: float


class Comparison(NamedTuple):
    """How the time of a step rises.

    Attributes:
        winner: `line`, `staircase` or `not resolved`.
        best: The stairs with the smallest residual; None where the batch sizes show none.
        p_holm: Its p, adjusted by Holm's method for all stairs of all that was compared together.
        line_residual: Relative root-mean-square residual of the line.
        resolvable: Examples per stair of all stairs that the batch sizes show.
    """

    winner: str
    best: Stairs | None
    p_holm: float
    line_residual: float
    resolvable: tuple[int, ...]


def compare(timings: Iterable[tuple[Any, Sequence[Any]]]) -> list[Comparison]:
    """Compares the line with stairs, for configurations that stand side by side.

    Growth on the line and in stairs are coefficients of one fit, each tested one-sidedly against
    none. A staircase wins if it fits better than the line and the other stairs do, and its p is
    below 0.05 after Holm's adjustment (Holm 1979) over all stairs of all configurations; so
    hardly one experiment in twenty without stairs shows any. The line wins if it fits better,
    none of the stairs shows, and each of them is rejected.

    Args:
        timings: For each configuration different batch sizes, and for each of these its blocks,
            or their median, in seconds per step.

    Raises:
        ValueError: If there are fewer than two batch sizes, or a timing is not positive.
    """
    measured = [medians_of("compare", *timing) for timing in timings]
    found = [[_fit(*timing, q) for q in STAIRS if _shows(timing[0], q)] for timing in measured]
    adjusted = iter(paired_tests.holm([stairs.p for row in found for stairs in row]).tolist())
    return [
        _compared(weighted_line(*timing)[2], row, [next(adjusted) for _ in row])
        for timing, row in zip(measured, found, strict=True)
    ]


def _shows(sizes: np.ndarray, q: int) -> bool:
    """Returns whether batch sizes distinguish stairs from a line and from a kink."""
    counts = np.unique(np.ceil(sizes / q), return_counts=True)[1]
    return len(counts) >= LEAST_LEVELS and (counts > 1).sum() >= LEAST_TREADS


def _fit(sizes: np.ndarray, seconds: np.ndarray, q: int) -> Stairs:
    levels = np.ceil(sizes / q)
    design = np.column_stack([np.ones(len(sizes)), sizes, levels]) / seconds[:, None]
    basis, triangle = np.linalg.qr(design)
    inverse, parts = np.linalg.inv(triangle), basis.sum(axis=0)
    squares = max(len(sizes) - parts @ parts, len(sizes) * FINEST**2)
    free = len(sizes) - 3
    errors = np.linalg.norm(inverse, axis=1) * math.sqrt(squares / free)
    _, p_line, p = special.stdtr(free, -(inverse @ parts) / errors)
    return Stairs(q, weighted_line(levels, seconds)[2], float(p), float(p_line))


def _compared(line_residual: float, found: list[Stairs], adjusted: list[float]) -> Comparison:
    resolvable = tuple(stairs.q for stairs in found)
    if not found:
        return Comparison("not resolved", None, math.nan, line_residual, resolvable)
    best, p_holm = min(zip(found, adjusted, strict=True), key=lambda pair: pair[0].residual)
    winner = "not resolved"
    if best.residual < line_residual:
        winner = "staircase" if p_holm < LEVEL else winner
    elif min(adjusted) >= LEVEL and max(stairs.p_line for stairs in found) < LEVEL:
        winner = "line"
    return Comparison(winner, best, p_holm, line_residual, resolvable)


def verdict(found: Comparison) -> str:
    """Returns one sentence about the stairs, with its numbers."""
    if found.best is None:
        return UNABLE
    line = f"a straight line (residual {wording.percent(found.line_residual, 2)})"
    if found.winner == "line":
        sizes = wording.listed(found.resolvable)
        return f"Stairs of {sizes} examples are rejected: {line} fits better."
    residual = wording.percent(found.best.residual, 2)
    stairs = f"stairs of {found.best.q} examples (residual {residual})"
    p = wording.p_value(found.p_holm, "= ")
    chance = f"p {p}, adjusted for all stairs and configurations compared"
    if found.winner == "staircase":
        return f"Time per step fits {stairs} better than {line}: {chance}."
    return f"Not resolved, the data do not tell {stairs} from {line}: {chance}."
