"""Runs and trajectories in, the tables critical_batch_size.csv and to_target.csv out.

A row of to_target.csv has the costs of one training to one target. A row of critical_batch_size.csv
has the fits to the costs of one series: the critical batch size and the fastest one. A new column
goes into `_training_rows` or `_fit_row`, and into `decision_columns`.

With the updates to a target S = S_min + E_min / B of `critical_batch_size` and the time of a step
t = a + b B of `step_cost`, a training takes

    T(B) = S_min a + E_min b + S_min b B + E_min a / B,

with its minimum at B* = sqrt(B_crit B_half), B_crit = E_min / S_min and B_half = a / b.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import critical_batch_size, intervals, run_series, step_cost
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.critical_batch_size import CriticalBatchSize, is_significant
from batchscope.analysis.intervals import Interval
from batchscope.analysis.targets import ComparisonRequest, default_targets
from batchscope.analysis.trainings import Choice, Trainings, for_experiment
from batchscope.core import display
from batchscope.study import outcomes
from batchscope.study.decision_columns import CRITICAL, TO_TARGET
from batchscope.study.log_format import COST_COLUMNS
from batchscope.study.outcomes import MIN_FIT_SIZES


def seconds_to_target(
    batch_sizes: Any, updates_min: float, examples_min: float, fixed: float, per_image: float
) -> np.ndarray:
    """Return T(B) in seconds; `fixed` is a and `per_image` is b, both in seconds."""
    sizes = np.asarray(batch_sizes, float)
    return (updates_min + examples_min / sizes) * (fixed + per_image * sizes)


def fastest_columns(
    updates_min: float,
    examples_min: float,
    fixed: float,
    per_image: float,
    log_error: float = math.nan,
) -> dict[str, float]:
    """Return the columns of B*, of T(B*), and of the sizes that take at most 10 % longer.

    All constants are positive; `log_error` is half the 95 % interval of log B*.
    """
    best = math.sqrt(examples_min / updates_min * fixed / per_image)
    seconds = (math.sqrt(updates_min * fixed) + math.sqrt(examples_min * per_image)) ** 2
    # T(B) <= (1 + x) T(B*) is r + 1/r <= q with r = B / B*.
    q = (1 + outcomes.MAX_SLOWDOWN) * seconds - updates_min * fixed - examples_min * per_image
    q /= math.sqrt(updates_min * examples_min * fixed * per_image)
    r = (q + math.sqrt(q * q - 4)) / 2
    factor = math.exp(log_error)
    return {
        **intervals.columns("fastest_batch_size", (best, best / factor, best * factor)),
        "fastest_seconds": seconds,
        "fastest_from": best / r,
        "fastest_to": best * r,
    }


def log_error(critical: CriticalBatchSize, half_batch: Interval) -> float:
    """Return the half-width of the 95 % interval of log B*; NaN if an interval is open.

    Var log B* = (Var log B_crit + Var log B_half) / 4 for independent sources. The half-widths of
    their intervals are joined likewise (Howe 1974, J. Am. Stat. Assoc. 69, 789).
    """
    ends = np.array([(critical.low, critical.high), half_batch[1:3]], float)
    if not (np.isfinite(ends) & (ends > 0)).all():
        return math.nan
    return float(np.hypot(*(np.log(ends[:, 1] / ends[:, 0]) / 2)) / 2)


def is_usable(costs: np.ndarray) -> np.ndarray:
    """Return whether every seed of each size reached the target, at a cost above 0.

    Args:
        costs: Cost to the target, shape (sizes, seeds): infinite if a training never reached it,
            NaN without a training.
    """
    no_run = np.isnan(costs)
    reached = np.isfinite(costs) & (costs > 0)
    return ~no_run.all(axis=1) & (no_run | reached).all(axis=1)


def measured_fastest(batch_sizes: Sequence[int], costs: Any) -> int | None:
    """Return the usable size, if any, with the lowest geometric mean cost over common seeds."""
    table = np.asarray(costs, float)
    sizes = np.flatnonzero(is_usable(table))
    common = table[sizes][:, ~np.isnan(table[sizes]).any(axis=0)]
    return batch_sizes[sizes[np.log(common).mean(axis=1).argmin()]] if common.size else None


def tables(
    runs: pandas.DataFrame, trajectories: pandas.DataFrame, request: ComparisonRequest
) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return critical_batch_size.csv and to_target.csv (see `CRITICAL` and `TO_TARGET`).

    They have every target and series with three batch sizes or more. Without stated targets, each
    series has those of `targets.default_targets`.
    """
    factors, constant = run_series.factor_columns(runs), run_series.constant_factors(runs)
    fit_rows, training_rows = [], []
    for series in for_experiment(runs, trajectories, request.metrics) if len(trajectories) else ():
        if len(series.axes[0]) < MIN_FIT_SIZES:
            continue
        rows = series.evaluations
        axes = [name for name in COST_COLUMNS if name in rows]
        axes = [name for name in axes if name != "seconds" or rows[name].notna().any()]
        step = step_cost.from_evaluations(rows)
        for target in request.stated_targets or default_targets(series, request):
            # The cost on each axis is read at the rates that the same cost chooses. It is infinite
            # if a run never reached the target, and NaN without a run.
            costs = {axis: series.choose_by_costs(target.cost_cube(series, axis)) for axis in axes}
            keys = {
                **constant,
                **series.factors,
                "target": f"{target.column}={display.shortest(float(f'{target.value:.6g}'))}",
                "target_column": target.column,
                "target_value": target.value,
            }
            fit_rows.append({**keys, **_fit_row(series.axes[0], costs, step)})
            training_rows += [{**keys, **row} for row in _training_rows(series, costs)]
    fits = run_series.table(fit_rows, CRITICAL, factors)
    training_factors = [name for name in factors if name != RATE]
    return fits, run_series.table(training_rows, TO_TARGET, training_factors)


def with_fits(fits: pandas.DataFrame, trainings: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of to_target.csv, each joined with its row of critical_batch_size.csv."""
    keys = [name for name in fits if name in trainings and name != RATE]
    fits = fits.drop(columns=RATE, errors="ignore")
    return trainings.merge(fits, on=keys, how="left", sort=False)


def _fit_row(
    batch_sizes: Sequence[int], costs: Mapping[str, Choice], step: step_cost.StepCost | None
) -> dict[str, Any]:
    """Return the columns of the fits to the costs; `step` is None if it is not resolved."""
    row: dict[str, Any] = {"points": 0}
    updates = costs["updates"]
    usable = is_usable(updates.values)
    fit = None
    if usable.sum() >= MIN_FIT_SIZES:
        sizes = np.array(batch_sizes)[usable]
        fit = critical_batch_size.fit(sizes, updates.values[usable], updates.tuned[usable])
        names = ("points", "updates_min", "examples_min", "residual", "lack_of_fit")
        row |= {name: getattr(fit, name) for name in names}
        critical = (fit.critical_batch_size, fit.low, fit.high)
        row |= intervals.columns("critical_batch_size", critical)
        row |= {"by_seed": int(fit.by_seed), "stray": " ".join(map(str, fit.stray))}
    if step:
        row |= {"fixed_seconds": step.fixed.mean, "seconds_per_image": step.per_image.mean}
        ends = [end if math.isfinite(end) else math.nan for end in step.half_batch[:3]]
        row |= intervals.columns("half_batch", ends)
    if fit and step and fit.critical_batch_size > 0 and not is_significant(fit.lack_of_fit):
        constants = fit.updates_min, fit.examples_min, step.fixed.mean, step.per_image.mean
        row |= fastest_columns(*constants, log_error(fit, step.half_batch))
    for axis, column in {"examples": "examples_fewest", "seconds": "measured_fastest"}.items():
        if axis in costs:
            row[column] = measured_fastest(batch_sizes, costs[axis].values)
    return row


def _training_rows(series: Trainings, costs: Mapping[str, Choice]) -> Iterator[dict[str, Any]]:
    """Yield one row per batch size and seed with a run; a cost that is infinite is missing."""
    updates = costs["updates"]
    by_size: dict[str, np.ndarray] = {}  # column -> values, shape (sizes,)
    by_run = {axis: cost.values for axis, cost in costs.items()}  # shape (sizes, seeds)
    by_run["learning_rate"] = series.rates_at(updates.rate_index)
    if series.has_several_rates:
        by_size = {"on_edge": updates.on_edge, "chosen_learning_rate": updates.rates}
        if seconds := costs.get("seconds"):
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
