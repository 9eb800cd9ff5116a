"""The tables of an experiment. The entries of measures and timings define their own ones.

A claim selects cells of a table by factors and by keys of the table. It has a part for each value
of a key that it does not select, and all parts must hold.
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

TIMING_TABLES = dict(chain.from_iterable(entry.tables.items() for entry in TIMINGS.values()))
# First columns of tables of timings: the machine, the sweep and its factors.
FIRST = (
    *("machine", "sweep", "dataset", "dataset_digest", "model", "model_digest"),
    *(name for name in SWEEP_FACTORS if name not in ("dataset", "model", "batch_size")),
)
# Budgets of a trajectory: its last evaluation within the budget is read.
BUDGETS = ("examples", "updates", "epoch", "seconds")
# Verdicts and fits.
DECISIONS: dict[str, Table] = {
    "comparisons": Table(decision_columns.COMPARISONS),
    "trends": Table(decision_columns.TRENDS),
    "critical_batch_size": Table(decision_columns.CRITICAL),
    "to_target": Table(decision_columns.TO_TARGET),
    "local_critical_batch_size": Table(decision_columns.LOCAL_CRITICAL),
    "ramps": Table(decision_columns.RAMPS),
    "race": Table(decision_columns.RACE),
    "advice": Table(decision_columns.ADVICE),
}
# In the order of writing.
TABLES: dict[str, Table] = {
    "runs": Table(keys=()),
    "history": Table(columns.HISTORY, keys=("epoch",), figures=("loss_curves",)),
    "trajectories": Table(columns.TRAJECTORIES, keys=BUDGETS, figures=("progress",)),
    **dict(chain.from_iterable(entry.tables.items() for entry in MEASURES.values())),
    "at_epochs": Table(columns.AT_EPOCHS, keys=("at_epoch",), figures=("accuracy_by_epochs",)),
    **TIMING_TABLES,
    "limits": Table(),
    **DECISIONS,
    "published": Table(),
}
FILES = tuple(f"{name}.csv" for name in TABLES)
# Tables that claims may name.
CLAIMED = {name: table for name, table in TABLES.items() if table.keys is not None}


def column(table: str, name: str) -> Column | None:
    of_table = TABLES[table].columns.get(name) if table in TABLES else None
    candidates = [item for item in (columns.describe(name), of_table) if item]
    return next((item for item in candidates if item.label), next(iter(candidates), None))


def claimed(
    table: str, measures: Mapping[str, dict[str, Any]], learned: Collection[str]
) -> list[str]:
    """Return the columns of a table that a claim on an experiment may name.

    Args:
        measures: Measure or timing of the experiment -> every setting.
        learned: Tasks of its data sets.
    """
    by_name, keys = CLAIMED[table].columns, CLAIMED[table].keys
    if table == "runs":
        filled = (
            columns.measure_columns(dict(measures), learned) if measures else columns.RECORD_COLUMNS
        )
        by_name = {name: item for name in filled if (item := columns.describe(name))}
    # A claim may be about one budget at another budget.
    selectors = EVERY_FACTOR if keys == BUDGETS else {*EVERY_FACTOR, *keys}
    names = [name for name, item in by_name.items() if item.kind != "str" and name not in selectors]
    return tasks.columns_of_tasks(names, learned)


def possible(name: str) -> tuple[float, float]:
    in_tables = (table.columns[name] for table in TABLES.values() if name in table.columns)
    item = columns.describe(name) or next(in_tables, None)
    return (item.least, item.most) if item else (-math.inf, math.inf)


def clipped(name: str, values: Iterable[float]) -> list[float]:
    """Clip values to the range of a column; NaN stays NaN."""
    least, most = possible(name)
    return [value if math.isnan(value) else min(max(value, least), most) for value in values]
