"""User's CSV file in, data frame with a name for each column out.

The separators and decimal marks that are tried are in `find_dialect`.
"""

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

DEFAULT_DIALECT = {"separator": ",", "decimal": "."}
_SAMPLE_LINES = 1000  # The first lines show the separator and the header of a large file.


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
            header = head.iloc[0].str.strip().fillna("")
            names = [name or number for name, number in zip(header, names, strict=True)]
        self.names = [display.printable(name) for name in names]

    def read(self, text_columns: Collection[str]) -> pandas.DataFrame:
        """Return all cells: texts in `text_columns`, else numbers if all cells are numbers."""
        # Numbers replace the names, because two columns may have the same name.
        text_indices = [self.names.index(name) for name in text_columns]
        options = {"names": range(len(self.names)), "dtype": dict.fromkeys(text_indices, str)}
        header = 0 if self._has_header else None
        frame = read_csv(*self._source, header=header, low_memory=False, **options)
        return frame.set_axis(self.names, axis=1)


def read_csv(place: str, path: Path, separator: str, decimal: str, **options: Any) -> Any:
    """Return the data frame of a CSV file. Texts such as `NA` and `?` are missing values.

    Raises:
        UserError: If pandas cannot read it, or would lose cells.
    """
    import pandas

    lost_cells = pandas.errors.ParserWarning
    with (
        reading_file(place, "a CSV file in UTF-8", OSError, ValueError, lost_cells),
        warnings.catch_warnings(action="error", category=lost_cells),
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


def find_dialect(path: Path) -> dict[str, str]:
    """Return the keys `separator` and `decimal` that give the most columns, then the most numbers.

    Keys with their default values are left out.
    """
    best_score, keys = (1, 0), {}  # numbers of columns and of numeric columns
    for separator, decimal in (",.", ";.", ";,", "\t.", "\t,", "|.", "|,"):
        with contextlib.suppress(UserError):
            frame = read_csv("", path, separator, decimal, nrows=_SAMPLE_LINES)
            score = frame.shape[1], frame.select_dtypes("number").shape[1]
            if score > best_score:
                best_score, keys = score, {"separator": separator, "decimal": decimal}
    return {key: mark for key, mark in keys.items() if mark != DEFAULT_DIALECT[key]}


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
    first_line, other_lines = numbers.iloc[0], numbers.iloc[1:]
    has_word_above_numbers = other_lines.loc[:, first_line.isna()].notna().all().any()
    # pandas writes 0, 1, 2, ... above columns without names.
    counts_columns = first_line.tolist() == list(range(len(first_line)))
    return bool(first_line.isna().all() or has_word_above_numbers or counts_columns)
