"""The tables of an experiment: those of a measure or timing stand in its entry, all others here."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from batchscope.catalogue import columns, decision_columns
from batchscope.catalogue.entries import Column, Table
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.sweep_names import EVERY_FACTOR
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
# The tables that a claim may be of. It names cells by factors and by a table's keys; a key that it
# does not name makes a part of the claim for each of its values, all of which must hold.
CLAIMED = {name: table for name, table in TABLES.items() if table.keys is not None}
FILES = tuple(f"{name}.csv" for name in TABLES)


def column(table: str, name: str) -> Column | None:
    """Returns what a column of a table holds, the one that has a label where one has."""
    own = TABLES[table].columns.get(name) if table in TABLES else None
    known = [each for each in (columns.describe(name), own) if each]
    return next((each for each in known if each.label), known[0] if known else None)


def claimed(table: str, measures: Mapping[str, dict[str, Any]]) -> list[str]:
    """Returns the columns of a table that a claim on an experiment may be of.

    Args:
        measures: What the experiment measures or times -> every setting.
    """
    found, keys = CLAIMED[table].columns, CLAIMED[table].keys
    if table == "runs":
        own = columns.of_measures(dict(measures)) if measures else columns.OF_RECORD
        found = {name: column for name in own if (column := columns.describe(name))}
    # Of a budget it may be asked at another one.
    known = EVERY_FACTOR if keys == BUDGETS else {*EVERY_FACTOR, *keys}
    return [name for name, one in found.items() if one.kind != "str" and name not in known]
