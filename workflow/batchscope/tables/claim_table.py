"""The tables of a study -> claims.csv: what its documents state, each with a verdict."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import pandas

from batchscope.analysis import claims
from batchscope.tables import csv_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Study

FILE = "claims.csv"


def collect(study: Study, folder: Path | str) -> pandas.DataFrame:
    """Returns one row per claim of a study, from the folder of its experiments' tables.

    Raises:
        UserError: If a table is missing or damaged.
    """

    @functools.cache
    def read(experiment: str, table: str) -> pandas.DataFrame:
        return csv_tables.read(Path(folder) / experiment / f"{table}.csv")

    return claims.table(study.claims, read, study.machine)


def write(study: Study, folder: Path | str, output: Path | str) -> None:
    """Writes the claims of a study, atomically."""
    csv_tables.write(collect(study, folder), Path(output))
