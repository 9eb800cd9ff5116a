"""Verdicts: rows with a `statement` in, the same rows with verdict, reason and interval out.

A statement says that the means of some contrasts (`contrasts`) are between two bounds: "16 is
within the margin of 32" has one contrast, "the best size is 64 or 128" has alternatives. The
verdict is read off the t-interval of the contrast that decides. docs/measures.md ("How a verdict is
reached") has the rules and formulas. A new column of a verdict is added in both `verdict_columns`.
A new kind of statement is a function like `trend`, or a subclass of `Statement` if its interval
differs.

Sources: Benjamini and Hochberg 1995 (J. R. Stat. Soc. B 57, 289) and Benjamini and Yekutieli 2005
(J. Am. Stat. Assoc. 100, 71) for the level of a family and its intervals; Berger 1982
(Technometrics 24, 295) for contrasts that must all hold; Hsu 1984 (Ann. Statist. 12, 1136) for
comparisons with the best, here with a separate variance for every pair.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas
from scipy import optimize, special

from batchscope.analysis import power, run_series
from batchscope.analysis.contrasts import Contrast
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

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement about contrasts: all of its parts must hold."""

    # Tables of contrasts. A part holds if every contrast in one of its rows holds: the rows are
    # alternatives. It is wrong if every contrast in one of its columns is wrong.
    parts: tuple[tuple[tuple[Contrast, ...], ...], ...]
    # Contrasts of every two positions along a trend, each stated to be at least 0. (Neighbours
    # alone would miss a curve that turns back slowly.)
    steps: tuple[Contrast, ...] = ()
    ratio: bool = False  # whether the contrasts are logarithms of printed ratios
    is_about_margin: bool = False  # whether the verdict is "within" or "beyond" a margin
    shares_family_level: ClassVar[bool] = True

    @classmethod
    def all_hold(cls, contrasts: Iterable[Contrast], **properties: Any) -> Self:
        row = tuple(contrasts)
        return cls(((row,),) if row else (), **properties)

    @functools.cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        return tuple(contrast for part in self.parts for row in part for contrast in row)

    @functools.cached_property
    def rows(self) -> tuple[tuple[Contrast, ...], ...]:
        """The rows of the part with the largest p-value: if it holds, all other parts hold."""
        return max(self.parts, key=lambda rows: len(rows) * min(max(map(_p, row)) for row in rows))

    @property
    def columns(self) -> list[tuple[Contrast, ...]]:
        """The columns of all parts: a single wrong column shows the contrary."""
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
        # `min` returns its first argument if that is NaN.
        return min(len(rows) * p, 1.0), min(len(columns) * against, 1.0)

    @property
    def identity(self) -> tuple[Any, ...]:
        """A key that is equal for statements about the same numbers."""
        fields = ("share", "low", "high", "unbounded_low", "unbounded_high")
        contrast_keys = (
            (contrast.values.tobytes(), *(getattr(contrast, name) for name in fields))
            for contrast in self.contrasts
        )
        return len(self.rows), len(self.columns), *contrast_keys

    @property
    def contrasts_and_steps(self) -> tuple[Contrast, ...]:
        return (*self.contrasts, *self.steps)

    def with_contrasts_and_steps(self, replacements: Iterable[Contrast]) -> Self:
        remaining = iter(replacements)
        parts = tuple(
            tuple(tuple(next(remaining) for _ in row) for row in rows) for rows in self.parts
        )
        return replace(self, parts=parts, steps=tuple(remaining))

    def with_first(self, replicates: int) -> Self:
        first = (contrast.with_first(replicates) for contrast in self.contrasts_and_steps)
        return self.with_contrasts_and_steps(first)

    def verdict_columns(self, family_level: float) -> Row:
        """Return the columns of the verdict at the level of the statement's family."""
        level, against = family_level / len(self.rows), family_level / len(self.columns)
        row = min(self.rows, key=lambda row: max(map(_p, row)))
        weakest = max(row, key=_p)
        contraries = (max(column, key=_p_against) for column in self.columns)
        contrary = min(contraries, key=_p_against)
        verdict, reason, needed = Verdict.NOT_RESOLVED, Reason.NONE, None
        if weakest.p < level:
            verdict, deciding = Verdict.SUPPORTED, weakest
            printed = deciding.deciding_analysis(against=False)
            if any(step.p_against * len(self.steps) < LEVEL for step in self.steps):
                reason = Reason.NOT_AT_EVERY_STEP
        elif contrary.p_against < against:
            verdict, deciding = Verdict.CONTRADICTED, contrary
            printed = deciding.deciding_analysis(against=True)
            level = against / printed.bound_count
        else:
            undecided = [
                contrast
                for contrast in self.contrasts
                if not contrast.p < level and not contrast.p_against < against
            ]
            undecided_in_row = [contrast for contrast in row if contrast in undecided]
            deciding = printed = max(undecided_in_row or undecided or row, key=_p)
            level = min(level, against / printed.bound_count)
            needed, reason = printed.replicates_to_resolve(level), printed.reason_undecided(level)
        if self.n < MIN_SEEDS:
            verdict = Verdict.ONE_SEED if self.n == 1 else Verdict.PROVISIONAL
            level, reason, needed = LEVEL, Reason.NONE, MIN_SEEDS
        if self.n == 0:
            verdict, reason, needed = Verdict.NOT_TESTABLE, Reason.NO_VALUE, None
        n = min(printed.n, self.n)
        p, p_against = self.p if n > 1 else (math.nan, math.nan)
        return {
            "verdict": MARGIN_VERDICTS.get(verdict, verdict) if self.is_about_margin else verdict,
            "reason": reason,
            **_interval_columns((printed.mean, *printed.interval(level, level)), self.ratio),
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
    """The statement that a batch size is within a margin of the best of the others (Hsu 1984).

    Each contrast states by how much it is better than another batch size: by more than -margin.
    """

    pairs: int = 1  # number of pairs of batch sizes that share the level
    negative: bool = False  # whether printed numbers have the opposite sign: lower is better
    shares_family_level: ClassVar[bool] = False

    def verdict_columns(self, family_level: float) -> Row:
        """Return the columns of the verdict; no family shares the level."""
        margin = -self.contrasts[0].low
        for analysis in zip(*(contrast.analyses for contrast in self.contrasts), strict=True):
            compared = [contrast for contrast in analysis if contrast.n]
            if not compared:
                continue
            ends = [pair.interval(LEVEL, self._level_beyond(pair)) for pair in analysis]
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
            reasons = {contrast.unbounded_low or contrast.unbounded_high for contrast in compared}
            reason = next(filter(None, reasons), reason)
            needed = None if reason else self._seeds_to_resolve()
        if best.n < MIN_SEEDS_FOR_INTERVAL:
            low, high = -math.inf, math.inf
        numbers = (-best.mean, -high, -low) if self.negative else (best.mean, low, high)
        return {
            "verdict": verdict,
            "reason": reason,
            **_interval_columns(numbers, self.ratio),
            "n": best.n,
            "seeds_to_resolve": needed,
            "against": best.cells["against"],
        }

    def _level_beyond(self, contrast: Contrast) -> float:
        """Return the level a_ij of "beyond the margin" (docs/measures.md), before the share."""
        max_level = contrast.share * LEVEL / self.pairs
        if contrast.n < 2:
            return max_level
        width = 2 * -contrast.low / contrast.error if contrast.error else math.inf

        def excess(level: float) -> float:
            critical = special.stdtrit(contrast.n - 1, 1 - level)
            return level + special.stdtr(contrast.n - 1, -(critical + width)) - max_level

        # If the margin is very wide or very narrow, the root is an end of the searched range.
        min_level = max_level / 2
        if excess(max_level) <= 0 or excess(min_level) >= 0:
            return (max_level if excess(max_level) <= 0 else min_level) / contrast.share
        level = optimize.brentq(excess, min_level, max_level, xtol=1e-16, rtol=1e-14)
        return level / contrast.share

    def _seeds_to_resolve(self) -> int | None:
        """Return the number of seeds needed to decide whether the size is within the margin.

        A single pair can show that it is beyond; all pairs must show that it is within.
        """
        undecided = [pair for pair in self.contrasts if pair.interval(LEVEL, LEVEL)[0] <= pair.low]
        worse = [pair for pair in undecided if pair.mean < pair.low]
        seeds = [self._seeds_of_pair(pair) for pair in worse or undecided]
        if worse:
            return min((count for count in seeds if count is not None), default=None)
        return None if None in seeds else max(seeds, default=None)

    def _seeds_of_pair(self, pair: Contrast) -> int | None:
        """Return the number of seeds that decide a pair of batch sizes.

        They show equivalence if the pair's 90 % interval contains 0, else the measured difference.
        """
        half = special.stdtrit(pair.n - 1, 1 - LEVEL) * pair.error
        if not half or pair.mean == pair.low or abs(pair.mean) > half:
            level = LEVEL if pair.mean > pair.low else self._level_beyond(pair)
            return pair.replicates_to_resolve(level)
        effect = -pair.low / pair.deviation
        needed = power.fewest_seeds(power.equivalence_power, effect, pair.share * LEVEL)
        return needed and max(needed, pair.n + 1)


S = TypeVar("S", bound=Statement)


def _p(contrast: Contrast) -> float:
    """Return a sorting key by `p`, from the strongest to the weakest contrast; NaN comes last."""
    return float(np.nan_to_num(contrast.p, nan=2.0))


def _p_against(contrast: Contrast) -> float:
    return float(np.nan_to_num(contrast.p_against, nan=2.0))


def _interval_columns(numbers: Iterable[float], ratio: bool) -> dict[str, float]:
    """Return the columns estimate, low and high; an infinite end becomes NaN."""
    finite = (math.nan if math.isinf(number) else float(number) for number in numbers)
    values = map(exponential, finite) if ratio else finite
    return dict(zip(("estimate", "low", "high"), values, strict=True))


def exponential(value: float) -> float:
    return float(f"{math.exp(value):.12g}")


def table(
    rows: Iterable[Row], columns: Mapping[str, Column], factors: Iterable[str] = ()
) -> pandas.DataFrame:
    """Return the rows, judged as one family, as a table with the factors and the columns."""
    return run_series.table(judge([*rows]), columns, factors)


def judge(rows: Sequence[Row], family: str = "") -> list[Row]:
    """Return the rows; a row with a `statement` gets the columns of its verdict.

    `family` is the column that distinguishes families; by default all rows are one family.
    """
    p_values: dict[Any, dict[Any, tuple[float, float]]] = {}
    for row in rows:
        statement = row.get("statement")
        if statement and statement.shares_family_level and statement.n >= MIN_SEEDS:
            # Statements about the same numbers, such as the time of a step at several learning
            # rates, are one statement of the family.
            p_values.setdefault(row.get(family), {})[statement.identity] = statement.p
    levels = {name: family_level(np.ravel([*p.values()])) for name, p in p_values.items()}
    return [_judged_row(row, levels.get(row.get(family), LEVEL)) for row in rows]


def _judged_row(row: Row, level: float) -> Row:
    statement: Statement | None = row.get("statement")
    if statement is None:
        return row
    verdict = statement.verdict_columns(level)
    # The reason of an unbounded end replaces the reason of the row. Any other reason does not.
    reason_unresolved = verdict["verdict"] == Verdict.NOT_RESOLVED and verdict["reason"]
    reason = reason_unresolved or row.get("reason") or verdict["reason"]
    return {**row, **verdict, "reason": reason}


def verdicts_of_intervals(rows: pandas.DataFrame) -> pandas.Series:
    """Return the verdicts of comparisons.csv; an interval decides a provisional verdict."""
    low, high, bound = (rows[name].astype(float) for name in ("low", "high", "bound"))
    within = np.where(bound < 0, low > bound, high < bound)
    beyond = np.where(bound < 0, high < bound, low > bound)
    decided = np.select([within, beyond], [Verdict.WITHIN, Verdict.BEYOND], Verdict.PROVISIONAL)
    is_provisional = rows["verdict"] == Verdict.PROVISIONAL
    return rows["verdict"].mask(is_provisional, pandas.Series(decided, rows.index))


def family_level(p_values: Sequence[float]) -> float:
    """Return Benjamini and Hochberg's level: at least every rejected p-value, below all others."""
    ordered = np.sort(np.asarray(p_values, float))
    if not len(ordered):
        return LEVEL
    shares = LEVEL * np.arange(1, len(ordered) + 1) / len(ordered)
    rejected = np.flatnonzero(ordered <= shares)
    return float(shares[rejected[-1] if len(rejected) else 0])


def over_analyses(analyses: Sequence[S], shares: Sequence[float]) -> S:
    """Return a statement that is tested at several interim analyses.

    An earlier analysis with other contrasts, before a cell had runs, is left out. A contrast is
    tested again only if it has more replicates than at the analysis before: else it spends nothing.

    Args:
        analyses: The statement at each analysis, the last with all replicates.
        shares: Share of the level that each analysis may spend.
    """
    cells = [[item.cells for item in statement.contrasts_and_steps] for statement in analyses]
    with_same_cells = [
        [replace(contrast, share=share) for contrast in statement.contrasts_and_steps]
        for statement, share, statement_cells in zip(analyses, shares, cells, strict=True)
        if statement_cells == cells[-1]
    ]
    contrasts = map(_contrast_over_analyses, *with_same_cells)
    return analyses[-1].with_contrasts_and_steps(contrasts)


def _contrast_over_analyses(*contrasts: Contrast) -> Contrast:
    """Return the last contrast, with the earlier ones that had fewer replicates."""
    *earlier, last = itertools.accumulate(
        contrasts, lambda before, later: later if later.n > before.n else before
    )
    return replace(last, earlier=tuple(earlier))


def at_analyses(replicates: int, planned: Sequence[int], statement: Callable[[int], S]) -> S:
    """Return `statement(n)`, about the first n replicates, tested at every planned n."""
    counts, shares = zip(*stages.analyses_so_far(replicates, planned), strict=True)
    return over_analyses([*map(statement, counts)], shares)


def trend(values: Any, positions: Any, rises: bool, **properties: Any) -> Statement:
    """Return the statement that values rise (or fall) along positions, by their mean slope.

    Each replicate has its own least-squares slope. (Order tests assume equal slopes.)

    Args:
        values: Shape (replicates, positions), at least two positions. A replicate that lacks a
            finite value at a position is left out.
        positions: Ascending, on the scale of the slopes: log2 of the batch size.
        properties: Other fields of the slope's `Contrast`.
    """
    values, positions = np.asarray(values, float), np.asarray(positions, float)
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, math.nan)
    bound = {"low" if rises else "high": 0.0}
    slope = Contrast(slopes(values, positions), **bound, **properties)
    first, second = np.triu_indices(len(positions) if len(positions) > 2 else 0, 1)
    steps = (1.0 if rises else -1.0) * (values[:, second] - values[:, first]).T
    steps = tuple(Contrast(step, low=0.0, tuned=slope.tuned) for step in steps)
    return Statement.all_hold([slope], steps=steps)


def slopes(values: Any, positions: Any) -> np.ndarray:
    """Return the least-squares slope of each row against two or more distinct positions."""
    values = np.asarray(values, float)
    centred = np.asarray(positions, float) - np.mean(positions)
    # The slope of equal values is exactly 0, without the error of rounding.
    return np.where(np.ptp(values, axis=1) == 0, 0.0, values @ centred / (centred @ centred))
