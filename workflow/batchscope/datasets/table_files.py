"""Files of tables: separators, lines and cells. `tables` interprets the cells."""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchscope.datasets.raw import reading
from batchscope.errors import UserError, raise_problems, unexpected

# Texts of missing values in a column of features.
MISSING = (
    *("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan"),
    *("NULL", "null", "None", "?"),
)
_SEPARATORS = ",;\t"
_DECIMAL = re.compile(r"\s*[-+]?\d*([.,])\d+([eE][-+]?\d+)?\s*")
_SAMPLE = 100  # lines that show whether there is a decimal comma
_BEGINNING = 1 << 16  # bytes that show whether a file is a text


class Used(NamedTuple):
    """The columns that are read, by their positions."""

    features: list[int]
    texts: list[int]  # features that are not converted to numbers
    labels: list[int]


@dataclass
class TableCells:
    """Contents of the columns that are read."""

    # pandas' data frame, by position: texts in labels and text columns, else numbers if all are.
    frame: Any
    lines: np.ndarray  # number of each row in the file
    line: str = "line"  # unit of `lines`
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TextFile:
    """A table as text, with its recognised format."""

    place: str
    path: Path
    delimiter: str
    decimal: str = "."  # or a comma
    first: tuple[str, ...] = ()  # cells of the first line that is not empty

    @classmethod
    def from_path(cls, place: str, path: Path) -> TextFile:
        """Recognise the separators of a file.

        Raises:
            UserError: If the file is not a table as text.
        """
        with reading(place, "a CSV file", OSError), open(path, "rb") as file:
            beginning = file.read(_BEGINNING)
        text = beginning.decode("utf-8-sig", "replace").lstrip()
        if not text or b"\0" in beginning:
            received = "a binary file" if text else "an empty file"
            raise unexpected(place, received, "a CSV file in UTF-8, as spreadsheets export it,")
        line = text.splitlines()[0]
        line = re.sub(r'"[^"]*"', "", line)
        if ";" in line or "\t" in line:
            line = re.sub(r"\d,\d", "", line)  # a decimal comma
        delimiter = max(_SEPARATORS, key=line.count)
        sample = [
            cells for _, cells in itertools.islice(cls(place, path, delimiter).records(), _SAMPLE)
        ]
        if not sample:
            raise unexpected(place, "blank lines alone", "a line for each example")
        if len(sample[0]) == 1 and any(separator in sample[0][0] for separator in _SEPARATORS):
            received = f"one quoted cell, {sample[0][0][:60]!r}"
            raise unexpected(
                f"{place}, line 1", received, "a line without quotes around the whole of it"
            )
        usual, count = Counter(map(len, sample)).most_common(1)[0]
        if usual != len(sample[0]) and 2 * count > len(sample):
            received = f"{len(sample[0])} columns above lines of {usual}"
            raise unexpected(f"{place}, line 1", received, "one number of columns")
        marks = Counter(
            match[1] for cells in sample for match in map(_DECIMAL.fullmatch, cells) if match
        )
        decimal = "," if delimiter != "," and marks[","] > marks["."] else "."
        return cls(place, path, delimiter, decimal, tuple(sample[0]))

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the last line number and the cells of each row that is not empty.

        A quoted cell may contain line breaks.
        """
        try:
            with open(self.path, encoding="utf-8-sig", newline="") as file:
                lines = csv.reader(file, delimiter=self.delimiter, strict=True)
                for cells in lines:
                    if len(cells) > 1 or (cells and cells[0].strip()):
                        yield lines.line_num, cells
        except csv.Error as error:
            place = f"{self.place}, line {lines.line_num}"
            raise unexpected(place, f"a cell that cannot be read ({error})", "a CSV file") from None
        except UnicodeDecodeError:
            raise self._other_encoding() from None

    def _other_encoding(self) -> UserError:
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                place = f"{self.place}, line {number}"
                if (position := line.decode("utf-8", "replace").find("\ufffd")) >= 0:
                    break
        received = (
            f"{line.decode('latin-1')[max(0, position - 20) : position + 20].strip()!r} in Latin-1"
        )
        return unexpected(place, received, "UTF-8", "`iconv -f latin1 -t utf-8 old.csv > new.csv`")

    def read(self, header: bool, used: Used) -> TableCells:
        """Return the cells of the rows; each line of another width is a problem.

        Args:
            header: Whether the first line has names.
        """
        import pandas

        width, lines, skipped_lines = len(self.first), array("q"), array("q")
        problems: list[str] = []
        for line, cells in itertools.islice(self.records(), int(header), None):
            if len(cells) == width:
                lines.append(line)
                continue
            skipped_lines.append(line)
            expected = f"the number of the first line, {width},"
            problems.append(
                str(unexpected(f"{self.place}, line {line}", f"{len(cells)} columns", expected))
            )
        if not lines:
            none = unexpected(
                self.place, f"{int(header)} lines of {width} columns", "one per example"
            )
            raise_problems([*problems, str(none)], self.place)
        frame = pandas.read_csv(
            self.path,
            sep=self.delimiter,
            decimal=self.decimal,
            header=0 if header else None,
            names=range(width),
            index_col=False,
            usecols=sorted({*used.features, *used.labels}),
            dtype=dict.fromkeys((*used.texts, *used.labels), str),
            keep_default_na=False,
            na_values=dict.fromkeys(used.features, MISSING),
            skiprows=[line - 1 for line in skipped_lines],
            nrows=len(lines) + 1,  # one more, to notice rows that only pandas sees
            low_memory=False,
            encoding="utf-8-sig",
        )
        if len(frame) != len(lines):  # cells with line breaks, or lines of blanks
            unread = unexpected(self.place, "such lines", "a plain table")
            raise_problems([*problems, str(unread)], self.place)
        return TableCells(frame, np.asarray(lines), problems=problems)


@dataclass(frozen=True)
class ParquetFile:
    """A table in a Parquet file, which has the names and types of the columns."""

    place: str
    frame: Any
    decimal = "."

    @classmethod
    def from_path(cls, place: str, path: Path) -> ParquetFile:
        """Read a file.

        Raises:
            UserError: If it is not a Parquet file, or the package pyarrow is missing.
        """
        import pandas

        try:
            with reading(place, "a Parquet file", OSError, ValueError):
                return cls(place, pandas.read_parquet(path, engine="pyarrow"))
        except ImportError:
            received, fix = "Parquet without the package pyarrow", "`pip install pyarrow` reads it"
            raise unexpected(place, received, "a CSV file", fix) from None

    @property
    def first(self) -> tuple[str, ...]:
        return tuple(map(str, self.frame.columns))

    def read(self, header: bool, used: Used) -> TableCells:
        columns = sorted({*used.features, *used.labels})
        frame = self.frame.iloc[:, columns].set_axis(columns, axis=1)
        for index, kind in frame.dtypes.items():
            if index in (*used.texts, *used.labels) or kind.kind not in "biuf":
                frame[index] = frame[index].astype(object).map(str, na_action="ignore")
        return TableCells(frame, np.arange(1, len(frame) + 1), "row")
