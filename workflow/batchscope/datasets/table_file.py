"""Read a user's CSV file into a data frame with a name for each column."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.core import display
from batchscope.core.errors import UserError, unexpected
from batchscope.datasets.raw import reading_file

if TYPE_CHECKING:
    import pandas

DEFAULTS = {"separator": ",", "decimal": "."}
_SAMPLE_LINES = 1000  # number of lines that are read to find the separator and the header


class TableFile:
    """A CSV file.

    Attributes:
        names: Names of the columns; their numbers from 1 if the file does not name them.
    """

    def __init__(self, place: str, path: Path, separator: str, decimal: str) -> None:
        self._source = place, path, separator, decimal
        head = read_csv(*self._source, header=None, dtype=str, nrows=_SAMPLE_LINES)
        if head.shape[1] == 1:
            expected = "a table of several (or another `separator`)"
            raise unexpected(place, f"one column ({head[0][0]})", expected)
        self._has_header = _has_header(head.apply(parse_numbers, decimal=decimal))
        names = [str(index + 1) for index in range(head.shape[1])]
        if self._has_header:
            first = head.iloc[0].str.strip().fillna("")
            names = [name or number for name, number in zip(first, names, strict=True)]
        self.names = [display.printable(name) for name in names]

    def read(self, text_columns: Collection[str]) -> pandas.DataFrame:
        """Return all cells: texts in `text_columns`, else numbers if all cells are numbers."""
        # Numbers replace the names, because two columns may have the same name.
        texts = [self.names.index(name) for name in text_columns]
        options = {"names": range(len(self.names)), "dtype": dict.fromkeys(texts, str)}
        header = 0 if self._has_header else None
        frame = read_csv(*self._source, header=header, low_memory=False, **options)
        return frame.set_axis(self.names, axis=1)


def read_csv(place: str, path: Path, separator: str, decimal: str, **options: Any) -> Any:
    """Return the data frame of a CSV file. Texts such as `NA` and `?` are missing values.

    Raises:
        UserError: If pandas cannot read it, or would lose cells.
    """
    import pandas

    lost = pandas.errors.ParserWarning
    with (
        reading_file(place, "a CSV file in UTF-8", OSError, ValueError, lost),
        warnings.catch_warnings(action="error", category=lost),
    ):
        return pandas.read_csv(
            path,
            sep=separator,
            decimal=decimal,
            index_col=False,
            skipinitialspace=True,
            na_values="?",
            encoding="utf-8-sig",
            **options,
        )


def dialect(path: Path) -> dict[str, str]:
    """Return the keys `separator` and `decimal` that give the most columns, then the most numbers.

    Keys with their default values are left out.
    """
    best, keys = (1, 0), {}
    for separator, decimal in (",.", ";.", ";,", "\t.", "\t,", "|.", "|,"):
        with contextlib.suppress(UserError):
            frame = read_csv("", path, separator, decimal, nrows=_SAMPLE_LINES)
            score = frame.shape[1], frame.select_dtypes("number").shape[1]
            if score > best:
                best, keys = score, {"separator": separator, "decimal": decimal}
    return {key: mark for key, mark in keys.items() if mark != DEFAULTS[key]}


def parse_numbers(texts: pandas.Series, decimal: str) -> pandas.Series:
    """Return the numbers of texts; NaN for words."""
    import pandas

    if decimal == ",":
        texts = texts.mask(texts.str.contains(".", regex=False, na=False)).str.replace(",", ".")
    return pandas.to_numeric(texts, errors="coerce")


def _has_header(numbers: pandas.DataFrame) -> bool:
    """Return whether the first line of a table names its columns.

    Args:
        numbers: The first lines; NaN for words.
    """
    first, below = numbers.iloc[0], numbers.iloc[1:]
    has_word_above_numbers = below.loc[:, first.isna()].notna().all().any()
    counts_columns = first.tolist() == list(range(len(first)))  # as in files that pandas writes
    return bool(first.isna().all() or has_word_above_numbers or counts_columns)
