"""The tables that a claim may be of, and their columns.

A claim names cells by factors and by a table's keys. A key that it does not name makes a part of
the claim for each of its values, all of which must hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchscope.catalogue import columns, tables
from batchscope.catalogue.sweep_names import EVERY_FACTOR
from batchscope.catalogue.tables import BUDGETS

TABLES = {name: table for name, table in tables.TABLES.items() if table.keys is not None}


def columns_of(table: str, measures: Mapping[str, dict[str, Any]]) -> list[str]:
    """Returns the columns of a table that a claim on an experiment may be of.

    Args:
        measures: What the experiment measures or times -> every setting.
    """
    found, keys = TABLES[table].columns, TABLES[table].keys
    if table == "runs":
        own = columns.of_measures(dict(measures)) if measures else columns.OF_RECORD
        found = {name: column for name in own if (column := columns.describe(name))}
    # Of a budget it may be asked at another one.
    known = EVERY_FACTOR if keys == BUDGETS else {*EVERY_FACTOR, *keys}
    return [name for name, one in found.items() if one.kind != "str" and name not in known]
