"""Logs that are CSV tables: of any header, and as three programs write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import yaml

from batchscope import problems, wording
from batchscope.errors import ConfigError, UserError, raise_problems
from batchscope.external import files
from batchscope.external.log import Log

_DELIMITERS = (",", ";", "\t")
_MOST_SHOWN = 20  # names of columns
_CHART_AXES = ("Step", "Relative Time (Process)", "Relative Time (Wall)", "Wall Time")
_BETWEEN = " - "  # a run's name and a metric, in a chart
_SPREAD = ("__MIN", "__MAX")


def read(path: str, text: str, stated: str) -> list[Log]:
    """Returns the logs of a CSV text; `stated` is a format, or recognised where it is empty.

    Raises:
        UserError: If it is no table; with every problem, at its line.
    """
    rows = _cells(path, text)
    log = Log(path, "csv", rows)
    name = stated or next(name for name, (is_it, _) in _READERS.items() if is_it(path, rows))
    return _READERS[name][1](replace(log, format=name))


def _cells(path: str, text: str) -> pandas.DataFrame:
    """Returns the cells of a CSV text, by the lines on which its rows end."""
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if any(row)]
    except csv.Error as error:
        raise UserError(f"{path}: received no CSV text ({error}); one is expected.") from None
    if not rows:
        got = "a header alone" if header else "an empty file"
        raise UserError(f"{path}: received {got}; a header and at least one row are expected.")
    wrong = [
        f"{path}, line {line}: received {wording.count(len(row), 'cell')}; as many as the "
        f"header's {len(header)} are expected."
        for line, row in rows
        if len(row) != len(header)
    ]
    raise_problems(wrong)
    stripped = [[cell.strip() for cell in row] for _, row in rows]
    found = pandas.DataFrame(stripped, [line for line, _ in rows], header, dtype=object)
    if header[0] == "" and found.iloc[:, 0].tolist() == [*map(str, range(len(found)))]:
        found, header = found.iloc[:, 1:], header[1:]  # the index that pandas writes
    problem = _of_header(path, header)
    if problem:
        raise ConfigError([problem])
    return found


def _of_header(path: str, header: list[str]) -> str:
    """Returns what is wrong with the names of the columns, or an empty text."""
    shown = ", ".join(map(problems.clip, header[:_MOST_SHOWN]))
    if all(map(_is_number, header)):
        return f"{path}, line 1: received {shown}; a header is expected."
    if "" in header:
        return (
            f"{path}, line 1: received column {header.index('') + 1} without a name; a name is "
            "expected of every column; or delete a comma at the end of the lines."
        )
    if twice := sorted({name for name in header if header.count(name) > 1}):
        return f"{path}, line 1: received {wording.listed(twice)} twice; once is expected."
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _counted(rows: pandas.DataFrame, name: str) -> list[float]:
    texts = rows[name].tolist() if name in rows else []
    return [*map(float, texts)] if all(map(_is_number, texts)) else []


def _one_on(rows: pandas.DataFrame, name: str) -> pandas.DataFrame:
    return rows.assign(**{name: [str(int(count) + 1) for count in _counted(rows, name)]})


def _from_zero(log: Log) -> list[Log]:
    """Returns a log by epochs: one that counts them from 0 has used one more by a row's end."""
    counts = _counted(log.rows, "epoch")
    if not counts or counts[0] != 0 or any(count != int(count) for count in counts):
        return [log]
    for before, count, line in zip(counts, counts[1:], log.rows.index[1:], strict=False):
        if count <= before:
            raise UserError(
                f"{log.path}, line {line}, epoch: received {int(count)} after {int(before)}: the "
                "log of a second training, or of one that went on, is appended; one training is "
                "expected, its epochs counted on."
            )
    return [replace(log, rows=_one_on(log.rows, "epoch"), notes=("epochs count from 0",))]


def _is_keras(path: str, rows: pandas.DataFrame) -> bool:
    first, *rest = rows.columns
    several = {"batch_size", "seed"} & {*rest}
    return first == "epoch" and "loss" in rest and rest == sorted(rest) and not several


def _is_lightning(path: str, rows: pandas.DataFrame) -> bool:
    beside = (Path(path).parent / "hparams.yaml").is_file()
    sparse = "step" in rows and rows["step"].duplicated().any() and (rows == "").any(axis=None)
    return {"epoch", "step"} <= {*rows} and "batch_size" not in rows and bool(beside or sparse)


def _lightning(log: Log) -> list[Log]:
    """Returns a log whose steps count from 0, and whose epoch is the one that a row is of."""
    path = Path(log.path).parent / "hparams.yaml"
    parameters, read = {}, (log.path,)
    notes = ("steps count from 0",)
    if path.is_file():
        read = (log.path, str(path))
        try:
            parameters = flat(yaml.safe_load(files.text(path)) or {})
        except yaml.YAMLError:  # it may hold any Python object
            notes = (*notes, f"{path}: passed over, as it holds more than plain values")
    rows = log.rows.drop(columns="epoch", errors="ignore")
    if _counted(rows, "step"):
        rows = _one_on(rows, "step")
    return [replace(log, rows=rows, parameters=parameters, files=read, notes=notes)]


def _is_chart(path: str, rows: pandas.DataFrame) -> bool:
    return rows.columns[0] in _CHART_AXES and any(_BETWEEN in name for name in rows)


def _chart(log: Log) -> list[Log]:
    """Returns the curves of a chart, a log for each run; its spread over grouped runs is left."""
    axis, *columns = log.rows.columns
    by_run: dict[str, dict[str, str]] = {}
    for column in columns:
        run, _, metric = column.rpartition(_BETWEEN)
        if run and not column.endswith(_SPREAD):
            by_run.setdefault(run, {})[column] = metric
    found = []
    for run, metrics in by_run.items():
        rows = log.rows[[axis, *metrics]].rename(columns=metrics)
        there = (rows[[*metrics.values()]] != "").any(axis=1)
        found.append(replace(log, rows=rows[there], name=run))
    return found


# Format -> what recognises it, and what reads it; in the order in which they are tried.
_READERS: dict[str, tuple[Callable[..., bool], Callable[[Log], list[Log]]]] = {
    "wandb": (_is_chart, _chart),
    "lightning": (_is_lightning, _lightning),
    "keras": (_is_keras, _from_zero),
    "csv": (lambda path, rows: True, lambda log: [log]),
}


def flat(values: Mapping[Any, Any], before: str = "") -> dict[str, str]:
    """Returns nested values as texts under dotted names; lists are left out."""
    found: dict[str, str] = {}
    for key, value in values.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{name}.")
        elif not isinstance(value, list | tuple):
            found[name] = shown(value)
    return found


def shown(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
