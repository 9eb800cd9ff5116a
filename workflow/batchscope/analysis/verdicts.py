"""Verdicts on statements about paired replicates, each read off the interval that is printed.

A replicate is a seed or a timing job. A contrast has one number per replicate: a slope against the
logarithm of the batch size, a difference of two cells or of their logarithms, a level. A statement
says that the means of some contrasts are between two bounds. Its estimate is the mean of the
contrast that decides, with Student's t-interval: the statement is supported if the interval is
inside the bounds, and contradicted if it is outside. docs/measures.md has the formulas.

- A family of statements shares one level (Benjamini and Hochberg 1995, J. R. Stat. Soc. B 57, 289;
  intervals: Benjamini and Yekutieli 2005, J. Am. Stat. Assoc. 100, 71).
- Contrasts that must all hold are an intersection-union test without any adjustment (Berger 1982,
  Technometrics 24, 295); the contrary takes Bonferroni's.
- A batch size is compared with the best of the others as in Hsu 1984 (Ann. Statist. 12, 1136), with
  a separate variance for every pair. The pairs share the level of "beyond the margin". The true
  difference of a pair is at one end of [-margin, margin] at most, so both ends share its level.
- Each interim analysis may spend a share of the level (`study.stages`). Estimate, interval and n
  are from a single analysis, so that the estimate is always inside its interval: from the one that
  decides, else from the last.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas
from scipy import optimize, special

from batchscope.analysis import intervals, power, run_series
from batchscope.study import stages
from batchscope.study.outcomes import (
    LEVEL,
    MARGIN_VERDICTS,
    MIN_SEEDS,
    MIN_SEEDS_FOR_INTERVAL,
    Reason,
    Verdict,
)
from batchscope.study.specifications import Column

ROUNDING = 1e-12  # relative difference below which two numbers are equal
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Contrast:
    """One number per replicate, with the stated bounds of their mean.

    Attributes:
        numbers: Shape (replicates,); those that are not finite are left out.
        tuned: Whether replicates are read at different rates (see `intervals.correction`).
        open_low: Reason why the mean may be lower than the estimate: the interval has no lower end.
        open_high: Reason why it may be higher.
        cells: Factor or column -> value, of the compared cells.
        share: Share of the level that this analysis may spend.
        earlier: The contrast at each earlier interim analysis.
    """

    numbers: Any
    low: float = -math.inf
    high: float = math.inf
    tuned: bool = False
    open_low: Reason = Reason.NONE
    open_high: Reason = Reason.NONE
    cells: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0
    earlier: tuple[Contrast, ...] = ()

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The finite numbers, rounded to a bound that they equal up to `ROUNDING`."""
        values = np.asarray(self.numbers, float)
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
        """Standard deviation of a replicate, with the correction for tuned rates."""
        if self.n < 2:
            return math.nan
        spread = 0.0 if np.ptp(self.values) == 0 else self.values.std(ddof=1)
        return float(spread * math.sqrt(intervals.correction(self.n, self.tuned)))

    @property
    def error(self) -> float:
        return self.deviation / math.sqrt(self.n) if self.n > 1 else math.nan

    @property
    def bounds(self) -> int:
        return math.isfinite(self.low) + math.isfinite(self.high)

    @property
    def analyses(self) -> tuple[Contrast, ...]:
        return (*self.earlier, self)

    def ends(self, level_low: float, level_high: float) -> tuple[float, float]:
        """Return the ends of this analysis's interval; infinite if open or of one replicate."""
        if self.n < 2:
            return -math.inf, math.inf
        levels = 1 - self.share * np.array([level_low, level_high])
        below, above = (special.stdtrit(self.n - 1, levels) * self.error).tolist()
        return (
            -math.inf if self.open_low else self.mean - below,
            math.inf if self.open_high else self.mean + above,
        )

    @functools.cached_property
    def p(self) -> float:
        """p-value of the statement: the larger one of both bounds, at the analysis that decides."""
        return min(1.0, self.decisive(against=False).analysis_p(against=False))

    @functools.cached_property
    def p_against(self) -> float:
        """p-value of the contrary: the smaller one of both bounds times their number."""
        return min(1.0, self.decisive(against=True).analysis_p(against=True))

    def analysis_p(self, against: bool) -> float:
        """Return the p-value of the statement, or of its contrary, over the share of the level."""
        bounds = ((self.low, 1), (self.high, -1))
        signs = [(bound, -sign if against else sign) for bound, sign in bounds]
        tails = [self._tail(bound, sign) for bound, sign in signs if math.isfinite(bound)]
        p = min(1.0, len(tails) * min(tails)) if against else max(tails)
        return p / self.share

    def decisive(self, against: bool) -> Contrast:
        """Return the analysis with the smallest p-value of the statement, or of its contrary."""
        tested = [analysis for analysis in self.analyses if analysis.n > 1]
        return min(tested, key=lambda contrast: contrast.analysis_p(against), default=self)

    def first(self, replicates: int) -> Contrast:
        return replace(self, numbers=np.asarray(self.numbers)[:replicates])

    def _tail(self, bound: float, sign: int) -> float:
        """Return the one-sided p that the mean is above (1) or below (-1) a bound."""
        excess = sign * (self.mean - bound)
        if self.open_low if sign > 0 else self.open_high:
            return 1.0
        if self.n < 2:
            return math.nan
        if self.deviation == 0:
            return float(not excess > 0)
        return float(special.stdtr(self.n - 1, -excess / self.error))

    def open_reason(self, level: float) -> Reason:
        """Return the reason of the open end without which the contrast would be decided."""
        closed = replace(self, open_low=Reason.NONE, open_high=Reason.NONE, earlier=())
        outside = closed.p_against < level
        if not (outside or closed.p < level):
            return Reason.NONE
        reasons = (self.open_low, self.open_high)
        return reasons[math.isinf(self.low) != outside]

    def replicates_to_resolve(self, level: float) -> int | None:
        """Return the number of replicates that decide it with power .8; None if no number does."""
        if self.n < 2 or self.open_low or self.open_high or self.deviation == 0:
            return None
        excess = min(self.mean - self.low, self.high - self.mean)
        if excess == 0:
            return None
        level = self.share * (level if excess > 0 else level / self.bounds)
        needed = power.fewest(power.difference_power, abs(excess) / self.deviation, level)
        return needed and max(needed, MIN_SEEDS, self.n + 1)


@dataclass(frozen=True, eq=False)
class Statement:
    """Parts that must all hold.

    Attributes:
        parts: Tables of contrasts. A part holds if every contrast in one of its rows holds, and is
            wrong if every contrast in one of its columns is wrong.
        steps: Contrasts of every two positions along a trend, each stated to be at least 0. One
            that is below 0 by its test, with Bonferroni, is a step back. (Neighbours alone would
            miss a curve that turns back slowly.)
        ratio: Whether the contrasts are logarithms of printed ratios.
        of_margin: Whether the verdict is within or beyond a margin.
    """

    parts: tuple[tuple[tuple[Contrast, ...], ...], ...]
    steps: tuple[Contrast, ...] = ()
    ratio: bool = False
    of_margin: bool = False
    in_family: ClassVar[bool] = True

    @classmethod
    def of_all(cls, contrasts: Iterable[Contrast], **properties: Any) -> Self:
        """Return the statement that all contrasts hold."""
        row = tuple(contrasts)
        return cls(((row,),) if row else (), **properties)

    @functools.cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        return tuple(contrast for part in self.parts for row in part for contrast in row)

    @functools.cached_property
    def rows(self) -> tuple[tuple[Contrast, ...], ...]:
        """The rows of the part with the largest p-value: if it holds, so does every other part."""
        return max(
            self.parts,
            key=lambda rows: len(rows) * min(_p_value("p")(weakest(row, "p")) for row in rows),
        )

    @property
    def columns(self) -> list[tuple[Contrast, ...]]:
        """The columns of all parts: one that fails shows the contrary."""
        return [column for rows in self.parts for column in zip(*rows, strict=True)]

    @property
    def n(self) -> int:
        return min((contrast.n for contrast in self.contrasts), default=0)

    @functools.cached_property
    def p(self) -> tuple[float, float]:
        """p-values of the statement and of its contrary."""
        rows, columns = self.rows, self.columns
        p = min(max(contrast.p for contrast in row) for row in rows)
        against = min(max(contrast.p_against for contrast in column) for column in columns)
        # In this order NaN stays NaN.
        return min(len(rows) * p, 1.0), min(len(columns) * against, 1.0)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for statements about the same numbers."""
        fields = ("share", "low", "high", "open_low", "open_high")
        numbers = (
            (contrast.values.tobytes(), *(getattr(contrast, name) for name in fields))
            for contrast in self.contrasts
        )
        return len(self.rows), len(self.columns), *numbers

    @property
    def tested(self) -> tuple[Contrast, ...]:
        return (*self.contrasts, *self.steps)

    def replaced(self, tested: Iterable[Contrast]) -> Self:
        """Return the statement with other contrasts and steps, in the order of `tested`."""
        remaining = iter(tested)
        parts = tuple(
            tuple(tuple(next(remaining) for _ in row) for row in rows) for rows in self.parts
        )
        return replace(self, parts=parts, steps=tuple(remaining))

    def first(self, replicates: int) -> Self:
        return self.replaced(contrast.first(replicates) for contrast in self.tested)

    def judged(self, family_level: float) -> Row:
        """Return the columns of the verdict at the level of the statement's family."""
        level, against = family_level / len(self.rows), family_level / len(self.columns)
        row = min(self.rows, key=lambda row: _p_value("p")(weakest(row, "p")))
        strongest = weakest(row, "p")
        contraries = (weakest(column, "p_against") for column in self.columns)
        contrary = min(contraries, key=_p_value("p_against"))
        verdict, reason, needed = Verdict.NOT_RESOLVED, Reason.NONE, None
        if strongest.p < level:
            verdict, deciding = Verdict.SUPPORTED, strongest
            printed = deciding.decisive(against=False)
            if any(step.p_against * len(self.steps) < LEVEL for step in self.steps):
                reason = Reason.NOT_AT_EVERY_STEP
        elif contrary.p_against < against:
            verdict, deciding = Verdict.CONTRADICTED, contrary
            printed = deciding.decisive(against=True)
            level = against / printed.bounds
        else:
            undecided = [
                contrast
                for contrast in self.contrasts
                if not contrast.p < level and not contrast.p_against < against
            ]
            in_row = [contrast for contrast in row if contrast in undecided]
            deciding = printed = weakest(in_row or undecided or row, "p")
            level = min(level, against / printed.bounds)
            needed, reason = printed.replicates_to_resolve(level), printed.open_reason(level)
        if self.n < MIN_SEEDS:
            verdict = Verdict.ONE_SEED if self.n == 1 else Verdict.PROVISIONAL
            level, reason, needed = LEVEL, Reason.NONE, MIN_SEEDS
        if self.n == 0:
            verdict, reason, needed = Verdict.NOT_TESTABLE, Reason.NO_VALUE, None
        n = min(printed.n, self.n)
        p, p_against = self.p if n > 1 else (math.nan, math.nan)
        return {
            "verdict": MARGIN_VERDICTS.get(verdict, verdict) if self.of_margin else verdict,
            "reason": reason,
            **_printed((printed.mean, *printed.ends(level, level)), self.ratio),
            "n": n,
            "level": printed.share * level if n > 1 else math.nan,
            "p": p,
            "p_against": p_against,
            "seeds_to_resolve": needed,
            "deciding": printed,
            "later_analyses": deciding.analyses[::-1].index(printed),
            "against": printed.cells.get("against"),
        }


@dataclass(frozen=True, eq=False)
class ComparisonWithBest(Statement):
    """A batch size is within a margin of the best of the others; see the module.

    Each contrast is how much better it is than another one, stated to be above -margin.

    Attributes:
        pairs: Number of pairs of batch sizes that share the level.
        negative: Whether the outcome has the opposite sign, since lower is better.
    """

    pairs: int = 1
    negative: bool = False
    in_family: ClassVar[bool] = False

    def judged(self, family_level: float) -> Row:
        """Return the columns of the verdict; no family shares the level."""
        margin = -self.contrasts[0].low
        for analysis in zip(*(contrast.analyses for contrast in self.contrasts), strict=True):
            compared = [contrast for contrast in analysis if contrast.n]
            if not compared:
                continue
            ends = [contrast.ends(LEVEL, self._level_beyond(contrast)) for contrast in analysis]
            low, high = map(min, zip(*ends, strict=True))
            best = min(compared, key=lambda contrast: contrast.mean)
            if low > -margin or high < -margin:
                break
        verdict, reason, needed = Verdict.NOT_RESOLVED, Reason.NONE, None
        if self.n < MIN_SEEDS:
            verdict = Verdict.PROVISIONAL if best.n > 1 else Verdict.ONE_SEED
            needed = MIN_SEEDS
        elif low > -margin:
            verdict = Verdict.WITHIN
        elif high < -margin:
            verdict = Verdict.BEYOND
        else:
            reasons = {contrast.open_low or contrast.open_high for contrast in compared}
            reason = next(filter(None, reasons), reason)
            needed = None if reason else self._seeds_to_resolve()
        if best.n < MIN_SEEDS_FOR_INTERVAL:
            low, high = -math.inf, math.inf
        numbers = (-best.mean, -high, -low) if self.negative else (best.mean, low, high)
        return {
            "verdict": verdict,
            "reason": reason,
            **_printed(numbers, self.ratio),
            "n": best.n,
            "seeds_to_resolve": needed,
            "against": best.cells["against"],
        }

    def _level_beyond(self, contrast: Contrast) -> float:
        """Return the level a_ij, before the share of the analysis."""
        most = contrast.share * LEVEL / self.pairs
        if contrast.n < 2:
            return most
        apart = 2 * -contrast.low / contrast.error if contrast.error else math.inf

        def excess(level: float) -> float:
            critical = special.stdtrit(contrast.n - 1, 1 - level)
            return level + special.stdtr(contrast.n - 1, -(critical + apart)) - most

        # With both ends of the margin far from or close to each other, the root is an end.
        if excess(most) <= 0 or excess(most / 2) >= 0:
            return (most if excess(most) <= 0 else most / 2) / contrast.share
        return optimize.brentq(excess, most / 2, most, xtol=1e-16, rtol=1e-14) / contrast.share

    def _seeds_to_resolve(self) -> int | None:
        """Return the number of seeds needed to decide whether the size is within the margin.

        It is beyond the margin if one other size shows it: the soonest counts. It is within the
        margin of all other sizes: the last counts.
        """
        undecided = [pair for pair in self.contrasts if pair.ends(LEVEL, LEVEL)[0] <= pair.low]
        worse = [pair for pair in undecided if pair.mean < pair.low]
        seeds = [self._seeds_of_pair(pair) for pair in worse or undecided]
        if worse:
            return min((count for count in seeds if count is not None), default=None)
        return None if None in seeds else max(seeds, default=None)

    def _seeds_of_pair(self, pair: Contrast) -> int | None:
        """Return the number of seeds that show a size to be within or beyond the margin of another.

        If the pair's 90 % interval contains 0, the sizes are to be shown as equal. Otherwise the
        measured difference is to be distinguished from the margin.
        """
        half = special.stdtrit(pair.n - 1, 1 - LEVEL) * pair.error
        if not half or pair.mean == pair.low or abs(pair.mean) > half:
            return pair.replicates_to_resolve(
                LEVEL if pair.mean > pair.low else self._level_beyond(pair)
            )
        effect = -pair.low / pair.deviation
        needed = power.fewest(power.equivalence_power, effect, pair.share * LEVEL)
        return needed and max(needed, pair.n + 1)


S = TypeVar("S", bound=Statement)


def weakest(contrasts: Iterable[Contrast], name: str) -> Contrast:
    """Return the contrast with the largest p-value, `p` or `p_against`."""
    return max(contrasts, key=_p_value(name))


def _p_value(name: str) -> Callable[[Contrast], float]:
    """Return a key for sorting by `p` or `p_against`, last those without one."""
    return lambda contrast: float(np.nan_to_num(getattr(contrast, name), nan=2.0))


def _printed(numbers: Iterable[float], ratio: bool) -> dict[str, float]:
    """Return estimate, low and high; an open end is NaN."""
    finite = (math.nan if math.isinf(number) else float(number) for number in numbers)
    values = map(exponential, finite) if ratio else finite
    return dict(zip(("estimate", "low", "high"), values, strict=True))


def exponential(value: float) -> float:
    return float(f"{math.exp(value):.12g}")


def table(
    rows: Iterable[Row],
    columns: Mapping[str, Column],
    factors: Iterable[str] = (),
    family: str = "",
) -> pandas.DataFrame:
    """Return rows as a table, those with a `statement` with the columns of its verdict.

    The reason of an open end replaces the reason of the row, and that replaces any other reason.

    Args:
        family: Column with the same value in all rows of a family; by default all rows are one.
    """
    return run_series.table(judge([*rows], family), columns, factors)


def judge(rows: Sequence[Row], family: str = "") -> list[Row]:
    """Return rows with the verdicts on their statements, as `table` has them."""
    tests: dict[Any, dict[Any, tuple[float, float]]] = {}
    for row in rows:
        statement = row.get("statement")
        if statement and statement.in_family and statement.n >= MIN_SEEDS:
            # Statements about the same numbers, such as the time of a step at several learning
            # rates, are one statement of the family.
            tests.setdefault(row.get(family), {})[statement.identity] = statement.p
    levels = {name: family_level(np.ravel([*p.values()])) for name, p in tests.items()}
    return [_judged(row, levels.get(row.get(family), LEVEL)) for row in rows]


def _judged(row: Row, level: float) -> Row:
    statement: Statement | None = row.get("statement")
    if statement is None:
        return row
    verdict = statement.judged(level)
    open_end = verdict["verdict"] == Verdict.NOT_RESOLVED and verdict["reason"]
    return {**row, **verdict, "reason": open_end or row.get("reason") or verdict["reason"]}


def read_off(rows: pandas.DataFrame) -> pandas.Series:
    """Return the verdicts of comparisons with the best, provisional ones by their intervals.

    Without an interval, below three seeds, a verdict stays provisional.
    """
    low, high, bound = (rows[name].astype(float) for name in ("low", "high", "bound"))
    within = np.where(bound < 0, low > bound, high < bound)
    beyond = np.where(bound < 0, high < bound, low > bound)
    read = np.select([within, beyond], [Verdict.WITHIN, Verdict.BEYOND], Verdict.PROVISIONAL)
    return rows["verdict"].mask(
        rows["verdict"] == Verdict.PROVISIONAL, pandas.Series(read, rows.index)
    )


def family_level(p_values: Sequence[float]) -> float:
    """Return alpha*: every p-value that is rejected is at most that, every other one above."""
    ordered = np.sort(np.asarray(p_values, float))
    if not len(ordered):
        return LEVEL
    shares = LEVEL * np.arange(1, len(ordered) + 1) / len(ordered)
    rejected = np.flatnonzero(ordered <= shares)
    return float(shares[rejected[-1] if len(rejected) else 0])


def staged(analyses: Sequence[S], shares: Sequence[float]) -> S:
    """Return a statement that is tested at several analyses, the last with all replicates.

    Earlier analyses of other contrasts, before a cell had runs, are left out. A contrast without
    more replicates than at the analysis before is not tested again: it spends nothing.

    Args:
        analyses: The statement at each analysis.
        shares: Share of the level that each analysis may spend.
    """

    cells = [[contrast.cells for contrast in statement.tested] for statement in analyses]
    same = [
        [replace(contrast, share=share) for contrast in statement.tested]
        for statement, share, names in zip(analyses, shares, cells, strict=True)
        if names == cells[-1]
    ]
    return analyses[-1].replaced(map(_over_analyses, *same))


def _over_analyses(*contrasts: Contrast) -> Contrast:
    *earlier, last = itertools.accumulate(
        contrasts, lambda before, later: later if later.n > before.n else before
    )
    return replace(last, earlier=tuple(earlier))


def at_analyses(replicates: int, planned: Sequence[int], statement: Callable[[int], S]) -> S:
    """Return a statement that is tested at the planned numbers of replicates.

    Args:
        statement: Number of the first replicates -> the statement about them.
    """
    counts, shares = zip(*stages.analyses_so_far(replicates, planned), strict=True)
    return staged([*map(statement, counts)], shares)


def trend(values: Any, positions: Any, rises: bool, **properties: Any) -> Statement:
    """State that values rise, or fall, along positions: the mean slope of the replicates.

    Each replicate has its own slope, by least squares. Order tests take the slopes as equal, and
    err far more often than they say if they are not.

    Args:
        values: Shape (replicates, positions), at least two positions. A replicate without a finite
            value at every position is left out.
        positions: Ascending, on the scale of the slopes: log2 of the batch size.
        properties: Other fields of the slope's `Contrast`.
    """
    values, positions = np.asarray(values, float), np.asarray(positions, float)
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, math.nan)
    bound = {"low" if rises else "high": 0.0}
    slope = Contrast(slopes(values, positions), **bound, **properties)
    first, second = np.triu_indices(len(positions) if len(positions) > 2 else 0, 1)
    steps = (1.0 if rises else -1.0) * (values[:, second] - values[:, first]).T
    tuned = slope.tuned
    steps = tuple(Contrast(step, low=0.0, tuned=tuned) for step in steps)
    return Statement.of_all([slope], steps=steps)


def slopes(values: Any, positions: Any) -> np.ndarray:
    """Return the least-squares slope against positions, at least two distinct ones, per row."""
    values = np.asarray(values, float)
    centred = np.asarray(positions, float) - np.mean(positions)
    # The slope of equal values is exactly 0, without the error of rounding.
    return np.where(np.ptp(values, axis=1) == 0, 0.0, values @ centred / (centred @ centred))
