"""Read a user's table, a CSV or Parquet file, into rows of features and labels.

`Csv` has the keys, `ParsedTable` reads and checks the columns. A new check of a cell goes into
`_feature`, of a whole column into `_reason_no_feature`, of labels into `_label_values`.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import BeforeValidator, Field, TypeAdapter
from pydantic_core import PydanticCustomError

from batchscope.core import display, problems
from batchscope.core.errors import UserError, raise_problems, unexpected
from batchscope.datasets import kind_checks, labels
from batchscope.datasets.raw import Raw, Request, local_file, reading_file
from batchscope.datasets.source import DataSource, FileSha256, Task, is_none
from batchscope.datasets.splits import Split
from batchscope.study import tasks
from batchscope.study.example_kinds import ROWS
from batchscope.study.model import UNIQUE, FilePath

_MAX_WORDS = 100  # largest number of different words in a column of features
_IDENTIFIER_SHARE = 0.9  # A column with a larger share of different words identifies the rows.
_MIN_ROWS = 10  # smallest number of rows that show an identifier
_SAMPLE_LINES = 1000  # number of lines that are read to find the separator and the header
_DAY = r"\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](\d{4}|\d\d)"
_DATE = re.compile(rf"({_DAY})([ T]\d{{1,2}}:\d\d.*)?")


def _validate_column(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not is_number and not (isinstance(value, str) and value):
        text = "Input should be the name of a column, or its number from 1"
        raise PydanticCustomError("column", text)
    return value


Column = Annotated[str | int, BeforeValidator(_validate_column)]
_COLUMN_LIST = TypeAdapter(Annotated[list[Column], Field(min_length=1), UNIQUE])


def _validate_columns(value: Any) -> Any:
    if isinstance(value, list):
        return _COLUMN_LIST.validate_python(value)
    return _validate_column(value)


ColumnNames = Annotated[str | int | list[str | int], BeforeValidator(_validate_columns)]


class Csv(DataSource):
    """Your own table: a CSV or Parquet file with one example per row, its label in one column.

    Numbers are standardised by the training part; true and false are 1 and 0. A column of words
    becomes a feature of 0 and 1 for each word of the training part.
    """

    fixed_kind = ROWS
    fixed_task = None
    source: Literal["csv"]
    path: FilePath
    """The CSV file, or a Parquet file if its name ends in .parquet (needs the package pyarrow)."""
    sha256: FileSha256 = None
    separator: Annotated[
        str, Field(min_length=1, max_length=1, exclude_if=lambda value: value == ",")
    ] = ","
    """Character between two cells."""
    decimal: Annotated[Literal[".", ","], Field(exclude_if=lambda value: value == ".")] = "."
    """Decimal point or comma."""
    label: ColumnNames | None = None
    """Column of the label: its name, or number from 1. Default: the last. A list of columns for
    several numbers to predict, or several labels of 0 and 1.
    """
    ignore: Annotated[list[Column], Field(min_length=1)] | None = None
    """Columns that are not features."""
    categorical: Annotated[ColumnNames | None, Field(exclude_if=is_none)] = None
    """Columns of numbers that are categories, such as postcodes: they are read as words."""
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

    def read(self, request: Request) -> Raw:
        """Read the rows. `datasets.features` makes their features after the split."""
        table = ParsedTable(self, request)
        raise_problems([*table.problems, *table.refusals], table.place)
        return table.raw()


class ParsedTable:
    """The columns of a table and their problems.

    Attributes:
        rows: Columns of features: numbers or words, with missing values.
        refused: Map of a column that cannot be a feature to the reason.
        incomplete_features: Features with missing cells.
    """

    def __init__(self, source: Csv, request: Request) -> None:
        import pandas

        self.source, self.request, self.path = source, request, local_file(request)
        self.place = f"{request.place}: {self.path}"
        self.problems: list[str] = []
        self.frame = self._read_parquet() if self.path.suffix == ".parquet" else self._read_csv()
        columns = {name: self._feature(name) for name in self.features}
        reasons = {name: _reason_no_feature(cells) for name, cells in columns.items()}
        self.refused = {name: reason for name, reason in reasons.items() if reason}
        rows = pandas.DataFrame(columns).drop(columns=[*self.refused])
        self.rows = rows.astype(dict.fromkeys(rows.select_dtypes(["number", "bool"]), float))
        self.incomplete_features = self.rows.columns[self.rows.isna().any()].tolist()
        for name in self.labels:
            self.frame[name] = self.frame[name].astype("str").str.strip()
        missing = self.frame[[*self.rows, *self.labels]].isna()
        self.kept = ~missing.any(axis=1) if source.missing == "drop" else missing.any(axis=1) | True
        fill = ", `missing: median` fills the gaps of features" if self.incomplete_features else ""
        fix = f"`missing: drop` leaves such rows out{fill}"
        # The median fills features, but no labels.
        for name in self.labels if source.missing == "median" else missing.columns:
            if missing[name].any() and source.missing != "drop":
                self._report_cell(name, missing[name], "nothing", "a value", fix)

    @property
    def refusals(self) -> list[str]:
        """The message about the refused columns, with the line to add; [] if none is refused."""
        reasons = [f"{name} ({reason})" for name, reason in self.refused.items()]
        fix = f"add `ignore: {_yaml_line([*(self.source.ignore or ()), *self.refused])}`"
        text = unexpected(self.place, ", ".join(reasons), "a feature in each column", fix)
        return [str(text)] if reasons else []

    def raw(self) -> Raw:
        """Return the rows with their labels."""
        rows = self.rows[self.kept]
        place = f"{self.place}, column {display.listed(self.labels)}"
        if rows.empty:
            raise unexpected(place, "no row without a missing cell", "one at least")
        values, task = self._label_values()
        pairs, classes, task = labels.label_examples(
            self.request.place, ROWS, task, {"train": rows}, {"train": (place, values)}
        )
        classes = classes if task == tasks.CLASSIFICATION else self.labels
        dropped = len(self.frame) - len(rows)
        return Raw(*pairs["train"], classes, [self.path], dropped=dropped, kind=ROWS, task=task)

    def _read_parquet(self) -> Any:
        import pandas

        with reading_file(self.place, "a Parquet file", ImportError, OSError, ValueError):
            frame = pandas.read_parquet(self.path, engine="pyarrow").reset_index(drop=True)
        self._set_columns([str(name) for name in frame.columns])
        return frame.set_axis(self.names, axis=1)

    def _read_csv(self) -> Any:
        """Return the cells of a CSV file: labels and categories as texts."""
        marks = self.source.separator, self.source.decimal
        try:
            head = read_csv(
                self.place, self.path, *marks, header=None, dtype=str, nrows=_SAMPLE_LINES
            )
            if head.shape[1] == 1:
                raise unexpected(self.place, f"one column ({head[0][0]})", "a table of several")
        except UserError as error:
            keys = [f"`{key}: {_yaml_line(mark)}`" for key, mark in dialect(self.path).items()]
            raise UserError(f"{error}{f' Add {display.listed(keys)}.' if keys else ''}") from None
        has_names = _has_header(head.apply(self._parse_numbers))
        numbers = [str(index + 1) for index in range(head.shape[1])]
        names = head.iloc[0].str.strip().fillna("") if has_names else numbers
        self._set_columns([name or number for name, number in zip(names, numbers, strict=True)])
        texts = [self.names.index(name) for name in (*self.labels, *self.categorical)]
        options = {"names": range(len(numbers)), "dtype": dict.fromkeys(texts, str)}
        header = 0 if has_names else None
        frame = read_csv(self.place, self.path, *marks, header=header, low_memory=False, **options)
        return frame.set_axis(self.names, axis=1)

    def _set_columns(self, names: list[str]) -> None:
        """Set the names of the columns, of the labels and of the features."""
        self.names = names = [display.printable(name) for name in names]
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            # If two columns have the label's name, one of them would be a feature.
            received = f"{name!r} as the name of {names.count(name)} columns"
            self._report(self.place, received, "a name of its own for each")
        self.labels = self._columns_of_key("label") or names[-1:]
        ignored = {*self._columns_of_key("ignore"), *self.labels}
        self.categorical = self._columns_of_key("categorical")
        self.features = [name for name in names if name not in ignored]
        if not self.features:
            self._report(self.place, "no column of features", "at least one")
        raise_problems(self.problems, self.place)

    def _columns_of_key(self, key: str) -> list[str]:
        """Return the names of the columns in a key of the definition; report unknown columns."""
        value, names = getattr(self.source, key), []
        for column in value if isinstance(value, list) else [value] if value else []:
            name = str(column).strip()
            if name in self.names:
                names.append(name)
            elif name.isdecimal() and 1 <= int(name) <= len(self.names):
                names.append(self.names[int(name) - 1])
            else:
                near = problems.nearest(name, self.names)
                expected = f"a column ({', '.join(self.names)[:200]}), by its name or number,"
                fix = f"did you mean {near!r}?" if near else ""
                self._report(f"{self.request.place}.{key}", repr(column), expected, fix)
        return names

    def _report(self, *parts: str) -> None:
        self.problems.append(str(unexpected(*parts)))

    def _report_cell(self, name: str, wrong: Any, received: str, expected: str, fix: str) -> None:
        """Report the first wrong cell of a column and the number of its other wrong cells."""
        remainder = (
            f"and {display.count(int(wrong.sum()) - 1, 'more cell')}" if wrong.sum() > 1 else ""
        )
        place = f"{self.place}, column {name}, row {wrong.idxmax() + 1}"
        self._report(place, f"{received}{display.aside(remainder)}", expected, fix)

    def _parse_numbers(self, texts: Any) -> Any:
        """Return the numbers of texts; NaN for words."""
        import pandas

        if self.source.decimal == ",":
            texts = texts.mask(texts.str.contains(".", regex=False, na=False)).str.replace(",", ".")
        return pandas.to_numeric(texts, errors="coerce")

    def _feature(self, name: str) -> Any:
        """Return a column as numbers or words."""
        cells = self.frame[name]
        if name in self.categorical or cells.dtype.kind not in "biuf":
            cells = cells.astype("str").str.strip().map(display.printable, na_action="ignore")
            numbers = self._parse_numbers(cells)
            distinct = cells.dropna().drop_duplicates().index
            # If at least half of the values are numbers, the words are mistakes.
            if name not in self.categorical and 2 * numbers[distinct].count() >= len(distinct) > 0:
                if (wrong := numbers.isna() & cells.notna()).any():
                    fix = f"`categorical: {_yaml_line([name])}` takes words"
                    self._report_cell(name, wrong, repr(cells[wrong].iloc[0]), "a number", fix)
                cells = numbers
        return cells

    def _label_values(self) -> tuple[np.ndarray, str | None]:
        """Return the labels of the kept rows (words, numbers, or columns of numbers) and the task.

        The task is None if `labels.label_examples` decides it.
        """
        task, texts = self.source.task, self.frame.loc[self.kept, self.labels]
        numbers = texts.apply(self._parse_numbers)
        if len(self.labels) > 1 or task not in (None, tasks.CLASSIFICATION):
            numbers = numbers.mask(texts == "True", 1).mask(texts == "False", 0)
            for name in self.labels:
                if (wrong := numbers[name].isna()).any():
                    self._report_cell(name, wrong, repr(texts[name][wrong].iloc[0]), "a number", "")
            raise_problems(self.problems, self.place)
            are_flags = numbers.isin((0, 1)).all(axis=None)
            usual = tasks.MULTI_LABEL if are_flags else tasks.REGRESSION
            return numbers.to_numpy(), task or usual
        texts, number = texts[self.labels[0]], numbers[self.labels[0]]
        are_classes = number.notna().all() and (not task or (number % 1 == 0).all())
        return number.to_numpy() if are_classes else texts.to_numpy(str), task


def read_csv(place: str, path: Path, separator: str, decimal: str = ".", **options: Any) -> Any:
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
    return {key: mark for key, mark in keys.items() if mark != Csv.model_fields[key].default}


def _has_header(numbers: Any) -> bool:
    """Return whether the first line of a table names its columns.

    Args:
        numbers: Data frame of the first lines; NaN for words.
    """
    first, below = numbers.iloc[0], numbers.iloc[1:]
    has_word_above_numbers = below.loc[:, first.isna()].notna().all().any()
    counts_columns = first.tolist() == list(range(len(first)))  # as in files that pandas writes
    return bool(first.isna().all() or has_word_above_numbers or counts_columns)


def _reason_no_feature(cells: Any) -> str:
    """Return why a column of numbers or words cannot be a feature; an empty text if it can."""
    present = cells.dropna()
    if present.empty:
        return "no value"
    first, is_number = present.iloc[0], cells.dtype.kind in "biuf"
    if is_number:
        low, high = float(present.min()), float(present.max())
        if max(-low, high) > kind_checks.MAX_NUMBER:
            return f"a number above {kind_checks.MAX_NUMBER:.2g}"
        is_range = low in (0, 1) and high - low + 1 == len(cells) >= _MIN_ROWS
        if is_range and present.is_unique:
            return f"the numbers of the rows, {low:.0f} to {high:.0f}"
        return f"{first} in every row" if low == high else ""
    distinct = present.drop_duplicates()
    if len(distinct) == 1 and len(present) == len(cells):
        return f"{first} in every row"
    if distinct.str.fullmatch(_DATE).all():
        return f"dates, such as {first!r}"
    are_unique = len(present) >= _MIN_ROWS and len(distinct) > _IDENTIFIER_SHARE * len(present)
    if are_unique or len(distinct) > _MAX_WORDS:
        return f"{len(distinct)} different words, such as {first!r}"
    return ""


def _yaml_line(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix("...\n").strip()
