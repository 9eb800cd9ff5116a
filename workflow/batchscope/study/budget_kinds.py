"""Budgets for comparisons of trainings: equal epochs, updates or seconds, a target, convergence."""

from __future__ import annotations

from batchscope.study import columns, tasks

EPOCHS, UPDATES, SECONDS = "epochs", "updates", "seconds"
TARGET, CONVERGENCE = "target", "convergence"
END = "end"  # the end of each training
EXAMPLES = "examples"  # single rows of external runs at an equal budget
ENDS = (CONVERGENCE, END, EXAMPLES)
# Kind -> its column of trajectories.csv.
AXES = {EPOCHS: "epoch", UPDATES: "updates", SECONDS: "seconds"}
SLOWER = 0.1  # share of the fastest size's seconds to a target that another may take longer
# Costs to a target, which are outcomes.
TAKEN = ("updates", "examples", "seconds")
# Columns of trajectories.csv that may be a target.
TARGETS = tuple(name for name in columns.TRAJECTORIES if name in tasks.OUTCOMES)
# Targets that every training of the task has, also with evaluations at ends of epochs only.
ALWAYS_THERE = tuple(name for name in TARGETS if name.startswith("validation_"))
