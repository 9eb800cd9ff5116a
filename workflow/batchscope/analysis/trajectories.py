"""What the evaluations of one training say between their rows: a value, a crossing.

The rows of a training are a table with one row per evaluation, in any order; the axis is any of
its columns that grow: examples, updates, epoch or seconds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

NAN = float("nan")


def value_at(rows: pandas.DataFrame, axis: str, budget: float, column: str) -> float:
    """Returns a column in the last row that is not beyond a budget.

    Args:
        rows: The evaluations of one training.
        axis: Column of the budget.
        budget: Most that may be used, in the unit of the axis.
        column: What is read.

    Returns:
        The value; NaN where every row lies beyond the budget.
    """
    used = rows[rows[axis] <= budget]
    return float(used.loc[used[axis].idxmax(), column]) if len(used) else NAN


def first_crossing(rows: pandas.DataFrame, axis: str, loss: str, target: float) -> float:
    """Returns where a loss first reaches a target.

    Linear in the logarithm of the loss between the two rows around the first crossing. A row
    without such a row before it is a crossing itself, and so is a loss of 0, which has no
    logarithm.

    Args:
        rows: The evaluations of one training.
        axis: Column on which the crossing is told.
        loss: Column of the loss; values that are not finite never reach a target.
        target: The loss to reach, above 0.

    Returns:
        The place, in the unit of the axis; infinity where the target is never reached.
    """
    ordered = rows.sort_values(axis)
    at, losses = ordered[axis].to_numpy(float), ordered[loss].to_numpy(float)
    reached = np.flatnonzero(np.isfinite(losses) & (losses <= target))
    if not len(reached):
        return math.inf
    first = reached[0]
    if first == 0 or losses[first] <= 0 or not np.isfinite(losses[first - 1]):
        return float(at[first])
    before, after = np.log(losses[first - 1]), np.log(losses[first])
    share = (before - math.log(target)) / (before - after)
    return float(at[first - 1] + share * (at[first] - at[first - 1]))
