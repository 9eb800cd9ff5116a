"""The user's own tables: what each column is, and every problem of a file at once."""

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

# What a column is.
NUMBER, BOOLEAN, CATEGORICAL = "number", "boolean", "categorical"
LABEL, IGNORED, REFUSED = "label", "ignored", "refused"
AUTO = "auto"  # as `categorical`: every column of words

_MOST_CATEGORIES = 100
_FEWEST = 10  # rows from which on it says something that no two cells of a column are alike
_TRUTH = {"true": 1.0, "false": 0.0}
_DAY = r"\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](\d{4}|\d\d)"
_DATE = re.compile(rf"({_DAY})([ T]\d{{1,2}}:\d\d.*)?")
# A name that YAML has without quotes.
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z]\w*( \w+)*", re.IGNORECASE)
# Remedies, in which `it` stands for the column.
_SAMPLE = 100  # lines by which labels below a name are known
_IGNORE = "`ignore: [it]` leaves it out"
_EITHER = f"`categorical: [it]` takes words, {_IGNORE}"
_COUNT = "make numbers of them, such as days, or leave them out: `ignore: [it]`"
_DROP = "`missing: drop` leaves such rows out"
_FILL = f"{_DROP}, `missing: median` fills the gaps"


class TableColumn(NamedTuple):
    """A column of a table."""

    name: str
    kind: str
    values: np.ndarray | None = None  # of a feature: numbers, or codes; NaN where one is missing
    categories: list[str] | None = None  # what the codes mean
    missing: int = 0


class ParsedTable(NamedTuple):
    """A table as far as it could be read."""

    columns: list[TableColumn]  # in the order of the file
    rows: int
    problems: list[str]
    raw: Raw | None  # None where there is a problem


def read(request: Request) -> ParsedTable:
    return _Reading(request).table()


class _Reading:
    """One pass over a table, which notes problems and goes on."""

    def __init__(self, request: Request) -> None:
        self.problems: list[str] = []
        self.definition, self.place = request.definition, request.where
        self.path = local_file(request)
        self.where = f"{request.where}: {self.path}"
        is_parquet = self.path.suffix == ".parquet"
        reader = table_files.ParquetFile if is_parquet else table_files.TextFile
        self.file = reader.of(self.where, self.path)
        self.first = [cell.strip() for cell in self.file.first]
        self.auto = self.definition.get("categorical") == AUTO
        words = [] if self.auto else self._positions("categorical")
        labels = self._positions("label") or [len(self.first) - 1]
        other = {*self._positions("ignore"), *labels}
        features = [at for at in range(len(self.first)) if at not in other]
        self.used = table_files.Used(features, [at for at in words if at in features], labels)
        for at in sorted({*words} & other):
            received = f"{self.first[at]!r}, which is the label or ignored"
            self._note(f"{self.place}.categorical", received, "a feature")
        if not features:
            raise unexpected(self.where, "no column of features", "at least one")
        self.header = self._has_names()
        numbers = [str(at) for at in range(1, len(self.first) + 1)]
        names = self.first if self.header else numbers
        self.names = [name or number for name, number in zip(names, numbers, strict=True)]
        # One of two columns of one name would be a feature: the label itself, perhaps.
        for name, count in Counter(self.names).items():
            if count > 1:
                received = f"{name!r} as the name of {count} columns"
                self._note(f"{self.where}, line 1", received, "a name of its own for each")

    def _note(self, *of: str) -> None:
        self.problems.append(str(unexpected(*of)))

    def _positions(self, key: str) -> list[int]:
        """Returns the columns that a key of the definition names; notes what is none."""
        found = []
        for wanted in self._given(key):
            name = wanted.strip() if isinstance(wanted, str) else wanted
            number = int(wanted) if str(wanted).isdecimal() else 0
            if name in self.first:
                found.append(self.first.index(name))
            elif 1 <= number <= len(self.first):
                found.append(number - 1)
            else:
                near = problems.nearest(name, self.first)
                expected = f"a column ({', '.join(self.first)[:200]}), by its name or number,"
                mend = f"did you mean {near!r}?" if near else ""
                self._note(f"{self.place}.{key}", repr(wanted), expected, mend)
                found += [self.first.index(near)] if near in self.first else []
        return found

    def _given(self, key: str) -> list[str | int]:
        given = self.definition.get(key)
        return given if isinstance(given, list) else [given] if given else []

    def _has_names(self) -> bool:
        """Whether the first line names the columns: one that the study names, or every feature.

        Numbers are names where they count the columns, as pandas writes them.
        """
        if isinstance(self.file, table_files.ParquetFile):
            return True
        given = {each for key in ("label", "ignore", "categorical") for each in self._given(key)}
        if any(
            str(each).strip() in self.first and self._number(str(each)) is None for each in given
        ):
            return True
        plain = [self.first[at] for at in self.used.features if at not in self.used.words]
        words = [name for name in plain if self._number(name) is None]
        if words and len(words) < len(plain) and self.auto:
            return self._above_labels()
        if words and len(words) < len(plain):
            received = f"{words[0]!r} beside numbers"
            raise unexpected(f"{self.where}, line 1", received, "a name of each column, or none,")
        counted = [str(at) for at in self.used.features]
        return len(words) == len(plain) or (plain == counted and len(counted) > 2)

    def _above_labels(self) -> bool:
        """Whether the first line has a word for labels that are numbers."""
        below = [cells for _, cells in itertools.islice(self.file.records(), 1, _SAMPLE)]
        below = [cells for cells in below if len(cells) == len(self.first)]
        columns = [at for at in self.used.labels if self._number(self.first[at]) is None]
        return len(below) > 1 and any(
            all(self._number(cells[at]) is not None for cells in below) for at in columns
        )

    def _number(self, cell: str) -> float | None:
        """Returns the finite number of a cell, or None."""
        decimal = self.file.decimal
        if "_" in cell or (decimal != "." and "." in cell):  # 1_000 is Python's
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
        features = {at: self._feature(at, frame.pop(at)) for at in self.used.features}
        labels = [self._label(at, frame.pop(at)) for at in self.used.labels]
        others = {at: LABEL if at in self.used.labels else IGNORED for at in range(len(self.names))}
        columns = [
            features.get(at) or TableColumn(self.names[at], kind) for at, kind in others.items()
        ]
        matrix = np.zeros((self.kept.sum(), len(features)))
        for place, column in enumerate(features.values()):
            if column.values is not None:
                matrix[:, place] = column.values[self.kept]
        try:
            found = self._learned(matrix, labels)
        except UserError as error:
            self.problems += str(error).splitlines()
        if self.problems:
            return ParsedTable(columns, count, self.problems, None)
        own = [*features.values()]
        coded = {at: each.categories for at, each in enumerate(own) if each.categories}
        names = Columns([each.name for each in own], coded, count - len(matrix))
        labels, classes, task = found
        kinds = {"kind": example_kinds.ROWS, "task": task}
        raw = Raw(matrix, labels, classes, [self.path], columns=names, **kinds)
        return ParsedTable(columns, count, [], raw)

    def _refuse(
        self, at: int, received: str, expected: str, mend: str = "", wrong: np.ndarray | None = None
    ) -> TableColumn:
        """Notes what is wrong with a column, or the first of its wrong cells and how many."""
        name = self.names[at]
        place = f"{self.where}, column {name}"
        if wrong is not None:
            place += f", {self.cells.line} {self.cells.lines[wrong.argmax()]}"
            more = int(wrong.sum()) - 1
            received += wording.aside(f"and {wording.count(more, 'more cell')}" if more else "")
        called = name if _PLAIN.fullmatch(name) else at + 1
        self._note(place, received, expected, mend.replace("[it]", f"[{called}]"))
        return TableColumn(name, REFUSED)

    def _lacks(self, at: int, missing: np.ndarray, expected: str, fill: bool) -> None:
        """Notes the cells that a column lacks, unless they are filled or their rows dropped."""
        remedy = self.definition.get("missing")
        if missing.any() and remedy != "drop" and not (fill and remedy == "median"):
            self._refuse(at, "nothing", expected, _FILL if fill else _DROP, missing)
        if remedy == "drop" or not fill:
            self.kept &= ~missing

    def _feature(self, at: int, cells: Any) -> TableColumn:
        """Returns a column of features; notes why it is none, or which cells are wrong."""
        if cells.dtype.kind in "biuf":
            kind = BOOLEAN if cells.dtype.kind == "b" else NUMBER
            words, values = [], cells.to_numpy(float)
            codes = np.where(np.isnan(values), -1, 0)
        else:
            codes, words = _words(cells)
            kind, readings = self._read(at, codes, words)
            values = np.append(readings, np.nan)[codes]
        missing = codes < 0
        if missing.all():
            return self._refuse(at, "no value", "a feature", _IGNORE)
        if kind == REFUSED:
            return self._refuse_words(at, codes, words)
        expected = {BOOLEAN: "true or false", NUMBER: "a number"}.get(kind, "a word")
        self._lacks(at, missing, expected, fill=True)
        if (wrong := np.isnan(values) & ~missing).any():
            self._refuse(at, repr(words[codes[wrong.argmax()]]), expected, _EITHER, wrong)
        if (wrong := np.abs(values) > LARGEST).any() and kind == NUMBER:
            received = f"{values[wrong.argmax()]}"
            self._refuse(at, received, f"a number up to {LARGEST:.2g}", _IGNORE, wrong)
        if kind == NUMBER and _counts(values):
            received = f"the numbers of the rows, {values.min():.0f} to {values.max():.0f}"
            return self._refuse(at, received, "a feature", _IGNORE)
        if kind == CATEGORICAL and len(words) > _MOST_CATEGORIES:
            return self._refuse_words(at, codes, words)
        categories = words if kind == CATEGORICAL else None
        return TableColumn(self.names[at], kind, values, categories, int(missing.sum()))

    def _read(self, at: int, codes: np.ndarray, words: list[str]) -> tuple[str, np.ndarray]:
        """Returns what a column of words is, and the number of each word; NaN of a wrong one."""
        every = np.arange(len(words), dtype=float)
        if at in self.used.words:
            return CATEGORICAL, every
        truths = [_TRUTH.get(word.lower()) for word in words]
        for kind, found in ((BOOLEAN, truths), (NUMBER, [*map(self._number, words)])):
            readings = np.array(found, float)
            if 2 * np.isfinite(readings).sum() >= len(words):
                return kind, readings
        if self.auto and not (_all_dates(words) or _all_differ(codes, words)):
            return CATEGORICAL, every
        return REFUSED, every

    def _refuse_words(self, at: int, codes: np.ndarray, words: list[str]) -> TableColumn:
        received, expected = f"words, such as {words[0]!r}", "a column of numbers"
        mend = _EITHER
        if _all_dates(words):
            received, mend = f"dates, such as {words[0]!r}", _COUNT
        elif _all_differ(codes, words):
            received, mend = f"{words[0]!r} and another word in each row", _IGNORE
        elif len(words) > _MOST_CATEGORIES:
            received, mend = f"{len(words)} different {received}", _IGNORE
            expected = f"a column of numbers, or of {_MOST_CATEGORIES} different words at most,"
        return self._refuse(at, received, expected, mend)

    def _label(self, at: int, cells: Any) -> tuple[np.ndarray, list[str]]:
        codes, words = _without_gaps(*_words(cells), self._number)
        self._lacks(at, codes < 0, "a label", fill=False)
        return codes, words

    def _learned(
        self, matrix: np.ndarray, columns: list[Any]
    ) -> tuple[np.ndarray, list[str], str] | None:
        stated, names = self.definition.get("task"), [self.names[at] for at in self.used.labels]
        place = f"{self.where}, column {wording.listed(names)}"
        if not len(matrix):
            raise unexpected(place, "no row without a missing cell", "one at least")
        if len(columns) > 1 and stated == tasks.CLASSIFICATION:
            raise unexpected(
                f"{self.place}.task", f"{stated} of {len(columns)} columns", "one column"
            )
        if len(columns) > 1 or stated in (tasks.REGRESSION, tasks.MULTI_LABEL):
            labels = np.stack([*map(self._numbers, self.used.labels, columns)], axis=1)
            if np.isnan(labels).any():
                return None  # and noted
            if stated is None:
                several = np.isin(labels, (0, 1)).all()
                stated = tasks.MULTI_LABEL if several else tasks.REGRESSION
        else:
            codes, words = columns[0]
            values = self._classes(words, stated)
            if values.dtype.kind == "U" and _all_differ(codes, words):
                raise unexpected(place, f"{words[0]!r} and another word in each row", "classes")
            labels = values[codes[self.kept]]
        given = {"train": matrix}, {"train": (place, labels)}
        kind = example_kinds.ROWS
        pairs, classes, task = targets.labelled(self.place, kind, stated, *given)
        return pairs["train"][1], classes if task == tasks.CLASSIFICATION else names, task

    def _numbers(self, at: int, column: tuple[np.ndarray, list[str]]) -> np.ndarray:
        """Returns the numbers of a column of labels, of the rows that are kept."""
        codes, words = column
        readings = [_TRUTH.get(word.lower(), self._number(word)) for word in words]
        values, expected = np.append(np.array(readings, float), np.nan)[codes], "a number"
        if self.definition.get("task") == tasks.MULTI_LABEL:
            values, expected = np.where(np.isin(values, (0, 1)), values, np.nan), "0 or 1"
        if (wrong := np.isnan(values) & (codes >= 0)).any():
            self._refuse(at, repr(words[codes[wrong.argmax()]]), expected, wrong=wrong)
        return values[self.kept]

    def _classes(self, words: list[str], stated: str | None) -> np.ndarray:
        """Returns labels as numbers where all are, else as words: class 9 comes before 10."""
        numbers = [self._number(word) for word in words]
        if None in numbers:
            return np.array(words)
        with contextlib.suppress(ValueError):
            return np.array([int(word) for word in words])
        whole = all(number == int(number) for number in numbers)
        return np.array(words if stated and not whole else numbers)


def _words(cells: Any) -> tuple[np.ndarray, list[str]]:
    """Returns of each row which word of a column it has, -1 for none, and the words, stripped."""
    import pandas

    codes, found = pandas.factorize(cells)
    plain = np.array([str(word).strip() or None for word in found], object)
    places, words = pandas.factorize(plain, sort=True)
    return np.append(places, -1)[codes], list(words)


def _without_gaps(
    codes: np.ndarray, words: list[str], number: Callable[[str], float | None]
) -> tuple[np.ndarray, list[str]]:
    """Returns codes, -1 for a word of no value among numbers too, and the other words.

    Among words `None` may be a class.
    """
    kept = [word for word in words if word not in table_files.MISSING]
    if len(kept) < 2 or any(number(word) is None for word in kept):
        return codes, words
    places = {word: at for at, word in enumerate(kept)}
    return np.array([*(places.get(word, -1) for word in words), -1])[codes], kept


def _counts(numbers: np.ndarray) -> bool:
    """Whether a column counts the rows from 0 or 1 on, in whatever order."""
    low, count = numbers.min(), len(numbers)
    if count < _FEWEST or low not in (0, 1) or numbers.max() - low != count - 1:
        return False
    return len(np.unique(numbers)) == count


def _all_dates(words: list[str]) -> bool:
    return all(map(_DATE.fullmatch, words))


def _all_differ(codes: np.ndarray, words: list[str]) -> bool:
    return len(words) == (codes >= 0).sum() >= _FEWEST
