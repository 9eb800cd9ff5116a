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
_TRAINED = ("runs", "trajectories")
_ADVISED = ("runs", "limits", "comparisons", "trends", "critical_batch_size")
# In the order in which they are written; each is a field of batchscope.figures.Tables.
TABLES: dict[str, Table] = {
    "runs": Table("run_table.collect", keys=()),
    "history": Table(
        "long_tables.histories", columns.HISTORY, keys=("epoch",), figures=("loss_curves",)
    ),
    "trajectories": Table(
        "long_tables.trajectories", columns.TRAJECTORIES, keys=BUDGETS, figures=("progress",)
    ),
    **dict(chain.from_iterable(entry.tables.items() for entry in MEASURES.values())),
    "at_epochs": Table(
        "long_tables.at_epochs",
        columns.AT_EPOCHS,
        keys=("at_epoch",),
        figures=("accuracy_by_epochs",),
    ),
    **OF_TIMINGS,
    "limits": Table("timing_tables.limits"),
    "comparisons": Table("decisions.held_equal", decision_columns.COMPARISONS, _TRAINED),
    "trends": Table("decisions.held_equal", decision_columns.TRENDS, _TRAINED),
    "critical_batch_size": Table("decisions.to_target", decision_columns.CRITICAL, _TRAINED),
    "to_target": Table("decisions.to_target", decision_columns.TO_TARGET, _TRAINED),
    "advice": Table("advice.rows", decision_columns.ADVICE, _ADVISED),
    "published": Table("run_table.published", reads=("runs", "utilisation", "throughput")),
}
FILES = tuple(f"{name}.csv" for name in TABLES)


def column(table: str, name: str) -> Column | None:
    """Returns what a column of a table holds, the one that has a label where one has."""
    own = TABLES[table].columns.get(name) if table in TABLES else None
    known = [each for each in (columns.describe(name), own) if each]
    return next((each for each in known if each.label), known[0] if known else None)
