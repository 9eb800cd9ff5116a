"""What may be wrong with an advice, and what it lacks: each with the line to add to the study."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import step_cost
from batchscope.catalogue import horizons, own_columns
from batchscope.catalogue.budget_kinds import CONVERGENCE, EPOCHS, TARGET
from batchscope.catalogue.outcomes import LEAST_SEEDS, LEVEL, Reason
from batchscope.study import advice_needs
from batchscope.study.advice_needs import Need, Trained, rounded

SECONDS, EXAMPLES, END = "seconds", "examples", "end"
CRITICAL, RATE = "critical_batch_size", "learning_rate"
MOST_DISTURBED = 0.25  # share of the blocks of a timing
BLOCKS = 21  # of a timing that is repeated
_FLAGS = {"on_edge": "rate_on_edge", "still_falling": "still_falling"}  # column -> check
Row = dict[str, Any]


class Tables(NamedTuple):
    """The tables that an advice follows from, of one experiment or of one of its series."""

    comparisons: pandas.DataFrame
    runs: pandas.DataFrame = pandas.DataFrame()
    limits: pandas.DataFrame = pandas.DataFrame()
    trends: pandas.DataFrame = pandas.DataFrame()
    critical: pandas.DataFrame = pandas.DataFrame()


class Asked(NamedTuple):
    """What else is known.

    Attributes:
        margins: Outcome -> largest loss of it, as the study states them.
        planned: Seeds that were planned before any was seen.
        baselines: Data set -> split -> accuracy of always naming its most frequent class.
        price: Runs -> seconds that one more seed of them takes in trainings, and in timings.
    """

    margins: Mapping[str, float] = {}
    planned: int | None = None
    baselines: Mapping[str, Mapping[str, float]] = {}
    price: Callable[[Iterable[str]], tuple[float, float]] = lambda runs: (math.nan, math.nan)


def limits(tables: Tables, margins: Iterable[str]) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Yields each limit that sizes are compared at, with its rows by batch size."""
    seconds = _at(tables, TARGET, SECONDS)
    if (seconds["reason"] != Reason.NO_VALUE).any():
        yield SECONDS, seconds
    ends = pandas.concat([_at(tables, CONVERGENCE), _at(tables, END)])
    budgets = ends[ends["mean"].notna()].groupby("outcome", sort=False)["budget"].first()
    for name in [each for each in margins if each in budgets] or [*budgets.index][:1]:
        yield name, _at(tables, budgets[name], name)
    examples = _at(tables, TARGET, EXAMPLES)
    if budgets.empty and seconds["mean"].isna().all() and examples["mean"].notna().any():
        yield EXAMPLES, examples  # all that is known of what a size costs


def _at(tables: Tables, budget: str, outcome: str = "") -> pandas.DataFrame:
    rows = tables.comparisons[tables.comparisons["budget"] == budget]
    rows = rows[rows["outcome"] == outcome] if outcome else rows
    return rows.set_index("batch_size", drop=False)


@dataclass(frozen=True)
class Series:
    """A series, of which `advice.Advice` knows limits, best size and what is not resolved."""

    tables: Tables
    asked: Asked
    factors: Row
    limits: dict[str, pandas.DataFrame]
    best: int | None
    unresolved: list[Row] = field(default_factory=list)

    @functools.cached_property
    def replicates(self) -> int:
        """Paired replicates of the best size; without any, its seeds."""
        rows = [rows.loc[self.best] for rows in self.limits.values() if self.best is not None]
        pairs = [int(row["n"]) for row in rows if pandas.notna(row["n"]) and row["n"] > 0]
        return min(pairs or [int(self.tables.comparisons["seeds"].max())])

    @functools.cached_property
    def seconds(self) -> tuple[float, float]:
        """What one more seed takes in trainings, and in timings."""
        runs = self.tables.runs
        return self.asked.price(runs["run"]) if "run" in runs else (math.nan, math.nan)

    @property
    def minutes_of_seed(self) -> float:
        """Minutes that one more seed takes."""
        return sum(self.seconds) / 60

    @functools.cached_property
    def critical(self) -> Row:
        """The fit at the target that sizes are compared at; empty without one."""
        target, fits = _at(self.tables, TARGET), self.tables.critical
        if target.empty or fits.empty:
            return {}
        value, column = target[["budget_value", "budget_column"]].iloc[0]
        of_column = fits["target_column"].fillna("").eq("" if pandas.isna(column) else column)
        same = np.isclose(fits["target_value"].astype(float), float(value), equal_nan=True)
        return next(iter(fits[of_column & same].to_dict("records")), {})

    def rate(self, size: int) -> float:
        """Returns the one rate of a size: the best of its seconds, or else of its outcome."""
        rates = (rows.loc[size, RATE] for rows in self.limits.values())
        return next((float(rate) for rate in rates if pandas.notna(rate)), math.nan)

    def checks(self) -> Iterator[Row]:
        """Yields what else may be wrong: a row for all that passes, or for each size that fails."""
        yield from self._accuracy()
        if self.trained.rates > 1:
            yield from self._flagged("on_edge", self._beyond)
        yield from self._timings()
        yield from self._flagged("still_falling", lambda row: self._longer(row["batch_size"]))
        lack = pandas.to_numeric(self.critical.get("lack_of_fit"), errors="coerce")
        if pandas.notna(lack):
            yield _check("lack_of_fit", lack >= LEVEL, estimate=float(lack), bound=LEVEL)
        planned = self.asked.planned
        if planned is not None and "seed" in self.tables.runs:
            there = self.tables.runs["seed"].nunique()
            line = {"key": "seeds", "value": planned} if there < planned else {}
            yield _check("seeds_planned", there == planned, estimate=there, bound=planned, **line)

    def _accuracy(self) -> Iterator[Row]:
        """Yields whether the best size beats the baseline, and whether the test set is large."""
        rows = pandas.concat([_at(self.tables, CONVERGENCE), _at(self.tables, END)])
        rows = rows[rows["outcome"].str.endswith("accuracy") & rows["mean"].notna()]
        rows = rows[rows["batch_size"] == self.best]
        if rows.empty:
            return
        row = rows.iloc[0].to_dict()
        split, mean = row["outcome"].partition("_")[0], float(row["mean"])
        given = self.asked.baselines.get(str(self.factors.get("dataset")), {})
        if bound := given.get(split):
            least = mean if pandas.isna(row["mean_low"]) else row["mean_low"]
            ends = {end: row[f"mean_{end}"] for end in ("low", "high")}
            values = {"estimate": mean, **ends, "bound": bound, "n": row["n"]}
            yield _check("baseline", least > bound, **values, **self._longer(self.best))
        examples = self.tables.runs.get(f"{split}_examples", pandas.Series(dtype=float)).max()
        if pandas.notna(examples):
            error = math.sqrt(max(mean * (1 - mean), 0) / float(examples))
            line = {"key": f"margins.{row['outcome']}", "value": math.ceil(100 * error) / 100}
            margin = float(row["margin"])
            yield _check("test_set", error < margin, estimate=error, bound=margin, **line)

    def _flagged(self, name: str, line: Callable[[Row], Row]) -> Iterator[Row]:
        """Yields the sizes that a column of comparisons.csv flags, each with the line to add."""
        rows = [row for of in self.limits.values() for row in of.to_dict("records")]
        flagged = {int(row["batch_size"]): line(row) for row in rows if row[name] == 1}
        for size, found in sorted(flagged.items()):
            yield _check(_FLAGS[name], False, batch_size=size, **found)
        if rows and not flagged:
            yield _check(_FLAGS[name], True)

    def _timings(self) -> Iterator[Row]:
        """Yields whether blocks of a timing differ by more than a plateau is told from its knee."""
        names = ["batch_size", "seconds_per_epoch_q1", "seconds_per_epoch_q3"]
        sizes, low, high = self.tables.runs.reindex(columns=names).astype(float).to_numpy().T
        ratios = pandas.Series(high / low).groupby(sizes).median()
        found = [(int(size), ratio, step_cost.MOST_NOISE) for size, ratio in ratios.items()]
        names = ["disturbed_blocks", "blocks", "noise_floor"]
        for disturbed, blocks, noise in self.tables.limits.reindex(columns=names).to_numpy(float):
            found += [(None, disturbed / blocks, MOST_DISTURBED)]
            found += [(None, noise, step_cost.MOST_NOISE)]
        found = [each for each in found if not math.isnan(each[1])]
        failed = [each for each in found if each[1] > each[2]]
        line = {"key": "measure.time_epoch.blocks", "value": BLOCKS}
        for size, value, bound in failed or found[:1]:
            values = {"batch_size": size if failed else None, "estimate": value, "bound": bound}
            yield _check("timings_disturbed", not failed, **values, **line)

    def _beyond(self, row: Row) -> Row:
        """Returns the line with a rate beyond the edge on which a size's best one lies."""
        runs = self.tables.runs.reindex(columns=["batch_size", RATE])
        own = runs.loc[runs["batch_size"] == row["batch_size"], RATE]
        tried = sorted(own.dropna().unique().tolist())
        if len(tried) < 2:
            return {"key": "vary.learning_rate"}
        low, high = tried[0] ** 2 / tried[1], tried[-1] ** 2 / tried[-2]
        rates = [*tried, high] if row[RATE] >= tried[-1] else [low, *tried]
        return {"key": "vary.learning_rate", "value": [*map(rounded, rates)]}

    def _longer(self, size: int | None) -> Row:
        runs = self.tables.runs.reindex(columns=["batch_size", EPOCHS])
        epochs = runs.loc[runs["batch_size"] == size, EPOCHS].max()
        return {"key": EPOCHS, "value": "" if pandas.isna(epochs) else 2 * int(epochs)}

    def needs(self) -> Iterator[Need]:
        """Yields what is missing, all at once."""
        found, minutes = self.trained, self.seconds[0] / 60 * self.replicates
        yield from advice_needs.missing(found, self.minutes_of_seed, minutes / max(found.rates, 1))
        taken = _at(self.tables, TARGET)
        falls = self.factors.get("schedule", horizons.CONSTANT) != horizons.CONSTANT
        first = any(row["reason"] == Reason.AT_FIRST_EVALUATION for row in self.unresolved)
        if first or (taken.empty and not falls and not found.elsewhere):
            yield Need("target", "evaluate_every", self._oftener(), minutes)
        elif len(taken) and taken["mean"].isna().all():
            yield Need("longer_training", *self._longer(int(taken.index[0])).values(), minutes)
        more = [row["seeds_to_resolve"] for row in self.unresolved]
        if self.replicates >= LEAST_SEEDS and any(map(pandas.notna, more)):
            seeds = int(max(filter(pandas.notna, more)))
            more_minutes = (seeds - self.replicates) * self.minutes_of_seed
            yield Need("seeds", "seeds", seeds, more_minutes, seeds)

    def _oftener(self) -> int | str:
        """Returns half the examples between two evaluations, or a quarter of an epoch."""
        runs = self.tables.runs.reindex(columns=["evaluate_every", "train_examples"])
        every, used = runs.max().fillna(0)
        return int(every // 2 or used // 4) or ""

    @functools.cached_property
    def trained(self) -> Trained:
        """What its runs are."""
        runs = self.tables.runs.reindex(columns=["batch_size", RATE, "train_seconds"])
        rates = runs.groupby("batch_size")[RATE].nunique().max() if len(runs) else 0
        only = float(runs[RATE].iloc[0]) if runs[RATE].nunique() == 1 else None
        timed = SECONDS in self.limits or bool(runs["train_seconds"].notna().any())
        outcomes = self.limits.keys() - {SECONDS, EXAMPLES}
        tested = any(not name.startswith("validation") for name in outcomes)
        elsewhere = self.factors.get("machine") == own_columns.ELSEWHERE
        sizes = sorted(map(int, self.tables.comparisons["batch_size"].unique()))
        return Trained(sizes, self.replicates, int(rates), only, timed, tested, elsewhere)


def _check(name: str, passed: Any, **values: Any) -> Row:
    line: Sequence[str] = () if passed else ("key", "value")
    found = {key: each for key, each in values.items() if key not in ("key", "value")}
    lines = {key: str(values[key]) for key in line if key in values}
    return {"name": name, "passed": int(passed), **found, **lines}
