"""Event files of TensorBoard, and folders of them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from batchscope.errors import UserError, check_regular
from batchscope.external import files
from batchscope.external.log import Log
from batchscope.host import tensorflow_start
from batchscope.study import log_columns
from batchscope.study.log_source import CLOCKS
from batchscope.study.own_columns import outcomes

EVENTS = "tfevents"  # in the name of every event file
OF_EPOCHS = "epoch_"  # begins the tags by which Keras counts epochs, from 0, and not updates
_OF_BATCHES = ("batch_", "evaluation_")  # begins the other tags of Keras


def tensorboard(path: str) -> list[Log]:
    """Returns the log of an event file, or of each run whose event files lie below a folder.

    A folder train or validation, as Keras and PyTorch write them, is a part of the run above it.
    """
    given = Path(path)
    found = sorted(given.rglob(f"*{EVENTS}*")) if given.is_dir() else [given]
    by_run: dict[Path, list[Path]] = {}
    for file in found:
        part = file.parent != given and log_columns.is_split(file.parent.name)
        by_run.setdefault(file.parent.parent if part else file.parent, []).append(file)
    return [_of_events(str(run), each) for run, each in by_run.items()]


def _of_events(run: str, paths: list[Path]) -> Log:
    """Returns the log of one run, a row for each step."""
    rows: dict[int, dict[str, str]] = {}
    tags: dict[str, str] = {}  # of each column
    start = None
    for path in paths:
        split = path.parent.name
        before = f"{split}/" if log_columns.is_split(split) else ""
        for time, step, tag, value in _events(path):
            start = time if start is None else start
            row = rows.setdefault(step, {"step": str(step)})
            row[f"{before}{tag}"] = value
            tags[f"{before}{tag}"] = tag
            row[CLOCKS[0]] = f"{time - start:.3f}"
    if not rows:
        raise UserError(f"{run}: received no number in its event files; some are expected.")
    steps = sorted(rows)
    table = pandas.DataFrame([rows[step] for step in steps], index=steps, dtype=object).fillna("")
    log = Log(run, "tensorboard", table, files=tuple(map(str, paths)), counted="step")
    return _by_epochs(log, tags)


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
    known = log_columns.ours(name)
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


def is_event_file(path: Path) -> bool:
    """Whether a file is an event file, by its name and its first record."""
    if EVENTS not in path.name:
        return False
    with open(path, "rb") as file:
        return b"brain.Event" in file.read(64)
