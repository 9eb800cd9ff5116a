"""Costs to a target in, the batch size that reaches it soonest out: measured, and in closed form.

With the updates to a target S = S_min + E_min / B of `critical_batch_size` and the time of a step
t = a + b B of `step_cost`, a training takes

    T(B) = S_min a + E_min b + S_min b B + E_min a / B,

with its minimum at B* = sqrt(B_crit B_half), B_crit = E_min / S_min and B_half = a / b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from batchscope.analysis.critical_batch_size import CriticalBatchSize
from batchscope.analysis.intervals import Interval
from batchscope.study import budget_kinds


class FastestBatchSize(NamedTuple):
    """The fastest batch size of one series, target and machine."""

    batch_size: Interval  # B* with its 95 % interval
    seconds: float  # T(B*)
    low: float  # smallest batch size that takes at most 10 % longer
    high: float  # largest one


def seconds_to_target(
    batch_sizes: Any, updates_min: float, examples_min: float, fixed: float, per_image: float
) -> np.ndarray:
    """Return T(B) in seconds; `fixed` is a and `per_image` is b, both in seconds."""
    sizes = np.asarray(batch_sizes, float)
    return (updates_min + examples_min / sizes) * (fixed + per_image * sizes)


def fastest(
    updates_min: float,
    examples_min: float,
    fixed: float,
    per_image: float,
    log_error: float = math.nan,
) -> FastestBatchSize:
    """Return B* for positive constants; `log_error` is half the 95 % interval of log B*."""
    best = math.sqrt(examples_min / updates_min * fixed / per_image)
    seconds = (math.sqrt(updates_min * fixed) + math.sqrt(examples_min * per_image)) ** 2
    # T(B) <= (1 + x) T(B*) is r + 1/r <= q with r = B / B*.
    q = (1 + budget_kinds.MAX_SLOWDOWN) * seconds - updates_min * fixed - examples_min * per_image
    q /= math.sqrt(updates_min * examples_min * fixed * per_image)
    r = (q + math.sqrt(q * q - 4)) / 2
    factor = math.exp(log_error)
    interval = Interval(best, best / factor, best * factor)
    return FastestBatchSize(interval, seconds, best / r, best * r)


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
