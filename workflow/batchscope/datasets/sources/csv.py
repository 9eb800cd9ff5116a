"""A user's table as a data set: which columns are features, and which are labels.

`Csv` has the keys, `ParsedTable` the columns and all problems of their cells. A new check of a cell
goes into `ParsedTable._feature`, of a whole column into `_reason_no_feature`. The separators and
decimal marks that `init` tries are in `find_dialect`.
"""

import contextlib
import re
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, TypeAdapter
from pydantic_core import PydanticCustomError

from batchscope.core import display, problems
from batchscope.core.errors import UserError, raise_problems, unexpected
from batchscope.datasets import conversion
from batchscope.datasets.source import (
    DataSource,
    FileSha256,
    Raw,
    Request,
    Task,
    is_none,
    reading_file,
)
from batchscope.datasets.splits import Split
from batchscope.study import tasks
from batchscope.study.model import UNIQUE, FilePath
from batchscope.study.tasks import ROWS

_DEFAULT_DIALECT = {"separator": ",", "decimal": "."}
_SAMPLE_LINES = 1000  # The first lines show the separator and the header of a large file.
_MAX_WORDS = 100  # largest number of different words in a column of features
_IDENTIFIER_SHARE = 0.9  # A column with a larger share of different words identifies the rows.
_MIN_ROWS = 10  # smallest number of rows that show an identifier
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
    """Your own table: a CSV file with one example per row, its label in one column.

    Numbers are standardised by the training part; true and false are 1 and 0. A column of words
    becomes a feature of 0 and 1 for each word of the training part.
    """

    fixed_kind = ROWS
    fixed_task = None
    source: Literal["csv"]
    path: FilePath
    """The CSV file."""
    sha256: FileSha256 = None
    separator: Annotated[
        str, Field(min_length=1, max_length=1, exclude_if=lambda value: value == ",")
    ] = ","
    """Character between two cells."""
    decimal: Annotated[Literal[".", ","], Field(exclude_if=lambda value: value == ".")] = "."
    """Decimal point or comma."""
    label: ColumnNames | None = None
    """Column of the label: its name; its number from 1 if the file has no names. Default: the last.
    A list of columns for several numbers to predict, or several labels of 0 and 1.
    """
    ignore: Annotated[list[Column], Field(min_length=1)] | None = None
    """Columns that are not features."""
    categorical: Annotated[ColumnNames | None, Field(exclude_if=is_none)] = None
    """Columns of numbers that are categories, such as postcodes: they are read as words."""
    missing: Annotated[
        Literal["error", "median"], Field(exclude_if=lambda value: value == "error")
    ] = "error"
    """What to do about missing cells of features: refuse them, or take the median of the training
    part.
    """
    task: Task = None
    """Task. Default: multi_label for several columns of 0 and 1; regression for several other
    columns, or if some labels are not whole numbers; else classification.
    """
    split: Split

    def read(self, request: Request) -> Raw:
        """Read the rows. `preparation.divide` makes their features after the split."""
        table = ParsedTable(self, request.place)
        table.report_refused()
        raise_problems(table.problems, table.place)
        return table.raw()


class ParsedTable:
    """The columns of a table, and the problems of their cells.

    Attributes:
        rows: Columns of features: numbers or words, with missing values.
        labels: Texts of the label columns.
        refused: Map of a column that cannot be a feature to the reason.
        problems: Messages about wrong and missing cells.
    """

    def __init__(self, source: Csv, definition: str) -> None:
        import pandas

        self.source, self.definition, self.path = source, definition, source.local_file(definition)
        self.place = f"{definition}: {self.path}"
        self.problems: list[str] = []
        header, names = self._header()
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            # If two columns have the label's name, one of them would be a feature.
            received = f"{name!r} as the name of {names.count(name)} columns"
            self._report(self.place, received, "a name of its own for each")
        label_names = self._columns_of_key("label", names) or names[-1:]
        ignored = {*self._columns_of_key("ignore", names), *label_names}
        categorical = self._columns_of_key("categorical", names)
        features = [name for name in names if name not in ignored]
        if not features:
            self._report(self.place, "no column of features", "at least one")
        raise_problems(self.problems, self.place)
        texts = dict.fromkeys([*label_names, *categorical], str)
        options = {"header": header, "names": names, "dtype": texts, "low_memory": False}
        cells = _read(self.place, self.path, source.separator, source.decimal, **options)
        columns = {name: self._feature(cells[name], name in categorical) for name in features}
        reasons = {name: _reason_no_feature(column) for name, column in columns.items()}
        self.refused = {name: reason for name, reason in reasons.items() if reason}
        rows = pandas.DataFrame(columns).drop(columns=[*self.refused])
        self.rows = rows.astype(dict.fromkeys(rows.select_dtypes(["number", "bool"]), float))
        self.labels = cells[label_names].astype("str").apply(lambda column: column.str.strip())
        self._report_missing(cells)

    def _header(self) -> tuple[int | None, list[str]]:
        """Return the line of the header, 0 or None, and the names of the columns.

        A column without a name has its number from 1.
        """
        options = {"header": None, "dtype": str, "nrows": _SAMPLE_LINES}
        head = _read(self.place, self.path, self.source.separator, self.source.decimal, **options)
        if head.shape[1] == 1:
            expected = "a table of several (or another `separator`)"
            raise unexpected(self.place, f"one column ({head[0][0]})", expected)
        numbers = head.apply(_parse_numbers, decimal=self.source.decimal)
        first_line, other_lines = numbers.iloc[0], numbers.iloc[1:]
        has_word_above_numbers = other_lines.loc[:, first_line.isna()].notna().all().any()
        # pandas writes 0, 1, 2, ... above columns without names.
        counts_columns = first_line.tolist() == list(range(len(first_line)))
        names = [str(index + 1) for index in range(len(first_line))]
        if not (first_line.isna().all() or has_word_above_numbers or counts_columns):
            return None, names
        cells = head.iloc[0].str.strip().fillna("")
        names = [cell or number for cell, number in zip(cells, names, strict=True)]
        return 0, [display.printable(name) for name in names]

    def report_refused(self) -> None:
        """Report the refused columns in one message, with the line to add."""
        if self.refused:
            received = ", ".join(f"{name} ({reason})" for name, reason in self.refused.items())
            fix = f"add `ignore: {_yaml_line([*(self.source.ignore or ()), *self.refused])}`"
            self._report(self.place, received, "a feature in each column", fix)

    def raw(self) -> Raw:
        """Return the rows with their labels."""
        names = [*self.labels]
        place = f"{self.place}, column {display.listed(names)}"
        values, task = self._label_values()
        pairs, classes, task = conversion.label_examples(
            self.definition, ROWS, task, {"train": self.rows}, {"train": (place, values)}
        )
        classes = classes if task == tasks.CLASSIFICATION else names
        return Raw(*pairs["train"], classes, [self.path], kind=ROWS, task=task)

    def _columns_of_key(self, key: str, names: list[str]) -> list[str]:
        """Return the columns in a key of the definition; report unknown ones."""
        value = getattr(self.source, key) or []
        columns = value if isinstance(value, list) else [value]
        columns = [str(column).strip() for column in columns]
        for column in columns:
            if column not in names:
                near = problems.nearest(column, names)
                fix = f"did you mean {near!r}?" if near else ""
                expected = f"the name of a column ({', '.join(names)[:200]})"
                self._report(f"{self.definition}.{key}", repr(column), expected, fix)
        return columns

    def _feature(self, cells: Any, is_categorical: bool) -> Any:
        """Return a column as numbers or words; report words among numbers."""
        if cells.dtype.kind in "biuf" and not is_categorical:
            return cells
        words = cells.astype("str").str.strip().map(display.printable, na_action="ignore")
        numbers = _parse_numbers(words, self.source.decimal)
        distinct = words.dropna().drop_duplicates().index
        # If at least half of the values are numbers, the words are mistakes.
        if is_categorical or not 2 * numbers[distinct].count() >= len(distinct) > 0:
            return words
        wrong = numbers.isna() & words.notna()
        fix = f"`categorical: {_yaml_line([cells.name])}` takes words"
        self._report_cells(words, wrong, "a number", fix)
        return numbers

    def _label_values(self) -> tuple[Any, str | None]:
        """Return the labels (words, numbers, or columns of numbers) and the task.

        The task is None if `conversion.label_examples` decides it.
        """
        task, texts = self.source.task, self.labels
        numbers = texts.apply(_parse_numbers, decimal=self.source.decimal)
        are_outputs = texts.shape[1] > 1 or task not in (None, tasks.CLASSIFICATION)
        if are_outputs:
            numbers = numbers.mask(texts == "True", 1).mask(texts == "False", 0)
        if are_outputs or numbers.notna().all(axis=None):
            is_valid = numbers.abs() <= conversion.MAX_NUMBER
            expected = f"a number up to {conversion.MAX_NUMBER:.2g}"
            if task == tasks.MULTI_LABEL:
                is_valid, expected = numbers.isin((0, 1)), "0 or 1"
            for name in texts:
                self._report_cells(texts[name], ~is_valid[name], expected)
            raise_problems(self.problems, self.place)
        if are_outputs:
            are_flags = numbers.isin((0, 1)).all(axis=None)
            usual = tasks.MULTI_LABEL if are_flags else tasks.REGRESSION
            return numbers.to_numpy(), task or usual
        text, number = texts.iloc[:, 0], numbers.iloc[:, 0]
        are_classes = number.notna().all() and (not task or (number % 1 == 0).all())
        return number.to_numpy() if are_classes else text.to_numpy(str), task

    def _report_missing(self, cells: Any) -> None:
        """Report missing cells of features, unless the median replaces them, and of labels."""
        if self.source.missing == "error":
            fix = "`missing: median` fills the gaps of features"
            for name in self.rows:
                self._report_cells(cells[name], cells[name].isna(), "a value", fix)
        for name in self.labels:
            fix = "`NA`, `None` and the like are missing values"
            self._report_cells(cells[name], cells[name].isna(), "a value", fix)

    def _report(self, *parts: str) -> None:
        self.problems.append(str(unexpected(*parts)))

    def _report_cells(self, cells: Any, wrong: Any, expected: str, fix: str = "") -> None:
        """Report the first wrong cell of a column, if any, and the number of the others."""
        if wrong.any():
            row, others = wrong.idxmax(), int(wrong.sum()) - 1
            received = "nothing" if cells.isna()[row] else repr(cells[row])
            further = f"and {display.count(others, 'more cell')}" if others else ""
            place = f"{self.place}, column {cells.name}, row {row + 1}"
            self._report(place, f"{received}{display.aside(further)}", expected, fix)


def _reason_no_feature(cells: Any) -> str:
    """Return why a column of numbers or words cannot be a feature; an empty text if it can."""
    present = cells.dropna()
    if present.empty:
        return "no value"
    first, is_number = present.iloc[0], cells.dtype.kind in "biuf"
    if is_number:
        low, high = float(present.min()), float(present.max())
        if max(-low, high) > conversion.MAX_NUMBER:
            return f"a number above {conversion.MAX_NUMBER:.2g}"
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
    return text.strip()


def find_dialect(path: Path) -> dict[str, str]:
    """Return the keys `separator` and `decimal` that give the most columns, then the most numbers.

    Keys with their default values are left out.
    """
    best_score, keys = (1, 0), {}  # numbers of columns and of numeric columns
    for separator, decimal in (",.", ";.", ";,", "\t.", "\t,", "|.", "|,"):
        with contextlib.suppress(UserError):
            frame = _read("", path, separator, decimal, nrows=_SAMPLE_LINES)
            score = frame.shape[1], frame.select_dtypes("number").shape[1]
            if score > best_score:
                best_score, keys = score, {"separator": separator, "decimal": decimal}
    return {key: mark for key, mark in keys.items() if mark != _DEFAULT_DIALECT[key]}


def _read(place: str, path: Path, separator: str, decimal: str, **options: Any) -> Any:
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


def _parse_numbers(texts: Any, decimal: str) -> Any:
    """Return the numbers of a column of texts; NaN for words."""
    import pandas

    if decimal == ",":
        texts = texts.mask(texts.str.contains(".", regex=False, na=False)).str.replace(",", ".")
    return pandas.to_numeric(texts, errors="coerce")
