"""Logs that are folders of files: TensorBoard's event files and MLflow's file store."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import yaml

from batchscope import problems
from batchscope.catalogue.own_columns import outcomes
from batchscope.errors import UserError, check_regular
from batchscope.host import tensorflow_start
from batchscope.logs import CLOCKS, Log, files, names
from batchscope.logs.tables import OF_EPOCHS, flat

EVENTS = "tfevents"  # in the name of every event file
_OF_BATCHES = ("batch_", "evaluation_")  # begins the other tags of Keras
_METRICS, _META = "metrics", "meta.yaml"
_TRASH, _DELETED = ".trash", "lifecycle_stage: deleted"
_OF_MACHINE = "system/"  # begins the metrics that MLflow takes of the machine
_FIELDS = ("time", "value", "step", "dataset", "digest")  # of a line of a metric
# MLflow's number of a state -> what became of a run that did not finish.
_STATES = {1: "running", 2: "scheduled", 4: "failed", 5: "killed"}


def recognised(folder: Path) -> str:
    if next(folder.rglob(f"*{EVENTS}*"), None):
        return "tensorboard"
    return "mlflow" if next(_mlflow_runs(folder), None) else ""


def tensorboard(path: str) -> list[Log]:
    """Returns the log of an event file, or of each run whose event files lie below a folder.

    A folder train or validation, as Keras and PyTorch write them, is a part of the run above it.
    """
    given = Path(path)
    found = sorted(given.rglob(f"*{EVENTS}*")) if given.is_dir() else [given]
    by_run: dict[Path, list[Path]] = {}
    for file in found:
        part = file.parent != given and names.is_split(file.parent.name)
        by_run.setdefault(file.parent.parent if part else file.parent, []).append(file)
    return [_of_events(str(run), each) for run, each in by_run.items()]


def _of_events(run: str, paths: list[Path]) -> Log:
    """Returns the log of one run, a row for each step."""
    rows: dict[int, dict[str, str]] = {}
    tags: dict[str, str] = {}  # of each column
    start = None
    for path in paths:
        split = path.parent.name
        before = f"{split}/" if names.is_split(split) else ""
        for time, step, tag, value in _events(path):
            start = time if start is None else start
            row = rows.setdefault(step, {"step": str(step)})
            row[f"{before}{tag}"] = value
            tags[f"{before}{tag}"] = tag
            row[CLOCKS[0]] = f"{time - start:.3f}"
    if not rows:
        raise UserError(f"{run}: received no number in its event files; some are expected.")
    log = Log(run, "tensorboard", _table(rows), files=tuple(map(str, paths)), counted="step")
    return _by_epochs(log, tags)


def _table(rows: dict[int, dict[str, str]]) -> pandas.DataFrame:
    steps = sorted(rows)
    return pandas.DataFrame([rows[step] for step in steps], index=steps, dtype=object).fillna("")


def _by_epochs(log: Log, tags: dict[str, str]) -> Log:
    """Returns a log whose tags count epochs, from 0, under their plain names; else the log.

    Keras's begin so; another program's, whose steps are updates, has other losses or metrics.

    Args:
        tags: Of each column.
    """
    plain = {name: tag.removeprefix(OF_EPOCHS) for name, tag in tags.items()}
    of_epochs = [name for name, tag in tags.items() if plain[name] != tag]
    if not any(_is_outcome(plain[name]) for name in of_epochs):
        return log
    others = (tag for tag in tags.values() if not tag.startswith((OF_EPOCHS, *_OF_BATCHES)))
    if any(map(_is_outcome, others)):
        return log
    own = {name: name.removesuffix(tags[name]) + plain[name] for name in of_epochs}
    rows = log.rows[["step", CLOCKS[0], *own]].rename(columns={**own, "step": "epoch"})
    rows = rows[(rows[[*own.values()]] != "").any(axis=1)]
    counted = rows.assign(epoch=[str(int(step) + 1) for step in rows["epoch"]])
    return replace(log, rows=counted, notes=("epochs count from 0",))


def _is_outcome(name: str) -> bool:
    known = names.ours(name)
    return known is not None and known[0] in outcomes()


def _events(path: Path) -> Iterator[tuple[float, int, str, str]]:
    """Yields time, step, tag and value of each number of an event file.

    A record that is cut, where a training was killed, ends it.
    """
    check_regular(path, "an event file")
    if path.stat().st_size > files.MOST_EVENT_BYTES:
        raise files.too_large(path, files.MOST_EVENT_BYTES)
    tensorflow_start.quiet()
    with tensorflow_start.hushed():
        from tensorflow import errors, make_ndarray
        from tensorflow.compat.v1.train import summary_iterator
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # that the iterator is of version 1
    with contextlib.suppress(errors.DataLossError):
        for event in summary_iterator(str(path)):
            for value in event.summary.value:
                number = _number(value, make_ndarray)
                if number is not None:
                    yield event.wall_time, event.step, value.tag, number


def _number(value: Any, array_of: Any) -> str | None:
    """Returns the number that a summary's value is; None of an image, a histogram or a text.

    With the digits of its own kind: 0.1 is no 0.10000000149.
    """
    if value.HasField("simple_value"):
        return str(np.float32(value.simple_value))
    if not value.HasField("tensor") or value.tensor.tensor_shape.dim:
        return None
    found = array_of(value.tensor)
    return str(found) if found.dtype.kind in "fiu" else None


def mlflow(path: str) -> list[Log]:
    return [_of_mlflow(run) for run in _mlflow_runs(Path(path))]


def _mlflow_runs(folder: Path) -> Iterator[Path]:
    here = folder / _META, folder / _METRICS
    if here[1].is_dir():
        found = [here[0]]
    else:  # that somebody deleted is known by its folder, or by its own file
        found = [each for each in sorted(folder.rglob(_META)) if _TRASH not in each.parts]
        found = [each for each in found if _DELETED not in files.text(each)]
    return (each.parent for each in found if each.is_file() and (each.parent / _METRICS).is_dir())


def _of_mlflow(run: Path) -> Log:
    """Returns the log of one run, a row for each step; a line of two fields is of step 0."""
    rows: dict[int, dict[str, str]] = {}
    read = [run / _META]
    for file in sorted((run / _METRICS).rglob("*")):
        name = file.relative_to(run / _METRICS).as_posix()
        if file.is_dir() or name.startswith(_OF_MACHINE):
            continue
        read.append(file)
        for at, line in enumerate(files.text(file).splitlines(), start=1):
            parts = dict(zip(_FIELDS, line.split(), strict=False))
            if len(parts) < 2 or not (step := parts.get("step", "0")).isdecimal():
                raise UserError(
                    f"{file}, line {at}: received {problems.show(line)}; a time, a number and a "
                    "step are expected."
                )
            rows.setdefault(int(step), {"step": step})[name] = parts["value"]
    parameters = {}
    for file in sorted((run / "params").rglob("*")) if (run / "params").is_dir() else ():
        if file.is_file():
            read.append(file)
            parameters[file.relative_to(run / "params").as_posix()] = files.text(file).strip()
    meta = flat(yaml.safe_load(files.text(run / _META)) or {})
    table = _table(rows)
    if (state := _STATES.get(int(meta.get("status") or 0))) and len(table):
        table["status"] = state
    return Log(
        str(run),
        "mlflow",
        table,
        parameters,
        meta.get("run_name", ""),
        tuple(map(str, read)),
        "step",
    )


def is_event_file(path: Path) -> bool:
    """Whether a file is an event file, by its name and its first record."""
    if EVENTS not in path.name:
        return False
    with open(path, "rb") as file:
        return b"brain.Event" in file.read(64)
