"""The tables of an experiment: those of a measure or timing stand in its entry, all others here."""

from __future__ import annotations

from itertools import chain

from batchscope.catalogue import columns
from batchscope.catalogue.entries import Table
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS

OF_TIMINGS = dict(chain.from_iterable(entry.tables.items() for entry in TIMINGS.values()))
# In the order in which they are written; each is a field of batchscope.figures.Tables.
TABLES: dict[str, Table] = {
    "runs": Table("run_table.collect"),
    "history": Table("long_tables.histories", columns.HISTORY),
    "trajectories": Table("long_tables.trajectories", columns.TRAJECTORIES),
    **dict(chain.from_iterable(entry.tables.items() for entry in MEASURES.values())),
    "at_epochs": Table("long_tables.at_epochs", columns.AT_EPOCHS),
    **OF_TIMINGS,
    "limits": Table("timing_tables.limits"),
    "margins": Table("decisions.margins", reads=("runs",)),
    "budgets": Table("decisions.budgets", reads=("runs", "trajectories")),
    "critical_batch_size": Table("decisions.to_target", reads=("runs", "trajectories")),
    "to_target": Table("decisions.to_target", reads=("runs", "trajectories")),
    "advice": Table("decisions.advice", reads=("runs", "trajectories", "limits", "budgets")),
    "advice_sizes": Table("decisions.advice", reads=("runs", "trajectories", "limits", "budgets")),
    "published": Table("run_table.published"),
}
FILES = tuple(f"{name}.csv" for name in TABLES)
