"""What each batch size takes to a target, and what follows: per series and target.

In goes one table of evaluations of many trainings: `batch_size`, `seed`, `updates`, `examples`,
perhaps `seconds`, losses and accuracies, and the columns that tell series apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import (
    critical_batch_size,
    fastest_batch_size,
    intervals,
    step_cost,
    trajectories,
)
from batchscope.catalogue.own_columns import ACCURACIES, AXES, LOSSES

TARGETS = 3  # of a series, where none is given
_RUN = ["batch_size", "seed"]


@dataclass(frozen=True)
class Target:
    """A loss or an accuracy to reach.

    Attributes:
        column: Its column; empty where every training has one row, which is its target.
        value: The number to reach.
    """

    column: str = ""
    value: float = math.nan

    def crossing(self, rows: pandas.DataFrame, axis: str) -> float:
        """Returns where one training first reaches the target; infinity where it never does.

        An accuracy is read as an error, 1 - accuracy, and so on a logarithmic scale too.
        """
        if not self.column:
            value = float(rows[axis].iloc[0])
            return math.inf if math.isnan(value) else value
        rows = rows.sort_values(axis)
        losses, target = rows[self.column], self.value
        if self.column in ACCURACIES:
            losses, target = 1 - losses, 1 - target
        return trajectories.first_crossing(rows[axis], losses, target)


@dataclass(frozen=True)
class Scaling:
    """One series and target.

    Attributes:
        factors: Column -> value that tells the series apart.
        along: Column -> its values in order of batch size, of those that change along with it.
        target: The target.
        batch_sizes: All batch sizes of the series, ascending.
        measured: Axis -> what was taken to the target, shape (sizes, seeds): infinity where a
            training never reached it, NaN where there is none of that seed. `seconds` only
            where they are known.
        fitted: Whether every seed of a size reached the target, after an update at least, shape
            (sizes,).
        fit: The critical batch size of the fitted sizes; None where they are fewer than three.
        cost: Time of a step, from the seconds of the trainings; None where they are not known.
        step: Fixed cost of a step and cost per image, s; None where they are not known.
        fastest: The fastest batch size in closed form; None where a constant is missing or not
            positive.
    """

    factors: dict[str, Any]
    along: dict[str, list[Any]]
    target: Target
    batch_sizes: list[int]
    measured: dict[str, np.ndarray]
    fitted: np.ndarray
    fit: critical_batch_size.CriticalBatchSize | None
    cost: step_cost.Fit | None
    step: tuple[float, float] | None
    fastest: fastest_batch_size.FastestBatchSize | None

    def ratios(self) -> list[intervals.Interval]:
        """Returns each size's measured seconds over those of the fastest, paired by seed."""
        return fastest_batch_size.relative_to_fastest(self.measured["seconds"])


def scalings(
    frame: pandas.DataFrame,
    factors: Iterable[str] = (),
    targets: Iterable[Target] = (),
    step_seconds: tuple[float, float] | None = None,
) -> list[Scaling]:
    """Returns the scaling of every series and target.

    Args:
        frame: Evaluations, as the module says.
        factors: Columns that may tell series apart.
        targets: What to reach; by default of each series what `default_targets` finds.
        step_seconds: Fixed cost of a step and cost per image, s; by default fitted to the
            seconds of the trainings, where there are any.
    """
    found, targets = [], list(targets)
    for values, along, rows in series(frame, factors):
        cost = None if step_seconds else _step_cost(rows)
        step = step_seconds
        if cost and cost.fixed.value > 0 and cost.per_image.value > 0:
            step = (cost.fixed.value, cost.per_image.value)
        for target in targets or default_targets(rows):
            found.append(_scaling(values, along, rows, target, cost, step))
    return found


def series(
    frame: pandas.DataFrame, factors: Iterable[str]
) -> list[tuple[dict[str, Any], dict[str, list[Any]], pandas.DataFrame]]:
    """Returns the series: their factors, what changes along with the batch size, their rows.

    A number that follows from the batch size and the other columns, such as a rate that grows
    with it, tells no series apart.
    """
    kept = [name for name in factors if frame[name].nunique(dropna=False) > 1]
    followers = []
    for name in [each for each in kept if pandas.api.types.is_numeric_dtype(frame[each])]:
        others = ["batch_size", *(each for each in kept if each != name)]
        if not frame[[*others, name]].drop_duplicates().duplicated(others).any():
            kept.remove(name)
            followers.append(name)
    groups = frame.groupby(kept, sort=False, dropna=False) if kept else [((), frame)]
    found = []
    for key, rows in groups:
        ordered = rows.sort_values("batch_size", kind="stable")
        along = {name: ordered[name].drop_duplicates().tolist() for name in followers}
        found.append((dict(zip(kept, key, strict=True)), along, rows))
    return found


def default_targets(rows: pandas.DataFrame) -> list[Target]:
    """Returns three targets of a series, equal steps of the logarithm of the loss apart.

    They lie between the loss after the first evaluation, the least of all trainings, and the
    lowest that all of them reached, which is the last. Accuracies are read as errors.

    Returns:
        The targets; one without a column where every training has a single row; none where no
        training came below the first evaluation of all.
    """
    trainings = rows.groupby(_RUN)
    if trainings.size().max() == 1:
        return [Target()]
    column = next((name for name in (*LOSSES, *ACCURACIES) if name in rows), None)
    if column is None:
        return []
    losses = rows[column] if column in LOSSES else 1 - rows[column]
    table = rows.assign(_loss=losses).sort_values("updates")
    found = [each.to_numpy() for _, each in table.groupby(_RUN)["_loss"]]
    start = float(np.min([each[0] for each in found]))
    end = trajectories.lowest_reached_by_all(found)
    if not 0 < end < start < math.inf:
        return []
    inner = [start * (end / start) ** (step / TARGETS) for step in range(1, TARGETS)]
    values = [*inner, end]
    return [Target(column, each if column in LOSSES else 1 - each) for each in values]


def _scaling(
    factors: dict[str, Any],
    along: dict[str, list[Any]],
    rows: pandas.DataFrame,
    target: Target,
    cost: step_cost.Fit | None,
    step: tuple[float, float] | None,
) -> Scaling:
    axes = [axis for axis in AXES if axis in rows]
    trainings = {run: group for run, group in rows.groupby(_RUN)}
    sizes = sorted({int(size) for size, _ in trainings})
    seeds = sorted({seed for _, seed in trainings})
    measured = {axis: np.full((len(sizes), len(seeds)), np.nan) for axis in axes}
    for (size, seed), group in trainings.items():
        for axis in axes:
            place = sizes.index(int(size)), seeds.index(seed)
            measured[axis][place] = target.crossing(group, axis)
    # A target that holds before the first update has no logarithm of its updates.
    usable = [row[~np.isnan(row)] for row in measured["updates"]]
    fitted = np.array([bool((np.isfinite(row) & (row > 0)).all()) for row in usable])
    fit = best = None
    if fitted.sum() >= critical_batch_size.LEAST_SIZES:
        chosen = np.array(sizes)[fitted]
        fit = critical_batch_size.fit(chosen, measured["updates"][fitted])
        if step and math.isfinite(fit.critical_batch_size):
            error = fastest_batch_size.log_error(fit, cost) if cost else math.nan
            constants = (fit.updates_min, fit.examples_min, *step)
            best = fastest_batch_size.fastest(*constants, error)
    return Scaling(factors, along, target, sizes, measured, fitted, fit, cost, step, best)


def _step_cost(rows: pandas.DataFrame) -> step_cost.Fit | None:
    """Returns the line through the seconds per step of the trainings, from first to last row."""
    if "seconds" not in rows:
        return None
    found: dict[int, list[float]] = {}
    for (size, _), group in rows.groupby(_RUN):
        ends = group.sort_values("updates").iloc[[0, -1]]
        steps, seconds = (float(ends[axis].diff().iloc[-1]) for axis in ("updates", "seconds"))
        if steps <= 0:  # a single row: from the start
            steps, seconds = (float(ends[axis].iloc[-1]) for axis in ("updates", "seconds"))
        if math.isfinite(steps) and steps > 0 and math.isfinite(seconds) and seconds > 0:
            found.setdefault(int(size), []).append(seconds / steps)
    if len(found) < 2:
        return None
    blocks = [found[size] for size in sorted(found)]
    if len({len(block) for block in blocks}) > 1:
        blocks = [[float(np.median(block))] for block in blocks]
    return step_cost.fixed_cost(sorted(found), blocks)
