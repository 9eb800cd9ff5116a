"""Rows of tables in, facts about a series out: limits of its sizes, recommended size and range.

A size is within the limits if it fits into memory, reaches the target within a share of the fastest
size's seconds, and is within the margin of every outcome. The verdicts are those of
comparisons.csv: nothing is tested again. `advice` makes rows of the facts. A new fact is a property
of `AdviceSeries`.
"""

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import comparisons, run_series, trainings, verdicts
from batchscope.study import run_factors, tasks
from batchscope.study.outcomes import (
    COST_KINDS,
    COSTS,
    EXAMPLES,
    MIN_SEEDS,
    MIN_SEEDS_FOR_INTERVAL,
    SECONDS,
    TARGET,
    Reason,
    Verdict,
    end_kinds,
)
from batchscope.study.run_factors import TIMING_FACTORS
from batchscope.study.suggestions import MIN_SIZES, TRAINING_KEYS, TrainingSummary

MAX_DISTURBED_SHARE = 0.25  # share of disturbed blocks above which sizes are not ranked by seconds
CRITICAL, RATE = "critical_batch_size", "learning_rate"
_MACHINE_COLUMNS = {"machine", "dataset", "dataset_digest", "model", "model_digest", "device"}
MAX_FITS = "most_fits"  # bound of the largest batch size if every one that was tried fits
Row = dict[str, Any]


class AdviceTables(NamedTuple):
    """The tables behind the advice on one experiment, or on one of its series."""

    comparisons: pandas.DataFrame
    runs: pandas.DataFrame = pandas.DataFrame()
    limits: pandas.DataFrame = pandas.DataFrame()
    critical: pandas.DataFrame = pandas.DataFrame()
    trajectories: pandas.DataFrame = pandas.DataFrame()
    race: pandas.DataFrame = pandas.DataFrame()


class AdviceRequest(NamedTuple):
    """Facts about an experiment besides its tables."""

    margins: Mapping[str, float] = {}  # outcome -> stated largest negligible deterioration
    planned: int | None = None  # stated number of seeds
    analyses: Sequence[int] = ()  # numbers of seeds at the interim analyses; empty without stages
    # Data set -> outcome -> value of the best constant prediction.
    baselines: Mapping[str, Mapping[str, float]] = {}
    # Function from runs to the seconds of one more seed, in trainings and in timings.
    price: Callable[[Iterable[str]], tuple[float, float]] = lambda runs: (math.nan, math.nan)
    keys_to_add: Mapping[str, tuple[str, str]] = TRAINING_KEYS  # as in `TrainingSummary`
    timed: bool = False  # whether the runs have seconds
    by_position: Collection[str] = ()  # data sets with a label for each position of an example
    best_weights: bool = False  # whether `evaluate` measures the weights of the best epoch
    metrics: tasks.Metrics = ()  # user-defined metrics


@dataclass(frozen=True)
class AdviceSeries:
    """A series with several batch sizes, and its rows of the tables."""

    tables: AdviceTables
    request: AdviceRequest
    factors: Row  # factors that are constant in the series
    seed_seconds: tuple[float, float]  # seconds of one more seed, in trainings and in timings

    @functools.cached_property
    def sizes(self) -> list[int]:
        return sorted(map(int, self.tables.comparisons["batch_size"].unique()))

    @functools.cached_property
    def limits(self) -> pandas.DataFrame:
        """The rows of comparisons.csv that limit the sizes, one outcome after the other.

        The cost to the target comes first: seconds if any are known, or examples if the timings
        were disturbed. Every outcome with a stated margin follows, or else the first outcome.
        Without any of these the examples to the target limit the sizes. Two columns are added:
        `within`, and `excluded` (beyond the margin, or with a failed run).
        """
        compared = self.tables.comparisons
        measured = [name for name in self.outcomes_at_end if name not in COSTS]
        names = [name for name in self.request.margins if name in measured] or measured[:1]
        limits = [limit_rows(compared, name) for name in names]
        seconds, examples = (limit_rows(compared, name) for name in (SECONDS, EXAMPLES))
        cost = seconds if self.are_times_usable else examples
        if not limits and cost["mean"].isna().all() and examples["mean"].notna().any():
            limits = [examples]
        if (cost["reason"] != Reason.NO_VALUE).any():
            limits = [cost, *limits]
        rows = pandas.concat([compared.iloc[:0], *limits])
        verdict = verdicts.verdicts_of_intervals(rows)
        failed = rows["reason"].isin([Reason.FAILED, Reason.NOT_REACHED])
        failed &= rows["verdict"] == Verdict.NOT_TESTABLE
        excluded = failed | (verdict == Verdict.BEYOND)
        return rows.assign(within=verdict == Verdict.WITHIN, excluded=excluded)

    @property
    def outcomes_at_end(self) -> list[str]:
        """The outcomes with a mean at the ends of the runs."""
        rows = self.rows_at_budgets(*end_kinds(self.tables.comparisons["budget"].unique()))
        return rows.loc[rows["mean"].notna(), "outcome"].unique().tolist()

    @functools.cached_property
    def disturbed_share(self) -> float:
        """The share of disturbed blocks in the timing jobs behind the seconds; NaN if unknown."""
        jobs = self.run_columns("batch_size", "seed", "disturbed_share").drop_duplicates()
        if jobs["disturbed_share"].notna().any():
            return float(jobs["disturbed_share"].mean())
        blocks = self.tables.limits.reindex(columns=["disturbed_blocks", "blocks"]).astype(float)
        return float((blocks["disturbed_blocks"] / blocks["blocks"]).max())

    @property
    def are_times_usable(self) -> bool:
        return not self.disturbed_share > MAX_DISTURBED_SHARE

    @property
    def outcomes(self) -> list[str]:
        """The outcomes that limit the sizes, without the cost to the target."""
        return [name for name in self.limits["outcome"].unique() if name not in COSTS]

    @functools.cached_property
    def memory_limit_row(self) -> Row:
        """The row of the machine's limits with the fewest examples that fit; empty without one."""
        rows = self.tables.limits.reindex(columns=["max_batch_size", "max_batch_size_bound"])
        rows = rows.dropna(subset="max_batch_size").sort_values("max_batch_size")
        return next(iter(rows.to_dict("records")), {})

    @functools.cached_property
    def memory_limit(self) -> float:
        """The largest batch that fits; infinite if unknown."""
        row = self.memory_limit_row
        is_known = row and row["max_batch_size_bound"] != MAX_FITS
        return float(row["max_batch_size"]) if is_known else math.inf

    def excluded_sizes(self, outcomes: Iterable[str] | None = None) -> set[int]:
        """Return the sizes that memory excludes, or a limit of `outcomes` (of any by default)."""
        rows = self.limits[self.limits["excluded"]]
        rows = rows if outcomes is None else rows[rows["outcome"].isin([*outcomes])]
        return {*rows["batch_size"], *(size for size in self.sizes if size > self.memory_limit)}

    @functools.cached_property
    def sizes_within(self) -> list[int]:
        sizes = {*self.sizes} - {*self.limits.loc[~self.limits["within"], "batch_size"]}
        return sorted(size for size in sizes if size <= self.memory_limit)

    @functools.cached_property
    def has_learned(self) -> dict[int, bool]:
        """Size -> whether the interval of the first metric, if any, is better than the baseline."""
        rows = self.metric_rows
        rows = rows[rows["seeds"] >= MIN_SEEDS_FOR_INTERVAL]
        if rows.empty or math.isnan(self.baseline):
            return {}
        low, high = rows["mean_low"].astype(float), rows["mean_high"].astype(float)
        higher_is_better = comparisons.higher_is_better(rows).iloc[0]
        is_better = low > self.baseline if higher_is_better else high < self.baseline
        return dict(zip(rows["batch_size"].astype(int), is_better.tolist(), strict=True))

    @property
    def baseline(self) -> float:
        """The first metric of the best constant prediction; NaN if unknown."""
        baselines = self.request.baselines.get(str(self.factors.get("dataset")), {})
        return float(baselines.get(next(iter(self.metric_rows["outcome"]), ""), math.nan))

    @functools.cached_property
    def metric_rows(self) -> pandas.DataFrame:
        """The rows of the first metric that was measured at the end; empty without one."""
        metrics = (
            name for name in self.outcomes_at_end if tasks.metric(name, self.request.metrics)
        )
        rows = limit_rows(self.tables.comparisons, next(metrics, ""))
        return rows[rows["mean"].notna()]

    @functools.cached_property
    def candidates(self) -> list[int]:
        """The measured sizes that nothing excludes; if some of them learned, only these."""
        measured = {*self.limits.loc[self.limits["mean"].notna(), "batch_size"]}
        sizes = [size for size in self.sizes if size in measured - self.excluded_sizes()]
        return [size for size in sizes if self.has_learned.get(size, True)] or sizes

    @functools.cached_property
    def recommended_size(self) -> int | None:
        """The best candidate, within every limit if any is.

        Without candidates it is the best size that no outcome excludes, or else the best that fits
        into memory.
        """
        within = [size for size in self.candidates if size in self.sizes_within]
        fallbacks = ({*self.sizes} - self.excluded_sizes(names) for names in (self.outcomes, ()))
        pools = map(self._best, (within, self.candidates, *fallbacks))
        return next((size for size in pools if size is not None), None)

    def _best(self, sizes: Collection[int]) -> int | None:
        """Return the best of some sizes by the first limit with a value of one of them."""
        rows = self.limits[self.limits["batch_size"].isin(sizes) & self.limits["mean"].notna()]
        first_outcome = next(iter(rows["outcome"]), "")
        return comparisons.best_batch_size(rows[rows["outcome"] == first_outcome])

    @functools.cached_property
    def size_range(self) -> list[int]:
        """The recommended size and adjacent sizes within all limits; alone if it is not within."""
        if self.recommended_size not in self.sizes_within:
            return [] if self.recommended_size is None else [self.recommended_size]
        groups = itertools.groupby(self.sizes, key=self.sizes_within.__contains__)
        adjacent = ([*sizes] for _, sizes in groups)
        return next(sizes for sizes in adjacent if self.recommended_size in sizes)

    @functools.cached_property
    def neighbours(self) -> list[int]:
        pairs = itertools.pairwise(self.sizes)
        inside = {*self.size_range}
        return [size for pair in pairs if {*pair} & inside for size in {*pair} - inside]

    @functools.cached_property
    def unresolved_limits(self) -> pandas.DataFrame:
        """The undecided limits of the recommended size and of the neighbours of the range."""
        undecided = {self.recommended_size} - {*self.sizes_within}
        sizes = {*self.neighbours} - self.excluded_sizes() | undecided
        rows = self.limits[self.limits["batch_size"].isin(sizes)]
        return rows[rows["verdict"] != Verdict.WITHIN]

    @functools.cached_property
    def replicates(self) -> int:
        """Number of paired replicates of the recommended size; without any, of its seeds.

        It is the smallest of a limit, since times may have fewer jobs. With seeds in stages it is
        the largest: a comparison has the seeds of the analysis that decided it.
        """
        pairs = self.limits.loc[self.limits["batch_size"] == self.recommended_size, "n"].fillna(0)
        count = max if self.request.analyses else min
        return int(count(pairs[pairs > 0], default=self.tables.comparisons["seeds"].max()))

    @property
    def has_schedule(self) -> bool:
        return self.factors.get("schedule") in run_factors.FALLING

    @property
    def training_minutes(self) -> float:
        """Minutes of one core that the trainings of all replicates took; NaN if unknown."""
        return self.seed_seconds[0] / 60 * self.replicates

    @functools.cached_property
    def critical_fit(self) -> Row:
        """The fit of the critical batch size at the compared target; empty without one."""
        target, fits = self.rows_at_budgets(TARGET), self.tables.critical
        if target.empty or fits.empty:
            return {}
        value, column = target[["budget_value", "budget_column"]].iloc[0]
        same_column = fits["target_column"].fillna("").eq("" if pandas.isna(column) else column)
        same_value = np.isclose(fits["target_value"].astype(float), float(value), equal_nan=True)
        return next(iter(fits[same_column & same_value].to_dict("records")), {})

    @functools.cached_property
    def training_summary(self) -> TrainingSummary:
        """The properties of the trainings that decide about missing requirements."""
        runs = self.run_columns("batch_size", RATE, "train_seconds")
        # Ends at equal updates rank no sizes, but have outcomes.
        names = self.outcomes or self.tables.comparisons["outcome"].unique()
        outcomes = [name for name in names if name not in COSTS]
        rates = runs.groupby("batch_size")[RATE].nunique().min() if len(runs) else 0
        compared = (self.limits["outcome"] == SECONDS).any()
        # Stages begin with six seeds, so fewer seeds are no missing requirement.
        seeds = max(self.replicates, MIN_SEEDS) if self.request.analyses else self.replicates
        return TrainingSummary(
            self.sizes,
            seeds,
            int(rates),
            float(runs[RATE].iloc[0]) if runs[RATE].nunique() == 1 else None,
            bool(compared or self.request.timed or runs["train_seconds"].notna().any()),
            any(not name.startswith("validation") for name in outcomes),
            self.request.keys_to_add,
            next((name.partition("_")[2] for name in outcomes), "accuracy"),
        )

    def rate_of_size(self, size: int) -> float:
        """Return the learning rate of a size: of its first limit with a rate; NaN without one."""
        rates = self.limits.loc[self.limits["batch_size"] == size, RATE].dropna()
        return float(rates.iloc[0]) if len(rates) else math.nan

    def tried_rates(self, size: int | None = None) -> np.ndarray:
        """Return the learning rates of all runs, or of the runs of one size, ascending."""
        runs = self.run_columns("batch_size", RATE)
        runs = runs if size is None else runs[runs["batch_size"] == size]
        return np.sort(pandas.to_numeric(runs[RATE], errors="coerce").dropna().unique())

    def rows_at_budgets(self, *budgets: str) -> pandas.DataFrame:
        return self.tables.comparisons[self.tables.comparisons["budget"].isin(budgets)]

    def run_columns(self, *columns: str) -> pandas.DataFrame:
        return self.tables.runs.reindex(columns=[*columns])


def from_tables(tables: AdviceTables, request: AdviceRequest) -> Iterator[AdviceSeries]:
    """Yield every series with three batch sizes or more, with its rows of the tables."""
    for series in trainings.series_over_rates(tables.comparisons):
        if series.frame["batch_size"].nunique() < MIN_SIZES:
            continue
        values = run_series.constant_factors(series.frame.drop(columns=RATE)).items()
        factors = {name: value for name, value in values if value is not None}
        runs = select_factors(run_series.of_this_machine(tables.runs), factors)
        configured = runs.reindex(columns=[*{*_MACHINE_COLUMNS, *TIMING_FACTORS} - {"batch_size"}])
        timed_factors = configured.iloc[0].to_dict() if len(runs) else {}
        series_tables = AdviceTables(
            series.frame,
            runs,
            select_factors(tables.limits, timed_factors),
            *(select_factors(table, factors) for table in tables[3:]),
        )
        seed_seconds = request.price(runs["run"]) if "run" in runs else (math.nan, math.nan)
        yield AdviceSeries(series_tables, request, factors, seed_seconds)


def limit_rows(compared: pandas.DataFrame, outcome: str) -> pandas.DataFrame:
    """Return the comparisons of an outcome that limit batch sizes: at its first budget with means.

    A cost is compared at a target or at equal ends, any other outcome at the ends of the runs.
    """
    kinds = COST_KINDS if outcome in COSTS else end_kinds(compared["budget"].unique())
    rows = compared[compared["outcome"].eq(outcome) & compared["budget"].isin(kinds)]
    budgets = [*rows.loc[rows["mean"].notna(), "budget"], *rows["budget"]]
    return rows[rows["budget"].isin(budgets[:1])]


def select_factors(frame: pandas.DataFrame, factors: Row) -> pandas.DataFrame:
    """Return the rows with these factors; a row with a missing factor matches any value."""
    for name in factors.keys() & {*frame}:
        if pandas.notna(value := factors[name]):
            frame = frame[frame[name].eq(value) | frame[name].isna()]
    return frame
