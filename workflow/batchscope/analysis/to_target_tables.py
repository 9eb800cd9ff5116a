"""Runs and trajectories in, the tables critical_batch_size.csv and to_target.csv out.

A `TargetScaling` has the costs of one series to one target, by batch size and seed, and the fits to
them: the critical batch size and the fastest one. `tables` makes both tables from the scalings of
an experiment. A row of critical_batch_size.csv has the fits of a scaling (`_fit_row`). A row of
to_target.csv has the costs of one training (`_training_rows`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import (
    critical_batch_size,
    fastest_batch_size,
    intervals,
    run_series,
    step_cost,
)
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import Choice, Trainings, for_experiment
from batchscope.core import display
from batchscope.study.decision_columns import CRITICAL, TO_TARGET
from batchscope.study.external_columns import COST_COLUMNS
from batchscope.study.outcomes import MIN_FIT_SIZES
from batchscope.study.tasks import Metrics


@dataclass(frozen=True)
class TargetScaling:
    """The costs of one series to one target, and the fits to them."""

    trainings: Trainings
    target: Target
    # `updates`, `examples` and `seconds`, if known -> cost at the rates that the same cost chooses.
    # It is infinite if a run never reached the target, and NaN without a run.
    costs: dict[str, Choice]
    step: step_cost.StepCost | None = None  # None if it is unknown or not resolved

    @functools.cached_property
    def fit(self) -> critical_batch_size.CriticalBatchSize | None:
        """The fit of the critical batch size; None with fewer than three usable batch sizes."""
        updates = self.costs["updates"]
        usable = fastest_batch_size.is_usable(updates.values)
        if usable.sum() < MIN_FIT_SIZES:
            return None
        sizes = np.array(self.trainings.axes[0])[usable]
        return critical_batch_size.fit(sizes, updates.values[usable], updates.tuned[usable])

    @property
    def fastest(self) -> fastest_batch_size.FastestBatchSize | None:
        """The fastest batch size in closed form; None without a fit, or with a lack of fit."""
        fit, step = self.fit, self.step
        if fit is None or fit.flagged or step is None or math.isnan(fit.critical_batch_size):
            return None
        error = fastest_batch_size.log_error(fit, step.half_batch)
        return fastest_batch_size.fastest(
            fit.updates_min, fit.examples_min, step.fixed.mean, step.per_image.mean, error
        )

    def measured_fastest(self, axis: str) -> int | None:
        cost, sizes = self.costs.get(axis), self.trainings.axes[0]
        return fastest_batch_size.measured_fastest(sizes, cost.values) if cost else None


def scalings_of_experiment(
    trajectories: pandas.DataFrame,
    runs: pandas.DataFrame,
    targets: Iterable[Target] = (),
    default_target: Callable[[Trainings], Target | None] = Trainings.default_target,
    metrics: Metrics = (),
) -> list[TargetScaling]:
    """Return the scaling of every target and series with three batch sizes or more.

    Without stated targets, each series has three: the last one is its default target.
    """
    scalings, stated_targets = [], [*targets]
    for series in for_experiment(runs, trajectories, metrics) if len(trajectories) else []:
        if len(series.axes[0]) < MIN_FIT_SIZES:
            continue
        rows = series.evaluations
        axes = [name for name in COST_COLUMNS if name in rows]
        axes = [name for name in axes if name != "seconds" or rows[name].notna().any()]
        step = step_cost.from_evaluations(rows)
        for target in stated_targets or series.targets_up_to(default_target(series)):
            cubes = {axis: series.cost_cube(target, axis) for axis in axes}
            costs = {axis: series.choose_by_costs(cube) for axis, cube in cubes.items()}
            scalings.append(TargetScaling(series, target, costs, step))
    return scalings


def tables(
    scalings: Sequence[TargetScaling], runs: pandas.DataFrame
) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return critical_batch_size.csv and to_target.csv (see `CRITICAL` and `TO_TARGET`).

    Args:
        runs: All rows of runs.csv of the experiment, which have the factors of the tables.
    """
    factors, constant = run_series.factor_columns(runs), run_series.constant_factors(runs)
    fit_rows, training_rows = [], []
    for scaling in scalings:
        target = scaling.target
        keys = {
            **constant,
            **scaling.trainings.factors,
            "target": _target_text(target),
            "target_column": target.column,
            "target_value": target.value,
        }
        fit_rows.append({**keys, **_fit_row(scaling)})
        training_rows += [{**keys, **row} for row in _training_rows(scaling)]
    fits = run_series.table(fit_rows, CRITICAL, factors)
    training_factors = [name for name in factors if name != RATE]
    return fits, run_series.table(training_rows, TO_TARGET, training_factors)


def with_fits(fits: pandas.DataFrame, trainings: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of to_target.csv, each joined with its row of critical_batch_size.csv."""
    keys = [name for name in fits if name in trainings and name != RATE]
    fits = fits.drop(columns=RATE, errors="ignore")
    return trainings.merge(fits, on=keys, how="left", sort=False)


def _target_text(target: Target) -> str:
    return f"{target.column}={display.shortest(float(f'{target.value:.6g}'))}"


def _fit_row(scaling: TargetScaling) -> dict[str, Any]:
    row, fit, fastest = {"points": 0}, scaling.fit, scaling.fastest
    if fit:
        names = ("points", "updates_min", "examples_min", "residual", "lack_of_fit")
        row |= {name: getattr(fit, name) for name in names}
        critical = (fit.critical_batch_size, fit.low, fit.high)
        row |= intervals.columns("critical_batch_size", critical)
        row |= {"by_seed": int(fit.by_seed), "stray": " ".join(map(str, fit.stray))}
    if scaling.step:
        fixed, per_image, half = scaling.step[:3]
        row |= {"fixed_seconds": fixed.mean, "seconds_per_image": per_image.mean}
        ends = [end if math.isfinite(end) else math.nan for end in half[:3]]
        row |= intervals.columns("half_batch", ends)
    if fastest:
        row |= intervals.columns("fastest_batch_size", fastest.batch_size)
        row["fastest_seconds"] = fastest.seconds
        row |= {"fastest_from": fastest.low, "fastest_to": fastest.high}
    row["examples_fewest"] = scaling.measured_fastest("examples")
    row["measured_fastest"] = scaling.measured_fastest("seconds")
    return row


def _training_rows(scaling: TargetScaling) -> Iterator[dict[str, Any]]:
    """Yield one row per batch size and seed with a run; a cost that is infinite is missing."""
    series, updates = scaling.trainings, scaling.costs["updates"]
    by_size: dict[str, np.ndarray] = {}  # column -> values, shape (sizes,)
    by_run = {axis: cost.values for axis, cost in scaling.costs.items()}  # shape (sizes, seeds)
    by_run["learning_rate"] = series.rates_at(updates.rate_index)
    if series.has_several_rates:
        by_size = {"on_edge": updates.on_edge, "chosen_learning_rate": updates.rates}
        if seconds := scaling.costs.get("seconds"):
            by_size["seconds_on_edge"] = seconds.on_edge
            by_run["seconds_learning_rate"] = series.rates_at(seconds.rate_index)
    sizes, _, seeds = series.axes
    for size_index, seed_index in np.argwhere(~np.isnan(updates.values)):
        numbers = {name: values[size_index, seed_index] for name, values in by_run.items()}
        yield {
            "batch_size": sizes[size_index],
            "seed": seeds[seed_index],
            "reached": int(math.isfinite(numbers["updates"])),
            **{name: values[size_index] for name, values in by_size.items()},
            **{name: number for name, number in numbers.items() if math.isfinite(number)},
        }
