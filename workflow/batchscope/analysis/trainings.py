"""The trainings of one series, with one number of each: of a column, at a budget, to a target.

A series holds all its learning rates; each batch size is read at one of them. Numbers are a cube of
shape (sizes, rates, seeds), NaN without a run.
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

Evaluated = dict[str, np.ndarray]  # column -> numbers of one training's evaluations, in order
CHOSEN_ON = "best_validation_loss"  # column of runs.csv that chooses the rates
TARGETS = 3  # default targets of a series
_USED = (*budget_kinds.AXES.values(), *external_columns.AXES)


def series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return the series of a frame, each with all learning rates that were tried.

    Rates in words, such as in an external table, distinguish series.
    """
    names = run_series.factor_columns(frame)
    if RATE in names and is_numeric_dtype(frame[RATE]):
        names.remove(RATE)
    return run_series.series(frame, names)


class Chosen(NamedTuple):
    """One number of each training of a series, each batch size at its chosen rate.

    Attributes:
        values: Shape (sizes, seeds).
        rates: Rate of each size, chosen by all seeds; NaN without a choice.
        on_edge: Whether it is the lowest or the highest of several rates, shape (sizes,).
        read: Index of the rate of each seed, shape (sizes, seeds); -1 without one.
        tuned: Whether seeds of a size are read at different rates, or would be if the other seeds
            chose the rate of each seed: the choice adds variance.
    """

    values: np.ndarray
    rates: np.ndarray
    on_edge: np.ndarray
    read: np.ndarray
    tuned: np.ndarray

    def apply(self, cube: np.ndarray) -> Chosen:
        values = chosen_rates.at(cube, np.maximum(self.read, 0))
        return self._replace(values=np.where(self.read < 0, math.nan, values))


@dataclass(frozen=True)
class Trainings:
    """The trainings of one series."""

    factors: dict[str, Any]  # those that distinguish it, of all that vary in its experiment
    runs: pandas.DataFrame  # rows of runs.csv: those that left no evaluation too
    evaluations: pandas.DataFrame  # rows of trajectories.csv, in order of updates
    metrics: tasks.Metrics = ()  # user-defined metrics

    @functools.cached_property
    def finished(self) -> pandas.DataFrame:
        return run_series.finished(self.evaluations)

    def is_complete(self, name: str) -> bool:
        values = self.finished.get(name)
        return values is not None and len(values) > 0 and bool(values.notna().all())

    @functools.cached_property
    def _columns(self) -> list[pandas.Series]:
        rates = self.runs.get(RATE, pandas.Series(math.nan, self.runs.index))
        return [self.runs["batch_size"], pandas.to_numeric(rates, "coerce"), self.runs["seed"]]

    @functools.cached_property
    def axes(self) -> tuple[list[int], list[float], list[int]]:
        sizes, rates, seeds = (np.unique(column).tolist() for column in self._columns)
        return sizes, rates, seeds

    def first(self, seeds: int) -> Trainings:
        runs = self.runs[self.runs["seed"].isin(self.axes[2][:seeds])]
        evaluations = self.evaluations[self.evaluations["run"].isin(runs["run"])]
        return replace(self, runs=runs, evaluations=evaluations)

    @property
    def tuned(self) -> bool:
        sizes, rates, _ = self._columns
        return bool((rates.groupby(sizes).nunique() > 1).any())

    @functools.cached_property
    def _evaluated(self) -> dict[str, Evaluated]:
        names = [
            name
            for name in dict.fromkeys((*_USED, *external_columns.outcomes(self.metrics)))
            if name in self.evaluations
        ]
        return {
            run: {name: rows[name].to_numpy(float, na_value=math.nan) for name in names}
            for run, rows in self.evaluations.groupby("run", sort=False)
        }

    def by_run(self, read: Callable[[Evaluated], float]) -> np.ndarray:
        """Return a number read of each run's evaluations, shape (runs,); NaN of none."""
        evaluated = (self._evaluated.get(run) for run in self.runs["run"])
        return np.array([read(rows) if rows else math.nan for rows in evaluated], float)

    def cube(self, values: Any) -> np.ndarray:
        """Return one number per run as a cube."""
        result = np.full([*map(len, self.axes)], math.nan)
        places = zip(self.axes, self._columns, strict=True)
        result[tuple(np.searchsorted(axis, column) for axis, column in places)] = values
        return result

    def outcome(self, values: Any, higher_is_better: bool = False) -> np.ndarray:
        """Return the numbers of the runs that finished as a cube; infinitely bad of a failed."""
        status = self.runs["status"]
        failed = np.where(
            status.isin(UNSUCCESSFUL), -math.inf if higher_is_better else math.inf, math.nan
        )
        return self.cube(np.where(status == FINISHED, np.asarray(values, float), failed))

    def column(self, name: str) -> np.ndarray:
        values = self.runs[name].to_numpy(float, na_value=math.nan) if name in self.runs else np.nan
        higher_is_better = tasks.higher_is_better(name, self.metrics)
        return self.outcome(np.broadcast_to(values, len(self.runs)), higher_is_better)

    @functools.cached_property
    def epochs_run(self) -> dict[int, float]:
        """Largest number of epochs of a finished run, for each batch size with known epochs."""
        if "epoch" not in self.finished:
            return {}
        epochs = self.finished.groupby("batch_size")["epoch"].max().dropna()
        return {int(size): float(number) for size, number in epochs.items()}

    @functools.cached_property
    def failed(self) -> np.ndarray:
        """Whether each training diverged or ran out of memory, shape (runs,)."""
        return self.runs["status"].isin(FAILED).to_numpy()

    def cost_to(self, target: Target, axis: str) -> np.ndarray:
        """Return the cost of each training to a target as a cube; infinite if it is not reached."""
        costs = self.by_run(lambda rows: target.crossing(rows, axis, self.metrics))
        return self.cube(np.where(self.failed, math.inf, costs))

    def at_first(self, target: Target) -> np.ndarray:
        """Return whether each is at a target by its first evaluation, as a cube; none failed."""
        at_first = self.by_run(lambda rows: target.at_first(rows, self.metrics))
        return self.cube(at_first * ~self.failed) == 1

    def chosen_by(self, losses: np.ndarray, cube: np.ndarray, by_others: bool) -> Chosen:
        """Return numbers of a cube at the rates that the cube of losses chooses.

        All seeds choose the rate of a seed, or only the others do. A size has no rate and no values
        if every rate lacks a run.
        """
        chosen = chosen_rates.for_other_data(losses)
        index = np.repeat(chosen[:, None], losses.shape[2], axis=1)
        of_others = chosen_rates.leave_one_out(losses)[1]
        of_others = np.where((index < 0) | (of_others < 0), index, of_others)
        read = of_others if by_others else index
        values = np.where(read < 0, math.nan, chosen_rates.at(cube, read))
        only = chosen_rates.tried(losses).sum(axis=1) == 1
        rates = self.rates(np.where(only, chosen, chosen_rates.by_lowest(losses)))
        tuned = chosen_rates.differ(of_others)
        return Chosen(values, rates, chosen_rates.on_edge(chosen, losses), read, tuned)

    def chosen_for_all(self, losses: np.ndarray, costs: np.ndarray, margin: float) -> Chosen:
        """Return losses at the rates for all data (see `chosen_rates.for_all_data`)."""
        index, on_edge = chosen_rates.for_all_data(losses, costs, margin)
        choices, seeds = [index], losses.shape[2]
        for seed in range(seeds) if seeds > 1 else ():
            remaining = (np.delete(cube, seed, axis=2) for cube in (losses, costs))
            choices.append(chosen_rates.for_all_data(*remaining, margin)[0])
        usable = chosen_rates.by_lowest(losses) >= 0
        usable |= chosen_rates.tried(losses).sum(axis=1) == 1
        rates, read = self.rates(np.where(usable, index, -1)), np.transpose([index] * seeds)
        tuned = chosen_rates.differ(np.transpose(choices))
        return Chosen(losses, rates, on_edge, read, tuned).apply(losses)

    def chosen_by_itself(self, cube: np.ndarray) -> Chosen:
        """Return costs, each seed at the rate with the lowest cost of the others.

        A cost is infinite if no other seed got there at any rate.
        """
        values, read = chosen_rates.leave_one_out(cube)
        tried, best = chosen_rates.tried(cube), chosen_rates.by_lowest(cube)
        rates = self.rates(np.where(tried.sum(axis=1) == 1, tried.argmax(axis=1), best))
        on_edge = chosen_rates.on_edge(best, cube)
        return Chosen(values, rates, on_edge, read, chosen_rates.differ(read))

    def cells(self, cube: np.ndarray, geometric: bool) -> Iterator[dict[str, Any]]:
        """Yield each batch size and rate that was tried, with the mean of a cube over its seeds.

        `finite` counts the seeds with a finite value; the mean is NaN unless all have one.
        """
        sizes, rates, _ = self.axes
        failed = self.cube(self.failed) == 1
        for (at, size), (index, rate) in itertools.product(enumerate(sizes), enumerate(rates)):
            values = cube[at, index][~np.isnan(cube[at, index])]
            finite = np.isfinite(values)
            mean = math.nan
            if len(values) and finite.all():
                mean = float(np.exp(np.log(values).mean()) if geometric else values.mean())
            counts = {"seeds": len(values), "finite": int(finite.sum())}
            counts["failed"] = int(failed[at, index].sum())
            if len(values):
                yield {"batch_size": size, "learning_rate": rate, **counts, "mean": mean}

    def rates(self, index: np.ndarray) -> np.ndarray:
        """Return the rates at indices; NaN at -1."""
        return np.array([*self.axes[1], math.nan])[index]

    @property
    def target_column(self) -> str | None:
        """Column of default targets: a loss, or else a metric; None without one."""
        rows = self.evaluations
        names = (name for name in external_columns.outcomes(self.metrics) if name in rows)
        return next((name for name in names if np.isfinite(rows[name].astype(float)).any()), None)

    def default_target(self) -> Target | None:
        """Return the target of a series that states none (see `targets.default_value`).

        The single row of an external run is its target, without a column.
        """
        if at_own_targets(self.runs):
            return Target()
        column = self.target_column
        if column is None or not self.evaluations["run"].duplicated().any():
            return None
        losses_of = functools.partial(targets.losses_of, column=column, metrics=self.metrics)
        ends = self.finished.astype({"examples": float}).groupby("run")["examples"].max()
        equal = ends.min() * (1 + targets.ROUNDING)  # equal examples are equal epochs

        def lowest(evaluated: Evaluated, max_examples: float = math.inf) -> float:
            evaluations = ~np.isnan(evaluated["updates"])
            if not evaluations.any():
                return math.nan  # a run that is missing
            losses = losses_of(evaluated)
            kept = evaluations & np.isfinite(losses) & ~(evaluated["examples"] > max_examples)
            return float(np.min(losses[kept], initial=math.inf))

        def cube(read: Callable[[Evaluated], float]) -> np.ndarray:
            return self.cube(np.where(self.failed, math.inf, self.by_run(read)))

        value = targets.default_value(
            cube(lambda evaluated: _first(losses_of(evaluated))),
            cube(lambda evaluated: lowest(evaluated, equal)),
            cube(lowest),
        )
        if math.isnan(value):
            return None
        return Target(column, tasks.falling(value, column, self.metrics))

    def targets_up_to(self, last: Target | None) -> list[Target]:
        """Return three targets, the last one given, equal steps of the logarithm of the loss apart.

        The first step starts at the least loss after a first evaluation. If that loss is already
        below the last target, there is no other target.
        """
        if last is None or not last.column:
            return [] if last is None else [last]
        column, metrics = last.column, self.metrics
        firsts = self.by_run(lambda rows: _first(targets.losses_of(rows, column, metrics)))
        start = float(np.min(firsts[np.isfinite(firsts)], initial=math.inf))
        end = tasks.falling(last.value, column, metrics)
        if not 0 < end < start < math.inf:
            return [last]
        values = [start * (end / start) ** (step / TARGETS) for step in range(1, TARGETS)]
        return [*(Target(column, tasks.falling(value, column, metrics)) for value in values), last]


def _first(losses: np.ndarray) -> float:
    return next(filter(math.isfinite, losses.tolist()), math.nan)


def at_own_targets(runs: pandas.DataFrame) -> bool:
    return _stopped(runs, external_columns.AT_TARGET)


def at_own_ends(runs: pandas.DataFrame) -> bool:
    return _stopped(runs, external_columns.AT_END)


def _stopped(runs: pandas.DataFrame, why: str) -> bool:
    return "stop_reason" in runs and bool((runs["stop_reason"] == why).any())


def for_experiment(
    runs: pandas.DataFrame, evaluations: pandas.DataFrame, metrics: tasks.Metrics = ()
) -> list[Trainings]:
    """Return the runs of every series of an experiment."""
    if runs.empty:
        return []
    keys = [name for name in ("run", "machine") if name in runs and name in evaluations]
    several, result = run_series.varying(runs), []
    # A number that follows from other factors distinguishes nothing. A constant text is kept.
    texts = [name for name in several if not is_numeric_dtype(runs[name])]
    for group in series(runs):
        single = group.frame.nunique(dropna=False) == 1
        kept = [
            name for name in several if name in group.factors or (name in texts and single[name])
        ]
        rows = evaluations.merge(group.frame[keys], on=keys).sort_values("updates", kind="stable")
        factors = {name: group.frame[name].iloc[0] for name in kept}
        result.append(Trainings(factors, group.frame, rows, metrics))
    return result
