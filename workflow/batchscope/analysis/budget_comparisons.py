"""Runs and their evaluations in, one `BudgetComparison` per series, budget and outcome out.

A comparison has the values of every batch size and seed at an equal budget, each batch size at the
learning rate that is best at this budget (Shallue et al. 2019, arXiv 1811.03600, sections 2 and 3).
`comparisons` and `trends` make rows of them. A new budget is yielded by `_compare_series`.
"""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, intervals, run_series, targets, trainings
from batchscope.analysis.intervals import Interval
from batchscope.analysis.targets import ComparisonRequest, Target
from batchscope.analysis.trainings import RUN_LOSS, Choice, Evaluations, Trainings
from batchscope.store.records import FINISHED, UNSUCCESSFUL
from batchscope.study import log_format, stages, tasks
from batchscope.study.outcomes import (
    AXES,
    CONVERGENCE,
    COSTS,
    END,
    EPOCHS,
    SECONDS,
    TARGET,
    UPDATES,
    equal_budget,
)

MIN_SIZES = 2
# A column of runs.csv that a timing job measures, regardless of the status of the run.
_TIMING_COLUMN = "seconds_per_epoch"
LOSS = "validation_loss"  # column of trajectories.csv that chooses the rates
COST_MARGIN = 0.1  # default margin of a cost to a target


class Budget(NamedTuple):
    """A budget of trainings."""

    kind: str  # a kind of budget in `study.outcomes`
    value: float = math.nan  # or the value of a target; NaN for convergence and the end
    column: str = ""  # column of a target


@dataclass(frozen=True)
class BudgetComparison:
    """One outcome of one series at one budget.

    Each mark has the indices of the batch sizes that it holds for.
    """

    trainings: Trainings
    budget: Budget
    outcome: str
    margin: float  # largest negligible deterioration; NaN if it is unknown
    # Values of each batch size at its rate. A value is NaN without a run, or if the run ended
    # before the budget. It is infinitely bad if the run failed or never reached the target.
    chosen: Choice
    at_first: Collection[int] = ()  # a run reached the target by its first evaluation
    still_falling: Collection[int] = ()  # the validation loss of most runs still fell at their end
    ended_early: Collection[int] = ()  # a run finished before the budget
    rate_left: Collection[int] = ()  # a rate with fewer seeds may be better than the chosen one
    share: float = 1.0  # share of the level that an analysis of these seeds may spend
    earlier: tuple[Self, ...] = ()  # the same at each earlier interim analysis

    @property
    def batch_sizes(self) -> list[int]:
        return self.trainings.axes[0]

    @property
    def values(self) -> np.ndarray:
        return self.chosen.values

    @property
    def is_cost(self) -> bool:
        return self.outcome in COSTS

    @functools.cached_property
    def scaled(self) -> np.ndarray:
        """The values, or the logarithms of costs, shape (sizes, seeds)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.values) if self.is_cost else self.values

    @functools.cached_property
    def has_run(self) -> np.ndarray:
        """Whether there is a run, regardless of its status, shape (sizes, seeds)."""
        return ~np.isnan(self.trainings.outcome_cube(0.0)).all(axis=1)

    @functools.cached_property
    def not_reached(self) -> np.ndarray:
        """Whether a run of each size never reached the target, at a rate without failed runs."""
        cube = self.trainings.cube(self.trainings.failed)
        completed = chosen_rates.was_tried(cube) & ~(cube == 1).any(axis=2)
        never = np.isinf(self.values).any(axis=1)
        return (self.budget.kind == TARGET) & never & completed.any(axis=1)

    @property
    def higher_is_better(self) -> bool:
        return tasks.higher_is_better(self.outcome, self.trainings.metrics)

    @property
    def budget_columns(self) -> dict[str, Any]:
        kind, value, column = self.budget
        columns = {"budget": kind, "budget_value": value, "budget_column": column}
        return {**columns, "outcome": self.outcome}

    def means(self, seeds: Any = slice(None)) -> list[Interval]:
        """Return the mean of each size over seeds, all by default (see `intervals.means`)."""
        return intervals.means(self.values[:, seeds], self.chosen.tuned, self.is_cost)


def for_experiment(
    runs: pandas.DataFrame, evaluations: pandas.DataFrame, request: ComparisonRequest
) -> Iterator[BudgetComparison]:
    """Yield one comparison per series with two batch sizes or more, budget and outcome.

    Interim analyses use the budgets of all seeds.
    """
    shared = shared_budgets(evaluations, request.budgets)
    for series in trainings.for_experiment(runs, evaluations, request.metrics):
        if len(series.axes[0]) >= MIN_SIZES:
            compare = functools.partial(
                _compare_series,
                shared=shared,
                target=request.target(series),
                margins=request.margins,
            )
            yield from _with_earlier(series, request.analyses, compare)


def _with_earlier(
    series: Trainings,
    analyses: Sequence[int],
    compare: Callable[[Trainings], Iterable[BudgetComparison]],
) -> Iterator[BudgetComparison]:
    """Yield the comparisons of a series, each with the same comparison at earlier analyses.

    An earlier comparison of other batch sizes is left out.
    """
    earlier: dict[tuple[str, str], list[BudgetComparison]] = {}
    *earlier_stages, (_, share) = stages.analyses_so_far(len(series.axes[2]), analyses)
    for seeds, earlier_share in earlier_stages:
        for comparison in compare(series.with_seeds(series.axes[2][:seeds])):
            key = (comparison.budget.kind, comparison.outcome)
            earlier.setdefault(key, []).append(replace(comparison, share=earlier_share))
    for comparison in compare(series):
        matches = earlier.get((comparison.budget.kind, comparison.outcome), ())
        same = tuple(match for match in matches if match.batch_sizes == comparison.batch_sizes)
        yield replace(comparison, share=share, earlier=same)


def _compare_series(
    series: Trainings, shared: list[Budget], target: Target | None, margins: Mapping[str, float]
) -> Iterator[BudgetComparison]:
    """Yield one comparison of a series per budget and outcome.

    To the target, at convergence and at the end, a batch size has one rate for all data, that of
    the choice `advised`.
    """
    if trainings.end_at_equal_budget(series.runs):  # external runs with a single row
        yield from _comparisons_at_equal_budget(series, margins)
        return
    advised = None
    if series.finished[LOSS].notna().any():
        losses = cube_at_budget(series, Budget(CONVERGENCE), LOSS)
        costs = np.full_like(losses, math.nan)
        if target:
            costs = target.cost_cube(series, UPDATES)
        advised = series.choose_for_all_data(losses, costs, margins.get(SECONDS, COST_MARGIN))
        for budget in shared:
            if budget.kind == CONVERGENCE:
                if target:
                    yield from _comparisons_to_target(series, target, margins, advised)
                yield from _comparisons_at_convergence(series, margins, advised)
            else:
                yield from _comparisons_at_budget(series, budget, margins)
    for outcome, margin in margins.items():
        if outcome in series.runs and series.runs[outcome].notna().any():
            yield _comparison_at_own_end(series, outcome, margin, advised)


def shared_budgets(evaluations: pandas.DataFrame, stated: Mapping[str, Any]) -> list[Budget]:
    """Return the budgets of an experiment that all its series share: all but the target.

    A budget has its stated value, or else the largest one that every finished run reached. If the
    learning rate follows the horizon, runs can only be compared at equal horizons.
    """
    finished = run_series.finished_runs(evaluations)
    if not len(finished):
        return []
    last = finished.groupby(["machine", "run"])[[*AXES.values()]].max()
    if run_series.follows_horizon(evaluations):
        ends = {*last[AXES[EPOCHS]], *finished[EPOCHS]}
        budgets = [Budget(EPOCHS, float(ends.pop()))] if len(ends) == 1 else []
        return [*budgets, Budget(CONVERGENCE)]
    axes = {kind: axis for kind, axis in AXES.items() if last[axis].notna().any()}
    values = {kind: float(stated.get(kind, last[axis].min())) for kind, axis in axes.items()}
    return [*(Budget(*item) for item in values.items()), Budget(CONVERGENCE)]


def _indices(marked: np.ndarray) -> frozenset[int]:
    return frozenset(np.flatnonzero(marked).tolist())


def _comparisons_at_budget(
    series: Trainings, budget: Budget, margins: Mapping[str, float]
) -> Iterator[BudgetComparison]:
    """Yield one comparison per outcome at equal epochs, updates or seconds.

    The rate of a batch size has the lowest mean validation loss of all seeds at the budget. On
    validation data the other seeds choose the rate of each seed.
    """
    losses, axis = cube_at_budget(series, budget, LOSS), AXES[budget.kind]
    ended = series.per_run(lambda rows: targets.is_ended_before(rows[axis], budget.value))
    index = chosen_rates.index_for_other_data(losses)
    marks = {
        "ended_early": _indices((series.outcome_cube(ended) == 1).any(axis=(1, 2))),
        "rate_left": _indices(chosen_rates.is_beaten_with_fewer_seeds(losses, index)),
    }
    for name, margin, cube in _cubes_at_budget(series, budget, margins):
        choice = series.choose_by_losses(losses, cube, by_others=name.startswith("validation_"))
        yield BudgetComparison(series, budget, name, margin, choice, **marks)


def _comparisons_at_convergence(
    series: Trainings, margins: Mapping[str, float], advised: Choice
) -> Iterator[BudgetComparison]:
    """Yield one comparison per outcome at the lowest validation loss, at the rates of `advised`."""

    def ends_at_lowest(rows: Evaluations) -> float:
        losses = rows[LOSS]
        is_known = len(losses) > 1 and np.isfinite(losses).any()
        return float(np.nanargmin(losses) == len(losses) - 1) if is_known else math.nan

    falls = advised.apply(series.cube(series.per_run(ends_at_lowest))).values
    still_falling = _indices(np.nansum(falls, axis=1) > 0.5 * (~np.isnan(falls)).sum(axis=1))
    budget = Budget(CONVERGENCE)
    for name, margin, cube in _cubes_at_budget(series, budget, margins):
        choice = advised.apply(cube)
        yield BudgetComparison(series, budget, name, margin, choice, still_falling=still_falling)


def _cubes_at_budget(
    series: Trainings, budget: Budget, margins: Mapping[str, float]
) -> Iterator[tuple[str, float, np.ndarray]]:
    """Yield each outcome with its margin and its cube, on test data or else validation data."""
    quantities = _default_margins(series)
    on_test = [f"test_{name}" for name in quantities]
    rows = series.finished
    if LOSS in rows and rows[LOSS].notna().any():
        rows = rows.dropna(subset=LOSS)  # other rows have a training loss only
    complete = [name for name in on_test if len(rows) and name in rows and rows[name].notna().all()]
    cubes = {name: cube_at_budget(series, budget, name) for name in complete}
    if not cubes and budget.kind == CONVERGENCE:  # test data may be measured at the end only
        rows = run_series.finished_runs(series.runs)
        measured = [name for name in on_test if name in rows and rows[name].notna().all()]
        cubes = {name: series.column_cube(name) for name in measured}
    for quantity, default in quantities.items():
        test, validation = f"test_{quantity}", f"validation_{quantity}"
        name = test if test in cubes else validation
        margin = margins.get(name, margins.get(test, default))
        if name == validation:
            if name not in series.finished or series.finished[name].isna().all():
                continue
            cubes[name] = cube_at_budget(series, budget, name)
        if margin is not None:
            yield name, margin, cubes[name]


def _comparisons_at_equal_budget(
    series: Trainings, margins: Mapping[str, float]
) -> Iterator[BudgetComparison]:
    """Yield one comparison per outcome, and one of seconds, for external runs with a single row."""

    def single_rows(name: str) -> np.ndarray:
        values = series.per_run(lambda rows: float(rows[name][0]))
        return series.outcome_cube(values, tasks.higher_is_better(name, series.metrics))

    equal = equal_budget(series.finished)
    outcomes = [*filter(series.is_complete, log_format.outcomes_with(series.metrics))]
    if equal is None or not outcomes:
        return
    budget, losses = Budget(*equal), single_rows(outcomes[0])
    losses = -losses if tasks.higher_is_better(outcomes[0], series.metrics) else losses
    default_margins: dict[str, float | None] = {}
    for quantity, default in _default_margins(series).items():
        names = (f"{split}_{quantity}" for split in ("test", "validation", "train"))
        if name := next(filter(outcomes.__contains__, names), None):
            default_margins[name] = default
    if series.is_complete(SECONDS):
        default_margins[SECONDS] = COST_MARGIN
    for name, default in default_margins.items():
        margin = margins.get(name, default)
        if margin is not None:
            choice = series.choose_by_losses(losses, single_rows(name), by_others=True)
            yield BudgetComparison(series, budget, name, margin, choice)


def _default_margins(series: Trainings) -> dict[str, float | None]:
    """Return the loss and the metrics of a series, each with its default margin, if it has one."""
    series_tasks = tasks.from_columns(series.finished.columns[series.finished.notna().any()])
    names = [name for task in series_tasks for name in tasks.TASKS[task]]
    margins = {name: tasks.METRICS[name].margin for name in names}
    user_metrics = dict.fromkeys(metric.name for metric in series.metrics)
    return {**margins, "loss": tasks.loss_margin(series_tasks), **user_metrics}


def _comparison_at_own_end(
    series: Trainings, outcome: str, margin: float, advised: Choice | None
) -> BudgetComparison:
    """Return the comparison of a column of runs.csv, at the rates of `advised`.

    Without `advised` the losses choose the rates. Without losses the outcome itself does.
    """
    losses, cube = series.column_cube(RUN_LOSS), series.column_cube(outcome)
    by_others = outcome.startswith("validation")
    if advised is None and not np.isfinite(losses).any():
        losses, by_others = -cube if tasks.higher_is_better(outcome, series.metrics) else cube, True
    choice = advised.apply(cube) if advised else series.choose_by_losses(losses, cube, by_others)
    return BudgetComparison(series, Budget(END), outcome, margin, choice)


def from_column(
    rows: pandas.DataFrame, column: str, analyses: Sequence[int] = ()
) -> BudgetComparison:
    """Return the comparison of a column of runs.csv in one series, without tuned rates.

    A failed run has no value. A batch size is infinitely bad if it has failed runs and no value.
    """
    series = Trainings({}, rows, rows.iloc[:0])
    (comparison,) = _with_earlier(
        series, analyses, lambda first: [_comparison_of_column(first, column)]
    )
    return comparison


def _comparison_of_column(series: Trainings, column: str) -> BudgetComparison:
    rows = series.runs
    finished, failed = rows["status"] == FINISHED, rows["status"].isin(UNSUCCESSFUL)
    numbers = rows[column].astype(float)
    numbers = numbers.where(np.isfinite(numbers) & (finished | (column == _TIMING_COLUMN)))
    # Without tuned rates, a batch size has at most one number per seed.
    values, failures = (
        np.fmax.reduce(series.cube(row), axis=1) for row in (numbers, np.where(failed, 1.0, np.nan))
    )
    values[np.isnan(values).all(axis=1) & (failures == 1).any(axis=1)] = math.inf
    none, rates = np.zeros(len(values), bool), np.full(len(values), math.nan)
    choice = Choice(values, rates, none, np.zeros(values.shape, int), none)
    return BudgetComparison(series, Budget(END), column, math.nan, choice)


def _comparisons_to_target(
    series: Trainings, target: Target, margins: Mapping[str, float], advised: Choice
) -> Iterator[BudgetComparison]:
    """Yield one comparison per cost to a target: updates, examples and seconds."""
    budget = Budget(TARGET, target.value, target.column)
    reached_at_first = advised.apply(target.first_evaluation_cube(series)).values == 1
    at_first = _indices(reached_at_first.any(axis=1))
    for axis in log_format.COST_COLUMNS:
        if series.is_complete(axis):
            choice = advised.apply(target.cost_cube(series, axis))
            margin = margins.get(axis, COST_MARGIN)
            yield BudgetComparison(series, budget, axis, margin, choice, at_first=at_first)


def cube_at_budget(series: Trainings, budget: Budget, name: str) -> np.ndarray:
    """Return a column of trajectories.csv at a budget as a cube; NaN if it was not reached."""
    lower_is_better = tasks.lower_is_better(name, series.metrics)

    def read(rows: Evaluations) -> float:
        if budget.kind != CONVERGENCE:
            used, logarithmic = rows[AXES[budget.kind]], tasks.is_logarithmic(name)
            return targets.value_at_budget(used, rows[name], budget.value, logarithmic)
        losses = rows[LOSS]
        finite = np.isfinite(losses)
        if not finite.any():  # an external run may have a single row without a loss
            return float(rows[name][0]) if len(losses) == 1 else math.nan
        return float(rows[name][np.argmin(np.where(finite, losses, math.inf))])

    return series.outcome_cube(series.per_run(read), higher_is_better=not lower_is_better)
