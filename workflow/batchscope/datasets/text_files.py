"""Sources that are text: tables with one example per line, and texts cut into windows."""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
from pathlib import Path

import numpy as np

from batchscope import wording
from batchscope.catalogue import dataset_definitions, dataset_splits, readers
from batchscope.datasets import kinds
from batchscope.datasets.raw import Pair, Raw, Request, local_file, reading, refused
from batchscope.store.paths import SPLITS

_TEXT = ("_core", "_add_newdocs.py")  # in NumPy's folder


def csv_file(request: Request) -> Raw:
    """Returns a table's rows; every column but the label's and those of `ignore` is a feature.

    The first line names the columns, unless its features are numbers.
    """
    path = local_file(request)
    where = f"{request.where}: {path}"
    table = _lines(where, path)
    names = [cell.strip() for cell in table[0][1]]
    wanted = request.definition["label"]
    label = len(names) - 1 if wanted is None else _column(request, "label", wanted, names)
    left_out = request.definition["ignore"] or []
    other = {label, *(_column(request, "ignore", name, names) for name in left_out)}
    features = [index for index in range(len(names)) if index not in other]
    if not features:
        raise refused(where, "no column of numbers", "at least one")
    words = [names[index] for index in features if _number(names[index]) is None]
    if not words:
        names = [str(index + 1) for index in range(len(names))]
    elif len(words) < len(features):
        received = f"{words[0]!r} beside numbers in line 1"
        raise refused(where, received, "a name of each column, or none,")
    else:
        table = table[1:]  # names, and no example
        # One of two columns of one name would be a feature: the label itself, perhaps.
        if twice := sorted({repr(name) for name in names if names.count(name) > 1}):
            received = f"{wording.listed(twice)} twice in line 1"
            raise refused(where, received, "a name of its own for each column")
    rows = np.empty((len(table), len(features)))
    for row, (line, cells) in enumerate(table):
        for place, index in enumerate(features):
            if (number := _number(cells[index])) is None:
                received = repr(cells[index]) if cells[index].strip() else "nothing"
                received = f"{received} in line {line}, column {names[index]}"
                raise refused(where, received, "a finite number (`ignore` leaves a column out)")
            rows[row, place] = number
    place = f"{where}: column {names[label]} (row 0 is line {table[0][0]})"
    given = {"train": (place, _labels([cells[label].strip() for _, cells in table]))}
    pairs, class_names = kinds.classified({"train": rows}, given)
    return Raw(*pairs["train"], class_names, [path], kind=dataset_definitions.ROWS)


def _lines(where: str, path: Path) -> list[tuple[int, list[str]]]:
    """Returns the number and the cells of each line that is not empty.

    Commas, semicolons or tabs lie between cells, whichever the first line has most of. A quoted
    cell may hold line breaks: its row has the number of its last line.
    """
    errors = OSError, UnicodeDecodeError, csv.Error
    with (
        reading(where, "a CSV file in UTF-8", *errors),
        open(path, encoding="utf-8-sig", newline="") as file,
    ):
        delimiter = max(",;\t", key=file.readline().count)
        file.seek(0)
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        table = [(lines.line_num, cells) for cells in lines if cells]
    if len(table) < 2:
        raise refused(where, f"{len(table)} lines", "a line per example")
    width = len(table[0][1])
    for line, cells in table:
        if len(cells) != width:
            received = f"{len(cells)} columns in line {line}"
            raise refused(where, received, f"the number of the first line, {width},")
    return table


def _column(request: Request, key: str, wanted: str | int, names: list[str]) -> int:
    if wanted in names:
        return names.index(wanted)
    number = readers.number(wanted)
    if number in range(1, len(names) + 1):
        return int(number) - 1
    listed = ", ".join(names)[:200]
    expected = f"a column ({listed}), by its name or its number from 1 to {len(names)},"
    raise refused(f"{request.where}.{key}", repr(wanted), expected)


def _number(cell: str) -> float | None:
    """Returns the finite number of a cell, or None."""
    with contextlib.suppress(ValueError):
        number = float(cell)
        return number if np.isfinite(number) and "_" not in cell else None  # 1_000 is Python's
    return None


def _labels(cells: list[str]) -> np.ndarray:
    """Returns labels as numbers where all are, so that class 9 comes before 10; else as words."""
    numbers = [_number(cell) for cell in cells]
    if None in numbers:
        return np.array(cells)
    with contextlib.suppress(ValueError):
        return np.array([int(cell) for cell in cells])
    return np.array(numbers)


def built_in_text() -> Path:
    """Returns the text that comes with NumPy: the docstrings of its compiled functions.

    216,000 ASCII characters of English prose and short examples in NumPy 2.4, under NumPy's own
    licence (BSD 3-Clause). NumPy's version is pinned, and so is this text.
    """
    return Path(np.__file__).parent.joinpath(*_TEXT)


def text(request: Request) -> Raw:
    """Returns a text as windows of characters that do not overlap, each with its next characters.

    The text is divided by position, in the order of the parts: no character of a window, nor what
    it is to predict, lies in another part. Classes are the characters of the whole text in the
    order of their code points.
    """
    path = local_file(request) or built_in_text()
    where = f"{request.where}: {path}"
    with reading(where, "a text in UTF-8", OSError, UnicodeDecodeError):
        content = path.read_bytes().decode("utf-8-sig")
    characters = np.frombuffer(content.encode("utf-32-le"), "<u4")
    vocabulary, tokens = np.unique(characters, return_inverse=True)
    if len(vocabulary) < 2:
        raise refused(where, f"{len(vocabulary)} different characters", "a text of two or more")
    length, split = request.definition["length"], request.split
    sizes = dataset_splits.split_counts(split, len(tokens))
    parts = {}
    for part, size, end in zip(SPLITS, sizes, np.cumsum(sizes), strict=True):
        if size <= length:
            received = f"{split[part]}, which is {size} of {len(tokens)} characters"
            expected = f"a window's {length + 1} at least"
            raise refused(f"{request.where}.split.{part}", received, expected)
        parts[part] = windows(tokens[end - size : end], length)
    origin = f"numpy {importlib.metadata.version('numpy')}, {'/'.join(_TEXT)}"
    names = [chr(code) for code in vocabulary]
    kind = dataset_definitions.TOKENS
    return Raw(*parts.pop("train"), names, [path], origin, given=parts, kind=kind)


def windows(tokens: np.ndarray, length: int) -> Pair:
    """Returns windows of tokens that do not overlap, and for each position the token after it.

    Both are int32 of shape ((n - 1) // length, length).
    """
    count = max(0, (len(tokens) - 1) // length)
    used = tokens[: count * length + 1].astype(np.int32)
    return used[:-1].reshape(count, length), used[1:].reshape(count, length)
