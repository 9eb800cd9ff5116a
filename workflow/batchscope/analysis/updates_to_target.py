"""What each batch size takes to a target, and what follows: per series and target."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import (
    chosen_rates,
    critical_batch_size,
    fastest_batch_size,
    step_cost,
    trainings,
)
from batchscope.analysis.targets import Target, default_targets
from batchscope.analysis.trainings import Chosen, Trainings
from batchscope.catalogue.own_columns import AXES

__all__ = ["Scaling", "Target", "of_series", "scaling", "scalings"]


@dataclass(frozen=True)
class Scaling:
    """One series and target.

    Attributes:
        taken: Axis -> what was taken to the target: infinity where a training never reached it, NaN
            where there is none of that seed. `seconds` only where they are known. Rates are chosen
            on each axis by itself.
        at_first: Whether a seed is at the target by its first evaluation, which bounds what it
            took from above alone, shape (sizes, seeds); on any axis.
        step: Its time, as stated or fitted; None where it is not known or not resolved.
    """

    trainings: Trainings
    target: Target
    taken: dict[str, Chosen]
    at_first: np.ndarray
    step: step_cost.Fit | None = None

    @property
    def factors(self) -> dict[str, Any]:
        """What distinguishes the series."""
        return self.trainings.factors

    @property
    def batch_sizes(self) -> list[int]:
        """Ascending, as the values have them."""
        return self.trainings.axes[0]

    @property
    def fitted(self) -> np.ndarray:
        """Whether a size is usable for the fit, shape (sizes,)."""
        return fastest_batch_size.usable(self.taken["updates"].values)

    @functools.cached_property
    def fit(self) -> critical_batch_size.CriticalBatchSize | None:
        """The critical batch size of the fitted sizes; None where they are fewer than three."""
        kept, updates = self.fitted, self.taken["updates"]
        if kept.sum() < critical_batch_size.LEAST_SIZES:
            return None
        sizes = np.array(self.batch_sizes)[kept]
        return critical_batch_size.fit(sizes, updates.values[kept], updates.tuned[kept])

    @property
    def fastest(self) -> fastest_batch_size.FastestBatchSize | None:
        """The fastest batch size in closed form; None where that does not hold, or is not known."""
        fit, step = self.fit, self.step
        if fit is None or fit.flagged or step is None or math.isnan(fit.critical_batch_size):
            return None
        error = fastest_batch_size.log_error(fit, step.half_batch)
        return fastest_batch_size.fastest(
            fit.updates_min, fit.examples_min, step.fixed.value, step.per_image.value, error
        )

    def measured_fastest(self, axis: str) -> int | None:
        """Returns the size that takes the least on average, of those all of whose seeds arrive."""
        taken = self.taken.get(axis)
        sizes = self.batch_sizes
        return fastest_batch_size.measured_fastest(sizes, taken.values) if taken else None

    def left_out(self) -> dict[str, list[tuple[float, ...]]]:
        """Returns the rates of each size that are not chosen: one diverged, or never got there."""
        each = self.trainings
        diverged = (each.cube(each.failed) == 1).any(axis=2)
        never = np.isinf(each.taken(self.target, "updates")).any(axis=2) & ~diverged
        found, rates = {"diverged": diverged, "never": never}, each.axes[1]
        return {why: [tuple(compress(rates, row)) for row in cells] for why, cells in found.items()}


def scalings(
    frame: pandas.DataFrame,
    factors: Iterable[str] = (),
    targets: Iterable[Target] = (),
    step_seconds: tuple[float, float] | None = None,
) -> list[Scaling]:
    """Returns the scaling of every series and target of a table of evaluations of many trainings.

    `batch_size`, `seed`, `updates`, `examples`, perhaps `seconds` and `status`, losses and
    accuracies, and the columns that distinguish series.
    """
    return of_series(trainings.of_evaluations(frame, factors), targets, step_seconds)


def of_series(
    series: Iterable[Trainings],
    targets: Iterable[Target] = (),
    step_seconds: tuple[float, float] | None = None,
) -> list[Scaling]:
    """Returns the scaling of every series and target, by default of its `default_targets`.

    The costs of a step, fixed and per example, are fitted to the seconds unless they are stated.
    """
    found, targets = [], list(targets)
    for each in series:
        step = _step(each.evaluations)
        if step_seconds:
            fixed, per_image = step_seconds
            costs = map(step_cost.Estimate, (fixed, per_image, fixed / per_image))
            step = step_cost.Fit(*costs, residual=0.0)
        found += [scaling(each, target, step) for target in targets or default_targets(each)]
    return found


def scaling(each: Trainings, target: Target, step: step_cost.Fit | None = None) -> Scaling:
    """Returns what the trainings of a series take to a target."""
    known = [axis for axis in AXES if axis in each.evaluations]
    known = [axis for axis in known if axis != "seconds" or each.evaluations[axis].notna().any()]
    taken = {axis: each.chosen_by_itself(each.taken(target, axis)) for axis in known}
    first = each.at_first(target)
    at_first = [chosen_rates.at(first, np.maximum(read, 0)) for *_, read, _ in taken.values()]
    return Scaling(each, target, taken, np.any(at_first, axis=0), step)


def _step(rows: pandas.DataFrame) -> step_cost.Fit | None:
    """Returns the line through the seconds per step of the jobs, of which each seed has one.

    Steps are counted from a training's first to its last row; of a single row from its start.
    The interval rests on the seeds that every batch size has; without any there is none.
    """
    if "seconds" not in rows:
        return None
    used = ["updates", "seconds", "examples"]
    runs = rows.dropna(subset=used).groupby(["batch_size", "seed", "run"])[used]
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
    return cost if step_cost.resolved(cost) else None
