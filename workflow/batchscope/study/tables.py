"""The registry of an experiment's tables, and questions about their columns.

Entries of measures and timings define their own tables; any other one is added to `TABLES`.
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
# Tables of timings begin with the machine, the sweep and its factors.
TIMING_FIRST_COLUMNS = (
    *("machine", "sweep", "dataset", "dataset_digest", "model", "model_digest"),
    *(name for name in SWEEP_FACTORS if name not in ("dataset", "model", "batch_size")),
)
# A claim on trajectories fixes one of these budgets. The last evaluation within it is read.
BUDGETS = ("examples", "updates", "epoch", "seconds")
# Tables of verdicts and fits.
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
# All tables, in the order of writing.
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
# Tables that claims may name. A claim selects cells by factors and by keys of the table. Each value
# of a key that it does not select has a contrast of its own, and all contrasts must hold.
CLAIMABLE_TABLES = {name: table for name, table in TABLES.items() if table.keys is not None}


def describe_column(table: str, name: str) -> Column | None:
    """Return the description of a table's column; one with a label is preferred."""
    in_table = TABLES[table].columns.get(name) if table in TABLES else None
    candidates = [item for item in (columns.describe(name), in_table) if item]
    return next((item for item in candidates if item.label), next(iter(candidates), None))


def claimable_columns(
    table: str, measures: Mapping[str, dict[str, Any]], task_names: Collection[str]
) -> list[str]:
    """Return the columns of a table that a claim on an experiment may name.

    Args:
        measures: Measure or timing of the experiment -> every setting.
        task_names: Tasks of its data sets.
    """
    by_name, keys = CLAIMABLE_TABLES[table].columns, CLAIMABLE_TABLES[table].keys
    if table == "runs":
        filled = columns.RECORD_COLUMNS
        if measures:
            filled = columns.measure_columns(dict(measures), task_names)
        by_name = {name: item for name in filled if (item := columns.describe(name))}
    # A claim on trajectories may be about the value of one budget at another budget.
    selectors = EVERY_FACTOR if keys == BUDGETS else {*EVERY_FACTOR, *keys}
    names = [name for name, item in by_name.items() if item.kind != "str" and name not in selectors]
    return tasks.columns_of_tasks(names, task_names)


def value_range(name: str) -> tuple[float, float]:
    """Return the lowest and highest possible value of a column of any table."""
    in_tables = (table.columns[name] for table in TABLES.values() if name in table.columns)
    item = columns.describe(name) or next(in_tables, None)
    return (item.minimum, item.maximum) if item else (-math.inf, math.inf)


def clipped_to_range(name: str, values: Iterable[float]) -> list[float]:
    """Return values clipped to the range of a column; NaN stays NaN."""
    low, high = value_range(name)
    return [value if math.isnan(value) else min(max(value, low), high) for value in values]
