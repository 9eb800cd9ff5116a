"""Trainings of one series read at equal budgets, each batch size at the rate that is best there.

Which batch size wins depends on what is held equal, and on how the rate was chosen. A rate is
chosen at the budget itself: what is best after ten epochs need not be after ten seconds.

Source: Shallue et al. 2019, "Measuring the Effects of Data Parallelism on Neural Network Training"
(arXiv 1811.03600), sections 2 and 3.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, run_series, trajectories
from batchscope.analysis.updates_to_target import Target
from batchscope.catalogue.budget_kinds import AXES, CONVERGENCE, EPOCHS, TAKEN, TARGET
from batchscope.store.records import FINISHED, OFF_TARGET, UNSUCCESSFUL

CHOSEN_BY = "validation_loss"
# Outcomes of a budget: on test data, or where those are not known on validation data.
ON_TEST = ("test_accuracy", "test_loss")
ON_VALIDATION = ("validation_accuracy", "validation_loss")
# What may have passed a target on its way: of a training loss that was missed, another one.
_PASSING = (FINISHED, OFF_TARGET)
Place = tuple[int, int, int]  # of a training in (sizes, rates, seeds)


class Budget(NamedTuple):
    """What is held equal: a kind of `budget_kinds` and how much of it.

    Attributes:
        value: Of a target the loss or accuracy; NaN of convergence.
        column: What the target is of; else empty.
    """

    kind: str
    value: float
    column: str = ""
    stated: bool = False


@dataclass(frozen=True)
class Trained:
    """The trainings of one series.

    Attributes:
        batch_sizes: Ascending, as are rates and seeds.
        rows: The row of runs.csv of each training.
        evaluations: Its evaluations in order of updates, where there are any.
    """

    batch_sizes: list[int]
    rates: list[float]
    seeds: list[int]
    rows: dict[Place, dict[str, Any]]
    evaluations: dict[Place, pandas.DataFrame]

    def sizes(self, which: np.ndarray) -> tuple[int, ...]:
        """Returns the batch sizes that a mask keeps, shape (sizes,)."""
        return tuple(itertools.compress(self.batch_sizes, which))

    @functools.cached_property
    def finished(self) -> list[pandas.DataFrame]:
        """The evaluations of every training that finished."""
        items = self.evaluations.items()
        return [rows for place, rows in items if self.rows[place]["status"] == FINISHED]

    @functools.cached_property
    def values(self) -> dict[Place, dict[str, np.ndarray]]:
        """Place -> the numbers of its evaluations by column, which are read many times."""
        names = {*AXES.values(), CHOSEN_BY, *ON_TEST, *ON_VALIDATION}
        return {
            place: {name: rows[name].to_numpy(float) for name in names if name in rows}
            for place, rows in self.evaluations.items()
        }

    @functools.cached_property
    def there(self) -> np.ndarray:
        """Whether a batch size has a run of a seed, whatever became of it, shape (sizes, seeds)."""
        found = np.zeros((len(self.batch_sizes), len(self.seeds)), bool)
        for (size, _, seed), row in self.rows.items():
            found[size, seed] |= row["status"] in (FINISHED, *UNSUCCESSFUL)
        return found

    @functools.cached_property
    def chosen_by_loss(self) -> bool:
        """Whether any training that finished has what rates and evaluations are chosen by."""
        return any(rows[CHOSEN_BY].notna().any() for rows in self.finished)

    @functools.cached_property
    def complete(self) -> set[str]:
        """The test outcomes of which every evaluation of every finished training has a value."""
        known = [name for name in ON_TEST if self.finished and name in self.finished[0]]
        return {name for name in known if all(rows[name].notna().all() for rows in self.finished)}


class Reading(NamedTuple):
    """One outcome of a series at a budget.

    Attributes:
        values: Shape (sizes, seeds): NaN where there is no run, or it ended before the budget;
            infinitely bad where it failed or never reached the target.
        rates: The rate of each size; NaN where none could be chosen.
        on_edge: Whether it lies on the edge of those that were tried.
        losses: What rates were chosen by, shape (sizes, rates, seeds).
        cube: The outcome at all rates, likewise.
        differing: The batch sizes whose seeds are read at different rates.
        end: Of what a target takes the most that any training used; else NaN.
        falling: Of convergence the batch sizes at which the validation loss still fell when most
            trainings ended: theirs is the loss at a horizon, which longer ones would pass.
        bounded: Of what a target takes the batch sizes at which a training is there by its first
            evaluation: what it took is at most that.
    """

    budget: Budget
    values: np.ndarray
    rates: np.ndarray
    on_edge: np.ndarray
    losses: np.ndarray
    cube: np.ndarray
    differing: tuple[int, ...]
    end: float = math.nan
    falling: tuple[int, ...] = ()
    bounded: tuple[int, ...] = ()


def trained(runs: pandas.DataFrame, evaluations: pandas.DataFrame) -> Trained:
    """Returns the trainings of one series, of which the runs are all: missing ones too."""
    own = evaluations[evaluations["run"].isin(runs["run"])]
    if runs[chosen_rates.RATE].isna().all():  # of trainings made elsewhere it may not be known
        runs = runs.assign(**{chosen_rates.RATE: 0.0})
    own = own.astype({"examples": float, "updates": float})  # whole numbers that may be missing
    keys = [name for name in ("run", "machine") if name in runs and name in evaluations]
    found = {key: rows for key, rows in own.groupby(keys, sort=False)}
    axes = {
        name: sorted(runs[name].unique().tolist())
        for name in ("batch_size", chosen_rates.RATE, "seed")
    }
    rows, read = {}, {}
    for row in runs.to_dict("records"):
        at = tuple(values.index(row[name]) for name, values in axes.items())
        rows[at] = row
        key = tuple(row[name] for name in keys)
        if key in found:
            read[at] = found[key].sort_values("updates", kind="stable")
    return Trained(*axes.values(), rows, read)


def equal(evaluations: pandas.DataFrame, stated: dict[str, Any]) -> list[Budget]:
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
    return [*found, Budget(CONVERGENCE, math.nan)]


def target(series: Trained, stated: dict[str, Any]) -> Budget | None:
    """Returns the target of a series; None where no size finished, or updates are not known.

    As stated, or the lowest validation loss that every batch size reached with all its seeds, at
    the rate of which they came lowest. A batch size at which a run failed at every rate reached
    none, and is passed over.
    """
    unknown = any(rows["updates"].isna().any() for rows in series.finished)
    if unknown or any(map(run_series.falling, series.finished)):
        return None
    if TARGET in stated:
        [(column, value)] = stated[TARGET].items()
        return Budget(TARGET, float(value), column, True)
    lows = {place: rows[CHOSEN_BY].min() for place, rows in series.evaluations.items()}
    lowest = _cube(series, CHOSEN_BY, lows, _PASSING)
    planned = ~np.isnan(lowest).all(axis=1, keepdims=True)  # seeds that a size has at all
    lowest = np.where(np.isnan(lowest), np.where(planned, math.inf, -math.inf), lowest)
    of_size = lowest.max(axis=2).min(axis=1)
    reached = of_size[np.isfinite(of_size)]
    return Budget(TARGET, float(reached.max()), CHOSEN_BY) if len(reached) else None


def read(series: Trained, budget: Budget) -> dict[str, Reading]:
    """Reads every training of a series at a budget, each size at its rate there, by outcome.

    The rate is the one with the lowest mean validation loss at the budget over all seeds; a size
    of which every rate lacks a run has none, and no values. Where what it is chosen by is the
    outcome itself, each seed is read at the rate that the others choose: updates, examples or
    seconds to a target, each by itself, and validation data in place of test data.
    """
    if budget.kind == TARGET:
        return _to_target(series, budget)
    losses = _values(series, CHOSEN_BY, budget)
    chosen = chosen_rates.for_other_data(losses)
    losses[chosen < 0] = np.nan  # a size without a rate has no part in any choice
    of_all = np.repeat(chosen[:, None], len(series.seeds), axis=1)
    of_others = chosen_rates.leave_one_out(losses)[1]
    of_others = np.where(of_others < 0, of_all, of_others)
    found, rates = {}, _rates(series, losses, of_all)
    falling = _falling(series, of_all) if budget.kind == CONVERGENCE else ()
    for name, cube in _outcomes(series, budget, losses).items():
        index = of_all if name in ON_TEST else of_others
        differing = series.sizes(chosen_rates.differ(index))
        more = (losses, cube, differing, math.nan, falling)
        values = np.where(index < 0, np.nan, chosen_rates.at(cube, index))
        found[name] = Reading(budget, values, *rates, *more)
    return found


def ended_before(series: Trained, size: int, budget: Budget) -> bool:
    """Returns whether a training of a size, by its index, finished before the budget."""
    return budget.kind in AXES and any(
        trajectories.ended_before(found[AXES[budget.kind]], budget.value)
        for place, found in series.values.items()
        if place[0] == size and series.rows[place]["status"] == FINISHED
    )


def _outcomes(series: Trained, budget: Budget, losses: np.ndarray) -> dict[str, np.ndarray]:
    """Returns each outcome at all rates: on test data, or where these are not known, validation."""
    cubes = {name: _values(series, name, budget) for name in ON_TEST if name in series.complete}
    if budget.kind == CONVERGENCE and not cubes:
        cubes = _measured(series)
    found = {}
    for test, validation in zip(ON_TEST, ON_VALIDATION, strict=True):
        if test in cubes:
            found[test] = cubes[test]
        elif validation == CHOSEN_BY:
            found[validation] = losses
        elif any(rows[validation].notna().any() for rows in series.finished):
            found[validation] = _values(series, validation, budget)
    return found


def _to_target(series: Trained, budget: Budget) -> dict[str, Reading]:
    goal = Target(budget.column, budget.value)
    at_first = {place: float(goal.at_first(rows)) for place, rows in series.evaluations.items()}
    found = {}
    for axis in TAKEN:
        if any(rows[axis].isna().any() for rows in series.finished):
            continue
        taken = {place: goal.crossing(rows, axis) for place, rows in series.evaluations.items()}
        cube = _cube(series, axis, taken, _PASSING)
        values, index = chosen_rates.leave_one_out(cube)
        differing = series.sizes(chosen_rates.differ(index))
        end = max(float(rows[axis].max()) for rows in series.finished)
        first = chosen_rates.at(_cube(series, axis, at_first, _PASSING), np.maximum(index, 0))
        bounded = series.sizes((first == 1).any(axis=1))
        more = (cube, cube, differing, end, (), bounded)
        found[axis] = Reading(budget, values, *_rates(series, cube, index), *more)
    return found


def _rates(series: Trained, losses: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rate of each size, the only one where one was tried, and what is on the edge.

    Where some training failed at every rate none is chosen: the edge is that of the rates at which
    seeds are read, shape (sizes, seeds), -1 for none.
    """
    chosen, tried = chosen_rates.by_lowest(losses), chosen_rates.tried(losses)
    index = np.where(tried.sum(axis=1) == 1, tried.argmax(axis=1), chosen.index)
    rates = np.where(index < 0, np.nan, np.array(series.rates, float)[index])
    of_read = chosen_rates.on_edge(read, losses).any(axis=1)
    return rates, np.where(chosen.index < 0, of_read, chosen.on_edge)


def _falling(series: Trained, index: np.ndarray) -> tuple[int, ...]:
    """Returns the batch sizes at which most trainings have their lowest loss at their end."""
    found = []
    for size, rates in enumerate(index.tolist()):
        places = [(size, rate, seed) for seed, rate in enumerate(rates)]
        losses = [series.values[place][CHOSEN_BY] for place in places if place in series.values]
        losses = [each for each in losses if np.isfinite(each).any() and len(each) > 1]
        ends = sum(bool(np.nanargmin(each) == len(each) - 1) for each in losses)
        if 2 * ends > len(losses):
            found.append(series.batch_sizes[size])
    return tuple(found)


def _values(series: Trained, name: str, budget: Budget) -> np.ndarray:
    """Returns what each training has in a column at a budget, as `_cube` does."""
    found = {place: _value(rows, name, budget) for place, rows in series.values.items()}
    return _cube(series, name, found)


def _cube(
    series: Trained, name: str, found: dict[Place, float], read: tuple[str, ...] = (FINISHED,)
) -> np.ndarray:
    """Returns what was found of trainings with these statuses, shape (sizes, rates, seeds).

    NaN where there is no training, infinitely bad where it failed.
    """
    shape = (len(series.batch_sizes), len(series.rates), len(series.seeds))
    values = np.full(shape, np.nan)
    for place, row in series.rows.items():
        if row["status"] in read and place in found:
            values[place] = found[place]
        elif row["status"] in UNSUCCESSFUL:
            values[place] = -math.inf if name.endswith("accuracy") else math.inf
    return values


def _measured(series: Trained) -> dict[str, np.ndarray]:
    """Returns the test outcomes that `evaluate` measured of every finished run."""
    finished = {place: row for place, row in series.rows.items() if row["status"] == FINISHED}
    return {
        name: _cube(series, name, {place: row[name] for place, row in finished.items()})
        for name in ON_TEST
        if all(pandas.notna(row.get(name)) for row in finished.values())
    }


def _value(rows: dict[str, np.ndarray], name: str, budget: Budget) -> float:
    """Returns what a training has in a column at a budget; NaN where it ended before it."""
    if budget.kind == CONVERGENCE:
        losses = rows[CHOSEN_BY]
        known = np.isfinite(losses)
        if not known.any():  # a single row is all that there is to read
            return float(rows[name][0]) if len(losses) == 1 else math.nan
        return float(rows[name][np.argmin(np.where(known, losses, math.inf))])
    used = rows[AXES[budget.kind]]
    return trajectories.at_budget(used, rows[name], budget.value, name.endswith("loss"))
