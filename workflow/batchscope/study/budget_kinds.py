"""Budgets for comparisons of trainings: equal epochs, updates or seconds, a target, convergence."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from batchscope.study import columns, tasks

EPOCHS, UPDATES, SECONDS = "epochs", "updates", "seconds"
TARGET, CONVERGENCE = "target", "convergence"
END = "end"  # the end of each training
EXAMPLES = "examples"  # equal ends of runs with a single row each
ENDS = (CONVERGENCE, END, EXAMPLES)
# Kind -> its column of trajectories.csv.
AXES = {EPOCHS: "epoch", UPDATES: "updates", SECONDS: "seconds"}
SLOWER = 0.1  # share of the fastest size's seconds to a target that another may take longer
PAID = (TARGET, EXAMPLES, EPOCHS)  # kinds that compare costs
# Costs to a target, which are outcomes.
COSTS = ("updates", "examples", "seconds")
# Columns of trajectories.csv that may be a target.
TARGETS = tuple(name for name in columns.TRAJECTORIES if name in tasks.OUTCOMES)
# Targets that every training of the task has, also with evaluations at ends of epochs only.
ALWAYS_THERE = tuple(name for name in TARGETS if name.startswith("validation_"))
# Largest ratio of equal examples: the last batch of an epoch may be padded.
_SAME_EXAMPLES = 1.05


def equal_budget(ends: Any) -> tuple[str, float] | None:
    """Return kind and value of the budget at which runs ended; None if their ends are unequal.

    Args:
        ends: A frame with one row per run.
    """
    for kind, column, most in (
        (EXAMPLES, "examples", _SAME_EXAMPLES),
        (UPDATES, "updates", 1),
        (EPOCHS, "epoch", 1),
    ):
        used = ends.get(column, ())
        if len(used) and used.notna().all() and used.max() <= most * used.min():
            return kind, float(used.min())
    return None


def end_kinds(kinds: Collection[str]) -> tuple[str, ...]:
    """Return the kinds that compare the ends of runs, among the kinds that a table has."""
    return ENDS if {*ENDS} & {*kinds} else (EPOCHS,)
