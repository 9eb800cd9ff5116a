"""Trainings of one series read where something is held equal, each batch size at its best rate.

Which batch size wins depends on what is held equal, and on how the rate was chosen. A rate is
chosen at the budget itself: what is best after ten epochs need not be after ten seconds.

Source: Shallue et al. 2019, "Measuring the Effects of Data Parallelism on Neural Network Training"
(arXiv 1811.03600), sections 2 and 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
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
from batchscope.catalogue.budget_kinds import AXES, CONVERGENCE, END, EPOCHS, TAKEN, TARGET
from batchscope.store.records import FINISHED, UNSUCCESSFUL

LEAST_SIZES = 2
CHOSEN_BY = "validation_loss"  # of an evaluation; of a run `best_learning_rates.CHOSEN_ON`
# Outcomes of a budget: on test data, or where those are not known on validation data.
ON_TEST = ("test_accuracy", "test_loss")
ON_VALIDATION = ("validation_accuracy", "validation_loss")
# What counts as negligible where the experiment states nothing of it.
MARGINS = {"accuracy": 0.01, "loss": 0.05, "taken": 0.1}
Place = tuple[int, int, int]  # of a training in (sizes, rates, seeds)


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
        tuned: Whether the seeds of a size are read at different rates.
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
        for values, tuned in zip(self.values, self.tuned.tolist(), strict=True):
            values = values[~np.isnan(values)]
            if not len(values) or not np.isfinite(values).all():
                found.append(Interval())
            elif self.taken:
                usable = (values > 0).all()
                found.append(
                    intervals.ratio_interval(values, 1.0, tuned) if usable else Interval()
                )
            else:
                found.append(intervals.t_interval(values, differ=tuned))
        return found


def of_experiment(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    stated: Mapping[str, Any],
    margins: Mapping[str, float],
    at_end: Iterable[str] | None = None,
) -> Iterator[Reading]:
    """Yields every outcome of every series with two batch sizes or more, at every budget.

    Args:
        stated: Budgets of the experiment: kind -> value, of a target column -> value.
        margins: Outcome -> largest loss.
        at_end: The columns of runs.csv that are read at each training's own end; those with a
            margin where it is left out.
    """
    shared = budgets(evaluations, stated)
    for series in best_learning_rates.series(runs) if len(runs) else ():
        each = Trainings.of(series.frame, evaluations)
        if len(each.batch_sizes) < LEAST_SIZES:
            continue
        at_own_targets = updates_to_target.at_own_targets(each.evaluations)
        if not at_own_targets and each.chosen_by_loss:
            for budget in shared:
                if budget.kind == CONVERGENCE:
                    yield from to_target(each, stated)
                yield from at_budget(each, budget, margins)
        elif at_own_targets:  # what a training had used by then is no budget of others
            yield from to_target(each, stated)
        for outcome in margins if at_end is None else at_end:
            if outcome in series.frame and series.frame[outcome].notna().any():
                yield _at_end(each, outcome, margins.get(outcome, math.nan))


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
    found = []
    if run_series.falling(evaluations):
        ends = {*last[AXES[EPOCHS]], *finished[EPOCHS]}
        found = [Budget(EPOCHS, float(ends.pop()))] if len(ends) == 1 else []
    else:
        for kind, axis in AXES.items():
            if last[axis].notna().any():
                value = float(stated.get(kind, last[axis].min()))
                found.append(Budget(kind, value, "", kind in stated))
    return [*found, Budget(CONVERGENCE)]


@dataclass(frozen=True)
class Trainings:
    """The trainings of one series.

    Attributes:
        runs: Their rows of runs.csv, and `evaluations` those of trajectories.csv.
        batch_sizes: Ascending, as are rates and seeds.
        rows: The row of runs.csv of each training.
        evaluated: The numbers of its evaluations in order of updates by column, where there are
            any.
    """

    runs: pandas.DataFrame
    evaluations: pandas.DataFrame
    batch_sizes: list[int]
    rates: list[float]
    seeds: list[int]
    rows: dict[Place, dict[str, Any]]
    evaluated: dict[Place, dict[str, np.ndarray]]

    @classmethod
    def of(cls, runs: pandas.DataFrame, evaluations: pandas.DataFrame) -> Trainings:
        """Returns those of one series, of which `runs` has every one: missing ones too."""
        own = evaluations[evaluations["run"].isin(runs["run"])]
        if "machine" in runs and "machine" in own:
            own = own[own["machine"].isin(runs["machine"])]
        known = runs
        if runs[chosen_rates.RATE].isna().all():  # of trainings made elsewhere it may not be known
            known = runs.assign(**{chosen_rates.RATE: 0.0})
        names = ("batch_size", chosen_rates.RATE, "seed")
        axes = [sorted(known[name].unique().tolist()) for name in names]
        numbers = [*{*AXES.values(), CHOSEN_BY, *ON_TEST, *ON_VALIDATION} & {*own}]
        found = {
            run: {name: rows[name].to_numpy(float, na_value=math.nan) for name in numbers}
            for run, rows in own.sort_values("updates", kind="stable").groupby("run", sort=False)
        }
        rows, evaluated = {}, {}
        for row in known.to_dict("records"):
            place = tuple(axis.index(row[name]) for axis, name in zip(axes, names, strict=True))
            rows[place] = row
            if row["run"] in found:
                evaluated[place] = found[row["run"]]
        return cls(runs, own, *axes, rows, evaluated)

    @functools.cached_property
    def finished(self) -> list[dict[str, np.ndarray]]:
        """The evaluations of every training that finished."""
        items = self.evaluated.items()
        return [found for place, found in items if self.rows[place]["status"] == FINISHED]

    @functools.cached_property
    def ran(self) -> np.ndarray:
        """Whether a batch size has a run of a seed, whatever became of it, shape (sizes, seeds)."""
        found = np.zeros((len(self.batch_sizes), len(self.seeds)), bool)
        for (size, _, seed), row in self.rows.items():
            found[size, seed] |= row["status"] in (FINISHED, *UNSUCCESSFUL)
        return found

    @functools.cached_property
    def chosen_by_loss(self) -> bool:
        """Whether any training that finished has what rates and evaluations are chosen by."""
        return any(np.isfinite(found[CHOSEN_BY]).any() for found in self.finished)

    def whole(self, name: str) -> bool:
        """Returns whether every evaluation of every finished training has a value of a column."""
        known = [name in found and not np.isnan(found[name]).any() for found in self.finished]
        return bool(known) and all(known)

    def cube(self, found: Mapping[Place, float], rises: bool) -> np.ndarray:
        """Returns what was found of those that finished, shape (sizes, rates, seeds).

        NaN where there is no training, infinitely bad where it failed.
        """
        shape = (len(self.batch_sizes), len(self.rates), len(self.seeds))
        values = np.full(shape, np.nan)
        for place, row in self.rows.items():
            if row["status"] == FINISHED:
                values[place] = found.get(place, math.nan)
            elif row["status"] in UNSUCCESSFUL:
                values[place] = -math.inf if rises else math.inf
        return values

    def column(self, name: str) -> np.ndarray:
        """Returns a column of runs.csv, as `cube` does."""
        values = self.runs[name].to_numpy(float, na_value=math.nan) if name in self.runs else ()
        return self.cube(dict(zip(self.rows, values)), name.endswith("accuracy"))

    def reading(
        self, budget: Budget, outcome: str, margin: float, values: np.ndarray, **more: Any
    ) -> Reading:
        """Returns the reading of an outcome; what is left out of `more` holds of no size."""
        names = ("on_edge", "tuned", "at_first", "falling", "ended")
        none = dict.fromkeys(names, np.zeros(len(self.batch_sizes), bool))
        sizes, seeds = tuple(map(int, self.batch_sizes)), tuple(self.seeds)
        known = (self.runs, budget, outcome, margin, sizes, seeds, values, self.ran)
        return Reading(*known, **{**none, **more})

    def rates_of(self, losses: np.ndarray, read: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the rates of the sizes, and whether they lie on the edge of those tried.

        The only one where one was tried. Where some training failed at every rate none is chosen:
        the edge is that of the rates at which seeds are read, shape (sizes, seeds), -1 for none.
        """
        chosen, tried = chosen_rates.by_lowest(losses), chosen_rates.tried(losses)
        index = np.where(tried.sum(axis=1) == 1, tried.argmax(axis=1), chosen.index)
        known = np.array([*self.rates, math.nan])  # the index -1 is none
        rates = np.full(len(index), math.nan)
        if self.runs[chosen_rates.RATE].notna().any():
            rates = known[index]
        of_read = chosen_rates.on_edge(read, losses).any(axis=1)
        return {"rates": rates, "on_edge": np.where(chosen.index < 0, of_read, chosen.on_edge)}


def at_budget(
    trainings: Trainings, budget: Budget, margins: Mapping[str, float]
) -> Iterator[Reading]:
    """Yields every outcome of a series at a budget, each size at its rate there.

    The rate is the one with the lowest mean validation loss at the budget over all seeds; a size
    of which every rate lacks a run has none, and no values. On validation data each seed is read at
    the rate that the others choose.
    """
    losses = _values(trainings, CHOSEN_BY, budget)
    for outcome, cube in _outcomes(trainings, budget, losses).items():
        margin = _margin(outcome, margins)
        yield _chosen_by(trainings, budget, outcome, margin, losses, cube)


def _at_end(trainings: Trainings, outcome: str, margin: float) -> Reading:
    """Returns a column of runs.csv, each training at its own end."""
    losses = trainings.column(best_learning_rates.CHOSEN_ON)
    cube = trainings.column(outcome)
    if np.isfinite(losses).any():
        return _chosen_by(trainings, Budget(END), outcome, margin, losses, cube)
    losses = -cube if outcome.endswith("accuracy") else cube
    index = chosen_rates.leave_one_out(losses)[1]
    more = {"tuned": chosen_rates.differ(index), **trainings.rates_of(losses, index)}
    values = np.where(index < 0, np.nan, chosen_rates.at(cube, index))
    return trainings.reading(Budget(END), outcome, margin, values, **more)


def _chosen_by(
    trainings: Trainings,
    budget: Budget,
    outcome: str,
    margin: float,
    losses: np.ndarray,
    cube: np.ndarray,
) -> Reading:
    """Returns an outcome at the rates that validation losses choose, of shape (sizes, rates, seeds).

    Where it is of the data that choose, each seed is read at the rate that the others choose.
    """
    chosen = chosen_rates.for_other_data(losses)
    losses = np.where((chosen < 0)[:, None, None], np.nan, losses)
    of_all = np.repeat(chosen[:, None], len(trainings.seeds), axis=1)
    index = of_all
    if outcome.startswith("validation"):
        of_others = chosen_rates.leave_one_out(losses)[1]
        index = np.where(of_others < 0, of_all, of_others)
    values = np.where(index < 0, np.nan, chosen_rates.at(cube, index))
    more = {"tuned": chosen_rates.differ(index), **trainings.rates_of(losses, of_all)}
    if budget.kind == CONVERGENCE:
        more["falling"] = _falling(trainings, of_all)
    elif budget.kind in AXES:
        more["ended"] = _ended(trainings, budget)
    return trainings.reading(budget, outcome, margin, values, **more)


def to_target(trainings: Trainings, stated: Mapping[str, Any]) -> Iterator[Reading]:
    """Yields what each size takes to the target of a series, of updates, examples and seconds.

    As stated, or the lowest validation loss that every batch size reached with all its seeds. There
    is none where updates are not known.
    """
    found = trainings.evaluations
    own_targets = updates_to_target.at_own_targets(found)
    if not own_targets and (not trainings.whole("updates") or run_series.falling(found)):
        return
    rows = to_target_tables.evaluations(found, trainings.runs)
    if TARGET in stated and not own_targets:
        targets = [Target(*each) for each in stated[TARGET].items()]
    else:
        targets = updates_to_target.default_targets(rows)[-1:]
    if not targets or not (targets[0].column or own_targets):
        return
    (scaling,) = updates_to_target.scalings(rows, targets=targets)
    target = scaling.target
    budget = Budget(TARGET, target.value, target.column, TARGET in stated)
    for axis in TAKEN:
        if axis not in scaling.measured or run_series.finished(rows)[axis].isna().any():
            continue
        rates = scaling.rates_by(axis)
        more: dict[str, Any] = {"at_first": scaling.at_first.any(axis=1)}
        if rates:
            more |= {"rates": rates.chosen, "on_edge": rates.on_edge, "tuned": rates.differ()}
        else:
            more["rates"] = _only_rates(trainings)
        yield trainings.reading(budget, axis, MARGINS["taken"], scaling.measured[axis], **more)


def _only_rates(trainings: Trainings) -> np.ndarray:
    """Returns the rate of each size, of which one was tried."""
    return trainings.runs.groupby("batch_size")[chosen_rates.RATE].first().to_numpy(float)


def _outcomes(trainings: Trainings, budget: Budget, losses: np.ndarray) -> dict[str, np.ndarray]:
    """Returns each outcome at all rates: on test data, or where these are not known, validation."""
    cubes = {
        name: _values(trainings, name, budget) for name in ON_TEST if trainings.whole(name)
    }
    if budget.kind == CONVERGENCE and not cubes:
        rows = run_series.finished(trainings.runs)  # at the end they may be measured
        measured = [name for name in ON_TEST if name in rows and rows[name].notna().all()]
        cubes = {name: trainings.column(name) for name in measured}
    found = {}
    for test, validation in zip(ON_TEST, ON_VALIDATION, strict=True):
        if test in cubes:
            found[test] = cubes[test]
        elif validation == CHOSEN_BY:
            found[validation] = losses
        elif any(np.isfinite(each[validation]).any() for each in trainings.finished):
            found[validation] = _values(trainings, validation, budget)
    return found


def _margin(outcome: str, stated: Mapping[str, float]) -> float:
    kind = outcome.rpartition("_")[2]
    return stated.get(outcome, stated.get(f"test_{kind}", MARGINS[kind]))


def _ended(trainings: Trainings, budget: Budget) -> np.ndarray:
    """Returns whether a training of each size finished before the budget."""
    found = np.zeros(len(trainings.batch_sizes), bool)
    for place, each in trainings.evaluated.items():
        if trainings.rows[place]["status"] == FINISHED:
            used = each[AXES[budget.kind]]
            found[place[0]] |= trajectories.ended_before(used, budget.value)
    return found


def _falling(trainings: Trainings, index: np.ndarray) -> np.ndarray:
    """Returns the batch sizes at which most trainings have their lowest loss at their end."""
    found = []
    for size, rates in enumerate(index.tolist()):
        places = [(size, rate, seed) for seed, rate in enumerate(rates)]
        known = [trainings.evaluated[place] for place in places if place in trainings.evaluated]
        losses = [each[CHOSEN_BY] for each in known]
        losses = [each for each in losses if np.isfinite(each).any() and len(each) > 1]
        ends = sum(bool(np.nanargmin(each) == len(each) - 1) for each in losses)
        found.append(2 * ends > len(losses))
    return np.array(found)


def _values(trainings: Trainings, name: str, budget: Budget) -> np.ndarray:
    """Returns what each training has in a column at a budget, as `Trainings.cube` does."""
    found = {place: _value(each, name, budget) for place, each in trainings.evaluated.items()}
    return trainings.cube(found, name.endswith("accuracy"))


def _value(found: Mapping[str, np.ndarray], name: str, budget: Budget) -> float:
    """Returns what a training has in a column at a budget; NaN where it ended before it."""
    if budget.kind == CONVERGENCE:
        losses = found[CHOSEN_BY]
        known = np.isfinite(losses)
        if not known.any():  # a single row is all that there is to read
            return float(found[name][0]) if len(losses) == 1 else math.nan
        return float(found[name][np.argmin(np.where(known, losses, math.inf))])
    used = found[AXES[budget.kind]]
    return trajectories.at_budget(used, found[name], budget.value, name.endswith("loss"))
