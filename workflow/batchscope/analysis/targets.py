"""Evaluations of one training in: its value at a budget, or its cost to a target, out.

A target is a loss or a metric to reach. A study that states no target gets a default one: a loss
that good trainings reach, and that a badly trained batch size cannot make easier.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import chosen_rates
from batchscope.study import tasks
from batchscope.study.tasks import Metrics

ROUNDING = 1e-9  # relative difference below which two budgets are the same
FALL_SHARE = 0.9  # the default target is the loss after this share of the best batch size's fall
MIN_SIZES_AT_TARGET = 3  # number of batch sizes that must reach the default target with all seeds


def value_at_budget(used: Any, values: Any, budget: float, logarithmic: bool = False) -> float:
    """Return the value of a training at a budget; NaN if it ended before, or began after it.

    `used` is the budget that was used at each evaluation, ascending. Values between two evaluations
    are interpolated linearly, or their logarithms are. An evaluation without a value is left out.
    """
    used, values = np.asarray(used, float), np.asarray(values, float)
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
    if row == 0 or not math.isfinite(losses[row - 1]):
        return float(used[row])
    if not linear and losses[row] <= 0:
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
        losses = as_losses(evaluated, self.column, metrics)
        target = tasks.where_lower_is_better(self.value, self.column, metrics)
        has_loss = ~np.isnan(losses)
        order = np.argsort(used[has_loss], kind="stable")
        linear = tasks.user_metric(self.column, metrics) is not None
        return first_crossing(used[has_loss][order], losses[has_loss][order], target, linear)

    def crossings(
        self, rows: pandas.DataFrame, axis: str, by: list[str], metrics: Metrics
    ) -> pandas.Series:
        """Return the `crossing` of each training; the columns `by` distinguish the trainings."""
        names, result = {*filter(None, (self.column, axis))}, {}
        for key, evaluated in rows.groupby(by):
            columns = {name: evaluated[name].to_numpy(float) for name in names}
            result[key] = self.crossing(columns, axis, metrics)
        return pandas.Series(result)

    def is_reached_at_first(self, evaluated: Mapping[str, np.ndarray], metrics: Metrics) -> bool:
        """Return whether a training reaches the target by its first evaluation: a bound of cost."""
        if not self.column:
            return False
        updates = evaluated["updates"][~np.isnan(evaluated[self.column])]
        first = np.fmin.reduce(updates, initial=np.nan)  # NaN is left out
        return bool(self.crossing(evaluated, "updates", metrics) == first)


def as_losses(evaluated: Mapping[str, np.ndarray], column: str, metrics: Metrics) -> np.ndarray:
    return tasks.where_lower_is_better(evaluated[column], column, metrics)


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
