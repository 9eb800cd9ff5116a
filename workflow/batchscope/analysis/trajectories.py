"""Trajectories read at a budget and at a target loss.

Source: Shallue et al. 2019, "Measuring the Effects of Data Parallelism on Neural Network Training"
(arXiv 1811.03600), section 3: what wins depends on what is held equal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_ROUNDING = 1e-9  # relative difference below which two budgets are the same


def at_budget(used: Any, values: Any, budget: float, loss: bool = False) -> float:
    """Returns what a training has at a budget.

    Between two evaluations it is interpolated, since those of large batches are few updates
    apart from each other and those of small ones many: of a loss its logarithm is taken as linear
    in the budget, as `first_crossing` does, of anything else the value itself. An evaluation
    without a value is passed over.

    Args:
        used: Examples, updates, epochs or seconds used, rising, shape (rows,).
        values: What was evaluated there, shape (rows,).
        loss: Whether that is a loss.

    Returns:
        NaN where the training ended before the budget, or was first evaluated after it.
    """
    used, values = np.asarray(used, float), np.asarray(values, float)
    if ended_before(used, budget):
        return math.nan
    known = ~np.isnan(values)
    used, values = used[known], values[known]
    after = int(np.searchsorted(used, budget * (1 + _ROUNDING), side="right"))
    if after == 0:
        return math.nan
    first = float(values[after - 1])
    close = budget <= used[after - 1] * (1 + _ROUNDING)
    if close or after == len(used) or not np.isfinite(values[after - 1 : after + 1]).all():
        return first
    second = float(values[after])
    share = float((budget - used[after - 1]) / (used[after] - used[after - 1]))
    if loss and min(first, second) > 0:
        return float(first * (second / first) ** share)
    return first + share * (second - first)


def ended_before(used: Any, budget: float) -> bool:
    """Returns whether a training ended before a budget; not where what it used is not known."""
    # The last digit of a fraction of an epoch is no shorter training.
    return len(used) > 0 and bool(used[-1] < budget * (1 - _ROUNDING))


def first_crossing(budgets: Any, losses: Any, target: float) -> float:
    """Returns the budget at which a loss first is at or below its target.

    Between the two rows around it the logarithm of the loss is taken as linear in the budget. The
    first row at or below the target counts as the crossing where none is above it before, and
    where a loss of zero has no logarithm.

    Args:
        budgets: Examples, updates or seconds used, rising, shape (rows,).
        losses: Losses there, shape (rows,); what is not finite is above every target.
        target: A positive loss.

    Returns:
        Infinity where the loss never gets there.
    """
    budgets, losses = np.asarray(budgets, float), np.asarray(losses, float)
    reached = np.flatnonzero(losses <= target)
    if not len(reached):
        return math.inf
    row = int(reached[0])
    after = float(losses[row])
    if row == 0 or not math.isfinite(losses[row - 1]) or after <= 0:
        return float(budgets[row])
    before = float(losses[row - 1])
    share = math.log(before / target) / math.log(before / after)
    return float(budgets[row - 1] + share * (budgets[row] - budgets[row - 1]))
