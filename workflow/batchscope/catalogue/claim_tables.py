"""The tables that a claim may be of: their columns, and what distinguishes their rows.

A claim names cells by factors and by these keys. A key that it does not name makes a part of the
claim for each of its values, all of which must hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchscope.catalogue import columns, run_factors, sweep_names, tables
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.tables import BUDGETS
from batchscope.catalogue.timings import TIMINGS

FACTORS = {**run_factors.FACTORS, **sweep_names.FACTORS}


@dataclass(frozen=True)
class Table:
    """A table that a claim may be of.

    Attributes:
        columns: What a claim may be of; of runs.csv what the experiment measures.
        keys: Columns that distinguish its rows beside the factors, the seed and the machine.
        measures: What fills it, one of them: a measure of trainings, or a timing; empty where any
            training does.
        of_times: Whether it is a table of timing jobs.
        figures: Figures that show it, the first to be preferred.
    """

    columns: tuple[str, ...]
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    of_times: bool
    figures: tuple[str, ...]


def _tables() -> Iterator[tuple[str, Table]]:
    owners = {
        name: entry for entry in (*MEASURES.values(), *TIMINGS.values()) for name in entry.tables
    }
    for name, table in tables.TABLES.items():
        if table.keys is None:
            continue
        # A budget at which rows are read is what another one may be asked at.
        known = {*FACTORS, *(() if table.keys == BUDGETS else table.keys)}
        own = (
            column
            for column, entry in table.columns.items()
            if entry.kind != "str" and column not in known
        )
        owner = owners.get(name)
        filling = (owner.name, *table.also) if owner else ()
        shown = tuple(figure.name for figure in owner.figures) if owner else ()
        of_times = name in tables.OF_TIMINGS
        yield name, Table(tuple(own), table.keys, filling, of_times, table.figures or shown)


TABLES = dict(_tables())


def columns_of(table: str, measures: Mapping[str, dict[str, Any]]) -> list[str]:
    """Returns the columns of a table that a claim on an experiment may be of.

    Args:
        measures: What the experiment measures or times -> every setting.
    """
    if table != "runs":
        return list(TABLES[table].columns)
    found = columns.of_measures(dict(measures)) if measures else list(columns.OF_RECORD)
    own = [name for name in found if name not in FACTORS]
    return [name for name in own if (one := columns.describe(name)) and one.kind != "str"]
