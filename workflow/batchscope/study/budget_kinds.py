"""Budgets for comparisons of trainings: equal epochs, updates or seconds, a target, or an end."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from batchscope.study import columns, tasks

EPOCHS, UPDATES, SECONDS = "epochs", "updates", "seconds"
TARGET, CONVERGENCE = "target", "convergence"
END = "end"  # Runs are compared at their ends, regardless of their lengths.
EXAMPLES = "examples"  # Runs with a single row each end at the same number of examples.
ENDS = (CONVERGENCE, END, EXAMPLES)  # kinds that compare the ends of runs
# Kind -> its column of trajectories.csv.
AXES = {EPOCHS: "epoch", UPDATES: "updates", SECONDS: "seconds"}
# A batch size may take longer to a target than the fastest one by this share of its seconds.
MAX_SLOWDOWN = 0.1
COST_KINDS = (TARGET, EXAMPLES, EPOCHS)  # kinds that compare costs
COSTS = ("updates", "examples", "seconds")  # columns of costs to a target, which are outcomes
# Columns of trajectories.csv that may be a target.
TARGETS = tuple(name for name in columns.TRAJECTORIES if name in tasks.OUTCOMES)
# Targets that every training of the task evaluates, even at the ends of epochs only.
ALWAYS_EVALUATED = tuple(name for name in TARGETS if name.startswith("validation_"))
# Examples count as equal up to this ratio, since the last batch of an epoch may be padded.
_SAME_EXAMPLES = 1.05


def equal_budget(ends: Any) -> tuple[str, float] | None:
    """Return kind and value of the budget at which runs ended; None if their ends are unequal.

    Args:
        ends: A frame with one row per run.
    """
    for kind, column, max_ratio in (
        (EXAMPLES, "examples", _SAME_EXAMPLES),
        (UPDATES, "updates", 1),
        (EPOCHS, "epoch", 1),
    ):
        costs = ends.get(column, ())
        if len(costs) and costs.notna().all() and costs.max() <= max_ratio * costs.min():
            return kind, float(costs.min())
    return None


def end_kinds(kinds: Collection[str]) -> tuple[str, ...]:
    """Return the kinds that compare the ends of runs, among the kinds that a table has."""
    return ENDS if {*ENDS} & {*kinds} else (EPOCHS,)
