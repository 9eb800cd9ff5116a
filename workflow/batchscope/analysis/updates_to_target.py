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

from batchscope.analysis import (
    chosen_rates,
    critical_batch_size,
    fastest_batch_size,
    step_cost,
)
from batchscope.analysis.targets import Target, at_own_targets, default_targets, failed, run_keys
from batchscope.catalogue.own_columns import AXES

__all__ = ["Rates", "Scaling", "Target", "at_own_targets", "default_targets", "scalings", "series"]


class Rates(NamedTuple):
    """The learning rates of a series of which several were tried at a batch size."""

    tried: list[float]  # ascending
    chosen: np.ndarray  # with the fewest updates over all seeds, (sizes,); NaN where there is none
    on_edge: np.ndarray  # whether that is the lowest or the highest tried at its batch size
    read: np.ndarray  # what the other seeds choose, (sizes, seeds); NaN where there is none
    diverged: list[tuple[float, ...]]  # of each size those at which a training failed
    never: list[tuple[float, ...]]  # those at which one never got there and none failed

    def differ(self) -> np.ndarray:
        """Returns whether the seeds of a size are read at different rates, shape (sizes,)."""
        return chosen_rates.differ(self.read)


class Series(NamedTuple):
    """The trainings of one series."""

    factors: dict[str, Any]  # column -> value that distinguishes it
    along: dict[str, list[Any]]  # column that changes with the batch size -> values in its order
    rows: pandas.DataFrame


class Step(NamedTuple):
    """The time of a step of B examples, t = a + b B, in s."""

    fixed: float
    per_image: float
    half_batch: step_cost.Estimate  # a / b, with its interval where the line was fitted


@dataclass(frozen=True)
class Scaling:
    """One series and target; `factors` and `along` as `Series` has them.

    Attributes:
        measured: Axis -> what was taken to the target, shape (sizes, seeds): infinity where a
            training never reached it, NaN where there is none of that seed. `seconds` only
            where they are known. Where rates are chosen, each seed is read at the rate that the
            other seeds choose, on each axis by itself.
        at_first: Whether a seed is at the target by its first evaluation, which bounds what it
            took from above alone, shape (sizes, seeds); on any axis.
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
    rates: dict[str, Rates] = field(default_factory=dict)
    along: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def fitted(self) -> np.ndarray:
        """Whether a size is usable for the fit, shape (sizes,)."""
        return fastest_batch_size.usable(self.measured["updates"])

    @functools.cached_property
    def fit(self) -> critical_batch_size.CriticalBatchSize | None:
        """The critical batch size of the fitted sizes; None where they are fewer than three."""
        kept = self.fitted
        if kept.sum() < critical_batch_size.LEAST_SIZES:
            return None
        updates, differ = self.measured["updates"][kept], self.differ("updates")[kept]
        return critical_batch_size.fit(np.array(self.batch_sizes)[kept], updates, differ)

    @property
    def fastest(self) -> fastest_batch_size.FastestBatchSize | None:
        """The fastest batch size in closed form; None where that does not hold, or is not known."""
        fit, step = self.fit, self.step
        if fit is None or fit.flagged or step is None or math.isnan(fit.critical_batch_size):
            return None
        error = fastest_batch_size.log_error(fit, step.half_batch)
        return fastest_batch_size.fastest(fit.updates_min, fit.examples_min, *step[:2], error)

    @property
    def measured_fastest(self) -> int | None:
        """The size with the least mean seconds, of those that every seed got there with."""
        seconds = self.measured.get("seconds")
        return fastest_batch_size.measured_fastest(self.batch_sizes, seconds)

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
    """Returns the scaling of every series and target, by default of its `default_targets`.

    The costs of a step, fixed and per example, are fitted to the seconds unless they are stated.
    """
    found, targets = [], list(targets)
    for each in series(frame, factors):
        step = _step(each.rows)
        if step_seconds:
            fixed, per_image = step_seconds
            step = Step(fixed, per_image, step_cost.Estimate(fixed / per_image))
        chosen = targets or default_targets(each.rows)
        found += [_scaling(each, target, step) for target in chosen]
    return found


def series(frame: pandas.DataFrame, factors: Iterable[str]) -> list[Series]:
    """Returns the series of a frame.

    A number that follows from the batch size and the other columns, such as a rate that grows
    with it, distinguishes no series, nor does a learning rate of which several were tried.
    """
    kept = [name for name in factors if frame[name].nunique(dropna=False) > 1]
    others = [name for name in kept if name != chosen_rates.RATE]
    if _tuned(frame, others):
        kept = others
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


def _tuned(rows: pandas.DataFrame, others: Iterable[str] = ()) -> bool:
    """Returns whether rates are chosen: several of one batch size with all other factors equal."""
    rate = chosen_rates.RATE
    if rate not in rows or not pandas.api.types.is_numeric_dtype(rows[rate]):
        return False
    groups = rows.groupby([*others, "batch_size"], dropna=False)
    return bool((groups[rate].nunique() > 1).any())


def _scaling(series: Series, target: Target, step: Step | None) -> Scaling:
    rows = series.rows
    axes = [axis for axis in AXES if axis in rows]
    sizes = sorted({int(size) for size in rows["batch_size"]})
    seeds = sorted(set(rows["seed"].tolist()))
    tried = sorted(set(rows[chosen_rates.RATE].tolist())) if _tuned(rows) else [math.nan]
    shape = (len(sizes), len(tried), len(seeds))
    cubes = {axis: np.full(shape, np.nan) for axis in axes}
    diverged, first = np.zeros(shape, bool), np.zeros(shape, bool)
    for (size, seed, *rate), run in rows.groupby(run_keys(rows), dropna=False):
        at = tried.index(rate[0]) if len(tried) > 1 else 0
        place = (sizes.index(int(size)), at, seeds.index(seed))
        for axis in axes:
            cubes[axis][place] = target.crossing(run, axis)
        diverged[place], first[place] = failed(run), target.at_first(run)
    measured, rates, at_first = {}, {}, np.zeros((len(sizes), len(seeds)), bool)
    for axis, cube in cubes.items():
        measured[axis], read = chosen_rates.leave_one_out(cube)
        at_first |= chosen_rates.at(first, np.maximum(read, 0))
        if len(tried) > 1 and axis != "examples":
            rates[axis] = _rates(tried, cube, diverged.any(axis=2), read)
    more = (at_first, step, rates, series.along)
    return Scaling(series.factors, target, sizes, seeds, measured, *more)


def _rates(tried: list[float], taken: np.ndarray, diverged: np.ndarray, read: np.ndarray) -> Rates:
    found = chosen_rates.by_lowest(taken)
    known = np.array([*tried, np.nan])  # the index -1 is none
    never = np.isinf(taken).any(axis=2) & ~diverged
    left_out = ([tuple(compress(tried, row)) for row in cells] for cells in (diverged, never))
    return Rates(tried, known[found.index], found.on_edge, known[read], *left_out)


def _step(rows: pandas.DataFrame) -> Step | None:
    """Returns the line through the seconds per step of the jobs, of which each seed has one.

    Steps are counted from a training's first to its last row; of a single row from its start.
    The interval rests on the seeds that every batch size has; without any there is none.
    """
    if "seconds" not in rows:
        return None
    used = ["updates", "seconds", "examples"]
    runs = rows.dropna(subset=used).groupby(run_keys(rows), dropna=False)[used]
    last = runs.max()
    spans = (last - runs.min()).where(lambda span: span["updates"] > 0, last)
    spans = spans[(spans > 0).all(axis=1)]
    steps = spans[["seconds", "examples"]].div(spans["updates"], axis=0)
    # Trainings of a seed at other rates share its timing job: they are no further jobs.
    jobs = steps["seconds"].groupby(["batch_size", "seed"]).median().unstack("seed")
    # An epoch's last batch is smaller: a step has fewer examples than a whole batch, and two sizes
    # may have as many.
    jobs = jobs.groupby(steps["examples"].groupby("batch_size").median()).median()
    if len(jobs) < 2:
        return None
    shared = jobs.dropna(axis=1)
    blocks = shared if len(shared.columns) else jobs.median(axis=1).to_frame()
    cost = step_cost.fixed_cost(jobs.index, blocks.to_numpy(), len(blocks.columns) > 1)
    if not step_cost.resolved(cost):
        return None
    return Step(cost.fixed.value, cost.per_image.value, cost.half_batch)
