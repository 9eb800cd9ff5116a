"""Trainings of one series read where something is held equal, each batch size at its best rate.

Which batch size wins depends on what is held equal, and on how the rate was chosen. A rate is
chosen at the budget itself: what is best after ten epochs need not be after ten seconds.

Source: Shallue et al. 2019, "Measuring the Effects of Data Parallelism on Neural Network Training"
(arXiv 1811.03600), sections 2 and 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import (
    best_learning_rates,
    chosen_rates,
    intervals,
    run_series,
    to_target_tables,
    trajectories,
    updates_to_target,
)
from batchscope.analysis.intervals import Interval
from batchscope.analysis.updates_to_target import Target
from batchscope.catalogue.budget_kinds import AXES, CONVERGENCE, END, EPOCHS, TARGET

LEAST_SIZES = 2
CHOSEN_BY = "validation_loss"  # of an evaluation; of a run `best_learning_rates.CHOSEN_ON`
# Outcomes of a budget: on test data, or where those are not known on validation data.
ON_TEST = ("test_accuracy", "test_loss")
ON_VALIDATION = ("validation_accuracy", "validation_loss")
# What counts as negligible where the experiment states nothing of it.
MARGINS = {"accuracy": 0.01, "loss": 0.05, "taken": 0.1}


class Budget(NamedTuple):
    """What is held equal: a kind of `budget_kinds` and how much of it.

    Attributes:
        value: Of a target the loss or accuracy; NaN of convergence and the end.
        column: What the target is of; else empty.
    """

    kind: str
    value: float = math.nan
    column: str = ""
    stated: bool = False


@dataclass(frozen=True)
class Reading:
    """One outcome of one series at one budget, as it was measured.

    Attributes:
        runs: The rows of runs.csv of the series.
        margin: Largest loss that counts as negligible; NaN where nothing is stated of it.
        batch_sizes: Ascending, as are seeds.
        values: Shape (sizes, seeds): NaN where there is no run, or it ended before the budget;
            infinitely bad where it failed or never reached the target.
        ran: Whether there is a run, whatever became of it, shape (sizes, seeds).
        rates: The rate of each size; NaN where none could be chosen or it is not known.
        on_edge: Whether it lies on the edge of those that were tried, shape (sizes,).
        tuned: Whether the seeds of a size are read at different rates, or would be if each were
            read at the rate that the others choose: then the choice scatters as well.
        at_first: Of a target whether a training is there by its first evaluation: what it took is
            at most that.
        falling: Of convergence whether the validation loss still fell when most trainings ended:
            theirs is the loss at a horizon, which longer ones would pass.
        ended: Whether a training finished before the budget.
    """

    runs: pandas.DataFrame
    budget: Budget
    outcome: str
    margin: float
    batch_sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    values: np.ndarray
    ran: np.ndarray
    rates: np.ndarray
    on_edge: np.ndarray
    tuned: np.ndarray
    at_first: np.ndarray
    falling: np.ndarray
    ended: np.ndarray

    @property
    def taken(self) -> bool:
        """Whether it is what was taken to a target, which is compared as a ratio."""
        return self.budget.kind == TARGET

    @property
    def rises(self) -> bool:
        """Whether higher is better."""
        return self.outcome.endswith("accuracy")

    @property
    def held_equal(self) -> dict[str, Any]:
        """The columns of a table that say what it is of."""
        kind, value, column, stated = self.budget
        of_budget = {"budget": kind, "budget_value": value, "budget_column": column}
        return {**of_budget, "stated": int(stated), "outcome": self.outcome}

    @functools.cached_property
    def factors(self) -> dict[str, Any]:
        """The factors of the series, the learning rate apart; None where it has several values."""
        names = [name for name in run_series.factor_columns(self.runs) if name != chosen_rates.RATE]
        single = self.runs[names].nunique(dropna=False) == 1
        return {name: self.runs[name].iloc[0] if single[name] else None for name in names}

    def means(self) -> list[Interval]:
        """Returns the mean of each size with its 95 % t-interval; geometric of what was taken.

        Empty where a run failed, or there is none.
        """
        found = []
        for row, tuned in zip(self.values, self.tuned.tolist(), strict=True):
            values = row[~np.isnan(row)]
            whole = len(values) and np.isfinite(values).all()
            if self.taken and whole and (values > 0).all():
                found.append(intervals.ratio_interval(values, 1.0, tuned))
            elif whole and not self.taken:
                found.append(intervals.t_interval(values, differ=tuned))
            else:
                found.append(Interval())
        return found


def of_experiment(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    stated: Mapping[str, Any],
    margins: Mapping[str, float],
) -> Iterator[Reading]:
    """Yields every outcome of every series with two batch sizes or more, at every budget.

    Args:
        stated: Budgets of the experiment: kind -> value, of a target column -> value.
        margins: Outcome -> largest loss; those of columns of runs.csv are read at the end too.
    """
    shared = budgets(evaluations, stated)
    for series in best_learning_rates.series(runs) if len(runs) else ():
        each = Trainings.of(series.frame, evaluations)
        if len(each.axes.batch_sizes) < LEAST_SIZES:
            continue
        own_targets = updates_to_target.at_own_targets(each.evaluations)
        if own_targets:  # what a training had used by then is no budget of others
            yield from to_target(each, stated, margins)
        elif each.finished[CHOSEN_BY].notna().any():
            for budget in shared:
                if budget.kind == CONVERGENCE:
                    yield from to_target(each, stated, margins)
                yield from at_budget(each, budget, margins)
        for outcome, margin in margins.items():
            if outcome in series.frame and series.frame[outcome].notna().any():
                yield at_own_end(each, outcome, margin)


def budgets(evaluations: pandas.DataFrame, stated: Mapping[str, Any]) -> list[Budget]:
    """Returns the budgets of an experiment, without the target, which is of a series.

    Each is as stated, or the largest that every finished run of the experiment reached; one that
    is not known of any run, such as seconds without a timing, is left out. Where a rate falls
    towards the horizon, equal horizons are the only equal epochs, and nothing else is equal.
    """
    finished = run_series.finished(evaluations)
    if not len(finished):
        return []
    last = finished.groupby(["machine", "run"])[[*AXES.values()]].max()
    if run_series.falling(evaluations):
        ends = {*last[AXES[EPOCHS]], *finished[EPOCHS]}
        found = [Budget(EPOCHS, float(ends.pop()))] if len(ends) == 1 else []
        return [*found, Budget(CONVERGENCE)]
    known = {kind: axis for kind, axis in AXES.items() if last[axis].notna().any()}
    found = [
        Budget(kind, float(stated.get(kind, last[axis].min())), "", kind in stated)
        for kind, axis in known.items()
    ]
    return [*found, Budget(CONVERGENCE)]


@dataclass(frozen=True)
class Trainings:
    """The trainings of one series.

    Attributes:
        runs: Their rows of runs.csv, and `evaluations` those of trajectories.csv.
        evaluated: Run -> column -> the numbers of its evaluations in order of updates.
    """

    runs: pandas.DataFrame
    evaluations: pandas.DataFrame
    evaluated: dict[str, dict[str, np.ndarray]]

    @classmethod
    def of(cls, runs: pandas.DataFrame, evaluations: pandas.DataFrame) -> Trainings:
        """Returns those of one series, of which `runs` has every one: missing ones too."""
        keys = [name for name in ("run", "machine") if name in runs and name in evaluations]
        own = evaluations.merge(runs[keys], on=keys).sort_values("updates", kind="stable")
        numbers = [*{*AXES.values(), CHOSEN_BY, *ON_TEST, *ON_VALIDATION} & {*own}]
        found = {
            run: {name: rows[name].to_numpy(float, na_value=math.nan) for name in numbers}
            for run, rows in own.groupby("run", sort=False)
        }
        return cls(runs, own, found)

    @functools.cached_property
    def finished(self) -> pandas.DataFrame:
        """The evaluations of the trainings that finished."""
        return run_series.finished(self.evaluations)

    def whole(self, name: str) -> bool:
        """Returns whether every evaluation of every finished training has a value of a column."""
        known = self.finished.get(name)
        return known is not None and len(known) > 0 and bool(known.notna().all())

    def by_run(self, read: Callable[[dict[str, np.ndarray]], float]) -> np.ndarray:
        """Returns what is read of each training's evaluations, shape (runs,); NaN of none."""
        known = (self.evaluated.get(run) for run in self.runs["run"])
        return np.array([read(rows) if rows else math.nan for rows in known], float)

    def cube(self, values: Any, rises: bool = False) -> chosen_rates.Cube:
        """Returns one number per run as a cube; NaN without a run, infinitely bad if it failed."""
        worst = -math.inf if rises else math.inf
        return chosen_rates.cube(self.runs, chosen_rates.measured(self.runs, values, worst))

    @functools.cached_property
    def axes(self) -> chosen_rates.Cube:
        """The batch sizes, rates and seeds; 0 where there is a run that finished."""
        return self.cube(np.zeros(len(self.runs)))

    def column(self, name: str) -> np.ndarray:
        """Returns a column of runs.csv, as `cube` does."""
        values = self.runs[name].to_numpy(float, na_value=math.nan) if name in self.runs else np.nan
        return self.cube(np.broadcast_to(values, len(self.runs)), name.endswith("accuracy")).values

    def at(self, budget: Budget, name: str) -> np.ndarray:
        """Returns what each training has in a column of its evaluations at a budget, likewise."""
        found = self.by_run(lambda rows: _at(budget, rows, name))
        return self.cube(found, name.endswith("accuracy")).values

    def reading(
        self, budget: Budget, outcome: str, margin: float, values: np.ndarray, **more: np.ndarray
    ) -> Reading:
        """Returns the reading of an outcome; what is left out of `more` holds of no size."""
        names = ("on_edge", "tuned", "at_first", "falling", "ended")
        cube, sizes, _, seeds = self.axes
        none = dict.fromkeys(names, np.zeros(len(sizes), bool))
        ran = ~np.isnan(cube).all(axis=1)
        known = (self.runs, budget, outcome, margin, tuple(sizes), tuple(seeds), values, ran)
        return Reading(*known, **{**none, **more})

    def chosen_by(self, losses: np.ndarray, cube: np.ndarray, others: bool) -> dict[str, Any]:
        """Returns an outcome at the rates that losses choose, both of shape (sizes, rates, seeds).

        A size of which every rate lacks a run has none, and no values.

        Args:
            others: Whether each seed is read at the rate that the others choose.
        """
        chosen = chosen_rates.for_other_data(losses)
        index = np.repeat(chosen[:, None], losses.shape[2], axis=1)
        of_others = chosen_rates.leave_one_out(losses)[1]
        of_others = np.where((index < 0) | (of_others < 0), index, of_others)
        index = of_others if others else index
        best = chosen_rates.by_lowest(losses).index
        best = np.where(chosen_rates.tried(losses).sum(axis=1) == 1, chosen, best)
        return {
            "values": np.where(index < 0, np.nan, chosen_rates.at(cube, index)),
            "rates": np.array([*self.axes.rates, math.nan])[best],  # the index -1 is none
            "on_edge": chosen_rates.on_edge(chosen, losses),
            "tuned": chosen_rates.differ(of_others),
        }


def at_budget(
    trainings: Trainings, budget: Budget, margins: Mapping[str, float]
) -> Iterator[Reading]:
    """Yields every outcome of a series at a budget, each size at its rate there.

    On test data, or where these are not known on validation data. The rate is the one with the
    lowest mean validation loss at the budget over all seeds; on validation data each seed is read
    at the rate that the others choose.
    """
    losses = trainings.at(budget, CHOSEN_BY)
    cubes = {name: trainings.at(budget, name) for name in ON_TEST if trainings.whole(name)}
    more = {}
    if budget.kind == CONVERGENCE:
        more["falling"] = _falling(trainings, losses)
        if not cubes:  # they may be measured at the end
            rows = run_series.finished(trainings.runs)
            measured = [name for name in ON_TEST if name in rows and rows[name].notna().all()]
            cubes = {name: trainings.column(name) for name in measured}
    else:
        axis = AXES[budget.kind]
        ended = trainings.by_run(lambda row: trajectories.ended_before(row[axis], budget.value))
        more["ended"] = (trainings.cube(ended).values == 1).any(axis=(1, 2))
    for test, validation in zip(ON_TEST, ON_VALIDATION, strict=True):
        name = test if test in cubes else validation
        if test not in cubes:
            if trainings.finished[name].isna().all():
                continue
            cubes[name] = trainings.at(budget, name)
        kind = name.rpartition("_")[2]
        margin = margins.get(name, margins.get(test, MARGINS[kind]))
        found = trainings.chosen_by(losses, cubes[name], name == validation)
        yield trainings.reading(budget, name, margin, **found, **more)


def at_own_end(trainings: Trainings, outcome: str, margin: float) -> Reading:
    """Returns a column of runs.csv at the rates that the runs' validation losses choose.

    Where these are not known the outcome itself chooses, each seed at the rate of the others.
    """
    losses, cube = trainings.column(best_learning_rates.CHOSEN_ON), trainings.column(outcome)
    others = outcome.startswith("validation")
    if not np.isfinite(losses).any():
        losses, others = -cube if outcome.endswith("accuracy") else cube, True
    found = trainings.chosen_by(losses, cube, others)
    return trainings.reading(Budget(END), outcome, margin, **found)


def to_target(
    trainings: Trainings, stated: Mapping[str, Any], margins: Mapping[str, float]
) -> Iterator[Reading]:
    """Yields the updates, examples and seconds that each size takes to the target of a series.

    As stated, or the lowest validation loss that every batch size reached with all its seeds. There
    is none where updates are not known.
    """
    found = trainings.evaluations
    own_targets = updates_to_target.at_own_targets(found)
    if not own_targets and (not trainings.whole("updates") or run_series.falling(found)):
        return
    rows = to_target_tables.evaluations(found, trainings.runs)
    targets = [Target(*each) for each in stated.get(TARGET, {}).items()]
    targets = targets or updates_to_target.default_targets(rows)[-1:]
    if not targets or not (targets[0].column or own_targets):
        return
    (scaling,) = updates_to_target.scalings(rows, targets=targets)
    budget = Budget(TARGET, scaling.target.value, scaling.target.column, TARGET in stated)
    only = trainings.runs.groupby("batch_size")[chosen_rates.RATE].first().to_numpy(float)
    more = {"rates": only, "at_first": scaling.at_first.any(axis=1)}
    for axis, values in scaling.measured.items():
        if not trainings.whole(axis):
            continue
        if rates := scaling.rates_by(axis):
            more |= {"rates": rates.chosen, "on_edge": rates.on_edge, "tuned": rates.differ()}
        margin = margins.get(axis, MARGINS["taken"])
        yield trainings.reading(budget, axis, margin, values, **more)


def _falling(trainings: Trainings, losses: np.ndarray) -> np.ndarray:
    """Returns whether most trainings of a size, at its rate, end at their lowest loss."""

    def falls(rows: Mapping[str, np.ndarray]) -> float:
        found = rows[CHOSEN_BY]
        known = len(found) > 1 and np.isfinite(found).any()
        return float(np.nanargmin(found) == len(found) - 1) if known else math.nan

    chosen = chosen_rates.for_other_data(losses)
    _, sizes, rates, _ = trainings.axes
    rate = dict(zip(sizes, np.array([*rates, math.nan])[chosen], strict=True))
    read = trainings.runs["batch_size"].map(rate) == trainings.runs[chosen_rates.RATE]
    found = pandas.Series(trainings.by_run(falls), read.index)
    found = found.where(read | (len(rates) == 1))  # the only one may not be known
    return (found.groupby(trainings.runs["batch_size"]).mean() > 0.5).to_numpy()


def _at(budget: Budget, rows: Mapping[str, np.ndarray], name: str) -> float:
    """Returns what a training has in a column at a budget; NaN where it ended before it."""
    if budget.kind != CONVERGENCE:
        used = rows[AXES[budget.kind]]
        return trajectories.at_budget(used, rows[name], budget.value, name.endswith("loss"))
    losses = rows[CHOSEN_BY]
    known = np.isfinite(losses)
    if not known.any():  # a single row is all that there is to read
        return float(rows[name][0]) if len(losses) == 1 else math.nan
    return float(rows[name][np.argmin(np.where(known, losses, math.inf))])
