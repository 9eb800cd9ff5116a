"""The tables of an experiment: those of a measure or timing stand in its entry, all others here.

A claim names cells of a table by factors and by the table's keys. A key that it does not name makes
a part of the claim for each of its values, all of which must hold.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any

from batchscope.study import columns, decision_columns, tasks
from batchscope.study.registry import MEASURES, TIMINGS
from batchscope.study.run_factors import EVERY_FACTOR, SWEEP_FACTORS
from batchscope.study.specifications import Column, Table

OF_TIMINGS = dict(chain.from_iterable(entry.tables.items() for entry in TIMINGS.values()))
# What a row of theirs is of: the machine, the sweep and its factors.
FIRST = (
    *("machine", "sweep", "dataset", "dataset_digest", "model", "model_digest"),
    *(name for name in SWEEP_FACTORS if name not in ("dataset", "model", "batch_size")),
)
# Budgets of a trajectory, whose rows lie at each run's own evaluations: the last row not beyond one
# is read.
BUDGETS = ("examples", "updates", "epoch", "seconds")
# What follows from the runs, as verdicts and fits.
DECISIONS: dict[str, Table] = {
    "comparisons": Table(decision_columns.COMPARISONS),
    "trends": Table(decision_columns.TRENDS),
    "critical_batch_size": Table(decision_columns.CRITICAL),
    "to_target": Table(decision_columns.TO_TARGET),
    "local_critical_batch_size": Table(decision_columns.LOCAL_CRITICAL),
    "ramps": Table(decision_columns.RAMPS),
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
# Those that a claim may be of.
CLAIMED = {name: table for name, table in TABLES.items() if table.keys is not None}


def column(table: str, name: str) -> Column | None:
    own = TABLES[table].columns.get(name) if table in TABLES else None
    known = [each for each in (columns.describe(name), own) if each]
    return next((each for each in known if each.label), known[0] if known else None)


def claimed(
    table: str, measures: Mapping[str, dict[str, Any]], learned: Collection[str]
) -> list[str]:
    """Returns the columns of a table that a claim on an experiment may be of.

    Args:
        measures: What the experiment measures or times -> every setting.
        learned: Tasks of its data sets.
    """
    found, keys = CLAIMED[table].columns, CLAIMED[table].keys
    if table == "runs":
        own = columns.of_measures(dict(measures), learned) if measures else columns.OF_RECORD
        found = {name: column for name in own if (column := columns.describe(name))}
    # A budget may be asked at another one.
    known = EVERY_FACTOR if keys == BUDGETS else {*EVERY_FACTOR, *keys}
    names = [name for name, one in found.items() if one.kind != "str" and name not in known]
    return tasks.kept(names, learned)


def possible(name: str) -> tuple[float, float]:
    having = (table.columns[name] for table in TABLES.values() if name in table.columns)
    found = columns.describe(name) or next(having, None)
    return (found.least, found.most) if found else (-math.inf, math.inf)


def clipped(name: str, values: Iterable[float]) -> list[float]:
    """Returns values, each moved to the nearest that the column can have; NaN stays what it is."""
    least, most = possible(name)
    return [each if math.isnan(each) else min(max(each, least), most) for each in values]
