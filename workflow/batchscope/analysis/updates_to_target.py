"""What each batch size takes to a target, and what follows: per series and target.

In goes one table of evaluations of many trainings: `batch_size`, `seed`, `updates`, `examples`,
perhaps `seconds` and `status`, losses and accuracies, and the columns that distinguish series. A
learning rate of which several were tried at a batch size distinguishes none: it is chosen.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import (
    best_learning_rates,
    chosen_rates,
    critical_batch_size,
    fastest_batch_size,
    intervals,
    step_cost,
    trajectories,
)
from batchscope.catalogue import own_columns
from batchscope.catalogue.own_columns import ACCURACIES, AXES, LOSSES
from batchscope.store import records

TARGETS = 3  # of a series, where none is given
_RUN = ["batch_size", "seed"]


@dataclass(frozen=True)
class Target:
    """A value of a loss or an accuracy to reach.

    `column` is empty where every training has one row, which is its target.
    """

    column: str = ""
    value: float = math.nan

    @property
    def words(self) -> str:
        """It in words: `a validation loss of 0.2`."""
        if not self.column:
            return "the target of the file"
        return f"a {self.column.replace('_', ' ')} of {wording.number(self.value)}"

    def crossing(self, rows: pandas.DataFrame, axis: str) -> float:
        """Returns where one training first reaches the target; infinity where it never does.

        A training that failed never does. An accuracy is read as an error, 1 - accuracy, and so
        on a logarithmic scale too.
        """
        if _failed(rows):
            return math.inf
        if not self.column:
            value = float(rows[axis].iloc[0])
            return math.inf if math.isnan(value) else value
        used, losses, target = _floats(rows[axis]), _floats(rows[self.column]), self.value
        if np.isnan(used).all():
            return math.nan  # there is no such training
        if self.column in ACCURACIES:
            losses, target = 1 - losses, 1 - target
        known = ~np.isnan(losses)  # not every evaluation need be of everything
        used, losses = used[known], losses[known]
        order = np.argsort(used, kind="stable")
        return trajectories.first_crossing(used[order], losses[order], target)

    def at_first(self, rows: pandas.DataFrame) -> bool:
        """Returns whether one training is at the target by its first evaluation.

        What it took is at most that: an upper bound.
        """
        if not self.column or _failed(rows):
            return False
        evaluated = _floats(rows["updates"])[~np.isnan(_floats(rows[self.column]))]
        first = np.fmin.reduce(evaluated, initial=np.nan)  # past what is not known
        return bool(self.crossing(rows, "updates") == first)


@dataclass(frozen=True)
class Rates:
    """The learning rates of a series of which several were tried at a batch size.

    Attributes:
        tried: Ascending.
        chosen: The one with the fewest updates to the target over all seeds, shape (sizes,);
            NaN where no rate got every seed there.
        on_edge: Whether that one is the lowest or the highest tried at its batch size.
        read: The one that the other seeds choose, at which a seed is read, shape (sizes, seeds);
            NaN where there is none. With one seed in all, the one that it chooses itself.
        diverged: Of each size those at which a training diverged or ran out of memory.
        never: Of each size those at which one never got there and none diverged.
    """

    tried: tuple[float, ...]
    chosen: np.ndarray
    on_edge: np.ndarray
    read: np.ndarray
    diverged: tuple[tuple[float, ...], ...]
    never: tuple[tuple[float, ...], ...]

    def differ(self) -> np.ndarray:
        """Returns whether the seeds of a size are read at different rates, shape (sizes,)."""
        return chosen_rates.differ(self.read)


class Series(NamedTuple):
    """The trainings of one series.

    Attributes:
        factors: Column -> value that distinguishes the series.
        along: Column -> its values in order of batch size, of those that change along with it.
    """

    factors: dict[str, Any]
    along: dict[str, list[Any]]
    rows: pandas.DataFrame


class Step(NamedTuple):
    """The time of a step of B examples, t = a + b B, in s.

    `half_batch`: a / b, with its interval where the line was fitted.
    """

    fixed: float
    per_image: float
    half_batch: step_cost.Estimate

    @property
    def costs(self) -> tuple[float, float]:
        """The fixed cost of a step and the cost per example, s."""
        return self.fixed, self.per_image


@dataclass(frozen=True)
class Scaling:
    """One series and target.

    Attributes:
        factors: As `Series` has them, and `along`.
        measured: Axis -> what was taken to the target, shape (sizes, seeds): infinity where a
            training never reached it, NaN where there is none of that seed. `seconds` only
            where they are known. Where rates are chosen, each seed is read at the rate that the
            other seeds choose, on each axis by itself.
        at_first: Whether a seed is at the target by its first evaluation, which bounds what it
            took from above alone, shape (sizes, seeds); on any axis.
        cost: Time of a step, from the seconds of the trainings; None where they are not known.
        step: As stated or fitted; None where it is not known or not resolved.
        rates: Of `updates` and `seconds`, the rates that were chosen; empty where none is.
    """

    factors: dict[str, Any]
    target: Target
    batch_sizes: list[int]
    seeds: list[int]
    measured: dict[str, np.ndarray]
    at_first: np.ndarray
    step: Step | None = None
    cost: step_cost.Fit | None = None
    rates: dict[str, Rates] = field(default_factory=dict)
    along: dict[str, list[Any]] = field(default_factory=dict)

    @functools.cached_property
    def fit(self) -> critical_batch_size.CriticalBatchSize | None:
        """The critical batch size of the fitted sizes; None where they are fewer than three."""
        kept = self.fitted
        if kept.sum() < critical_batch_size.LEAST_SIZES:
            return None
        updates, differ = self.measured["updates"][kept], self.differ("updates")[kept]
        return critical_batch_size.fit(
            np.array(self.batch_sizes)[kept], updates, bool(differ.any())
        )

    @property
    def fastest(self) -> fastest_batch_size.FastestBatchSize | None:
        """The fastest batch size in closed form; None where a constant is missing."""
        fit, step = self.fit, self.step
        if not (fit and step and math.isfinite(fit.critical_batch_size)):
            return None
        error = fastest_batch_size.log_error(fit, step.half_batch)
        return fastest_batch_size.fastest(fit.updates_min, fit.examples_min, *step.costs, error)

    @property
    def fitted(self) -> np.ndarray:
        """Whether a size is usable for the fit, shape (sizes,)."""
        return fastest_batch_size.usable(self.measured["updates"])

    def means(self, axis: str) -> list[intervals.Interval]:
        """Returns the geometric mean of each size; NaN where a seed never got there."""
        return fastest_batch_size.geometric_means(self.measured[axis], self.differ(axis))

    def ratios(self) -> list[intervals.Interval]:
        """Returns each size's measured seconds over those of the fastest, paired by seed."""
        seconds = self.measured["seconds"]
        return fastest_batch_size.relative_to_fastest(seconds, self.differ("seconds"))

    @property
    def measured_fastest(self) -> int | None:
        """The size with the least mean seconds, of those that every seed got there with."""
        seconds = self.measured.get("seconds")
        return fastest_batch_size.measured_fastest(self.batch_sizes, seconds)

    @property
    def share_no_seed(self) -> bool:
        """Whether the sizes that every seed got there with have no seed in common."""
        seconds = self.measured["seconds"]
        return self.measured_fastest is None and bool(fastest_batch_size.usable(seconds).any())

    def rates_by(self, axis: str) -> Rates | None:
        """Returns the learning rates at which the values along an axis are read.

        Of examples those of the updates, whose order at a batch size is the same.
        """
        return self.rates.get(axis) or self.rates.get("updates")

    def differ(self, axis: str) -> np.ndarray:
        """Returns whether values of a size are of seeds at different rates, shape (sizes,)."""
        rates = self.rates_by(axis)
        return rates.differ() if rates else np.zeros(len(self.batch_sizes), bool)


def scalings(
    frame: pandas.DataFrame,
    factors: Iterable[str] = (),
    targets: Iterable[Target] = (),
    step_seconds: tuple[float, float] | None = None,
) -> list[Scaling]:
    """Returns the scaling of every series and target of a frame as the module describes.

    Args:
        targets: What to reach; by default of each series what `default_targets` finds.
        step_seconds: Fixed cost of a step and cost per example, s; by default fitted to the
            seconds of the trainings, where there are any.
    """
    found, targets = [], list(targets)
    for each in series(frame, factors):
        cost = step = None
        if step_seconds:
            fixed, per_image = step_seconds
            step = Step(fixed, per_image, step_cost.Estimate(fixed / per_image))
        elif (cost := _step_cost(each.rows)) and step_cost.resolved(cost):
            step = Step(cost.fixed.value, cost.per_image.value, cost.half_batch)
        for target in targets or default_targets(each.rows):
            found.append(_scaling(each, target, step, cost))
    return found


def series(frame: pandas.DataFrame, factors: Iterable[str]) -> list[Series]:
    """Returns the series of a frame.

    A number that follows from the batch size and the other columns, such as a rate that grows
    with it, distinguishes no series, nor does a learning rate of which several were tried.
    """
    kept = [name for name in factors if frame[name].nunique(dropna=False) > 1]
    if _tuned(frame, kept):
        kept.remove(chosen_rates.RATE)
    followers = []
    for name in [each for each in kept if pandas.api.types.is_numeric_dtype(frame[each])]:
        others = ["batch_size", *(each for each in kept if each != name)]
        if not frame[[*others, name]].drop_duplicates().duplicated(others).any():
            kept.remove(name)
            followers.append(name)
    groups = frame.groupby(kept, sort=False, dropna=False) if kept else [((), frame)]
    found = []
    for key, rows in groups:
        sizes = rows.drop_duplicates("batch_size").sort_values("batch_size")
        along = {name: sizes[name].tolist() for name in followers}
        found.append(Series(dict(zip(kept, key, strict=True)), along, rows))
    return found


def default_targets(rows: pandas.DataFrame) -> list[Target]:
    """Returns three targets of a series, equal steps of the logarithm of the loss apart.

    They lie between the loss after the first evaluation, the least of all trainings, and the
    lowest that every batch size reached with all its seeds, which is the last: at one of its
    rates, where several were tried. Accuracies are read as errors. Where every training has a
    single row, that is its target, without a column; there is none where no training came below
    the first evaluation of all.
    """
    if rows.groupby(_run_keys(rows), dropna=False).size().max() == 1:
        return [Target()]
    column = target_column(rows)
    if column is None:
        return []
    losses = rows[column] if column in LOSSES else 1 - rows[column]
    table = rows.assign(_loss=losses.astype(float)).sort_values("updates")
    first = table[table["_loss"].notna()].drop_duplicates(_run_keys(rows))["_loss"]
    start = float(first[np.isfinite(first)].min())
    end = _lowest_of_all(table)
    if not 0 < end < start < math.inf:
        return []
    values = [start * (end / start) ** (step / TARGETS) for step in range(1, TARGETS)] + [end]
    return [Target(column, each if column in LOSSES else 1 - each) for each in values]


def target_column(rows: pandas.DataFrame) -> str | None:
    """Returns the loss, without any the accuracy, that default targets are of; None without one."""
    known = (name for name in (*LOSSES, *ACCURACIES) if name in rows)
    return next((name for name in known if np.isfinite(_floats(rows[name])).any()), None)


def at_own_targets(frame: pandas.DataFrame) -> bool:
    """Returns whether trainings made elsewhere have one row each, which then is their target.

    A training here that is evaluated once was not stopped at a target.
    """
    elsewhere = len(frame) > 0 and (frame["machine"] == own_columns.ELSEWHERE).all()
    return bool(elsewhere and not frame["run"].duplicated().any())


def _tuned(frame: pandas.DataFrame, kept: list[str]) -> bool:
    """Returns whether rates are chosen: several of one batch size with all other factors equal."""
    rate = chosen_rates.RATE
    if rate not in kept or not pandas.api.types.is_numeric_dtype(frame[rate]):
        return False
    others = [name for name in kept if name != rate]
    groups = (rows for _, rows in frame.groupby(others, dropna=False)) if others else [frame]
    return any(best_learning_rates.tuned_factor(rows) for rows in groups)


def _run_keys(rows: pandas.DataFrame) -> list[str]:
    """Returns the columns that distinguish the trainings of one series."""
    return [*_RUN, *([chosen_rates.RATE] if chosen_rates.RATE in rows else [])]


def _floats(column: pandas.Series) -> np.ndarray:
    if isinstance(column.dtype, np.dtype):  # which needs no look for what is missing
        return column.to_numpy(float)
    return column.to_numpy(float, na_value=math.nan)


def _failed(rows: pandas.DataFrame) -> bool:
    return "status" in rows and rows["status"].iloc[0] in records.FAILED


def _lowest_of_all(table: pandas.DataFrame) -> float:
    """Returns the lowest loss that every batch size reached with all its seeds; NaN if none.

    At one rate at least, where several were tried. A batch size at which some training of every
    rate failed is left out, as it is of the fit, where enough others are there.
    """
    keys = _run_keys(table)
    failed = table.get("status", pandas.Series("", table.index)).isin(records.FAILED)
    losses = table["_loss"].where(np.isfinite(table["_loss"]) & ~failed, math.inf)
    known = table["updates"].notna() | failed  # of no training there are no updates
    runs = table[keys].assign(_loss=losses, _known=known).groupby(keys, dropna=False)
    lows = runs.agg({"_loss": "min", "_known": "any"}).query("_known")["_loss"]
    at_rates = lows.groupby([name for name in keys if name != "seed"], dropna=False)
    # A rate that was tried with some of the seeds gets not all of them there.
    seeds = lows.reset_index().groupby("batch_size")["seed"].nunique()
    whole = at_rates.size() == seeds.reindex(at_rates.size().index, level="batch_size")
    best = at_rates.max().where(whole, math.inf).groupby("batch_size").min()
    ends = best[np.isfinite(best)]
    enough = len(ends) >= min(len(best), critical_batch_size.LEAST_SIZES)
    return float(ends.max()) if enough else math.nan


def _tried(rows: pandas.DataFrame) -> tuple[float, ...]:
    """Returns the rates of a series that are chosen from; one of no meaning where none is."""
    rate = chosen_rates.RATE
    if rate not in rows or not (rows.groupby("batch_size")[rate].nunique() > 1).any():
        return (math.nan,)
    return tuple(sorted(set(rows[rate].tolist())))


def _rates(
    tried: tuple[float, ...], taken: np.ndarray, diverged: np.ndarray, read: np.ndarray
) -> Rates:
    found = chosen_rates.by_lowest(taken)
    known = np.array([*tried, np.nan])  # the index -1 is none
    gone = diverged.any(axis=2)
    never = np.isinf(taken).any(axis=2) & ~gone
    rates = (tuple(tuple(compress(tried, row)) for row in cells) for cells in (gone, never))
    return Rates(tried, known[found.index], found.on_edge, known[read], *rates)


def _scaling(
    series: Series, target: Target, step: Step | None, cost: step_cost.Fit | None
) -> Scaling:
    rows = series.rows
    axes = [axis for axis in AXES if axis in rows]
    sizes = sorted({int(size) for size in rows["batch_size"]})
    seeds = sorted(set(rows["seed"].tolist()))
    tried = _tried(rows)
    shape = (len(sizes), len(tried), len(seeds))
    cubes = {axis: np.full(shape, np.nan) for axis in axes}
    diverged, first = np.zeros(shape, bool), np.zeros(shape, bool)
    for (size, seed, *rate), run in rows.groupby(_run_keys(rows), dropna=False):
        at = tried.index(rate[0]) if len(tried) > 1 else 0
        place = (sizes.index(int(size)), at, seeds.index(seed))
        for axis in axes:
            cubes[axis][place] = target.crossing(run, axis)
        diverged[place] = _failed(run)
        first[place] = target.at_first(run)
    read = {axis: chosen_rates.leave_one_out(cube) for axis, cube in cubes.items()}
    measured, rates = {axis: values for axis, (values, _) in read.items()}, {}
    if len(tried) > 1:
        timed = [axis for axis in axes if axis != "examples"]
        rates = {axis: _rates(tried, cubes[axis], diverged, read[axis][1]) for axis in timed}
    places = [np.maximum(index, 0) for _, index in read.values()]
    at_first = np.logical_or.reduce([chosen_rates.at(first, index) for index in places])
    more = (at_first, step, cost, rates, series.along)
    return Scaling(series.factors, target, sizes, seeds, measured, *more)


def _step_cost(rows: pandas.DataFrame) -> step_cost.Fit | None:
    """Returns the line through the seconds per step of the jobs, of which each seed has one.

    Its interval rests on the seeds that every batch size has. Where there is none of them it is
    the line through the medians of the sizes, without an interval.
    """
    if "seconds" not in rows:
        return None
    # Trainings of a seed at other rates share its timing job: they are no further jobs.
    steps = _steps(rows)
    jobs = steps.groupby(["batch_size", "seed"])["seconds"].median().unstack("seed")
    # An epoch's last batch is smaller: a step has fewer examples than a whole batch, and two sizes
    # may have as many.
    examples = steps.groupby("batch_size")["examples"].median()
    jobs = jobs.groupby(examples).median()
    shared = jobs.dropna(axis=1)
    if len(jobs) < 2:
        return None
    blocks = shared if len(shared.columns) else jobs.median(axis=1).to_frame()
    return step_cost.fixed_cost(jobs.index, blocks.to_numpy(), len(blocks.columns) > 1)


def _steps(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the seconds and examples per step of each training, from its first to its last row.

    Of a training with a single row they are counted from its start.
    """
    keys, used = _run_keys(rows), ["updates", "seconds", "examples"]
    ordered = rows.sort_values([*keys, "updates"])
    first, last = (ordered.drop_duplicates(keys, keep=end) for end in ("first", "last"))
    spans = last[used].to_numpy(float) - first[used].to_numpy(float)
    spans = np.where(spans[:, :1] <= 0, last[used].to_numpy(float), spans)
    steps, seconds, examples = spans.T
    known = np.isfinite(spans).all(axis=1) & (spans > 0).all(axis=1)
    steps = np.where(known, steps, np.nan)
    return last[_RUN].assign(seconds=seconds / steps, examples=examples / steps)[known]
