"""What trainings can be compared at: equal epochs, updates or seconds, a target, convergence."""

from __future__ import annotations

from batchscope.catalogue import columns, tasks
from batchscope.catalogue.parameters import MOST, Parameter, by_name
from batchscope.catalogue.run_factors import MOST_EPOCHS

EPOCHS, UPDATES, SECONDS = "epochs", "updates", "seconds"
TARGET, CONVERGENCE = "target", "convergence"
END = "end"  # each training's own, which nothing holds equal
EXAMPLES = "examples"  # where each training of a series is known at an equal budget alone
ENDS = (CONVERGENCE, END, EXAMPLES)  # where outcomes are compared by what was learned in the end
# Kind -> the column of trajectories.csv that is equal.
AXES = {EPOCHS: "epoch", UPDATES: "updates", SECONDS: "seconds"}
SLOWER = 0.1  # share of the fastest size's seconds to a target by which one may take longer
# What was taken to a target is an outcome of its own.
TAKEN = ("updates", "examples", "seconds")
# Columns of trajectories.csv that may be a target.
TARGETS = tuple(name for name in columns.TRAJECTORIES if name in tasks.OUTCOMES)
# Those that every training of its task has, with evaluations at the epochs' ends alone too.
ALWAYS_THERE = tuple(name for name in TARGETS if name.startswith("validation_"))
# What an experiment may state.
STATED: dict[str, Parameter] = by_name(
    Parameter(EPOCHS, EPOCHS, "float", None, "Epochs.", "epochs", above=0, maximum=MOST_EPOCHS),
    Parameter(UPDATES, UPDATES, "int", None, "Updates.", "updates", minimum=1),
    Parameter(SECONDS, SECONDS, "float", None, "Seconds.", "s", above=0, maximum=MOST),
)


def target(column: str) -> Parameter:
    """Returns what a target of a column may be: R² and a study's own metrics may lie below 0."""
    found = tasks.metric(column)
    most = 1 if found and found.most == 1 else None
    if found and found.least < 0:
        return Parameter(column, "", "float", None, maximum=most, wanted=found.expected)
    return Parameter(column, column, "float", None, "To reach.", above=0, maximum=most)
