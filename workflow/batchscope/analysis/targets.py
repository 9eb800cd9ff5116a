"""Evaluations of trainings in; their values at a budget, or their costs to a target, out.

A target is a loss or a metric to reach. A study that states no target gets a default one: a loss
that good trainings reach, and that a badly trained batch size cannot make easier. Cubes have the
shape (sizes, rates, seeds), as in `trainings`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, run_series
from batchscope.analysis.trainings import Evaluations, Trainings
from batchscope.study import log_format, tasks
from batchscope.study.outcomes import TARGET
from batchscope.study.tasks import Metrics

ROUNDING = 1e-9  # relative difference below which two budgets are the same
FALL_SHARE = 0.9  # the default target is the loss after this share of the best batch size's fall
N_TARGETS = 3  # number of targets of a series if the study states none; the last is the default
MIN_SIZES_AT_TARGET = 3  # number of batch sizes that must reach the default target with all seeds


def value_at_budget(used: Any, values: Any, budget: float, logarithmic: bool = False) -> float:
    """Return the value of a training at a budget; NaN if it ended before, or began after it.

    `used` is the budget that was used at each evaluation, ascending. Values between two evaluations
    are interpolated linearly, or their logarithms are. An evaluation without a value, or with an
    unknown budget, is left out.
    """
    used, values = np.asarray(used, float), np.asarray(values, float)
    is_known = ~np.isnan(used)
    used, values = used[is_known], values[is_known]
    if is_ended_before(used, budget):
        return math.nan
    has_value = ~np.isnan(values)
    used, values = used[has_value], values[has_value]
    after = int(np.searchsorted(used, budget * (1 + ROUNDING), side="right"))
    if after == 0:
        return math.nan
    first = float(values[after - 1])
    is_exact = budget <= used[after - 1] * (1 + ROUNDING)
    if is_exact or after == len(used) or not np.isfinite(values[after - 1 : after + 1]).all():
        return first
    second = float(values[after])
    share = float((budget - used[after - 1]) / (used[after] - used[after - 1]))
    if logarithmic and min(first, second) > 0:
        return float(first * (second / first) ** share)
    return first + share * (second - first)


def is_ended_before(used: Any, budget: float) -> bool:
    # A difference in the last digit of a fraction of an epoch is rounding.
    return len(used) > 0 and bool(used[-1] < budget * (1 - ROUNDING))


def first_crossing(used: Any, losses: Any, target: float, linear: bool = False) -> float:
    """Return the budget that is used when a loss first reaches a target; infinite if never.

    The logarithm of the loss is interpolated linearly between the two evaluations around the
    crossing. With `linear` the loss itself is, so that a target may be 0 or negative. Without two
    usable losses the crossing is at the evaluation itself. Losses that are not finite are above
    every target.
    """
    used, losses = np.asarray(used, float), np.asarray(losses, float)
    reached = np.flatnonzero(losses <= target)
    if not len(reached):
        return math.inf
    row = int(reached[0])
    if row == 0 or not math.isfinite(losses[row - 1]) or (not linear and losses[row] <= 0):
        return float(used[row])
    before, after = float(losses[row - 1]), float(losses[row])
    if linear:
        share = (before - target) / (before - after)
    else:
        share = math.log(before / target) / math.log(before / after)
    return float(used[row - 1] + share * (used[row] - used[row - 1]))


@dataclass(frozen=True)
class Target:
    """A value of a loss or a metric to reach."""

    column: str
    value: float

    def crossing(self, evaluated: Mapping[str, np.ndarray], axis: str, metrics: Metrics) -> float:
        """Return the cost at which one training first reaches the target; infinite if never."""
        used = evaluated[axis]
        if np.isnan(used).all():
            return math.nan  # the training is missing
        losses = tasks.where_lower_is_better(evaluated[self.column], self.column, metrics)
        target = tasks.where_lower_is_better(self.value, self.column, metrics)
        is_known = ~(np.isnan(losses) | np.isnan(used))
        order = np.argsort(used[is_known], kind="stable")
        linear = tasks.user_metric(self.column, metrics) is not None
        return first_crossing(used[is_known][order], losses[is_known][order], target, linear)

    def crossings(
        self, rows: pandas.DataFrame, axis: str, by: list[str], metrics: Metrics
    ) -> pandas.Series:
        """Return the `crossing` of each training; the columns `by` distinguish the trainings."""
        result = {}
        for key, evaluated in rows.groupby(by):
            columns = {name: evaluated[name].to_numpy(float) for name in {self.column, axis}}
            result[key] = self.crossing(columns, axis, metrics)
        return pandas.Series(result)

    def cost_cube(self, series: Trainings, axis: str) -> np.ndarray:
        """Return the cost of each training; infinite for one that failed or never got there."""
        return series.evaluation_cube(lambda rows: self.crossing(rows, axis, series.metrics))

    def first_evaluation_cube(self, series: Trainings) -> np.ndarray:
        """Return a cube with 1 for each training that reached the target by its first evaluation.

        The cost of such a training is an upper bound.
        """

        def is_reached_at_first(rows: Evaluations) -> float:
            updates = rows["updates"][~np.isnan(rows[self.column])]
            first = np.fmin.reduce(updates, initial=np.nan)  # NaN is left out
            return float(self.crossing(rows, "updates", series.metrics) == first)

        return series.evaluation_cube(is_reached_at_first)


def default_target(series: Trainings) -> Target | None:
    """Return the target of a series if the study states none (see `default_value`).

    Its column is a loss, or else a metric. It is None without either, or with one evaluation a run.
    """
    rows = series.evaluations
    names = (name for name in log_format.outcomes_with(series.metrics) if name in rows)
    column = next((name for name in names if np.isfinite(rows[name].astype(float)).any()), None)
    if column is None or not rows["run"].duplicated().any():
        return None
    ends = series.finished.astype({"examples": float}).groupby("run")["examples"].max()
    # Runs with equal numbers of examples have equal numbers of epochs.
    equal_examples = ends.min() * (1 + ROUNDING)

    def lowest_loss(rows: Evaluations, max_examples: float = math.inf) -> float:
        has_update = ~np.isnan(rows["updates"])
        if not has_update.any():
            return math.nan  # the run is missing
        losses = tasks.where_lower_is_better(rows[column], column, series.metrics)
        kept = has_update & np.isfinite(losses) & ~(rows["examples"] > max_examples)
        return float(np.min(losses[kept], initial=math.inf))

    value = default_value(
        series.evaluation_cube(lambda rows: _first_loss(rows, column, series.metrics)),
        series.evaluation_cube(lambda rows: lowest_loss(rows, equal_examples)),
        series.evaluation_cube(lowest_loss),
    )
    return None if math.isnan(value) else _at_loss(column, value, series.metrics)


class ComparisonRequest(NamedTuple):
    """How the trainings of an experiment are compared."""

    budgets: Mapping[str, Any] = {}  # stated budgets: kind -> value; for a target, column -> value
    # Outcome -> largest negligible deterioration. An outcome that is a column of runs.csv is also
    # compared at the end of the runs.
    margins: Mapping[str, float] = {}
    analyses: Sequence[int] = ()  # numbers of seeds at the interim analyses
    # Function that returns the target of a series if the experiment states none.
    default_target: Callable[[Trainings], Target | None] = default_target
    metrics: Metrics = ()  # user-defined metrics

    @property
    def stated_targets(self) -> list[Target]:
        return [Target(*item) for item in self.budgets.get(TARGET, {}).items()]

    def target(self, series: Trainings) -> Target | None:
        """Return the target of a series: the stated one, or else its default.

        It is None if updates are unknown, or if the learning rate follows the horizon.
        """
        if not series.is_complete("updates") or run_series.follows_horizon(series.evaluations):
            return None
        return next(iter(self.stated_targets), None) or self.default_target(series)


def default_targets(series: Trainings, request: ComparisonRequest) -> list[Target]:
    """Return three targets at equal steps of the logarithm of the loss, the default one last.

    The first step starts at the lowest loss after a first evaluation. If that loss is already below
    the default target, this is the only one.
    """
    last = request.default_target(series)
    if last is None:
        return []
    metrics, column = series.metrics, last.column
    firsts = series.per_run(lambda rows: _first_loss(rows, column, metrics))
    start = float(np.min(firsts[np.isfinite(firsts)], initial=math.inf))
    end = tasks.where_lower_is_better(last.value, column, metrics)
    if not 0 < end < start < math.inf:
        return [last]
    losses = [start * (end / start) ** (step / N_TARGETS) for step in range(1, N_TARGETS)]
    return [*(_at_loss(column, loss, metrics) for loss in losses), last]


def _first_loss(rows: Evaluations, column: str, metrics: Metrics) -> float:
    """Return the first finite loss of a run; NaN without one."""
    losses = tasks.where_lower_is_better(rows[column], column, metrics)
    return next(filter(math.isfinite, losses.tolist()), math.nan)


def _at_loss(column: str, loss: float, metrics: Metrics) -> Target:
    return Target(column, tasks.where_lower_is_better(loss, column, metrics))


def default_value(first: Any, within_equal_epochs: Any, lowest: Any) -> float:
    """Return the default target of a series, by the rules of docs/measures.md.

    All cubes have the shape (sizes, rates, seeds); NaN without a run, infinite if it failed. The
    result is NaN if too few batch sizes get below the first loss of the best one.

    Args:
        first: Loss after the first evaluation.
        within_equal_epochs: Lowest loss within the epochs that all runs made.
        lowest: Lowest loss of the whole run.
    """
    rates = chosen_rates.index_of_lowest_loss(within_equal_epochs)
    usable = np.flatnonzero(rates >= 0)
    if not len(usable):
        return math.nan
    means = np.nanmean(within_equal_epochs[usable, rates[usable]], axis=1)
    best, end = usable[means.argmin()], means.min()
    start = np.nanmean(first[best, rates[best]])
    reached = np.sort(_reached_by_all_seeds(lowest))
    least = reached[min(MIN_SIZES_AT_TARGET, len(reached)) - 1]
    target = max(start - FALL_SHARE * (start - end), least)
    return float(target) if 0 < target < start else math.nan


def _reached_by_all_seeds(lowest: np.ndarray) -> np.ndarray:
    """Return for each batch size the lowest loss that all its seeds reached at one rate."""
    no_run = np.isnan(lowest)
    has_seed = ~no_run.all(axis=1, keepdims=True)
    # At a rate that only some seeds tried, the missing seeds count as infinite losses.
    worst = np.where(no_run, np.where(has_seed, math.inf, -math.inf), lowest).max(axis=2)
    return worst.min(axis=1)[has_seed.any(axis=(1, 2))]
