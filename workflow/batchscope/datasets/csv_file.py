"""The user's own table: a CSV file with one example per line, its class in one column."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from batchscope import disk, wording
from batchscope.catalogue import coercion, dataset_definitions
from batchscope.datasets import download, labels
from batchscope.datasets.raw import Raw, Request, reading
from batchscope.errors import UserError


def csv_file(request: Request) -> Raw:
    """Returns a table's rows; every column but the label's and those of `ignore` is a feature.

    Commas, semicolons or tabs between the columns, whichever the first line has most of. The first
    line names the columns, unless its features are numbers. `label` is the name of a column, or its
    number from 1; the last one if left out.

    Raises:
        UserError: If a line has another number of columns, or a feature is missing or no finite
            number; it names line and column. If two columns have one name, there is no such
            column, or one class alone.
    """
    path = request.needed_path("a CSV file")
    download.check_local(request, path)
    where = f"{request.where}: {path}"
    errors = OSError, UnicodeDecodeError, csv.Error
    with (
        reading(where, "a CSV file in UTF-8", *errors),
        open(path, encoding="utf-8-sig", newline="") as file,
    ):
        first = file.readline()
        file.seek(0)
        delimiter = max(",;\t", key=first.count)
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        # A quoted cell may hold line breaks: a row has the number of its last line.
        table = [(lines.line_num, row) for row in lines if row]
    if len(table) < 2:
        raise UserError(f"{where}: received {len(table)} lines; a line per example is expected.")
    width = len(table[0][1])
    for line, row in table:
        if len(row) != width:
            raise UserError(
                f"{where}: received {len(row)} columns in line {line}; {width} are expected, as "
                "in the first line."
            )
    names = [cell.strip() for cell in table[0][1]]
    wanted = request.definition.get("label")
    label = width - 1 if wanted is None else _column(request, "label", wanted, names)
    left_out = request.definition.get("ignore") or []
    ignored = {_column(request, "ignore", name, names) for name in left_out}
    features = [index for index in range(width) if index != label and index not in ignored]
    if not features:
        raise UserError(f"{where}: received no column of numbers; at least one is expected.")
    numeric = [_number(names[index]) is not None for index in features]
    if all(numeric):
        names = [str(index + 1) for index in range(width)]
    elif any(numeric):
        name = names[features[numeric.index(False)]]
        raise UserError(
            f"{where}: received {name!r} beside numbers in line 1; the names of all columns, or "
            "numbers alone, are expected."
        )
    else:
        table = table[1:]  # names, and no example
        twice = sorted({repr(name) for name in names if names.count(name) > 1})
        if twice:  # one of them would be a feature: the label itself, perhaps
            raise UserError(
                f"{where}: received {wording.listed(twice)} twice in line 1; a name of its own is "
                "expected of each column."
            )
    rows = np.empty((len(table), len(features)))
    for target, (line, row) in zip(rows, table, strict=True):
        target[:] = [_finite(where, line, names[index], row[index]) for index in features]
    return _raw(request, path, rows, [(line, row[label].strip()) for line, row in table])


def _column(request: Request, key: str, wanted: str | int, names: list[str]) -> int:
    if wanted in names:
        return names.index(wanted)
    number = coercion.number(wanted)
    if number in range(1, len(names) + 1):
        return int(number) - 1
    raise UserError(
        f"{request.where}.{key}: received {wanted!r}; the name of a column, or a number from 1 to "
        f"{len(names)}, is expected. The first line has {', '.join(names)[:200]}."
    )


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)  # 1_000 is a number to Python alone
    except ValueError:
        return None


def _finite(where: str, line: int, column: str, cell: str) -> float:
    number = _number(cell)
    if number is None or not np.isfinite(number):
        got = repr(cell) if cell.strip() else "nothing"
        raise UserError(
            f"{where}: received {got} in line {line}, column {column}; a finite number is "
            "expected. A column that is no number is left out with `ignore`."
        )
    return number


def _raw(request: Request, path: Path, rows: np.ndarray, given: list[tuple[int, str]]) -> Raw:
    where = f"{request.where}: {path}"
    for line, label in given:
        if not label:
            raise UserError(f"{where}: received no label in line {line}; a class is expected.")
    found = np.array([label for _, label in given])
    numbers = [_number(label) for _, label in given]
    # Classes 1 to 10 are in the order of numbers, not of words.
    if all(number is not None and np.isfinite(number) for number in numbers):
        found = np.array([_class(where, line, label) for line, label in given])
    classes, _, class_names = labels.numbered((f"{where}: label", found), {})
    return Raw(
        rows,
        classes,
        class_names,
        str(request.definition["path"]),
        {path.name: disk.file_sha256(path)},
        kind=dataset_definitions.ROWS,
    )


def _class(where: str, line: int, label: str) -> int:
    try:
        value, limit = int(label), labels.LIMITS["i"]
    except ValueError:
        value, limit = float(label), labels.LIMITS["f"]
    if value != math.floor(value) or not -limit < value < limit:
        raise UserError(
            f"{where}: received the label {label} in line {line}; a class is expected: a word, a "
            "whole number below 2^63, or below 2^53 where it has a point or an exponent."
        )
    return int(value)
