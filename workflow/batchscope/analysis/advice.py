"""Which batch sizes to use: rows of other tables in, a recommendation with what limits it out.

A size is recommended where it fits into memory, reaches the target within a share of the fastest
size's seconds, and is within the margin of every outcome. Both comparisons are rows of
comparisons.csv, with their verdicts as they are: nothing is tested again. The recommendation is the
range of neighbouring sizes around the best measured one that are within every limit; where that
one is not shown to be, it stands alone.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import advice_checks, run_series, step_cost
from batchscope.analysis.advice_checks import CRITICAL, RATE, SECONDS, Asked, Row, Tables
from batchscope.catalogue.budget_kinds import EPOCHS, UPDATES
from batchscope.catalogue.decision_columns import ADVICE
from batchscope.catalogue.outcomes import LEAST_SEEDS, Reason, Verdict
from batchscope.catalogue.run_factors import TIMING_FACTORS
from batchscope.study.advice_needs import LEAST_SIZES

MEMORY, KNEE = "memory", "knee"
MOST_FITS = "most_fits"  # no larger batch was tried than the largest that fits
_OF_MACHINE = {"machine", "dataset", "dataset_digest", "model", "model_digest", "device"}
_COPIED = ("batch_size", "estimate", "low", "high", "bound", "n", "verdict", "reason")


class Item(enum.StrEnum):
    """What a row of the advice is."""

    RECOMMENDATION = "recommendation"
    SIZE = "size"  # a batch size, with the limit that decides about it
    LIMIT = "limit"
    CHECK = "check"
    NEED = "need"
    TREND = "trend"  # what is better where other things are held equal


class Grade(enum.StrEnum):
    """How sure a recommendation is."""

    SOLID = "solid"
    PROVISIONAL = "provisional"
    OPEN = "open"


def table(tables: Tables, asked: Asked) -> pandas.DataFrame:
    """Returns the rows of every series that trains at three batch sizes or more; see `ADVICE`."""
    frame = tables.comparisons
    factors = [name for name in run_series.factor_columns(frame) if name != RATE]
    rows: list[Row] = []
    for series in run_series.series(frame.drop(columns=RATE)) if len(frame) else ():
        own = frame.loc[series.frame.index]
        if own["batch_size"].nunique() < LEAST_SIZES:
            continue
        single = {
            name: own[name].iloc[0] for name in factors if own[name].nunique(dropna=False) < 2
        }
        runs = _of(run_series.own(tables.runs), single)
        configured = runs.reindex(columns=[*{*_OF_MACHINE, *TIMING_FACTORS} - {"batch_size"}])
        of_machine = configured.iloc[0].to_dict() if len(runs) else {}
        others = (_of(each, single) for each in (tables.trends, tables.critical))
        given = Tables(own, runs, _of(tables.limits, of_machine), *others)
        rows += [{**single, **row} for row in Advice(given, asked, single).rows()]
    return run_series.table(rows, ADVICE, factors)


def _of(frame: pandas.DataFrame, factors: Row) -> pandas.DataFrame:
    """Returns the rows that have these factors; one that a row says nothing of differs in none."""
    for name in factors.keys() & {*frame}:
        if pandas.notna(value := factors[name]):
            frame = frame[frame[name].eq(value) | frame[name].isna()]
    return frame


class Advice:
    """The advice of one series.

    Attributes:
        limits: The seconds to the target where any are known, and every outcome with a stated
            margin, or else the first -> rows of comparisons.csv by batch size; without any of
            these the examples to the target.
        memory: Largest batch that fits; infinite where it is not known.
        best: The fastest size, or without seconds that of the best outcome; None without any.
        range: The recommended sizes, ascending.
    """

    def __init__(self, tables: Tables, asked: Asked, factors: Row) -> None:
        self.tables, self.asked, self.factors = tables, asked, factors
        self.sizes = sorted(map(int, tables.comparisons["batch_size"].unique()))
        self.limits = dict(advice_checks.limits(tables, asked.margins))
        fits = tables.limits.get("max_batch_size", pandas.Series(dtype=float)).dropna()
        self.fits = tables.limits.loc[fits.astype(float).idxmin()] if len(fits) else None
        known = self.fits is not None and self.fits["max_batch_size_bound"] != MOST_FITS
        self.memory = float(self.fits["max_batch_size"]) if known else math.inf
        self.best = self._best()
        self.range = self._range()

    def rows(self) -> Iterator[Row]:
        """Yields all rows: the recommendation first, and what is missing in order of cost."""
        series = advice_checks.Series(
            self.tables, self.asked, self.factors, self.limits, self.best, self._unresolved()
        )
        checks, needs = [*series.checks()], [*series.needs()]
        if self.best is not None:
            lacking = series.unresolved or needs or any(each["passed"] == 0 for each in checks)
            few = series.replicates < LEAST_SEEDS
            grade = Grade.PROVISIONAL if few or lacking else Grade.SOLID
            yield {
                "item": Item.RECOMMENDATION,
                "batch_size": self.best,
                "smallest": self.range[0],
                "largest": self.range[-1],
                RATE: series.rate(self.best),
                "n": series.replicates,
                "grade": grade if series.replicates > 1 else Grade.OPEN,
            }
        yield from ({**self._size(size), RATE: series.rate(size)} for size in self.sizes)
        yield from self._limits(series)
        yield from ({"item": Item.CHECK, **each} for each in checks)
        for need in sorted(needs, key=lambda each: np.nan_to_num(each.minutes)):
            yield {"item": Item.NEED, **need.row()}
        yield from self._trends()

    def _excluded(self, size: int, limits: Iterable[str]) -> bool:
        of_size = (self.limits[name].loc[size] for name in limits)
        return size > self.memory or any(map(_excludes, of_size))

    def _within(self, size: int) -> bool:
        verdicts = {rows.loc[size, "verdict"] for rows in self.limits.values()}
        return size <= self.memory and verdicts == {Verdict.WITHIN}

    def _best(self) -> int | None:
        """Returns the best size of those that no limit excludes, where there are any."""
        outcomes = self.limits.keys() - {SECONDS}
        for counted in (self.limits, outcomes, ()):
            pool = [size for size in self.sizes if not self._excluded(size, counted)]
            for name, rows in self.limits.items():
                means = rows.loc[pool, "mean"].astype(float).dropna()
                if len(means):
                    return int(means.idxmax() if name.endswith("accuracy") else means.idxmin())
        return None

    def _range(self) -> list[int]:
        if self.best is None:
            return []
        first = last = self.sizes.index(self.best)
        if self._within(self.best):
            while first > 0 and self._within(self.sizes[first - 1]):
                first -= 1
            while last + 1 < len(self.sizes) and self._within(self.sizes[last + 1]):
                last += 1
        return self.sizes[first : last + 1]

    def _unresolved(self) -> list[Row]:
        """Returns the rows that leave open where the range ends, or that its best size is in it."""
        if self.best is None:
            return []
        low, high = (self.sizes.index(self.range[end]) for end in (0, -1))
        beside = [*self.sizes[max(low - 1, 0) : low], *self.sizes[high + 1 : high + 2]]
        sizes = [size for size in beside if not self._excluded(size, self.limits)]
        sizes += [] if self._within(self.best) else [self.best]
        rows = [rows.loc[size].to_dict() for size in sizes for rows in self.limits.values()]
        return [row for row in rows if row["verdict"] != Verdict.WITHIN]

    def _size(self, size: int) -> Row:
        """Returns a size with the limit that decides: one that excludes it, else one not shown."""
        row: Row = {"item": Item.SIZE, "batch_size": size}
        if size > self.memory:
            return {**row, "name": MEMORY, "verdict": Verdict.BEYOND}
        found = [(name, rows.loc[size]) for name, rows in self.limits.items()]
        if not found:
            return {**row, "verdict": Verdict.NOT_TESTABLE, "reason": Reason.NO_VALUE}
        doubts = [each for each in found if each[1]["verdict"] != Verdict.WITHIN]
        excluding = [each for each in doubts if _excludes(each[1])]
        name, deciding = (excluding or doubts or found)[0]
        return {**row, "name": name, **deciding[[*_COPIED]].to_dict()}

    def _limits(self, series: advice_checks.Series) -> Iterator[Row]:
        """Yields a row per limit and size, and what else is known of the machine and the target."""
        for name, rows in self.limits.items():
            for row in rows.to_dict("records"):
                copied = {each: row[each] for each in _COPIED}
                cost = {"seeds_to_resolve": row["seeds_to_resolve"]}
                if pandas.notna(row["seeds_to_resolve"]):
                    more = row["seeds_to_resolve"] - row["n"]
                    cost["minutes_to_resolve"] = more * series.minutes_of_seed
                yield {"item": Item.LIMIT, "name": name, **copied, **cost}
        if self.fits is not None:
            reason = Reason.NONE if math.isfinite(self.memory) else Reason.LOWER_BOUND
            largest = int(self.fits["max_batch_size"])
            yield {"item": Item.LIMIT, "name": MEMORY, "largest": largest, "reason": reason}
        timed = self.tables.limits.reindex(
            columns=["knee_fitted", "knee_batch_size", "noise_floor"]
        )
        quiet = timed[~(timed.pop("noise_floor").astype(float) > step_cost.MOST_NOISE)]
        known = quiet.astype(float).stack().dropna()
        if len(known):
            yield {"item": Item.LIMIT, "name": KNEE, "estimate": float(known.iloc[0])}
        fit: Row = {end: series.critical.get(f"{CRITICAL}_{end}") for end in ("low", "high")}
        if any(map(pandas.notna, fit.values())):
            fit["estimate"] = series.critical[CRITICAL]
            yield {"item": Item.LIMIT, "name": CRITICAL, **fit}

    def _trends(self) -> Iterator[Row]:
        """Yields what is better at equal epochs and at equal updates, by the first outcome."""
        rows, outcomes = self.tables.trends, [name for name in self.limits if name != SECONDS]
        if len(rows) and outcomes:
            rows = rows[rows["budget"].isin([EPOCHS, UPDATES]) & (rows["outcome"] == outcomes[0])]
            for row in rows.to_dict("records"):
                found = {each: row[each] for each in _COPIED if each in row}
                of = {"name": row["outcome"], "key": row["budget"]}
                yield {"item": Item.TREND, **of, **found, "bound": 0.0}


def _excludes(row: Any) -> bool:
    failed = row["verdict"] == Verdict.NOT_TESTABLE and row["reason"] == Reason.FAILED
    return bool(failed or row["verdict"] == Verdict.BEYOND)
