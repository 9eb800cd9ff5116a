"""Rows of runs.csv and trajectories.csv in, cubes of numbers out: the trainings of one series.

A cube has one number per training, shape (sizes, rates, seeds); NaN without a run. A series has all
learning rates that were tried. The `choose_...` methods read each batch size at one of them, by the
rules of `chosen_rates`. A new number of a training is a method of `Trainings` that returns a cube,
made by `cube` from a number per run.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas
from pandas.api.types import is_numeric_dtype

from batchscope.analysis import chosen_rates, run_series
from batchscope.analysis.chosen_rates import RATE, rates_differ
from batchscope.store.records import FAILED, FINISHED, UNSUCCESSFUL
from batchscope.study import log_format, tasks
from batchscope.study.outcomes import AXES

Evaluations = dict[str, np.ndarray]  # column -> numbers of one run's evaluations, in order
RUN_LOSS = "best_validation_loss"  # column of runs.csv that chooses the rates
SINGLE_ROW_STOP = "end"  # reason why an external run with a single row stopped
_BUDGET_COLUMNS = (*AXES.values(), *log_format.COST_COLUMNS)


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

    def apply(self, cube: np.ndarray) -> Self:
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

    def with_seeds(self, seeds: Sequence[int]) -> Self:
        runs = self.runs[self.runs["seed"].isin(seeds)]
        evaluations = self.evaluations[self.evaluations["run"].isin(runs["run"])]
        return replace(self, runs=runs, evaluations=evaluations)

    @property
    def has_several_rates(self) -> bool:
        sizes, rates, _ = self._axis_columns
        return bool((rates.groupby(sizes).nunique() > 1).any())

    @functools.cached_property
    def _evaluations_of_runs(self) -> dict[str, Evaluations]:
        columns = dict.fromkeys((*_BUDGET_COLUMNS, *log_format.outcomes_with(self.metrics)))
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

    def evaluation_cube(self, read: Callable[[Evaluations], float]) -> np.ndarray:
        """Return `read(evaluations)` of each run as a cube; infinite if the run failed."""
        return self.cube(np.where(self.failed, math.inf, self.per_run(read)))

    def choose_by_losses(self, losses: np.ndarray, cube: np.ndarray, by_others: bool) -> Choice:
        """Return the numbers of a cube at the rates with the lowest losses.

        With `by_others`, each seed is read at the rate that the other seeds choose, else at the
        rate that all seeds choose.
        """
        chosen = chosen_rates.index_for_other_data(losses)
        index = np.repeat(chosen[:, None], losses.shape[2], axis=1)
        index_by_others = chosen_rates.leave_one_out(losses)[1]
        index_by_others = np.where((index < 0) | (index_by_others < 0), index, index_by_others)
        has_one_rate = chosen_rates.was_tried(losses).sum(axis=1) == 1
        best = chosen_rates.index_of_lowest_loss(losses)
        rates = self.rates_at(np.where(has_one_rate, chosen, best))
        on_edge = chosen_rates.is_on_edge(chosen, losses)
        read_index, tuned = index_by_others if by_others else index, rates_differ(index_by_others)
        return Choice(cube, rates, on_edge, read_index, tuned).apply(cube)

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
        tuned = rates_differ(np.transpose(choices))
        return Choice(losses, rates, on_edge, read_index, tuned).apply(losses)

    def choose_by_costs(self, cube: np.ndarray) -> Choice:
        """Return the costs, each seed at the rate with the lowest mean cost of the other seeds."""
        values, read_index = chosen_rates.leave_one_out(cube)
        tried, best = chosen_rates.was_tried(cube), chosen_rates.index_of_lowest_loss(cube)
        rates = self.rates_at(np.where(tried.sum(axis=1) == 1, tried.argmax(axis=1), best))
        on_edge, tuned = chosen_rates.is_on_edge(best, cube), rates_differ(read_index)
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
