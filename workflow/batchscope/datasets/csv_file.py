"""The user's own table: a CSV file with one example per line, its class in one column."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from batchscope import wording
from batchscope.catalogue import dataset_definitions, readers
from batchscope.datasets import labels
from batchscope.datasets.raw import Raw, Request, local_file, reading, refused


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
    ignored = {_column(request, "ignore", name, names) for name in left_out}
    features = [index for index in range(len(names)) if index not in {label, *ignored}]
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
    rows = [
        [_finite(where, line, names[index], cells[index]) for index in features]
        for line, cells in table
    ]
    given = _labels([cells[label].strip() for _, cells in table])
    place = f"{where}: column {names[label]} (row 0 is line {table[0][0]})"
    classes, class_names = labels.numbered({"train": (place, given)})
    kind = dataset_definitions.ROWS
    return Raw(np.array(rows), classes["train"], class_names, [path], kind=kind)


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
    try:
        number = None if "_" in cell else float(cell)  # 1_000 is a number to Python alone
    except ValueError:
        return None
    return number if number is not None and np.isfinite(number) else None


def _finite(where: str, line: int, column: str, cell: str) -> float:
    number = _number(cell)
    if number is None:
        received = repr(cell) if cell.strip() else "nothing"
        expected = "a finite number (`ignore` leaves a column out)"
        raise refused(where, f"{received} in line {line}, column {column}", expected)
    return number


def _labels(cells: list[str]) -> np.ndarray:
    """Returns labels as numbers where all are, so that class 9 comes before 10; else as words."""
    numbers = [_number(cell) for cell in cells]
    if None in numbers:
        return np.array(cells)
    try:
        return np.array([int(cell) for cell in cells])
    except ValueError:
        return np.array(numbers)
