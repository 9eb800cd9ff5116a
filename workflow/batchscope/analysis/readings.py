"""Trainings of one series read where something is held equal, each batch size at its best rate.

Which batch size wins depends on what is held equal, and on how the rate was chosen. A rate is
chosen at the budget itself: what is best after ten epochs need not be after ten seconds.

Source: Shallue et al. 2019, "Measuring the Effects of Data Parallelism on Neural Network Training"
(arXiv 1811.03600), sections 2 and 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import (
    chosen_rates,
    intervals,
    run_series,
    targets,
    trainings,
)
from batchscope.analysis.intervals import Interval
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import CHOSEN_ON, Chosen, Evaluated, Trainings
from batchscope.store.records import FINISHED, UNSUCCESSFUL
from batchscope.study import budget_kinds, own_columns, stages, tasks
from batchscope.study.budget_kinds import (
    AXES,
    CONVERGENCE,
    END,
    EPOCHS,
    SECONDS,
    TAKEN,
    TARGET,
    UPDATES,
)

LEAST_SIZES = 2
_TIMED = "seconds_per_epoch"  # of a timing job, which ran whatever became of the training
CHOSEN_BY = "validation_loss"  # of an evaluation; of a run `CHOSEN_ON`
DefaultTarget = Callable[[Trainings], Target | None]
MARGIN_OF_TAKEN = 0.1  # what counts as negligible where the experiment states nothing of it


class Budget(NamedTuple):
    """What is held equal: a kind of `budget_kinds` and how much of it."""

    kind: str
    value: float = math.nan  # of a target the loss or metric; NaN of convergence and the end
    column: str = ""  # what the target is of


@dataclass(frozen=True)
class Reading:
    """One outcome of one series at one budget, as it was measured."""

    trainings: Trainings
    budget: Budget
    outcome: str
    margin: float  # largest loss that counts as negligible; NaN where nothing is stated of it
    # The values, each size at its rate: NaN where there is no run, or it ended before the budget;
    # infinitely bad where it failed or never reached the target.
    chosen: Chosen
    at_first: np.ndarray  # whether a run is at the target by its first evaluation, a bound
    # Whether the validation loss still fell when most runs converged: theirs is the loss at a
    # horizon, which longer ones would pass.
    falling: np.ndarray
    ended: np.ndarray  # whether a run finished before the budget
    share: float = 1.0  # of the level, which a look at these seeds may spend
    earlier: tuple[Reading, ...] = ()  # at earlier looks, by the seeds of then

    @property
    def batch_sizes(self) -> list[int]:
        return self.trainings.axes[0]

    @property
    def values(self) -> np.ndarray:
        return self.chosen.values

    @functools.cached_property
    def ran(self) -> np.ndarray:
        """Whether there is a run, whatever became of it, shape (sizes, seeds)."""
        return ~np.isnan(self.trainings.outcome(0.0)).all(axis=1)

    @property
    def taken(self) -> bool:
        return self.outcome in TAKEN

    @functools.cached_property
    def not_reached(self) -> np.ndarray:
        """Whether runs of a size never reached the target, at a rate where none failed."""
        cube = self.trainings.cube(self.trainings.failed)
        completed = chosen_rates.tried(cube) & ~(cube == 1).any(axis=2)
        never = np.isinf(self.values).any(axis=1)
        return (self.budget.kind == TARGET) & never & completed.any(axis=1)

    @property
    def rises(self) -> bool:
        return tasks.higher_is_better(self.outcome, self.trainings.metrics)

    @property
    def held_equal(self) -> dict[str, Any]:
        kind, value, column = self.budget
        of_budget = {"budget": kind, "budget_value": value, "budget_column": column}
        return {**of_budget, "outcome": self.outcome}

    def means(self, seeds: Any = slice(None)) -> list[Interval]:
        """Returns the mean of each size with its 95 % t-interval; geometric of what was taken.

        Empty where a run failed, or there is none.

        Args:
            seeds: Index of the seeds that count, all by default.
        """
        found = []
        for row, tuned in zip(self.values[:, seeds], self.chosen.tuned.tolist(), strict=True):
            values = row[~np.isnan(row)]
            if not (len(values) and np.isfinite(values).all()):
                found.append(Interval())
            elif not self.taken:
                found.append(intervals.t_interval(values, differ=tuned))
            else:
                whole = (values > 0).all()
                found.append(intervals.ratio_interval(values if whole else [], 1.0, tuned))
        return found


def of_experiment(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    stated: Mapping[str, Any],
    margins: Mapping[str, float],
    looks: Sequence[int] = (),
    default_target: DefaultTarget = Trainings.default_target,
    metrics: tasks.Metrics = (),
) -> Iterator[Reading]:
    """Yields every outcome of every series with two batch sizes or more, at every budget.

    Args:
        stated: Budgets of the experiment: kind -> value, of a target column -> value.
        margins: Outcome -> largest loss; those of columns of runs.csv are read at the end too.
        looks: Numbers of seeds at which one looks; budgets are those of all seeds at each of them.
        default_target: Returns the target of a series where the experiment states none.
        metrics: User-defined metrics.
    """
    shared = budgets(evaluations, stated)
    for each in trainings.of_experiment(runs, evaluations, metrics):
        if len(each.axes[0]) < LEAST_SIZES:
            continue
        target = _target(each, stated, default_target)
        found = functools.partial(_of_series, shared=shared, target=target, margins=margins)
        *before, (_, share) = stages.seen(len(each.axes[2]), looks)
        earlier = [
            {_key(reading): replace(reading, share=of_then) for reading in found(each.first(seeds))}
            for seeds, of_then in before
        ]
        for reading in found(each):
            known = filter(None, (look.get(_key(reading)) for look in earlier))
            yield after(reading, share, known)


def after(reading: Reading, share: float, earlier: Iterable[Reading]) -> Reading:
    same = (each for each in earlier if each.batch_sizes == reading.batch_sizes)
    return replace(reading, share=share, earlier=tuple(same))


def _key(reading: Reading) -> tuple[str, str]:
    return reading.budget.kind, reading.outcome


def _of_series(
    each: Trainings, shared: list[Budget], target: Budget | None, margins: Mapping[str, float]
) -> Iterator[Reading]:
    """Yields every outcome of a series at every budget.

    To the target, at convergence and at the end a batch size is read at one rate, as recommended.
    """
    whole = None
    if trainings.at_own_targets(each.runs):  # what it used by then is no budget of others
        yield from _to_target(each, target, margins, whole)
    elif trainings.at_own_ends(each.runs):
        yield from _at_equal_budget(each, margins)
    elif each.finished[CHOSEN_BY].notna().any():
        losses = _at(each, Budget(CONVERGENCE), CHOSEN_BY)
        taken = np.full_like(losses, math.nan)
        if target:
            taken = each.taken(Target(target.column, target.value), UPDATES)
        whole = each.chosen_for_all(losses, taken, margins.get(SECONDS, MARGIN_OF_TAKEN))
        for budget in shared:
            if budget.kind == CONVERGENCE:
                yield from _to_target(each, target, margins, whole)
            one_rate = whole if budget.kind == CONVERGENCE else None
            yield from _at_budget(each, budget, margins, one_rate)
    own_ends = not trainings.at_own_ends(each.runs)  # unequal ends are not compared
    for outcome, margin in margins.items() if own_ends else ():
        if outcome in each.runs and each.runs[outcome].notna().any():
            yield _at_own_end(each, outcome, margin, whole)


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
    if run_series.by_horizon(evaluations):
        ends = {*last[AXES[EPOCHS]], *finished[EPOCHS]}
        found = [Budget(EPOCHS, float(ends.pop()))] if len(ends) == 1 else []
        return [*found, Budget(CONVERGENCE)]
    known = {kind: axis for kind, axis in AXES.items() if last[axis].notna().any()}
    found = [
        Budget(kind, float(stated.get(kind, last[axis].min()))) for kind, axis in known.items()
    ]
    return [*found, Budget(CONVERGENCE)]


def _reading(
    each: Trainings,
    budget: Budget,
    outcome: str,
    margin: float,
    chosen: Chosen,
    **marks: np.ndarray,
) -> Reading:
    """Returns the reading of an outcome; what is left out of `marks` holds of no size."""
    none = np.zeros(len(each.axes[0]), bool)
    marks = dict.fromkeys(("at_first", "falling", "ended"), none) | marks
    return Reading(each, budget, outcome, margin, chosen, **marks)


def _at_budget(
    each: Trainings, budget: Budget, margins: Mapping[str, float], whole: Chosen | None
) -> Iterator[Reading]:
    """Yields every outcome of a series at a budget, each size at its rate there.

    On test data, or where these are not known on validation data. At convergence the rates are
    those of `whole`. Else the rate is the one with the lowest mean validation loss at the budget
    over all seeds; on validation data each seed is read at the rate that the others choose.
    """
    losses, compared = _at(each, budget, CHOSEN_BY), _compared(each)
    on_test = [f"test_{name}" for name in compared]
    cubes = {name: _at(each, budget, name) for name in on_test if each.whole(name)}
    more = {}
    if whole:
        more["falling"] = _falling(each, whole)
        if not cubes:  # they may be measured at the end
            rows = run_series.finished(each.runs)
            measured = [name for name in on_test if name in rows and rows[name].notna().all()]
            cubes = {name: each.column(name) for name in measured}
    else:
        axis = AXES[budget.kind]
        ended = each.by_run(lambda rows: targets.ended_before(rows[axis], budget.value))
        more["ended"] = (each.outcome(ended) == 1).any(axis=(1, 2))
    for of, default in compared.items():
        test, validation = f"test_{of}", f"validation_{of}"
        name = test if test in cubes else validation
        if name == validation:
            if name not in each.finished or each.finished[name].isna().all():
                continue
            cubes[name] = _at(each, budget, name)
        margin = margins.get(name, margins.get(test, default))
        if margin is not None:
            cube, others = cubes[name], name == validation
            found = whole.of(cube) if whole else each.chosen_by(losses, cube, others)
            yield _reading(each, budget, name, margin, found, **more)


def _at_equal_budget(each: Trainings, margins: Mapping[str, float]) -> Iterator[Reading]:
    """Yield every outcome and the seconds of a series with equal ends, known there alone.

    The rate is chosen by the first loss or metric that there is, for each seed by the others.
    """

    def only(name: str) -> np.ndarray:
        read = each.by_run(lambda rows: float(rows[name][0]))
        return each.outcome(read, tasks.higher_is_better(name, each.metrics))

    equal = budget_kinds.equal_budget(each.finished)
    known = [name for name in own_columns.outcomes(each.metrics) if each.whole(name)]
    if equal is None or not known:
        return
    budget, losses = Budget(*equal), only(known[0])
    losses = -losses if tasks.higher_is_better(known[0], each.metrics) else losses
    for of, default in _compared(each).items():
        names = (f"{split}_{of}" for split in ("test", "validation", "train"))
        name = next(filter(known.__contains__, names), None)
        margin = margins.get(name, default)
        if name and margin is not None:
            yield _reading(each, budget, name, margin, each.chosen_by(losses, only(name), True))
    if each.whole(SECONDS):
        margin, seconds = margins.get(SECONDS, MARGIN_OF_TAKEN), only(SECONDS)
        yield _reading(each, budget, SECONDS, margin, each.chosen_by(losses, seconds, True))


def _compared(each: Trainings) -> dict[str, float | None]:
    """Returns the metrics of what a series learns, and the loss: each with its usual margin.

    None where its unit decides: of it the experiment states one, or it is not compared.
    """
    learned = tasks.of_columns(each.finished.columns[each.finished.notna().any()])
    names = [name for task in learned for name in tasks.TASKS[task]]
    margins = {name: tasks.METRICS[name].margin for name in names}
    user_metrics = dict.fromkeys(metric.name for metric in each.metrics)
    return {**margins, "loss": tasks.loss_margin(learned), **user_metrics}


def _at_own_end(each: Trainings, outcome: str, margin: float, whole: Chosen | None) -> Reading:
    """Returns a column of runs.csv at the rates of `whole`, or those of the lowest losses.

    Where these are not known the outcome itself chooses, each seed at the rate of the others.
    """
    losses, cube = each.column(CHOSEN_ON), each.column(outcome)
    if whole:
        return _reading(each, Budget(END), outcome, margin, whole.of(cube))
    others = outcome.startswith("validation")
    if not np.isfinite(losses).any():
        losses, others = -cube if tasks.higher_is_better(outcome, each.metrics) else cube, True
    return _reading(each, Budget(END), outcome, margin, each.chosen_by(losses, cube, others))


def of_column(rows: pandas.DataFrame, column: str, looks: Sequence[int] = ()) -> Reading:
    """Returns a column of runs.csv of one series at the runs' own ends, without any choice.

    A seed has no value where its run failed. A batch size at which no run has one, and some failed,
    has failed.
    """
    each = Trainings({}, rows, rows.iloc[:0])
    *before, (_, share) = stages.seen(len(each.axes[2]), looks)
    earlier = (
        replace(_of_column(each.first(seeds), column), share=of_then) for seeds, of_then in before
    )
    return after(_of_column(each, column), share, earlier)


def _of_column(each: Trainings, column: str) -> Reading:
    rows = each.runs
    finished, failed = (rows["status"] == FINISHED), rows["status"].isin(UNSUCCESSFUL)
    known = rows[column].astype(float)
    known = known.where(np.isfinite(known) & (finished | (column == _TIMED)))
    values, failures = (
        np.fmax.reduce(each.cube(found), axis=1) for found in (known, np.where(failed, 1.0, np.nan))
    )
    values[np.isnan(values).all(axis=1) & (failures == 1).any(axis=1)] = math.inf
    no = np.zeros(len(values), bool)
    chosen = Chosen(values, np.full(len(values), math.nan), no, np.zeros(values.shape, int), no)
    return _reading(each, Budget(END), column, math.nan, chosen)


def _target(
    each: Trainings, stated: Mapping[str, Any], default_target: DefaultTarget
) -> Budget | None:
    """Return the target of a series: the stated one, else its default.

    There is none if updates are not known, or if the learning rate follows the horizon.
    """
    own_target = trainings.at_own_targets(each.runs)
    if not own_target and (not each.whole("updates") or run_series.by_horizon(each.evaluations)):
        return None
    targets_stated = [Target(*known) for known in stated.get(TARGET, {}).items()]
    target = targets_stated[0] if targets_stated else default_target(each)
    if target is None or not (target.column or own_target):
        return None
    return Budget(TARGET, target.value, target.column)


def _to_target(
    each: Trainings, budget: Budget | None, margins: Mapping[str, float], whole: Chosen | None
) -> Iterator[Reading]:
    """Yields the updates, examples and seconds that each size takes to a target.

    At the rates of `whole`; without these each seed at the rate that the others choose.
    """
    if budget is None:
        return
    target = Target(budget.column, budget.value)
    first = each.at_first(target)
    for axis in own_columns.AXES:
        if each.whole(axis):
            taken, margin = each.taken(target, axis), margins.get(axis, MARGIN_OF_TAKEN)
            chosen = whole.of(taken) if whole else each.chosen_by_itself(taken)
            at_first = chosen_rates.at(first, np.maximum(chosen.read, 0)).any(axis=1)
            yield _reading(each, budget, axis, margin, chosen, at_first=at_first)


def _falling(each: Trainings, whole: Chosen) -> np.ndarray:
    """Returns whether most trainings of a size, at its rate, end at their lowest loss."""

    def falls(rows: Evaluated) -> float:
        found = rows[CHOSEN_BY]
        known = len(found) > 1 and np.isfinite(found).any()
        return float(np.nanargmin(found) == len(found) - 1) if known else math.nan

    read = whole.of(each.cube(each.by_run(falls))).values
    return np.nansum(read, axis=1) > 0.5 * (~np.isnan(read)).sum(axis=1)


def _at(each: Trainings, budget: Budget, name: str) -> np.ndarray:
    """Returns what each training has in a column at a budget as a cube; NaN if it ended before."""
    loss = tasks.lower_is_better(name, each.metrics)

    def read(rows: Evaluated) -> float:
        if budget.kind != CONVERGENCE:
            used = rows[AXES[budget.kind]]
            scaled = tasks.logarithmic(name)
            return targets.at_budget(used, rows[name], budget.value, scaled)
        losses = rows[CHOSEN_BY]
        known = np.isfinite(losses)
        if not known.any():  # a single row is all that there is to read
            return float(rows[name][0]) if len(losses) == 1 else math.nan
        return float(rows[name][np.argmin(np.where(known, losses, math.inf))])

    return each.outcome(each.by_run(read), rises=not loss)
