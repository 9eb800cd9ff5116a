"""Tables of the user: the kind of each column, and all problems of a file at once."""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from batchscope import problems, wording
from batchscope.datasets import table_files, targets
from batchscope.datasets.kinds import LARGEST
from batchscope.datasets.raw import Columns, Raw, Request, local_file
from batchscope.errors import UserError, unexpected
from batchscope.study import example_kinds, tasks

# Kinds of columns.
NUMBER, BOOLEAN, CATEGORICAL = "number", "boolean", "categorical"
LABEL, IGNORED, REFUSED = "label", "ignored", "refused"
AUTO = "auto"  # value of `categorical` for every column of words

_MOST_CATEGORIES = 100
_FEWEST = 10  # smallest number of rows for a column of unique values to be an identifier
_TRUTH = {"true": 1.0, "false": 0.0}
_DAY = r"\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](\d{4}|\d\d)"
_DATE = re.compile(rf"({_DAY})([ T]\d{{1,2}}:\d\d.*)?")
# A name that needs no quotes in YAML.
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z]\w*( \w+)*", re.IGNORECASE)
_SAMPLE = 100  # lines that show whether the labels are numbers
# Fixes; the name of the column replaces `it`.
_IGNORE = "`ignore: [it]` leaves it out"
_EITHER = f"`categorical: [it]` takes words, {_IGNORE}"
_COUNT = "make numbers of them, such as days, or leave them out: `ignore: [it]`"
_DROP = "`missing: drop` leaves such rows out"
_FILL = f"{_DROP}, `missing: median` fills the gaps"


class TableColumn(NamedTuple):
    """A column of a table."""

    name: str
    kind: str
    values: np.ndarray | None = None  # numbers or codes of a feature; NaN if missing
    categories: list[str] | None = None  # value of each code
    missing: int = 0


class ParsedTable(NamedTuple):
    """A table as far as it could be read."""

    columns: list[TableColumn]  # in the order of the file
    rows: int
    problems: list[str]
    raw: Raw | None  # None if there are problems


def read(request: Request) -> ParsedTable:
    return _Reading(request).table()


class _Reading:
    """One pass over a table that collects problems."""

    def __init__(self, request: Request) -> None:
        self.problems: list[str] = []
        self.definition, self.place = request.definition, request.place
        self.path = local_file(request)
        is_parquet = self.path.suffix == ".parquet"
        reader = table_files.ParquetFile if is_parquet else table_files.TextFile
        self.file = reader.from_path(f"{request.place}: {self.path}", self.path)
        self.first = [cell.strip() for cell in self.file.first]
        self.auto = self.definition.get("categorical") == AUTO
        categorical = [] if self.auto else self._positions("categorical")
        labels = self._positions("label") or [len(self.first) - 1]
        excluded = {*self._positions("ignore"), *labels}
        features = [index for index in range(len(self.first)) if index not in excluded]
        texts = [index for index in categorical if index in features]
        self.used = table_files.Used(features, texts, labels)
        for index in sorted(excluded.intersection(categorical)):
            received = f"{self.first[index]!r}, which is the label or ignored"
            self._note(f"{self.place}.categorical", received, "a feature")
        if not features:
            raise unexpected(self.file.place, "no column of features", "at least one")
        self.header = self._has_names()
        numbers = [str(index) for index in range(1, len(self.first) + 1)]
        names = [wording.printable(name) for name in self.first] if self.header else numbers
        self.names = [name or number for name, number in zip(names, numbers, strict=True)]
        # With two columns of the label's name, one of them would be a feature.
        for name, count in Counter(self.names).items():
            if count > 1:
                received = f"{name!r} as the name of {count} columns"
                self._note(f"{self.file.place}, line 1", received, "a name of its own for each")

    def _note(self, *parts: str) -> None:
        self.problems.append(str(unexpected(*parts)))

    def _positions(self, key: str) -> list[int]:
        """Return the columns that a key of the definition names; note unknown columns."""
        positions = []
        for column in self._listed_columns(key):
            name = column.strip() if isinstance(column, str) else column
            number = int(column) if str(column).isdecimal() else 0
            if name in self.first:
                positions.append(self.first.index(name))
            elif 1 <= number <= len(self.first):
                positions.append(number - 1)
            else:
                near = problems.nearest(name, self.first)
                expected = f"a column ({', '.join(self.first)[:200]}), by its name or number,"
                fix = f"did you mean {near!r}?" if near else ""
                self._note(f"{self.place}.{key}", repr(column), expected, fix)
                positions += [self.first.index(near)] if near in self.first else []
        return positions

    def _listed_columns(self, key: str) -> list[str | int]:
        columns = self.definition.get(key)
        return columns if isinstance(columns, list) else [columns] if columns else []

    def _has_names(self) -> bool:
        """Return whether the first line names the columns.

        It does if it contains a name that the study uses, or if no feature in it is a number. It
        also does if its numbers count the columns, as in files that pandas writes.
        """
        if isinstance(self.file, table_files.ParquetFile):
            return True
        for key in ("label", "ignore", "categorical"):
            for column in map(str, self._listed_columns(key)):
                if column.strip() in self.first and self._number(column) is None:
                    return True
        plain = [self.first[index] for index in self.used.features if index not in self.used.texts]
        texts = [name for name in plain if self._number(name) is None]
        if texts and len(texts) < len(plain) and self.auto:
            return self._above_labels()
        if texts and len(texts) < len(plain):
            received = f"{texts[0]!r} beside numbers"
            expected = "a name of each column, or none,"
            raise unexpected(f"{self.file.place}, line 1", received, expected)
        counted = [str(index) for index in self.used.features]
        return len(texts) == len(plain) or (plain == counted and len(counted) > 2)

    def _above_labels(self) -> bool:
        """Return whether the first line has a word for labels that are numbers."""
        below = [cells for _, cells in itertools.islice(self.file.records(), 1, _SAMPLE)]
        below = [cells for cells in below if len(cells) == len(self.first)]
        columns = [index for index in self.used.labels if self._number(self.first[index]) is None]
        return len(below) > 1 and any(
            all(self._number(cells[index]) is not None for cells in below) for index in columns
        )

    def _number(self, cell: str) -> float | None:
        """Return the finite number of a cell, or None."""
        decimal = self.file.decimal
        if "_" in cell or (decimal != "." and "." in cell):  # Python reads 1_000 as a number
            return None
        with contextlib.suppress(ValueError):
            number = float(cell.replace(decimal, "."))
            return number if np.isfinite(number) else None
        return None

    def table(self) -> ParsedTable:
        self.cells = self.file.read(self.header, self.used)
        count, frame = len(self.cells.lines), self.cells.frame
        self.kept = np.ones(count, bool)
        self.problems += self.cells.problems
        features = {index: self._feature(index, frame.pop(index)) for index in self.used.features}
        labels = [self._label(index, frame.pop(index)) for index in self.used.labels]
        columns = []
        for index, name in enumerate(self.names):
            other = TableColumn(name, LABEL if index in self.used.labels else IGNORED)
            columns.append(features.get(index, other))
        matrix = np.zeros((self.kept.sum(), len(features)))
        for place, column in enumerate(features.values()):
            if column.values is not None:
                matrix[:, place] = column.values[self.kept]
        try:
            learned = self._learned(matrix, labels)
        except UserError as error:
            self.problems += str(error).splitlines()
        if self.problems:
            return ParsedTable(columns, count, self.problems, None)
        categories = {}
        for index, column in enumerate(features.values()):
            if column.categories:
                categories[index] = column.categories
        feature_names = [column.name for column in features.values()]
        names = Columns(feature_names, categories, count - len(matrix))
        labels, classes, task = learned
        kinds = {"kind": example_kinds.ROWS, "task": task}
        raw = Raw(matrix, labels, classes, [self.path], columns=names, **kinds)
        return ParsedTable(columns, count, [], raw)

    def _refuse(
        self,
        index: int,
        received: str,
        expected: str,
        fix: str = "",
        wrong: np.ndarray | None = None,
    ) -> TableColumn:
        """Note a problem of a column, or of its first wrong cell with the number of others."""
        name = self.names[index]
        place = f"{self.file.place}, column {name}"
        if wrong is not None:
            place += f", {self.cells.line} {self.cells.lines[wrong.argmax()]}"
            if further := int(wrong.sum()) - 1:
                received += wording.aside(f"and {wording.count(further, 'more cell')}")
        called = name if _PLAIN.fullmatch(name) else index + 1
        self._note(place, received, expected, fix.replace("[it]", f"[{called}]"))
        return TableColumn(name, REFUSED)

    def _lacks(self, index: int, missing: np.ndarray, expected: str, fill: bool) -> None:
        """Note missing cells, unless they are filled or their rows dropped."""
        remedy = self.definition.get("missing")
        if missing.any() and remedy != "drop" and not (fill and remedy == "median"):
            self._refuse(index, "nothing", expected, _FILL if fill else _DROP, missing)
        if remedy == "drop" or not fill:
            self.kept &= ~missing

    def _feature(self, index: int, cells: Any) -> TableColumn:
        """Return a column of features; note why it is refused, or its wrong cells."""
        if cells.dtype.kind in "biuf":
            kind = BOOLEAN if cells.dtype.kind == "b" else NUMBER
            texts, values = [], cells.to_numpy(float)
            codes = np.where(np.isnan(values), -1, 0)
        else:
            codes, texts = _distinct_texts(cells)
            kind, readings = self._read(index, codes, texts)
            values = np.append(readings, np.nan)[codes]
        missing = codes < 0
        if missing.all():
            return self._refuse(index, "no value", "a feature", _IGNORE)
        if kind == REFUSED:
            return self._refuse_words(index, codes, texts)
        expected = {BOOLEAN: "true or false", NUMBER: "a number"}.get(kind, "a word")
        self._lacks(index, missing, expected, fill=True)
        if (wrong := np.isnan(values) & ~missing).any():
            self._refuse(index, repr(texts[codes[wrong.argmax()]]), expected, _EITHER, wrong)
        if (wrong := np.abs(values) > LARGEST).any() and kind == NUMBER:
            received = f"{values[wrong.argmax()]}"
            self._refuse(index, received, f"a number up to {LARGEST:.2g}", _IGNORE, wrong)
        if kind == NUMBER and _counts(values):
            received = f"the numbers of the rows, {values.min():.0f} to {values.max():.0f}"
            return self._refuse(index, received, "a feature", _IGNORE)
        if kind == CATEGORICAL and len(texts) > _MOST_CATEGORIES:
            return self._refuse_words(index, codes, texts)
        categories = texts if kind == CATEGORICAL else None
        return TableColumn(self.names[index], kind, values, categories, int(missing.sum()))

    def _read(self, index: int, codes: np.ndarray, texts: list[str]) -> tuple[str, np.ndarray]:
        """Return the kind of a text column, and the number of each text; NaN for a wrong one."""
        all_codes = np.arange(len(texts), dtype=float)
        if index in self.used.texts:
            return CATEGORICAL, all_codes
        truths = [_TRUTH.get(text.lower()) for text in texts]
        for kind, numbers in ((BOOLEAN, truths), (NUMBER, [*map(self._number, texts)])):
            readings = np.array(numbers, float)
            if 2 * np.isfinite(readings).sum() >= len(texts):
                return kind, readings
        if self.auto and not (_all_dates(texts) or _all_differ(codes, texts)):
            return CATEGORICAL, all_codes
        return REFUSED, all_codes

    def _refuse_words(self, index: int, codes: np.ndarray, texts: list[str]) -> TableColumn:
        received, expected = f"words, such as {texts[0]!r}", "a column of numbers"
        fix = _EITHER
        if _all_dates(texts):
            received, fix = f"dates, such as {texts[0]!r}", _COUNT
        elif _all_differ(codes, texts):
            received, fix = f"{texts[0]!r} and another word in each row", _IGNORE
        elif len(texts) > _MOST_CATEGORIES:
            received, fix = f"{len(texts)} different {received}", _IGNORE
            expected = f"a column of numbers, or of {_MOST_CATEGORIES} different words at most,"
        return self._refuse(index, received, expected, fix)

    def _label(self, index: int, cells: Any) -> tuple[np.ndarray, list[str]]:
        codes, texts = _without_gaps(*_distinct_texts(cells), self._number)
        self._lacks(index, codes < 0, "a label", fill=False)
        return codes, texts

    def _learned(
        self, matrix: np.ndarray, columns: list[Any]
    ) -> tuple[np.ndarray, list[str], str] | None:
        task, names = self.definition.get("task"), [self.names[index] for index in self.used.labels]
        place = f"{self.file.place}, column {wording.listed(names)}"
        if not len(matrix):
            raise unexpected(place, "no row without a missing cell", "one at least")
        if len(columns) > 1 and task == tasks.CLASSIFICATION:
            raise unexpected(
                f"{self.place}.task", f"{task} of {len(columns)} columns", "one column"
            )
        if len(columns) > 1 or task in (tasks.REGRESSION, tasks.MULTI_LABEL):
            labels = np.stack([*map(self._numbers, self.used.labels, columns)], axis=1)
            if np.isnan(labels).any():
                return None  # `_numbers` noted the problem
            if task is None:
                several = np.isin(labels, (0, 1)).all()
                task = tasks.MULTI_LABEL if several else tasks.REGRESSION
        else:
            codes, texts = columns[0]
            values = self._classes(texts, task)
            if values.dtype.kind == "U" and _all_differ(codes, texts):
                raise unexpected(place, f"{texts[0]!r} and another word in each row", "classes")
            labels = values[codes[self.kept]]
        pairs, classes, task = targets.labelled(
            self.place, example_kinds.ROWS, task, {"train": matrix}, {"train": (place, labels)}
        )
        return pairs["train"][1], classes if task == tasks.CLASSIFICATION else names, task

    def _numbers(self, index: int, column: tuple[np.ndarray, list[str]]) -> np.ndarray:
        """Return the numbers of a column of labels in the rows that are kept."""
        codes, texts = column
        readings = [_TRUTH.get(text.lower(), self._number(text)) for text in texts]
        values, expected = np.append(np.array(readings, float), np.nan)[codes], "a number"
        if self.definition.get("task") == tasks.MULTI_LABEL:
            values, expected = np.where(np.isin(values, (0, 1)), values, np.nan), "0 or 1"
        if (wrong := np.isnan(values) & (codes >= 0)).any():
            self._refuse(index, repr(texts[codes[wrong.argmax()]]), expected, wrong=wrong)
        return values[self.kept]

    def _classes(self, texts: list[str], task: str | None) -> np.ndarray:
        """Return labels as numbers if all are numbers, so that class 9 precedes class 10."""
        numbers = [self._number(text) for text in texts]
        if None in numbers:
            return np.array(texts)
        with contextlib.suppress(ValueError):
            return np.array([int(text) for text in texts])
        are_whole = all(number == int(number) for number in numbers)
        return np.array(texts if task and not are_whole else numbers)


def _distinct_texts(cells: Any) -> tuple[np.ndarray, list[str]]:
    """Return the code of each row, -1 for an empty cell, and the text of each code, stripped."""
    import pandas

    codes, values = pandas.factorize(cells)
    stripped = np.array([str(text).strip() or None for text in values], object)
    places, texts = pandas.factorize(stripped, sort=True)
    return np.append(places, -1)[codes], list(texts)


def _without_gaps(
    codes: np.ndarray, texts: list[str], number: Callable[[str], float | None]
) -> tuple[np.ndarray, list[str]]:
    """Return codes and texts; among numbers, texts of missing values get the code -1.

    Among words, `None` may be a class.
    """
    kept = [text for text in texts if text not in table_files.MISSING]
    if len(kept) < 2 or any(number(text) is None for text in kept):
        return codes, texts
    places = {text: index for index, text in enumerate(kept)}
    return np.array([*(places.get(text, -1) for text in texts), -1])[codes], kept


def _counts(numbers: np.ndarray) -> bool:
    """Return whether a column counts the rows from 0 or 1, in any order."""
    low, count = numbers.min(), len(numbers)
    if count < _FEWEST or low not in (0, 1) or numbers.max() - low != count - 1:
        return False
    return len(np.unique(numbers)) == count


def _all_dates(texts: list[str]) -> bool:
    return all(map(_DATE.fullmatch, texts))


def _all_differ(codes: np.ndarray, texts: list[str]) -> bool:
    return len(texts) == (codes >= 0).sum() >= _FEWEST
