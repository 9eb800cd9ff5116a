"""Rows of runs.csv and trajectories.csv in, cubes of numbers out: the trainings of one series.

A cube has one number per training, shape (sizes, rates, seeds); NaN without a run. A series has all
learning rates that were tried. The `choose_...` methods read each batch size at one of them, by the
rules of `chosen_rates`. A new number of a training is a method of `Trainings` that returns a cube,
made by `cube` from a number per run.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas
from pandas.api.types import is_numeric_dtype

from batchscope.analysis import chosen_rates, run_series, targets
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.targets import Target
from batchscope.store.records import FAILED, FINISHED, UNSUCCESSFUL
from batchscope.study import budget_kinds, external_columns, tasks

Evaluations = dict[str, np.ndarray]  # column -> numbers of one run's evaluations, in order
RUN_LOSS = "best_validation_loss"  # column of runs.csv that chooses the rates
N_TARGETS = 3  # number of targets of a series if the study states none; the last is the default
SINGLE_ROW_STOP = "end"  # reason why an external run with a single row stopped
_BUDGET_COLUMNS = (*budget_kinds.AXES.values(), *external_columns.COST_COLUMNS)


def series_over_rates(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return the series of a frame, each with all learning rates that were tried."""
    names = run_series.factor_columns(frame)
    if RATE in names and is_numeric_dtype(frame[RATE]):  # an external table may have texts
        names.remove(RATE)
    return run_series.split_series(frame, names)


class Choice(NamedTuple):
    """The chosen learning rates of a series, with one number per batch size and seed."""

    values: np.ndarray  # shape (sizes, seeds)
    rates: np.ndarray  # rate of each size, chosen by all seeds; NaN without a choice
    on_edge: np.ndarray  # whether it is the lowest or the highest of several, shape (sizes,)
    rate_index: np.ndarray  # index of the rate of each seed, shape (sizes, seeds); -1 without one
    # Whether the choice adds variance, shape (sizes,): seeds of a size are read at different rates,
    # or would be if the other seeds chose the rate of each seed.
    tuned: np.ndarray

    def apply(self, cube: np.ndarray) -> Choice:
        """Return the choice of the same rates with the values of another cube."""
        values = chosen_rates.values_at_rates(cube, np.maximum(self.rate_index, 0))
        return self._replace(values=np.where(self.rate_index < 0, math.nan, values))


@dataclass(frozen=True)
class Trainings:
    """The runs of one series and their evaluations, with their numbers as cubes."""

    factors: dict[str, Any]  # factors that distinguish the series from others of its experiment
    runs: pandas.DataFrame  # rows of runs.csv, also of runs without an evaluation
    evaluations: pandas.DataFrame  # rows of trajectories.csv, in order of updates
    metrics: tasks.Metrics = ()  # user-defined metrics

    @functools.cached_property
    def finished(self) -> pandas.DataFrame:
        return run_series.finished_runs(self.evaluations)

    def is_complete(self, name: str) -> bool:
        values = self.finished.get(name)
        return values is not None and len(values) > 0 and bool(values.notna().all())

    @functools.cached_property
    def _axis_columns(self) -> list[pandas.Series]:
        rates = self.runs.get(RATE, pandas.Series(math.nan, self.runs.index))
        return [self.runs["batch_size"], pandas.to_numeric(rates, "coerce"), self.runs["seed"]]

    @functools.cached_property
    def axes(self) -> tuple[list[int], list[float], list[int]]:
        """The batch sizes, learning rates and seeds along the axes of a cube."""
        sizes, rates, seeds = (np.unique(column).tolist() for column in self._axis_columns)
        return sizes, rates, seeds

    def with_first_seeds(self, seeds: int) -> Trainings:
        """Return the trainings of the first seeds, as at an earlier interim analysis."""
        runs = self.runs[self.runs["seed"].isin(self.axes[2][:seeds])]
        evaluations = self.evaluations[self.evaluations["run"].isin(runs["run"])]
        return replace(self, runs=runs, evaluations=evaluations)

    @property
    def has_several_rates(self) -> bool:
        """Whether a batch size was trained at several learning rates."""
        sizes, rates, _ = self._axis_columns
        return bool((rates.groupby(sizes).nunique() > 1).any())

    @functools.cached_property
    def _evaluations_of_runs(self) -> dict[str, Evaluations]:
        columns = dict.fromkeys((*_BUDGET_COLUMNS, *external_columns.outcomes_with(self.metrics)))
        names = [name for name in columns if name in self.evaluations]
        return {
            run: {name: rows[name].to_numpy(float, na_value=math.nan) for name in names}
            for run, rows in self.evaluations.groupby("run", sort=False)
        }

    def per_run(self, read: Callable[[Evaluations], float]) -> np.ndarray:
        """Return `read(evaluations)` of each run, shape (runs,); NaN without an evaluation."""
        evaluations = (self._evaluations_of_runs.get(run) for run in self.runs["run"])
        return np.array([read(rows) if rows else math.nan for rows in evaluations], float)

    def cube(self, values: Any) -> np.ndarray:
        """Return numbers of shape (runs,) as a cube."""
        result = np.full([*map(len, self.axes)], math.nan)
        pairs = zip(self.axes, self._axis_columns, strict=True)
        result[tuple(np.searchsorted(axis, column) for axis, column in pairs)] = values
        return result

    def outcome_cube(self, values: Any, higher_is_better: bool = False) -> np.ndarray:
        """Return the numbers of finished runs as a cube; a failed run has an infinitely bad one."""
        status = self.runs["status"]
        worst = -math.inf if higher_is_better else math.inf
        failed = np.where(status.isin(UNSUCCESSFUL), worst, math.nan)
        return self.cube(np.where(status == FINISHED, np.asarray(values, float), failed))

    def column_cube(self, name: str) -> np.ndarray:
        values = self.runs[name].to_numpy(float, na_value=math.nan) if name in self.runs else np.nan
        higher_is_better = tasks.higher_is_better(name, self.metrics)
        return self.outcome_cube(np.broadcast_to(values, len(self.runs)), higher_is_better)

    @functools.cached_property
    def epochs_run(self) -> dict[int, float]:
        """Batch size -> largest number of epochs of a finished run, where epochs are known."""
        if "epoch" not in self.finished:
            return {}
        epochs = self.finished.groupby("batch_size")["epoch"].max().dropna()
        return {int(size): float(number) for size, number in epochs.items()}

    @functools.cached_property
    def failed(self) -> np.ndarray:
        """Whether each training diverged or ran out of memory, shape (runs,)."""
        return self.runs["status"].isin(FAILED).to_numpy()

    def _cube_of_runs(self, read: Callable[[Evaluations], float]) -> np.ndarray:
        """Return `read(evaluations)` of each run as a cube; infinite if the run failed."""
        return self.cube(np.where(self.failed, math.inf, self.per_run(read)))

    def cost_cube(self, target: Target, axis: str) -> np.ndarray:
        """Return the cost to a target as a cube; infinite for a run that never reached it."""
        return self._cube_of_runs(lambda rows: target.crossing(rows, axis, self.metrics))

    def reached_at_first(self, target: Target) -> np.ndarray:
        """Return as a cube whether each run reached the target by its first evaluation."""
        reached = self.per_run(lambda rows: target.is_reached_at_first(rows, self.metrics))
        return self.cube(reached * ~self.failed) == 1

    def choose_by_losses(self, losses: np.ndarray, cube: np.ndarray, by_others: bool) -> Choice:
        """Return the numbers of a cube at the rates with the lowest losses.

        All seeds choose the rate of a seed, or only the others do.
        """
        chosen = chosen_rates.index_for_other_data(losses)
        index = np.repeat(chosen[:, None], losses.shape[2], axis=1)
        index_by_others = chosen_rates.leave_one_out(losses)[1]
        index_by_others = np.where((index < 0) | (index_by_others < 0), index, index_by_others)
        read_index = index_by_others if by_others else index
        values = np.where(read_index < 0, math.nan, chosen_rates.values_at_rates(cube, read_index))
        has_one_rate = chosen_rates.was_tried(losses).sum(axis=1) == 1
        best = chosen_rates.index_of_lowest_loss(losses)
        rates = self.rates_at(np.where(has_one_rate, chosen, best))
        tuned = chosen_rates.rates_differ(index_by_others)
        on_edge = chosen_rates.is_on_edge(chosen, losses)
        return Choice(values, rates, on_edge, read_index, tuned)

    def choose_for_all_data(self, losses: np.ndarray, costs: np.ndarray, margin: float) -> Choice:
        """Return the losses at the rates for all data (see `chosen_rates.index_for_all_data`)."""
        index, on_edge = chosen_rates.index_for_all_data(losses, costs, margin)
        choices, seeds = [index], losses.shape[2]
        for seed in range(seeds) if seeds > 1 else ():
            remaining = (np.delete(cube, seed, axis=2) for cube in (losses, costs))
            choices.append(chosen_rates.index_for_all_data(*remaining, margin)[0])
        usable = chosen_rates.index_of_lowest_loss(losses) >= 0
        usable |= chosen_rates.was_tried(losses).sum(axis=1) == 1
        rates = self.rates_at(np.where(usable, index, -1))
        read_index = np.transpose([index] * seeds)
        tuned = chosen_rates.rates_differ(np.transpose(choices))
        return Choice(losses, rates, on_edge, read_index, tuned).apply(losses)

    def choose_by_costs(self, cube: np.ndarray) -> Choice:
        """Return the costs, each seed at the rate with the lowest mean cost of the other seeds."""
        values, read_index = chosen_rates.leave_one_out(cube)
        tried, best = chosen_rates.was_tried(cube), chosen_rates.index_of_lowest_loss(cube)
        rates = self.rates_at(np.where(tried.sum(axis=1) == 1, tried.argmax(axis=1), best))
        on_edge, tuned = chosen_rates.is_on_edge(best, cube), chosen_rates.rates_differ(read_index)
        return Choice(values, rates, on_edge, read_index, tuned)

    def cell_means(self, cube: np.ndarray, geometric: bool) -> Iterator[dict[str, Any]]:
        """Yield the mean of a cube over seeds by size and tried rate; NaN unless all are finite."""
        sizes, rates, _ = self.axes
        failed = self.cube(self.failed) == 1
        for (row, size), (column, rate) in itertools.product(enumerate(sizes), enumerate(rates)):
            values = cube[row, column][~np.isnan(cube[row, column])]
            finite = np.isfinite(values)
            mean = math.nan
            if len(values) and finite.all():
                mean = float(np.exp(np.log(values).mean()) if geometric else values.mean())
            counts = {"seeds": len(values), "finite": int(finite.sum())}
            counts["failed"] = int(failed[row, column].sum())
            if len(values):
                yield {"batch_size": size, "learning_rate": rate, **counts, "mean": mean}

    def rates_at(self, index: np.ndarray) -> np.ndarray:
        """Return the learning rates at indices; NaN for the index -1."""
        return np.array([*self.axes[1], math.nan])[index]

    @property
    def target_column(self) -> str | None:
        """Column of the default targets: a loss, or else a metric; None without either."""
        rows = self.evaluations
        names = (name for name in external_columns.outcomes_with(self.metrics) if name in rows)
        return next((name for name in names if np.isfinite(rows[name].astype(float)).any()), None)

    def default_target(self) -> Target | None:
        """Return the target of a series if the study states none (see `targets.default_value`)."""
        column = self.target_column
        if column is None or not self.evaluations["run"].duplicated().any():
            return None
        ends = self.finished.astype({"examples": float}).groupby("run")["examples"].max()
        # Runs with equal numbers of examples have equal numbers of epochs.
        equal_examples = ends.min() * (1 + targets.ROUNDING)

        def lowest_loss(rows: Evaluations, max_examples: float = math.inf) -> float:
            has_update = ~np.isnan(rows["updates"])
            if not has_update.any():
                return math.nan  # the run is missing
            losses = targets.as_losses(rows, column, self.metrics)
            kept = has_update & np.isfinite(losses) & ~(rows["examples"] > max_examples)
            return float(np.min(losses[kept], initial=math.inf))

        value = targets.default_value(
            self._cube_of_runs(lambda rows: self._first_loss(rows, column)),
            self._cube_of_runs(lambda rows: lowest_loss(rows, equal_examples)),
            self._cube_of_runs(lowest_loss),
        )
        return None if math.isnan(value) else self._target(column, value)

    def _first_loss(self, rows: Evaluations, column: str) -> float:
        """Return the first finite loss of a run; NaN without one."""
        losses = targets.as_losses(rows, column, self.metrics)
        return next(filter(math.isfinite, losses.tolist()), math.nan)

    def _target(self, column: str, loss: float) -> Target:
        return Target(column, tasks.where_lower_is_better(loss, column, self.metrics))

    def targets_up_to(self, last: Target | None) -> list[Target]:
        """Return three targets at equal steps of the logarithm of the loss, ending with `last`.

        The first step starts at the lowest loss after a first evaluation. If that loss is already
        below the last target, `last` is the only target.
        """
        if last is None:
            return []
        firsts = self.per_run(lambda rows: self._first_loss(rows, last.column))
        start = float(np.min(firsts[np.isfinite(firsts)], initial=math.inf))
        end = tasks.where_lower_is_better(last.value, last.column, self.metrics)
        if not 0 < end < start < math.inf:
            return [last]
        losses = [start * (end / start) ** (step / N_TARGETS) for step in range(1, N_TARGETS)]
        return [*(self._target(last.column, loss) for loss in losses), last]


def end_at_equal_budget(runs: pandas.DataFrame) -> bool:
    """Return whether external runs have a single row each, at their end."""
    return "stop_reason" in runs and bool((runs["stop_reason"] == SINGLE_ROW_STOP).any())


def for_experiment(
    runs: pandas.DataFrame, evaluations: pandas.DataFrame, metrics: tasks.Metrics = ()
) -> list[Trainings]:
    """Return the trainings of every series of an experiment."""
    if runs.empty:
        return []
    keys = [name for name in ("run", "machine") if name in runs and name in evaluations]
    varying, result = run_series.varying_factors(runs), []
    # A series keeps a constant text as a factor, but no number that follows from other factors.
    texts = [name for name in varying if not is_numeric_dtype(runs[name])]
    for group in series_over_rates(runs):
        is_constant = group.frame.nunique(dropna=False) == 1
        constant_texts = [name for name in texts if is_constant[name]]
        kept = [name for name in varying if name in (*group.factors, *constant_texts)]
        rows = evaluations.merge(group.frame[keys], on=keys).sort_values("updates", kind="stable")
        factors = {name: group.frame[name].iloc[0] for name in kept}
        result.append(Trainings(factors, group.frame, rows, metrics))
    return result
