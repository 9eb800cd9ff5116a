"""Outcomes of one series at equal budgets, each batch size at its tuned learning rate.

The best batch size depends on the budget, and on the choice of the learning rate. A rate is chosen
at the budget itself: the best rate after ten epochs may differ from the best after ten seconds.

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
from batchscope.study import budget_kinds, external_columns, stages, tasks
from batchscope.study.budget_kinds import (
    AXES,
    CONVERGENCE,
    COSTS,
    END,
    EPOCHS,
    SECONDS,
    TARGET,
    UPDATES,
)

MIN_SIZES = 2
_TIMED = "seconds_per_epoch"  # of a timing job, which ran whatever became of the training
CHOSEN_BY = "validation_loss"  # of an evaluation; of a run `CHOSEN_ON`
DefaultTarget = Callable[[Trainings], Target | None]
COST_MARGIN = 0.1  # default margin of a cost to a target


class Budget(NamedTuple):
    """A budget of trainings.

    Attributes:
        kind: One of `budget_kinds`.
        value: Its value; for a target, the loss or metric. NaN for convergence and the end.
        column: Column of the target.
    """

    kind: str
    value: float = math.nan
    column: str = ""


@dataclass(frozen=True)
class BudgetComparison:
    """One outcome of one series at one budget.

    Attributes:
        margin: Largest negligible deterioration; NaN if it is unknown.
        chosen: Values of each batch size at its rate. NaN without a run, or if the run ended before
            the budget; infinitely bad if it failed or never reached the target.
        at_first: Whether a run of the size reached the target by its first evaluation: its cost is
            an upper bound.
        falling: Whether the validation loss of most runs still fell at their end.
        ended: Whether a run of the size finished before the budget.
        rate_left: Whether a rate with fewer seeds may be better than the chosen one.
        share: Share of the level that an analysis of these seeds may spend.
        earlier: The comparison at each earlier interim analysis.
    """

    trainings: Trainings
    budget: Budget
    outcome: str
    margin: float
    chosen: Chosen
    at_first: np.ndarray
    falling: np.ndarray
    ended: np.ndarray
    rate_left: np.ndarray
    share: float = 1.0
    earlier: tuple[BudgetComparison, ...] = ()

    @property
    def batch_sizes(self) -> list[int]:
        return self.trainings.axes[0]

    @property
    def values(self) -> np.ndarray:
        return self.chosen.values

    @functools.cached_property
    def ran(self) -> np.ndarray:
        """Whether there is a run, regardless of its status, shape (sizes, seeds)."""
        return ~np.isnan(self.trainings.outcome(0.0)).all(axis=1)

    @property
    def is_cost(self) -> bool:
        return self.outcome in COSTS

    @functools.cached_property
    def not_reached(self) -> np.ndarray:
        """Whether runs of a size never reached the target, at a rate without failed runs."""
        cube = self.trainings.cube(self.trainings.failed)
        completed = chosen_rates.tried(cube) & ~(cube == 1).any(axis=2)
        never = np.isinf(self.values).any(axis=1)
        return (self.budget.kind == TARGET) & never & completed.any(axis=1)

    @property
    def higher_is_better(self) -> bool:
        return tasks.higher_is_better(self.outcome, self.trainings.metrics)

    @property
    def budget_columns(self) -> dict[str, Any]:
        kind, value, column = self.budget
        of_budget = {"budget": kind, "budget_value": value, "budget_column": column}
        return {**of_budget, "outcome": self.outcome}

    def means(self, seeds: Any = slice(None)) -> list[Interval]:
        """Return the mean of each size with its 95 % t-interval; the geometric mean of a cost.

        It is NaN without a run, or if one failed.

        Args:
            seeds: Index of the seeds that count, all by default.
        """
        return intervals.means(self.values[:, seeds], self.chosen.tuned, self.is_cost)


def for_experiment(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    stated_budgets: Mapping[str, Any],
    margins: Mapping[str, float],
    analyses: Sequence[int] = (),
    default_target: DefaultTarget = Trainings.default_target,
    metrics: tasks.Metrics = (),
) -> Iterator[BudgetComparison]:
    """Yield every outcome of every series with two batch sizes or more, at every budget.

    Args:
        stated_budgets: Budgets of the experiment: kind -> value; for a target, column -> value.
        margins: Outcome -> largest negligible deterioration. Columns of runs.csv among them are
            also read at the end of the runs.
        analyses: Numbers of seeds at the interim analyses, which use the budgets of all seeds.
        default_target: Returns the target of a series if the experiment states none.
        metrics: User-defined metrics.
    """
    shared = budgets(evaluations, stated_budgets)
    for series in trainings.for_experiment(runs, evaluations, metrics):
        if len(series.axes[0]) < MIN_SIZES:
            continue
        budget = target(series, stated_budgets, default_target)
        read = functools.partial(_compare_series, shared=shared, target=budget, margins=margins)
        yield from _staged(series, analyses, read)


def _staged(
    trainings: Trainings,
    planned: Sequence[int],
    read: Callable[[Trainings], Iterable[BudgetComparison]],
) -> Iterator[BudgetComparison]:
    """Yield the comparisons of trainings, each with those of the same sizes at earlier analyses."""
    *before, (_, share) = stages.analyses_so_far(len(trainings.axes[2]), planned)
    earlier = [
        {
            _key(comparison): replace(comparison, share=used)
            for comparison in read(trainings.first(seeds))
        }
        for seeds, used in before
    ]
    for comparison in read(trainings):
        same = (analysis.get(_key(comparison)) for analysis in earlier)
        same = (match for match in same if match and match.batch_sizes == comparison.batch_sizes)
        yield replace(comparison, share=share, earlier=tuple(same))


def _key(comparison: BudgetComparison) -> tuple[str, str]:
    return comparison.budget.kind, comparison.outcome


def _compare_series(
    series: Trainings, shared: list[Budget], target: Budget | None, margins: Mapping[str, float]
) -> Iterator[BudgetComparison]:
    """Yield every outcome of a series at every budget.

    To the target, at convergence and at the end a batch size has one rate, as recommended.
    """
    advised = None
    if trainings.at_own_targets(series.runs):  # the only evaluation of a run is at its target
        yield from _to_target(series, target, margins, advised)
    elif trainings.at_own_ends(series.runs):
        yield from _at_equal_budget(series, margins)
    elif series.finished[CHOSEN_BY].notna().any():
        losses = at_budget(series, Budget(CONVERGENCE), CHOSEN_BY)
        costs = np.full_like(losses, math.nan)
        if target:
            costs = series.cost_to(Target(target.column, target.value), UPDATES)
        advised = series.chosen_for_all(losses, costs, margins.get(SECONDS, COST_MARGIN))
        for budget in shared:
            if budget.kind == CONVERGENCE:
                yield from _to_target(series, target, margins, advised)
            one_rate = advised if budget.kind == CONVERGENCE else None
            yield from _at_budget(series, budget, margins, one_rate)
    own_ends = not trainings.at_own_ends(series.runs)  # unequal ends are not compared
    for outcome, margin in margins.items() if own_ends else ():
        if outcome in series.runs and series.runs[outcome].notna().any():
            yield _at_own_end(series, outcome, margin, advised)


def budgets(evaluations: pandas.DataFrame, values: Mapping[str, Any]) -> list[Budget]:
    """Return the budgets of an experiment, without the target, since that depends on the series.

    Each is as stated, or the largest that every finished run reached. A budget that no run has,
    such as seconds without a timing, is left out. If the learning rate follows the horizon, runs
    can only be compared at equal horizons.
    """
    finished = run_series.finished(evaluations)
    if not len(finished):
        return []
    last = finished.groupby(["machine", "run"])[[*AXES.values()]].max()
    if run_series.by_horizon(evaluations):
        ends = {*last[AXES[EPOCHS]], *finished[EPOCHS]}
        equal = [Budget(EPOCHS, float(ends.pop()))] if len(ends) == 1 else []
        return [*equal, Budget(CONVERGENCE)]
    axes = {kind: axis for kind, axis in AXES.items() if last[axis].notna().any()}
    equal = [Budget(kind, float(values.get(kind, last[axis].min()))) for kind, axis in axes.items()]
    return [*equal, Budget(CONVERGENCE)]


def _comparison(
    series: Trainings,
    budget: Budget,
    outcome: str,
    margin: float,
    chosen: Chosen,
    **marks: np.ndarray,
) -> BudgetComparison:
    """Return the comparison of an outcome; a mark that is left out is false for all sizes."""
    none = np.zeros(len(series.axes[0]), bool)
    marks = dict.fromkeys(("at_first", "falling", "ended", "rate_left"), none) | marks
    return BudgetComparison(series, budget, outcome, margin, chosen, **marks)


def _at_budget(
    series: Trainings, budget: Budget, margins: Mapping[str, float], advised: Chosen | None
) -> Iterator[BudgetComparison]:
    """Yield every outcome of a series at a budget, on test data or else on validation data.

    At convergence `advised` has the rates. Otherwise the rate has the lowest mean validation loss
    of all seeds at the budget. On validation data the other seeds choose the rate of each seed.
    """
    losses, compared = at_budget(series, budget, CHOSEN_BY), _compared(series)
    on_test = [f"test_{name}" for name in compared]
    cubes = {name: at_budget(series, budget, name) for name in on_test if series.is_complete(name)}
    marks = {}
    if advised:
        marks["falling"] = _falling(series, advised)
        if not cubes:  # they may be measured at the end
            rows = run_series.finished(series.runs)
            measured = [name for name in on_test if name in rows and rows[name].notna().all()]
            cubes = {name: series.column(name) for name in measured}
    else:
        axis = AXES[budget.kind]
        ended = series.by_run(lambda rows: targets.ended_before(rows[axis], budget.value))
        marks["ended"] = (series.outcome(ended) == 1).any(axis=(1, 2))
        index = chosen_rates.for_other_data(losses)
        marks["rate_left"] = chosen_rates.better_with_fewer_seeds(losses, index)
    for quantity, default in compared.items():
        test, validation = f"test_{quantity}", f"validation_{quantity}"
        name = test if test in cubes else validation
        if name == validation:
            if name not in series.finished or series.finished[name].isna().all():
                continue
            cubes[name] = at_budget(series, budget, name)
        margin = margins.get(name, margins.get(test, default))
        if margin is not None:
            cube, by_others = cubes[name], name == validation
            chosen = advised.apply(cube) if advised else series.chosen_by(losses, cube, by_others)
            yield _comparison(series, budget, name, margin, chosen, **marks)


def _at_equal_budget(series: Trainings, margins: Mapping[str, float]) -> Iterator[BudgetComparison]:
    """Yield every outcome and the seconds of a series with equal ends, known there alone.

    The other seeds choose the rate of each seed, by the first known loss or metric.
    """

    def only(name: str) -> np.ndarray:
        read = series.by_run(lambda rows: float(rows[name][0]))
        return series.outcome(read, tasks.higher_is_better(name, series.metrics))

    equal = budget_kinds.equal_budget(series.finished)
    outcomes = [
        name for name in external_columns.outcomes(series.metrics) if series.is_complete(name)
    ]
    if equal is None or not outcomes:
        return
    budget, losses = Budget(*equal), only(outcomes[0])
    losses = -losses if tasks.higher_is_better(outcomes[0], series.metrics) else losses
    for quantity, default in _compared(series).items():
        names = (f"{split}_{quantity}" for split in ("test", "validation", "train"))
        name = next(filter(outcomes.__contains__, names), None)
        margin = margins.get(name, default)
        if name and margin is not None:
            yield _comparison(
                series, budget, name, margin, series.chosen_by(losses, only(name), True)
            )
    if series.is_complete(SECONDS):
        margin, seconds = margins.get(SECONDS, COST_MARGIN), only(SECONDS)
        yield _comparison(series, budget, SECONDS, margin, series.chosen_by(losses, seconds, True))


def _compared(series: Trainings) -> dict[str, float | None]:
    """Return the loss and the metrics of a series' tasks, each with its default margin.

    None if the margin depends on the unit: it is compared only with a stated margin.
    """
    learned = tasks.from_columns(series.finished.columns[series.finished.notna().any()])
    names = [name for task in learned for name in tasks.TASKS[task]]
    margins = {name: tasks.METRICS[name].margin for name in names}
    user_metrics = dict.fromkeys(metric.name for metric in series.metrics)
    return {**margins, "loss": tasks.loss_margin(learned), **user_metrics}


def _at_own_end(
    series: Trainings, outcome: str, margin: float, advised: Chosen | None
) -> BudgetComparison:
    """Return a column of runs.csv at the rates of `advised`, or at those with the lowest losses.

    Without losses the outcome itself chooses, each seed at the rate that the others choose.
    """
    losses, cube = series.column(CHOSEN_ON), series.column(outcome)
    if advised:
        return _comparison(series, Budget(END), outcome, margin, advised.apply(cube))
    by_others = outcome.startswith("validation")
    if not np.isfinite(losses).any():
        losses, by_others = -cube if tasks.higher_is_better(outcome, series.metrics) else cube, True
    return _comparison(
        series, Budget(END), outcome, margin, series.chosen_by(losses, cube, by_others)
    )


def from_column(
    rows: pandas.DataFrame, column: str, analyses: Sequence[int] = ()
) -> BudgetComparison:
    """Return a column of runs.csv of one series at the end of its runs, without tuned rates.

    A seed has no value if its run failed. A batch size without any value has failed if a run did.
    """
    trainings = Trainings({}, rows, rows.iloc[:0])
    (comparison,) = _staged(trainings, analyses, lambda first: [_column_values(first, column)])
    return comparison


def _column_values(series: Trainings, column: str) -> BudgetComparison:
    rows = series.runs
    finished, failed = (rows["status"] == FINISHED), rows["status"].isin(UNSUCCESSFUL)
    numbers = rows[column].astype(float)
    numbers = numbers.where(np.isfinite(numbers) & (finished | (column == _TIMED)))
    values, failures = (
        np.fmax.reduce(series.cube(row), axis=1) for row in (numbers, np.where(failed, 1.0, np.nan))
    )
    values[np.isnan(values).all(axis=1) & (failures == 1).any(axis=1)] = math.inf
    no = np.zeros(len(values), bool)
    chosen = Chosen(values, np.full(len(values), math.nan), no, np.zeros(values.shape, int), no)
    return _comparison(series, Budget(END), column, math.nan, chosen)


def target(
    series: Trainings, stated_budgets: Mapping[str, Any], default_target: DefaultTarget
) -> Budget | None:
    """Return the target of a series: the stated one, else its default.

    There is none if updates are not known, or if the learning rate follows the horizon.
    """
    own_target = trainings.at_own_targets(series.runs)
    if not own_target and (
        not series.is_complete("updates") or run_series.by_horizon(series.evaluations)
    ):
        return None
    targets_stated = [Target(*item) for item in stated_budgets.get(TARGET, {}).items()]
    stated_target = targets_stated[0] if targets_stated else default_target(series)
    if stated_target is None or not (stated_target.column or own_target):
        return None
    return Budget(TARGET, stated_target.value, stated_target.column)


def _to_target(
    series: Trainings, budget: Budget | None, margins: Mapping[str, float], advised: Chosen | None
) -> Iterator[BudgetComparison]:
    """Yield the updates, examples and seconds that each size takes to a target.

    `advised` has the rates; without it each seed is read at the rate that the others choose.
    """
    if budget is None:
        return
    target = Target(budget.column, budget.value)
    first = series.at_first(target)
    for axis in external_columns.AXES:
        if series.is_complete(axis):
            costs, margin = series.cost_to(target, axis), margins.get(axis, COST_MARGIN)
            chosen = advised.apply(costs) if advised else series.chosen_by_itself(costs)
            at_first = chosen_rates.at(first, np.maximum(chosen.read, 0)).any(axis=1)
            yield _comparison(series, budget, axis, margin, chosen, at_first=at_first)


def _falling(series: Trainings, advised: Chosen) -> np.ndarray:
    """Return whether most trainings of each size, at its rate, end at their lowest loss."""

    def falls(rows: Evaluated) -> float:
        losses = rows[CHOSEN_BY]
        is_known = len(losses) > 1 and np.isfinite(losses).any()
        return float(np.nanargmin(losses) == len(losses) - 1) if is_known else math.nan

    read = advised.apply(series.cube(series.by_run(falls))).values
    return np.nansum(read, axis=1) > 0.5 * (~np.isnan(read)).sum(axis=1)


def at_budget(series: Trainings, budget: Budget, name: str) -> np.ndarray:
    """Return a column of each training at a budget as a cube; NaN if it ended before."""
    loss = tasks.lower_is_better(name, series.metrics)

    def read(rows: Evaluated) -> float:
        if budget.kind != CONVERGENCE:
            used = rows[AXES[budget.kind]]
            scaled = tasks.logarithmic(name)
            return targets.at_budget(used, rows[name], budget.value, scaled)
        losses = rows[CHOSEN_BY]
        finite = np.isfinite(losses)
        if not finite.any():  # a single row is all that there is to read
            return float(rows[name][0]) if len(losses) == 1 else math.nan
        return float(rows[name][np.argmin(np.where(finite, losses, math.inf))])

    return series.outcome(series.by_run(read), higher_is_better=not loss)
