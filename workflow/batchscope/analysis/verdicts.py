"""Verdicts: rows with a `statement` in, the same rows with verdict, reason and interval out.

A statement says that the means of some contrasts (`contrasts`) are between two bounds: "16 is
within the margin of 32" has one contrast, "the best size is 64 or 128" has alternatives. The
verdict is read off the t-interval of the contrast that decides. docs/measures.md ("How a verdict is
reached") has the rules and formulas. A new column of a verdict goes into both `verdict_columns`. A
new kind of statement is a function like `trend`, or a subclass of `Statement` if its interval
differs, as `comparisons.ComparisonWithBest`.

Sources: Benjamini and Hochberg 1995 (J. R. Stat. Soc. B 57, 289) and Benjamini and Yekutieli 2005
(J. Am. Stat. Assoc. 100, 71) for the level of a family and its intervals; Berger 1982
(Technometrics 24, 295) for contrasts that must all hold.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas

from batchscope.analysis import run_series
from batchscope.analysis.contrasts import Contrast, over_analyses
from batchscope.study.outcomes import LEVEL, MARGIN_VERDICTS, MIN_SEEDS, Reason, Verdict
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
        p_contrary = min(max(contrast.p_contrary for contrast in column) for column in columns)
        # `min` returns its first argument if that is NaN.
        return min(len(rows) * p, 1.0), min(len(columns) * p_contrary, 1.0)

    @property
    def identity(self) -> tuple[Any, ...]:
        """A key that is equal for statements about the same numbers."""
        fields = ("share", "low", "high", "unbounded_low", "unbounded_high")
        contrast_keys = (
            (contrast.values.tobytes(), *(getattr(contrast, name) for name in fields))
            for contrast in self.contrasts
        )
        return len(self.rows), len(self.columns), *contrast_keys

    def verdict_columns(self, family_level: float) -> Row:
        """Return the columns of the verdict at the level of the statement's family."""
        level, contrary_level = family_level / len(self.rows), family_level / len(self.columns)
        row = min(self.rows, key=lambda row: max(map(_p, row)))
        weakest = max(row, key=_p)
        contrary = min((max(column, key=_p_contrary) for column in self.columns), key=_p_contrary)
        verdict, reason, needed = Verdict.NOT_RESOLVED, Reason.NONE, None
        if weakest.p < level:
            verdict, deciding = Verdict.SUPPORTED, weakest
            printed = deciding.deciding_analysis()
            if any(step.p_contrary * len(self.steps) < LEVEL for step in self.steps):
                reason = Reason.NOT_AT_EVERY_STEP
        elif contrary.p_contrary < contrary_level:
            verdict, deciding = Verdict.CONTRADICTED, contrary
            printed = deciding.deciding_analysis(contrary=True)
            level = contrary_level / printed.bound_count
        else:
            undecided = [
                contrast
                for contrast in self.contrasts
                if not contrast.p < level and not contrast.p_contrary < contrary_level
            ]
            undecided_in_row = [contrast for contrast in row if contrast in undecided]
            deciding = printed = max(undecided_in_row or undecided or row, key=_p)
            contrary_level /= printed.bound_count
            needed = printed.replicates_to_resolve(level, contrary_level)
            level = min(level, contrary_level)
            reason = printed.reason_undecided(level)
        if self.n < MIN_SEEDS:
            verdict = Verdict.ONE_SEED if self.n == 1 else Verdict.PROVISIONAL
            level, reason, needed = LEVEL, Reason.NONE, MIN_SEEDS
        if self.n == 0:
            verdict, reason, needed = Verdict.NOT_TESTABLE, Reason.NO_VALUE, None
        n = printed.n if self.n >= MIN_SEEDS else self.n
        p, p_contrary = self.p if n > 1 else (math.nan, math.nan)
        return {
            "verdict": MARGIN_VERDICTS.get(verdict, verdict) if self.is_about_margin else verdict,
            "reason": reason,
            **interval_columns((printed.mean, *printed.interval(level, level)), self.ratio),
            "n": n,
            "level": printed.share * level if n > 1 else math.nan,
            "p": p,
            "p_against": p_contrary,
            "seeds_to_resolve": needed,
            "deciding": printed,
            "later_analyses": deciding.analyses[::-1].index(printed),
            "against": printed.cells.get("against"),  # the other batch size
        }


def _p(contrast: Contrast) -> float:
    """Return a sorting key by `p`, from the strongest to the weakest contrast; NaN comes last."""
    return float(np.nan_to_num(contrast.p, nan=2.0))


def _p_contrary(contrast: Contrast) -> float:
    return float(np.nan_to_num(contrast.p_contrary, nan=2.0))


def interval_columns(numbers: Iterable[float], ratio: bool) -> dict[str, float]:
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
    judged = []
    for row in rows:
        if statement := row.get("statement"):
            verdict = statement.verdict_columns(levels.get(row.get(family), LEVEL))
            # The reason of an unbounded end replaces the reason of the row. Others do not.
            reason_unresolved = verdict["verdict"] == Verdict.NOT_RESOLVED and verdict["reason"]
            reason = reason_unresolved or row.get("reason") or verdict["reason"]
            row = {**row, **verdict, "reason": reason}
        judged.append(row)
    return judged


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


def trend(by_analysis: Iterable[Sequence[Contrast]], **properties: Any) -> Statement:
    """Return the statement about the `trend_contrasts` of one or several interim analyses.

    Args:
        properties: Other fields of the `Statement`.
    """
    slope, *steps = map(over_analyses, zip(*by_analysis, strict=True))
    return Statement.all_hold([slope], steps=tuple(steps), **properties)


def trend_contrasts(
    values: Any, positions: Any, rises: bool, share: float = 1.0, **properties: Any
) -> list[Contrast]:
    """Return the contrasts of "values rise (or fall) along positions": the slope, then all steps.

    Each replicate has its own least-squares slope. (Order tests assume equal slopes.)

    Args:
        values: Shape (replicates, positions), at least two positions. A replicate that lacks a
            finite value at a position is left out.
        positions: Ascending, on the scale of the slopes: log2 of the batch size.
        share: Share of the level that this analysis may spend.
        properties: Other fields of the slope's `Contrast`.
    """
    values, positions = np.asarray(values, float), np.asarray(positions, float)
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, math.nan)
    bound = {"low" if rises else "high": 0.0}
    slope = Contrast(slopes(values, positions), share=share, **bound, **properties)
    first, second = np.triu_indices(len(positions) if len(positions) > 2 else 0, 1)
    steps = (1.0 if rises else -1.0) * (values[:, second] - values[:, first]).T
    return [slope, *(Contrast(step, 0.0, tuned=slope.tuned, share=share) for step in steps)]


def slopes(values: Any, positions: Any) -> np.ndarray:
    """Return the least-squares slope of each row against two or more distinct positions."""
    values = np.asarray(values, float)
    centred = np.asarray(positions, float) - np.mean(positions)
    # The slope of equal values is exactly 0, without the error of rounding.
    return np.where(np.ptp(values, axis=1) == 0, 0.0, values @ centred / (centred @ centred))
