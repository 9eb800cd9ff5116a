"""Trajectories read at a budget and at a target loss.

Source: Shallue et al. 2019, "Measuring the Effects of Data Parallelism on Neural Network Training"
(arXiv 1811.03600), section 3: what wins depends on what is held equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

NAN = float("nan")


def value_at(budgets: Any, values: Any, budget: float) -> float:
    """Returns the value of the last row whose budget is not beyond the one given.

    Args:
        budgets: Examples, updates or seconds used, rising, shape (rows,).
        values: What was evaluated there, shape (rows,).

    Returns:
        NaN where every row is beyond it.
    """
    row = int(np.searchsorted(np.asarray(budgets, float), budget, side="right")) - 1
    return float(np.asarray(values, float)[row]) if row >= 0 else NAN


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


def lowest_reached_by_all(losses: Iterable[Any]) -> float:
    """Returns the lowest loss that every training reached.

    Args:
        losses: The losses of each training, shape (rows,) each.

    Returns:
        NaN where one has no finite loss, or none is given.
    """
    lowest = []
    for found in losses:
        found = np.asarray(found, float)
        found = found[np.isfinite(found)]
        lowest.append(float(found.min()) if len(found) else NAN)
    return float(np.max(lowest)) if lowest else NAN
