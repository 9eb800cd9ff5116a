"""Cost of each batch size to a target, as two tables: a row per series and target, or per run.

The second has the data of the fits in the first, so that figures need no other table.
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
from batchscope.analysis.trainings import Chosen, Trainings, at_own_targets, for_experiment
from batchscope.core import display
from batchscope.study.decision_columns import CRITICAL, TO_TARGET
from batchscope.study.external_columns import AXES, MIN_SIZES
from batchscope.study.tasks import Metrics

_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class TargetScaling:
    """One series and target.

    Attributes:
        costs: Axis -> cost to the target, at rates chosen by the same cost: infinite if a run never
            reached it, NaN if a seed has no run. Without `seconds` if these are unknown.
        step: Cost of a step; None if it is unknown or not resolved.
    """

    trainings: Trainings
    target: Target
    costs: dict[str, Chosen]
    step: step_cost.Fit | None = None

    @functools.cached_property
    def fit(self) -> critical_batch_size.CriticalBatchSize | None:
        """The critical batch size of the usable sizes; None with fewer than three."""
        updates = self.costs["updates"]
        usable = fastest_batch_size.usable(updates.values)
        if usable.sum() < MIN_SIZES:
            return None
        sizes = np.array(self.trainings.axes[0])[usable]
        return critical_batch_size.fit(sizes, updates.values[usable], updates.tuned[usable])

    @property
    def fastest(self) -> fastest_batch_size.FastestBatchSize | None:
        """The fastest batch size in closed form; None if that does not hold or is not known."""
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


def for_study(
    trajectories: pandas.DataFrame,
    runs: pandas.DataFrame,
    targets: Iterable[Target] = (),
    default_target: Callable[[Trainings], Target | None] = Trainings.default_target,
    metrics: Metrics = (),
) -> list[TargetScaling]:
    """Return the scaling of every target and series with three batch sizes or more.

    Without targets, these are three up to the default target of a series.
    """
    scalings, targets = [], [*targets]
    for series in for_experiment(runs, trajectories, metrics) if len(trajectories) else []:
        if len(series.axes[0]) >= MIN_SIZES:
            step = _fitted_step(series.evaluations)
            of_series = targets or series.targets_up_to(default_target(series))
            scalings += [
                _scaling(series, target, step)
                for target in of_series
                if target.column or at_own_targets(series.runs)
            ]
    return scalings


def _scaling(trainings: Trainings, target: Target, step: step_cost.Fit | None) -> TargetScaling:
    rows = trainings.evaluations
    axes = [
        axis for axis in AXES if axis in rows and (axis != "seconds" or rows[axis].notna().any())
    ]
    costs = {axis: trainings.chosen_by_itself(trainings.cost_to(target, axis)) for axis in axes}
    return TargetScaling(trainings, target, costs, step)


def _fitted_step(rows: pandas.DataFrame) -> step_cost.Fit | None:
    """Return the line through the seconds per step of the jobs; each seed has a job.

    Steps are counted from a run's first to its last row; from the start with a single row. The
    interval is based on the seeds that every batch size has; without any there is no interval.
    """
    if "seconds" not in rows:
        return None
    used = ["updates", "seconds", "examples"]
    runs = rows.dropna(subset=used).groupby(["batch_size", "seed", "run"])[used]
    last = runs.max()
    spans = (last - runs.min()).where(lambda span: span["updates"] > 0, last)
    spans = spans[(spans > 0).all(axis=1)]
    steps = spans[["seconds", "examples"]].div(spans["updates"], axis=0)
    # Runs of a seed at other rates share its timing job: they are no further jobs.
    jobs = steps["seconds"].groupby(["batch_size", "seed"]).median().unstack("seed")
    # An epoch's last batch is smaller: a step has fewer examples than a full batch, and two sizes
    # may have the same number.
    jobs = jobs.groupby(steps["examples"].groupby("batch_size").median()).median()
    if len(jobs) < 2:
        return None
    shared = jobs.dropna(axis=1)
    blocks = shared if len(shared.columns) else jobs.median(axis=1).to_frame()
    cost = step_cost.fixed_cost(jobs.index, blocks.to_numpy(), len(blocks.columns) > 1)
    return cost if step_cost.resolved(cost) else None


def target_text(target: Target) -> str:
    """Return a target in the form of the command line, if the file does not state it."""
    if not target.column:
        return "as in the file"
    return f"{target.column}={display.shortest(float(f'{target.value:.6g}'))}"


def fits(
    scalings: Sequence[TargetScaling], constant: Mapping[str, Any] = _NONE
) -> pandas.DataFrame:
    """Return one row per series and target, with the constant factors of all; see `CRITICAL`."""
    rows = [{**_keys(scaling, constant), **_fit_row(scaling)} for scaling in scalings]
    return run_series.table(rows, CRITICAL, _factors(scalings, constant))


def trainings(
    scalings: Sequence[TargetScaling], constant: Mapping[str, Any] = _NONE
) -> pandas.DataFrame:
    """Return one row per series, target, batch size and seed; see `TO_TARGET`."""
    factors = [name for name in _factors(scalings, constant) if name != chosen_rates.RATE]
    rows = [
        {**_keys(scaling, constant), **row}
        for scaling in scalings
        for row in _training_rows(scaling)
    ]
    return run_series.table(rows, TO_TARGET, factors)


def joined(fitted: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of `trainings`, each joined with its row of `fits`."""
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
    row, fit, best = {"points": 0}, scaling.fit, scaling.fastest
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
    if best:
        row |= intervals.columns("fastest_batch_size", best.batch_size)
        row |= {"fastest_seconds": best.seconds, "fastest_from": best.low, "fastest_to": best.high}
    row["examples_fewest"] = scaling.measured_fastest("examples")
    row["measured_fastest"] = scaling.measured_fastest("seconds")
    return row


def _training_rows(scaling: TargetScaling) -> Iterator[dict[str, Any]]:
    """Yield the rows of one series and target."""
    series, costs = scaling.trainings, scaling.costs
    sizes, _, seeds = series.axes
    chosen = {"": "updates", "seconds_": "seconds"} if series.tuned else {}
    chosen = {prefix: axis for prefix, axis in chosen.items() if axis in costs}
    rates = {prefix: series.rates(costs[axis].read) for prefix, axis in chosen.items()}
    rates.setdefault("", series.rates(costs["updates"].read))
    for at, size in enumerate(sizes):
        of_size = {
            f"{prefix}on_edge": int(costs[axis].on_edge[at]) for prefix, axis in chosen.items()
        }
        if series.tuned:
            of_size["chosen_learning_rate"] = costs["updates"].rates[at]
        for column, seed in enumerate(seeds):
            used = {axis: float(cost.values[at, column]) for axis, cost in costs.items()}
            if math.isnan(used["updates"]):
                continue
            yield {
                "batch_size": size,
                **of_size,
                "seed": seed,
                **{f"{prefix}learning_rate": rate[at, column] for prefix, rate in rates.items()},
                "reached": int(math.isfinite(used["updates"])),
                **{axis: cost if math.isfinite(cost) else math.nan for axis, cost in used.items()},
            }
