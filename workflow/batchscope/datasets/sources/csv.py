"""Tables of the user: CSV or Parquet files."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter
from pydantic_core import PydanticCustomError

from batchscope.datasets import tables
from batchscope.datasets.raw import Raw, Request
from batchscope.datasets.source import DataSource, FileSha256, Task, expanded, is_none
from batchscope.datasets.splits import Split
from batchscope.errors import raise_problems
from batchscope.study.example_kinds import ROWS
from batchscope.study.model import UNIQUE, FilePath


def _column(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not is_number and not (isinstance(value, str) and value):
        text = "Input should be the name of a column, or its number from 1"
        raise PydanticCustomError("column", text)
    return value


Column = Annotated[str | int, BeforeValidator(_column)]
_COLUMNS = TypeAdapter(Annotated[list[Column], Field(min_length=1), UNIQUE])


def _columns(value: Any) -> Any:
    return _COLUMNS.validate_python(value) if isinstance(value, list) else _column(value)


Columns = Annotated[str | int | list[str | int], BeforeValidator(_columns)]


class Csv(DataSource):
    """Your own table: a CSV or Parquet file with one example per row, its label in one column.

    Separators (comma, semicolon, tab) and decimal commas are recognised. Features are standardised
    by the training part; true and false are 1 and 0.
    """

    fixed_kind = ROWS
    fixed_task = None
    source: Literal["csv"]
    path: FilePath
    """The CSV file, or a Parquet file if its name ends in .parquet (needs the package pyarrow)."""
    sha256: FileSha256 = None
    label: Columns | None = None
    """Column of the label: its name, or number from 1. Default: the last. A list of columns for
    several numbers to predict, or several labels of 0 and 1.
    """
    ignore: Annotated[list[Column], Field(min_length=1)] | None = None
    """Columns that are not features."""
    categorical: Annotated[Columns | None, Field(exclude_if=is_none)] = None
    """Columns, or `auto` for every column of words, that become a feature of 0 and 1 for each value
    of the training part. All are 0 for other values and for missing ones.
    """
    missing: Annotated[
        Literal["error", "median", "drop"], Field(exclude_if=lambda value: value == "error")
    ] = "error"
    """What to do about missing cells: refuse them, take the median of the training part, or drop
    their rows.
    """
    task: Task = None
    """Task. Default: multi_label for several columns of 0 and 1; regression for several other
    columns, or if some labels are not whole numbers; else classification.
    """
    split: Split

    def prepared_bytes(self) -> float | None:
        return float(
            os.path.getsize(expanded(self.path))
        )  # a number takes about the bytes of its text

    def read(self, request: Request) -> Raw:
        """Read the rows. Their features are made after the split."""
        table = tables.read(request)
        if table.raw is None:
            raise_problems(table.problems, request.place)
        return table.raw
