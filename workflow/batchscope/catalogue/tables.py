"""The tables of an experiment: those of a measure or timing stand in its entry, all others here."""

from __future__ import annotations

from itertools import chain

from batchscope.catalogue import columns, decision_columns
from batchscope.catalogue.entries import Column, Table
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS

OF_TIMINGS = dict(chain.from_iterable(entry.tables.items() for entry in TIMINGS.values()))
# Of a trajectory, whose rows lie at each run's own evaluations: a budget, of which the last row not
# beyond it is read.
BUDGETS = ("examples", "updates", "epoch", "seconds")
# What follows from the runs, as verdicts and fits.
DECISIONS: dict[str, Table] = {
    "comparisons": Table(decision_columns.COMPARISONS),
    "trends": Table(decision_columns.TRENDS),
    "critical_batch_size": Table(decision_columns.CRITICAL),
    "to_target": Table(decision_columns.TO_TARGET),
    "advice": Table(decision_columns.ADVICE),
}
# In the order in which they are written.
TABLES: dict[str, Table] = {
    "runs": Table(keys=()),
    "history": Table(columns.HISTORY, keys=("epoch",), figures=("loss_curves",)),
    "trajectories": Table(columns.TRAJECTORIES, keys=BUDGETS, figures=("progress",)),
    **dict(chain.from_iterable(entry.tables.items() for entry in MEASURES.values())),
    "at_epochs": Table(columns.AT_EPOCHS, keys=("at_epoch",), figures=("accuracy_by_epochs",)),
    **OF_TIMINGS,
    "limits": Table(),
    **DECISIONS,
    "published": Table(),
}
FILES = tuple(f"{name}.csv" for name in TABLES)


def column(table: str, name: str) -> Column | None:
    """Returns what a column of a table holds, the one that has a label where one has."""
    own = TABLES[table].columns.get(name) if table in TABLES else None
    known = [each for each in (columns.describe(name), own) if each]
    return next((each for each in known if each.label), known[0] if known else None)
