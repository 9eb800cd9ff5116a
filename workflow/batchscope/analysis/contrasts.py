"""Statements about paired replicates: contrasts in, a verdict with its interval out.

A replicate is a seed or a timing job. A contrast has one number per replicate: a slope against the
logarithm of the batch size, a difference of two cells, or of their logarithms, a level. Its mean is
stated to lie between two bounds. A statement is of one contrast or of several.

The estimate is the mean, with Student's t-interval, and the verdict is read off that interval:
supported where it lies inside the bounds, contradicted where it lies outside. Statements that stand
together are a family, with one level for all: of those said to be supported or contradicted, 5 % on
average are wrong (Benjamini and Hochberg 1995, J. R. Stat. Soc. B 57, 289). With m tests, a
statement and its contrary being two, of which R are rejected, every end is a one-sided bound at
alpha* = max(R, 1) .05 / m; the intervals have the false coverage rate of Benjamini and Yekutieli
2005 (J. Am. Stat. Assoc. 100, 71).

Where replicates come in stages, a contrast is tested at every look, each of which may spend a share
of the level (see `study.stages`): its p is the smallest of p / share, and its interval is the
intersection of those at share times the level.

Several contrasts that must all hold are an intersection-union test, which takes no adjustment
(Berger 1982, Technometrics 24, 295); the contrary, that some contrast does not, takes Bonferroni's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from batchscope.analysis import intervals, seeds_wanted
from batchscope.analysis.intervals import Interval
from batchscope.study import stages
from batchscope.study.outcomes import LEAST_SEEDS, LEVEL, Reason, Verdict

ROUNDING = 1e-12  # share of the numbers below which their difference is none
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Contrast:
    """One number per replicate, whose mean is stated to lie between two bounds."""

    given: Any  # shape (replicates,); those that are not finite are left out
    low: float = -math.inf
    high: float = math.inf
    tuned: bool = False  # whether seeds are read at different rates (see `intervals.correction`)
    # Whether the mean may be lower, or higher, than it looks, by what was not tried or seen: the
    # interval is open at that end.
    open_low: bool = False
    open_high: bool = False
    cells: Mapping[str, Any] = field(default_factory=dict)  # what it is of: factor -> value
    share: float = 1.0  # of the level, which it may spend
    earlier: tuple[Contrast, ...] = ()  # the same at earlier looks, by the replicates of then

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The finite numbers; rounding decides nothing at a bound."""
        values = np.asarray(self.given, float)
        values = values[np.isfinite(values)]
        for bound in filter(math.isfinite, (self.low, self.high)):
            close = np.abs(values - bound) <= ROUNDING * (np.abs(values) + abs(bound))
            values = np.where(close, bound, values)
        return values

    @property
    def n(self) -> int:
        return len(self.values)

    @functools.cached_property
    def mean(self) -> float:
        if not self.n:
            return math.nan
        return float(self.values[0] if np.ptp(self.values) == 0 else self.values.mean())

    @functools.cached_property
    def deviation(self) -> float:
        """Standard deviation of a replicate, larger where they are read at different rates."""
        if self.n < 2:
            return math.nan
        spread = 0.0 if np.ptp(self.values) == 0 else self.values.std(ddof=1)
        return float(spread * math.sqrt(intervals.correction(self.n, self.tuned)))

    @property
    def bounds(self) -> int:
        return math.isfinite(self.low) + math.isfinite(self.high)

    def interval(self, level: float = LEVEL) -> Interval:
        """Returns the mean between two one-sided bounds at a level; an open end is NaN.

        The bounds of several looks may exclude the mean at the last of them, and each other.
        """
        if self.n < 2:
            return Interval(self.mean, n=self.n)
        halves = [(each.mean, each._half(level)) for each in self._looks if each.n > 1]
        low = math.nan if self.open_low else max(mean - half for mean, half in halves)
        high = math.nan if self.open_high else min(mean + half for mean, half in halves)
        return Interval(self.mean, float(low), float(high), self.n)

    @property
    def _looks(self) -> tuple[Contrast, ...]:
        return (*self.earlier, self)

    def _half(self, level: float) -> float:
        critical = special.stdtrit(self.n - 1, 1 - self.share * level)
        return float(critical * self.deviation / math.sqrt(self.n))

    @functools.cached_property
    def p(self) -> float:
        """Of what is stated, the larger one of both bounds.

        The interval at a level lies inside the bounds where this is below the level.
        """
        return max(self._tails(1))

    @functools.cached_property
    def p_against(self) -> float:
        """Of the contrary, the smaller one of both sides times their number.

        The interval at a level that the bounds share lies outside where this is below the level.
        """
        return min(1.0, self.bounds * min(self._tails(-1)))

    def _tails(self, inside: int) -> list[float]:
        """Returns the one-sided p of each bound, that the mean is `inside` (1) or outside (-1)."""
        found = []
        for bound, sign in ((self.low, inside), (self.high, -inside)):
            if math.isinf(bound):
                continue
            if self.open_low if sign > 0 else self.open_high:
                found.append(1.0)
            elif self.n < 2:
                found.append(math.nan)
            else:
                looks = [each for each in self._looks if each.n > 1]
                found.append(min(1.0, *(each._tail(bound, sign) / each.share for each in looks)))
        return found

    def _tail(self, bound: float, sign: int) -> float:
        """Returns the p that the mean is above a bound, or below, by its own replicates alone."""
        excess = sign * (self.mean - bound)
        if self.deviation == 0:
            return float(not excess > 0)
        t = excess / self.deviation * math.sqrt(self.n)
        return float(special.stdtr(self.n - 1, -t))

    def replicates_to_resolve(self, level: float) -> int | None:
        """Returns how many would settle it with power .8, were all as found; None if none would."""
        if self.n < 2 or self.open_low or self.open_high or self.deviation == 0:
            return None
        excess = min(self.mean - self.low, self.high - self.mean)
        if excess == 0:
            return None
        level = self.share * (level if excess > 0 else level / self.bounds)
        power = seeds_wanted.power_of_difference
        wanted = seeds_wanted.fewest(power, abs(excess) / self.deviation, level)
        return None if wanted >= seeds_wanted.MOST else max(wanted, LEAST_SEEDS, self.n + 1)


@dataclass(frozen=True)
class Statement:
    """Contrasts of which all must hold; or all of one group of them."""

    contrasts: tuple[Contrast, ...]
    supported_by: Groups = ()  # groups of which all must hold of one; one of all where empty
    contradicted_by: Groups = ()  # of which none must hold of one; each by itself where empty
    # Contrasts of every two positions, stated to be no less than 0 each: where one is below 0 by
    # its test, with Bonferroni over them, it does not hold at every step. (Neighbours alone would
    # miss a curve that turns back slowly.)
    steps: tuple[Contrast, ...] = ()

    @property
    def groups(self) -> tuple[Groups, Groups]:
        every = tuple(range(len(self.contrasts)))
        return self.supported_by or (every,), self.contradicted_by or tuple((at,) for at in every)

    @property
    def n(self) -> int:
        return min((each.n for each in self.contrasts), default=0)

    @functools.cached_property
    def p(self) -> tuple[float, float]:
        """Of the statement and of its contrary."""
        supporting, contradicting = self.groups
        p = min(max(self.contrasts[at].p for at in group) for group in supporting)
        against = min(max(self.contrasts[at].p_against for at in group) for group in contradicting)
        # In this order NaN stays NaN.
        return min(len(supporting) * p, 1.0), min(len(contradicting) * against, 1.0)

    def weakest(self, group: Sequence[int], name: str) -> Contrast:
        """Returns the contrast that decides whether all of a group hold, or none.

        By its `p` or `p_against`; one without any is the weakest.
        """
        return max((self.contrasts[at] for at in group), key=lambda one: _known(one, name))


def staged(looks: Sequence[Statement], shares: Sequence[float]) -> Statement:
    """Returns a statement that is tested at several looks, the last of which has all replicates.

    Earlier looks of other contrasts, as where a cell was not there yet, are left out, and looks at
    which a contrast has no more replicates than before: they spend nothing of it.

    Args:
        shares: Of the level, what each look may spend.
    """

    def merged(name: str) -> tuple[Contrast, ...]:
        spent = [
            [replace(one, share=share) for one in getattr(look, name)]
            for look, share in zip(looks, shares, strict=True)
        ]
        cells = [[one.cells for one in each] for each in spent]
        alike = [each for each, of in zip(spent, cells, strict=True) if of == cells[-1]]
        return tuple(_over_looks(each) for each in zip(*alike, strict=True))

    return replace(looks[-1], contrasts=merged("contrasts"), steps=merged("steps"))


def by_seeds(found: Sequence[Contrast], looks: Sequence[int]) -> Statement:
    """Returns the statement of contrasts with a number per seed, at the looks at so many of these.

    All have a number, or NaN, for each of the same seeds in order.
    """
    seen = stages.seen(len(found[0].given), looks)
    at_looks = [
        Statement(tuple(replace(each, given=each.given[:seeds]) for each in found))
        for seeds, _ in seen
    ]
    return staged(at_looks, [share for _, share in seen])


def _over_looks(found: Sequence[Contrast]) -> Contrast:
    """Returns the last look at a contrast with the earlier ones, of those with more replicates."""
    earlier, last = [], found[0]
    for look in found[1:]:
        if look.n > last.n:
            earlier.append(last)
            last = look
    return replace(last, earlier=tuple(earlier))


class Judged(NamedTuple):
    """A statement with its verdict."""

    verdict: Verdict
    reason: Reason
    estimate: Interval  # of the contrast that decides; the verdict is read off the interval
    level: float  # one-sided, of its ends
    deciding: Contrast
    p: float  # of the statement; `p_against` of its contrary
    p_against: float
    # Replicates in all that would settle it with power .8, were the deciding contrast as found;
    # None where it is settled, or none would.
    seeds_to_resolve: int | None = None

    def columns(self, ratio: bool = False) -> dict[str, Any]:
        """Returns what a table holds of it, of logarithms as ratios."""
        names = ("verdict", "reason", "level", "p", "p_against", "seeds_to_resolve")
        ends = map(exponential, self.estimate[:3]) if ratio else self.estimate[:3]
        return {
            **dict(zip(("estimate", "low", "high"), ends, strict=True)),
            **{name: getattr(self, name) for name in names},
            "n": self.estimate.n,
        }


def judge(statements: Sequence[Statement]) -> list[Judged]:
    """Returns the statements of one family with their verdicts, in order.

    Statements of the same numbers, such as the time of a step at several learning rates, are one
    statement of the family.
    """
    tested = {}
    for each in statements:
        if each.n >= LEAST_SEEDS:
            numbers = (
                (one.values.tobytes(), one.share, one.low, one.high, one.open_low, one.open_high)
                for one in each.contrasts
            )
            tested[each.groups, *numbers] = each.p
    level = family_level([p for both in tested.values() for p in both])
    return [_judged(each, level) for each in statements]


def family_level(p_values: Sequence[float]) -> float:
    """Returns alpha*: every p of the family that is rejected is at most that, every other above."""
    ordered = np.sort(np.asarray(p_values, float))
    if not len(ordered):
        return LEVEL
    shares = LEVEL * np.arange(1, len(ordered) + 1) / len(ordered)
    rejected = np.flatnonzero(ordered <= shares)
    return float(shares[rejected[-1] if len(rejected) else 0])


def _judged(statement: Statement, family: float) -> Judged:
    supporting, contradicting = statement.groups
    at, against = family / len(supporting), family / len(contradicting)
    group = min(supporting, key=lambda group: _known(statement.weakest(group, "p"), "p"))
    strongest = statement.weakest(group, "p")
    contraries = (statement.weakest(one, "p_against") for one in contradicting)
    contrary = min(contraries, key=lambda one: _known(one, "p_against"))
    verdict, reason, more = Verdict.NOT_RESOLVED, Reason.NONE, None
    if strongest.p < at:
        verdict, deciding = Verdict.SUPPORTED, strongest
        if any(each.p_against * len(statement.steps) < LEVEL for each in statement.steps):
            reason = Reason.NOT_AT_EVERY_STEP
    elif contrary.p_against < against:
        verdict, deciding, at = Verdict.CONTRADICTED, contrary, against / contrary.bounds
    else:
        open_ = [one for one in group if not statement.contrasts[one].p_against < against]
        deciding = statement.weakest(open_ or group, "p")
        at = min(at, against / deciding.bounds)
        more = deciding.replicates_to_resolve(at)
    if statement.n < LEAST_SEEDS:
        verdict = Verdict.ONE_SEED if statement.n == 1 else Verdict.PROVISIONAL
        reason, more, at = Reason.NONE, LEAST_SEEDS, LEVEL
    if statement.n == 0:
        verdict, reason, more = Verdict.NOT_TESTABLE, Reason.NO_VALUE, None
    estimate = deciding.interval(at)._replace(n=statement.n)
    return Judged(verdict, reason, estimate, at, deciding, *statement.p, more)


def _known(contrast: Contrast, name: str) -> float:
    return float(np.nan_to_num(getattr(contrast, name), nan=2.0))


def exponential(value: float) -> float:
    return float(f"{math.exp(value):.12g}")


def trend(
    values: Any,
    positions: Any,
    rises: bool,
    tuned: bool = False,
    open_up: bool = False,
    open_down: bool = False,
    cells: Mapping[str, Any] | None = None,
) -> Statement:
    """States that values rise, or fall, along positions: the mean slope of the replicates.

    Replicates have slopes of their own, by least squares. Order tests take these as equal, and err
    far more often than they say where they are not.

    Args:
        values: Shape (replicates, positions), at least two positions; a replicate with a gap is
            left out.
        positions: Rising, on the scale that slopes are per unit of: log2 of the batch size.
        tuned: Whether replicates are read at different rates at some position.
        open_up: Whether the slope may be higher than it looks; `open_down` whether lower.
    """
    values, positions = np.asarray(values, float), np.asarray(positions, float)
    complete = values[np.isfinite(values).all(axis=1)]
    bounds: dict[str, Any] = {"low" if rises else "high": 0.0}
    ends = {"open_high": open_up, "open_low": open_down}
    slope = Contrast(slopes(complete, positions), tuned=tuned, **bounds, **ends, cells=cells or {})
    first, second = np.triu_indices(len(positions) if len(positions) > 2 else 0, 1)
    steps = (1.0 if rises else -1.0) * (complete[:, second] - complete[:, first]).T
    return Statement((slope,), steps=tuple(Contrast(step, low=0.0, tuned=tuned) for step in steps))


def slopes(values: Any, positions: Any) -> np.ndarray:
    """Returns the least-squares slope against positions, at least two distinct ones, per row."""
    values = np.asarray(values, float)
    centred = np.asarray(positions, float) - np.mean(positions)
    found = values @ centred / (centred @ centred)
    return np.where(np.ptp(values, axis=1) > 0, found, 0.0)  # not what rounding makes of none
