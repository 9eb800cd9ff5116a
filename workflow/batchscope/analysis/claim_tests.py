"""Tests of what a document states: one function per type of claim, on numbers paired by replicate.

A replicate is a seed, which fixes initial weights and data order in every cell, or a timing job.
Each function returns both sides: the p of what is stated, and the p of its contrary. Tests are
one-sided at 5 %, and intervals have 90 %, so that each end is a one-sided 95 % bound.

A claim that holds of several cells or series is the union of its contraries: it is shown where
every part of it is, without correction (an intersection-union test, Berger 1982), and its contrary
where that of some part is, by Bonferroni.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from batchscope.analysis import claim_power, intervals, paired_tests
from batchscope.catalogue import outcomes
from batchscope.catalogue.outcomes import FALLS, RISES

CONFIDENCE = 1 - 2 * outcomes.LEVEL


class Tested(NamedTuple):
    """What replicates say about one statement. Numbers that do not exist are NaN.

    Attributes:
        effect: Mean of the contrast that is stated about: a slope, a difference, a value.
        low: Lower end of its 90 % interval; `high` is the upper one.
        n: Replicates with a value in every cell of it.
        p: Of what is stated: small where the numbers show it.
        p_against: Of its contrary: small where they show that.
        found: What was found of every contrast that is tested, for the replicates that would
            decide an open claim; empty where too few replicates say nothing.
    """

    effect: float
    low: float
    high: float
    n: int
    p: float
    p_against: float
    found: tuple[claim_power.Part, ...] = ()

    def exponentiated(self) -> Tested:
        """Returns the same with its effect and interval taken from a logarithmic scale."""
        effect, low, high = (float(np.exp(end)) for end in self[:3])
        return self._replace(effect=effect, low=low, high=high)


class Found(NamedTuple):
    """What a whole claim amounts to.

    Attributes:
        deciding: Words for the part that decides: the weakest where the claim is shown or open,
            the strongest of those against it where its contrary is shown.
        tested: That part, with the p-values of the whole claim, and the fewest replicates of all
            parts.
    """

    deciding: str
    tested: Tested
    parts: int


def between(contrasts: Any, low: float = -math.inf, high: float = math.inf) -> Tested:
    """Tests whether a mean lies between two bounds, by one-sided t-tests.

    Args:
        contrasts: One number per replicate, shape (n,); those that are not finite are left out.
        low: Lower bound; it or `high` is finite, or both are.
    """
    if not (math.isfinite(low) or math.isfinite(high)):
        raise ValueError("Expected a bound at least. Received: none.")
    values = np.asarray(contrasts, float)
    values = values[np.isfinite(values)]
    mean, below, above, n = intervals.t_interval(values, CONFIDENCE)
    if n < 2:
        return Tested(mean, math.nan, math.nan, n, math.nan, math.nan)
    inside = _inside(values, low, high)
    p, outside = (
        [float(paired_tests.paired_t(each, way)) for each in inside] for way in (RISES, FALLS)
    )
    against = min(1.0, len(inside) * min(outside))
    return Tested(mean, below, above, n, max(p), against, _all_of(inside))


def _inside(values: np.ndarray, low: float, high: float) -> list[np.ndarray]:
    """Returns how far values lie inside each finite bound; rounding decides nothing at it."""
    return [
        sign * paired_tests.unrounded(values - bound, np.abs(values) + abs(bound))
        for bound, sign in ((low, 1.0), (high, -1.0))
        if math.isfinite(bound)
    ]


def _all_of(inside: Sequence[np.ndarray]) -> tuple[claim_power.Part, ...]:
    """Returns contrasts that are all to be above 0, of which one below 0 shows the contrary."""
    every_one = range(len(inside))
    fails = tuple((one,) for one in every_one)
    return (claim_power.contrasts(np.transpose(inside), (tuple(every_one),), fails),)


def _together(differences: Sequence[np.ndarray], low: float, high: float = math.inf) -> Tested:
    """Returns what contrasts of the same replicates amount to that must all lie between bounds."""
    found = every([("", between(each, low, high)) for each in differences]).tested
    if found.n < 2:
        return found
    inside = [one for each in differences for one in _inside(each, low, high)]
    return found._replace(found=_all_of(inside))


def _beyond_zero(contrasts: np.ndarray, direction: str) -> Tested:
    """Tests whether a mean lies above 0, of what rises, or below it."""
    return between(contrasts, **{"low" if direction == RISES else "high": 0.0})


def trend(values: Any, at: Sequence[float], direction: str, doublings: bool = True) -> Tested:
    """Tests a trend: `paired_tests.trend` for three positions or more, a paired t-test for two.

    Args:
        values: Shape (n, positions), ordered by position; a replicate with a gap is left out.
        at: The positions, rising; the effect is the slope along them.
        direction: `rises` or `falls`, as stated before the runs.
        doublings: Whether the slope is per doubling of the positions, all above 0, or per unit.
    """
    complete, along = _complete(values), _along(at, doublings)
    found = _beyond_zero(paired_tests.slopes(complete, along), direction)
    if found.n < 2 or len(at) < 3:
        return found
    opposite = FALLS if direction == RISES else RISES
    p, against = (paired_tests.trend_along(complete, along, way) for way in (direction, opposite))
    sign = 1.0 if direction == RISES else -1.0
    order = claim_power.order(sign * complete, sign * found.effect)
    return found._replace(p=p, p_against=against, found=(order,))


def equivalence(values: Any, margin: float) -> Tested:
    """Tests whether every two cells differ by less than a margin (two one-sided tests each).

    `values`: shape (n, cells), at least two.
    """
    values = np.asarray(values, float)
    pairs = itertools.combinations(range(values.shape[1]), 2)
    differences = [values[:, right] - values[:, left] for left, right in pairs]
    return _together(differences, -margin, margin)


def interaction(
    of: Any,
    to: Any,
    at: Sequence[float],
    low: float = -math.inf,
    high: float = math.inf,
    doublings: bool = True,
) -> Tested:
    """Tests the slope of one series less that of another, in pairs.

    Args:
        of: Shape (n, positions).
        to: Likewise, of the same replicates.
        at: As `trend` takes it, as is `doublings`.
        low: Lower bound of the difference; `high` the upper one.
    """
    difference = np.asarray(of, float) - np.asarray(to, float)
    return between(paired_tests.slopes(_complete(difference), _along(at, doublings)), low, high)


def _along(at: Sequence[float], doublings: bool) -> np.ndarray:
    """Returns positions on the scale of which slopes are taken."""
    return np.log2(np.asarray(at, float)) if doublings else np.asarray(at, float)


def argmax(values: Any, chosen: Sequence[int], best: str = "highest") -> Tested:
    """Tests whether the best cell is one of some: it is better than every other one.

    Args:
        values: Shape (n, cells); a replicate with a gap is left out.
        chosen: Positions of the cells that are stated to be best, not all of them. Where there are
            several, one of them must be better than all others, by Bonferroni over them.
        best: `highest` or `lowest`.
    """
    values = _complete(values) * {"highest": 1.0, "lowest": -1.0}[best]
    others = [index for index in range(values.shape[1]) if index not in chosen]
    if not (chosen and others):
        raise ValueError("Expected cells that are said to be best and others. Received: not both.")
    rivals = [
        _together([values[:, one] - values[:, other] for other in others], 0.0) for one in chosen
    ]
    found = min(rivals, key=lambda rival: (math.isnan(rival.p), rival.p))
    # Against it: some other cell is better than each of those chosen.
    beaten = [
        max(between(values[:, other] - values[:, one], 0.0).p for one in chosen) for other in others
    ]
    p, against = np.minimum([len(chosen) * found.p, len(others) * min(beaten)], 1.0).tolist()
    tested = found._replace(p=p, p_against=against)
    if tested.n > 1 and len(chosen) > 1:
        table = np.arange(len(chosen) * len(others)).reshape(len(chosen), -1)
        gaps = values[:, list(chosen), None] - values[:, None, others]
        holds, fails = (tuple(map(tuple, each.tolist())) for each in (table, table.T))
        tested = tested._replace(
            found=(claim_power.contrasts(gaps.reshape(len(values), -1), holds, fails),)
        )
    if best == "lowest":
        return tested._replace(effect=-tested.effect, low=-tested.high, high=-tested.low)
    return tested


def order(groups: Sequence[Any]) -> Tested:
    """Tests whether every cell of a group lies below every cell of the next group.

    `groups`: at least two, each of shape (n, cells), from the lowest to the highest.
    """
    parts = []
    for lower, upper in itertools.pairwise([np.asarray(group, float) for group in groups]):
        cells = itertools.product(range(lower.shape[1]), range(upper.shape[1]))
        parts += [upper[:, j] - lower[:, i] for i, j in cells]
    return _together(parts, 0.0)


def exception(values: Any, at: Sequence[float], index: int, direction: str) -> Tested:
    """Tests whether one size is out of line with its neighbours on both sides.

    Both axes are logarithmic: the neighbours are joined by a straight line there.

    Args:
        values: Shape (n, sizes), positive.
        at: The sizes, rising and above 0.
        index: Position of the size in question, neither the first nor the last.
        direction: `falls` where it is stated to lie below that line, else `rises`.

    Returns:
        The effect is the factor from the line to the value.
    """
    if not 0 < index < len(at) - 1:
        raise ValueError("Expected a size with neighbours on both sides. Received: an end.")
    around = slice(index - 1, index + 2)
    low, here, high = np.log2(np.asarray(at, float)[around])
    left, value, right = logarithms(np.asarray(values, float)[:, around]).T
    share = (here - low) / (high - low)
    off_line = value - (1 - share) * left - share * right
    return _beyond_zero(off_line, direction).exponentiated()


def every(parts: Sequence[tuple[str, Tested]]) -> Found:
    """Returns what parts, at least one, amount to that must all hold, given words for each."""
    p = [tested.p for _, tested in parts]
    against = [tested.p_against for _, tested in parts]
    # NaN where one of them is.
    whole, contrary = float(np.max(p)), float(np.minimum(len(parts) * np.min(against), 1.0))
    deciding = int(np.argmin(against) if contrary < outcomes.LEVEL else np.argmax(p))
    label, tested = parts[deciding]
    n = min(one.n for _, one in parts)
    found = tuple(each for _, one in parts for each in one.found)
    tested = tested._replace(p=whole, p_against=contrary, n=n, found=found)
    return Found(label, tested, len(parts))


def logarithms(values: Any) -> np.ndarray:
    """Returns natural logarithms; NaN for what has none."""
    values = np.asarray(values, float)
    return np.log(values, out=np.full(values.shape, math.nan), where=values > 0)


def _complete(values: Any) -> np.ndarray:
    """Returns the rows without a gap."""
    values = np.asarray(values, float)
    return values[np.isfinite(values).all(axis=1)]
