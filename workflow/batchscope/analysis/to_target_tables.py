"""Costs of a target loss by batch size, and the critical and the fastest batch size fitted to them.

Runs and trajectories in, the tables critical_batch_size.csv and to_target.csv out. A series has the
runs that differ by batch size, learning rate and seed alone; a cost is one of `updates`, `examples`
and `seconds`.

`fit_table` has one row per series and target: its fits and the fastest batch size. A new column of
a fit goes into `_fit_row`. `training_table` has one row per training: the costs to the target,
which are the data of the fits. A new column of a training goes into `_training_rows`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import (
    chosen_rates,
    critical_batch_size,
    fastest_batch_size,
    intervals,
    run_series,
    step_cost,
)
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import Choice, Trainings, end_at_targets, for_experiment
from batchscope.core import display
from batchscope.study.decision_columns import CRITICAL, TO_TARGET
from batchscope.study.external_columns import COST_COLUMNS, MIN_SIZES
from batchscope.study.tasks import Metrics

_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class TargetScaling:
    """The costs of one series to one target, and the fits to them.

    Attributes:
        costs: Kind of cost -> cost to the target, at rates chosen by the same cost. A cost is
            infinite if a run never reached the target, and NaN without a run. `seconds` is absent
            if unknown.
        step: Cost of a step; None if it is unknown or not resolved.
    """

    trainings: Trainings
    target: Target
    costs: dict[str, Choice]
    step: step_cost.StepCost | None = None

    @functools.cached_property
    def fit(self) -> critical_batch_size.CriticalBatchSize | None:
        """The fit of the critical batch size; None with fewer than three usable batch sizes."""
        updates = self.costs["updates"]
        usable = fastest_batch_size.is_usable(updates.values)
        if usable.sum() < MIN_SIZES:
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


def scalings_of_study(
    trajectories: pandas.DataFrame,
    runs: pandas.DataFrame,
    targets: Iterable[Target] = (),
    default_target: Callable[[Trainings], Target | None] = Trainings.default_target,
    metrics: Metrics = (),
) -> list[TargetScaling]:
    """Return the scaling of every target and series with three batch sizes or more.

    Without stated targets, each series has three: the last one is its default target.
    """
    scalings, targets = [], [*targets]
    for series in for_experiment(runs, trajectories, metrics) if len(trajectories) else []:
        if len(series.axes[0]) >= MIN_SIZES:
            step = _fitted_step(series.evaluations)
            series_targets = targets or series.targets_up_to(default_target(series))
            scalings += [
                _scaling(series, target, step)
                for target in series_targets
                if target.column or end_at_targets(series.runs)
            ]
    return scalings


def _scaling(series: Trainings, target: Target, step: step_cost.StepCost | None) -> TargetScaling:
    rows = series.evaluations
    axes = [
        axis
        for axis in COST_COLUMNS
        if axis in rows and (axis != "seconds" or rows[axis].notna().any())
    ]
    costs = {axis: series.choose_by_costs(series.cost_cube(target, axis)) for axis in axes}
    return TargetScaling(series, target, costs, step)


def _fitted_step(rows: pandas.DataFrame) -> step_cost.StepCost | None:
    """Return the line through the seconds per step of the timing jobs, one per seed.

    Steps are counted from a run's first row to its last; with a single row, from the start. The
    interval is based on the seeds that every batch size has. Without any it is missing.
    """
    if "seconds" not in rows:
        return None
    columns = ["updates", "seconds", "examples"]
    runs = rows.dropna(subset=columns).groupby(["batch_size", "seed", "run"])[columns]
    last = runs.max()
    spans = (last - runs.min()).where(lambda span: span["updates"] > 0, last)
    spans = spans[(spans > 0).all(axis=1)]
    steps = spans[["seconds", "examples"]].div(spans["updates"], axis=0)
    # Runs of one seed at several rates share its timing job.
    jobs = steps["seconds"].groupby(["batch_size", "seed"]).median().unstack("seed")
    # The last batch of an epoch is smaller. So an average step has fewer examples than a full
    # batch, and two batch sizes may have the same number of examples per step.
    jobs = jobs.groupby(steps["examples"].groupby("batch_size").median()).median()
    if len(jobs) < 2:
        return None
    shared = jobs.dropna(axis=1)
    blocks = shared if len(shared.columns) else jobs.median(axis=1).to_frame()
    cost = step_cost.fixed_cost(jobs.index, blocks.to_numpy(), len(blocks.columns) > 1)
    return cost if step_cost.is_resolved(cost) else None


def target_text(target: Target) -> str:
    """Return `column=value`, or a fixed text for targets that external rows state themselves."""
    if not target.column:
        return "as in the file"
    return f"{target.column}={display.shortest(float(f'{target.value:.6g}'))}"


def fit_table(
    scalings: Sequence[TargetScaling], constant: Mapping[str, Any] = _NONE
) -> pandas.DataFrame:
    """Return one row per series and target, with the constant factors of all (see `CRITICAL`)."""
    rows = [{**_keys(scaling, constant), **_fit_row(scaling)} for scaling in scalings]
    return run_series.table(rows, CRITICAL, _factors(scalings, constant))


def training_table(
    scalings: Sequence[TargetScaling], constant: Mapping[str, Any] = _NONE
) -> pandas.DataFrame:
    """Return one row per series, target, batch size and seed (see `TO_TARGET`)."""
    factors = [name for name in _factors(scalings, constant) if name != chosen_rates.RATE]
    rows = [
        {**_keys(scaling, constant), **row}
        for scaling in scalings
        for row in _training_rows(scaling)
    ]
    return run_series.table(rows, TO_TARGET, factors)


def with_fits(fitted: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of `training_table`, each joined with its row of `fit_table`."""
    keys = [name for name in fitted if name in runs and name != chosen_rates.RATE]
    fitted = fitted.drop(columns=chosen_rates.RATE, errors="ignore")
    return runs.merge(fitted, on=keys, how="left", sort=False)


def _factors(scalings: Sequence[TargetScaling], constant: Mapping[str, Any]) -> list[str]:
    varied = [name for scaling in scalings for name in scaling.trainings.factors]
    names = [*dict.fromkeys([*constant, *varied])]
    return run_series.factor_columns(pandas.DataFrame(columns=names))


def _keys(scaling: TargetScaling, constant: Mapping[str, Any]) -> dict[str, Any]:
    target = scaling.target
    return {
        **constant,
        **scaling.trainings.factors,
        "target": target_text(target),
        "target_column": target.column,
        "target_value": target.value,
    }


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
    """Yield one row per batch size and seed of one series and target."""
    series, costs = scaling.trainings, scaling.costs
    sizes, _, seeds = series.axes
    # Prefix of the columns -> cost whose rates they show.
    chosen = {"": "updates", "seconds_": "seconds"} if series.tuned else {}
    chosen = {prefix: axis for prefix, axis in chosen.items() if axis in costs}
    rates = {prefix: series.rates_at(costs[axis].rate_index) for prefix, axis in chosen.items()}
    rates.setdefault("", series.rates_at(costs["updates"].rate_index))
    for size_index, size in enumerate(sizes):
        size_columns = {
            f"{prefix}on_edge": int(costs[axis].on_edge[size_index])
            for prefix, axis in chosen.items()
        }
        if series.tuned:
            size_columns["chosen_learning_rate"] = costs["updates"].rates[size_index]
        for seed_index, seed in enumerate(seeds):
            cell = size_index, seed_index
            updates = float(costs["updates"].values[cell])
            if math.isnan(updates):
                continue
            seed_costs = {axis: float(cost.values[cell]) for axis, cost in costs.items()}
            finite = {axis: cost for axis, cost in seed_costs.items() if math.isfinite(cost)}
            yield {
                "batch_size": size,
                **size_columns,
                "seed": seed,
                **{f"{prefix}learning_rate": rate[cell] for prefix, rate in rates.items()},
                "reached": int(math.isfinite(updates)),
                **finite,
            }
