"""Tables of an experiment as CSV files: written, and read as statistics and figures take them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pandas

from batchscope import disk, errors
from batchscope.study import run_factors, tables

RUNS, CLAIMS = "runs.csv", "claims.csv"  # of an experiment, of a study
# Digests look like numbers now and then (12345678, 1e234567): they are read as text.
_DIGESTED = ("run", "dataset", "dataset_digest", "model", "model_digest")
TEXT_COLUMNS = (*_DIGESTED, "message", "document", "series")
# What a spreadsheet computes when it opens a file; a number is what it looks like.
_FORMULA = re.compile(r"'*[=@\t\r]|'*[+-](?![\d.]+([eE][+-]?\d+)?$)")
_GUARDED = re.compile(f"'(?={_FORMULA.pattern})")
# Every table has some of them.
_KNOWN = {"run", "figure", "machine", *run_factors.FACTORS, *run_factors.SWEEP_FACTORS}


def guarded(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return a table in which no cell and no header is a formula."""

    def guard(text: str) -> str:
        return f"'{text}" if _FORMULA.match(text) else text

    return _of_texts(frame, guard).rename(columns=guard)


def _unguard(text: str) -> str:
    return text[1:] if _GUARDED.match(text) else text


def _of_texts(frame: pandas.DataFrame, change: Callable[[str], str]) -> pandas.DataFrame:
    texts = [name for name in frame if frame[name].dtype.kind not in "biuf"]
    changed = {
        name: frame[name].map(lambda cell: change(cell) if isinstance(cell, str) else cell)
        for name in texts
    }
    return frame.assign(**changed) if changed else frame


def read(path: Path | str | TextIO) -> pandas.DataFrame:
    """Reads a table of an experiment, from its path or an open file.

    Raises:
        UserError: If the file is missing or damaged.
    """
    if not isinstance(path, Path | str):
        # Only an empty field is missing: a data set may be called "null".
        how: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
        frame = pandas.read_csv(path, dtype=dict.fromkeys(TEXT_COLUMNS, str), **how)
        return _of_texts(frame, _unguard).rename(columns=_unguard)
    text = disk.read_csv(path)
    with errors.reading(path, "a table of an experiment"):
        frame = read(io.StringIO(text))
        if _KNOWN.isdisjoint(frame.columns):
            raise ValueError("none of its columns is known")
    _check_numbers(frame, Path(path))
    return frame


def _check_numbers(frame: pandas.DataFrame, path: Path) -> None:
    for name, cells in frame.items():
        if frame.empty or cells.dtype.kind in "biuf":
            continue
        column = tables.column(path.stem, str(name))
        if column and column.kind in ("int", "float"):
            words = cells.notna() & pandas.to_numeric(cells, errors="coerce").isna()
            for row in words.index[words][:1]:
                place, received = f"{path}:{row + 2}", f"{cells[row]!r} in column {name}"
                raise errors.fault(place, received, "a number", delete=path)


def write(frame: pandas.DataFrame, path: Path) -> None:
    frame = guarded(frame)
    with disk.atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")
