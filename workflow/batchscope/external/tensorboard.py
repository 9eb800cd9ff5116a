"""Event files of TensorBoard, and folders of them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from batchscope.core.errors import UserError, check_regular
from batchscope.external import json_log
from batchscope.external.log_files import Log
from batchscope.host import tensorflow_start
from batchscope.study import log_names

EVENTS = "tfevents"  # in the name of every event file
_EPOCH_PREFIX = "epoch_"  # begins the tags that Keras counts by epochs
_SAME_SCALE = 2.0  # largest ratio of the last steps of two tags that count the same


def read(path: str, columns: Mapping[str, str], metrics: Collection[str]) -> list[Log]:
    """Return the log of an event file, or of every run with event files below a folder.

    A folder train or validation, as Keras and PyTorch write them, is a part of the run above it.

    Args:
        columns: Our name -> tag. The tag of `updates` or `epoch` says what steps count.
        metrics: User-defined metrics.
    """
    root = Path(path)
    files = sorted(root.rglob(f"*{EVENTS}*")) if root.is_dir() else [root]
    if not files:
        expected = "event files of TensorBoard, or files as in logs/*.csv"
        raise UserError(f"{path}: received a folder without event files; {expected}, are expected.")
    by_run: dict[Path, list[Path]] = {}
    for file in files:
        is_part = file.parent != root and log_names.is_split(file.parent.name)
        by_run.setdefault(file.parent.parent if is_part else file.parent, []).append(file)
    return [_run(str(run), parts, columns, metrics) for run, parts in by_run.items()]


def _run(run: str, paths: list[Path], columns: Mapping[str, str], metrics: Collection[str]) -> Log:
    """Return the log of one run with a row per step."""
    steps: dict[str, dict[int, str]] = {}  # of each tag
    clock: dict[int, float] = {}
    for path in paths:
        folder = path.parent.name
        before = f"{folder}/" if log_names.is_split(folder) else ""
        for time, step, tag, value in _events(path):
            steps.setdefault(f"{before}{tag}", {})[step] = value
            clock[step] = time
    if not steps:
        raise UserError(f"{run}: received no number in its event files; some are expected.")
    outcomes = [
        tag for tag in steps if tag in columns.values() or log_names.is_evaluated(tag, metrics)
    ]
    unit, tags = _scale(run, {tag: max(steps[tag]) for tag in outcomes or steps}, columns)
    rows = {}
    for step in sorted({step for tag in tags for step in steps[tag]}):
        since = clock[step] - min(clock.values())
        values = {tag: steps[tag][step] for tag in tags if step in steps[tag]}
        rows[step] = {unit: str(step), "wall_time": f"{since:.3f}"} | values
    table = json_log.table(run, rows.items()).assign(
        **{tag: "" for tag in steps if tag not in tags}
    )
    return Log(run, "TensorBoard event files", table, tuple(map(str, paths)), "step", unit)


def _scale(run: str, last: dict[str, int], columns: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the unit of the steps, and the tags that have this unit.

    Args:
        last: Last step of each tag.

    Raises:
        UserError: If the steps count different things.
    """
    for unit in ("updates", "epoch"):
        if (tag := columns.get(unit)) in last:
            return unit, [name for name in last if _is_same_scale(last[name], last[tag])]
    low, high = min(last, key=last.__getitem__), max(last, key=last.__getitem__)
    if not _is_same_scale(last[low], last[high]):
        raise UserError(
            f"{run}: the steps of tags count different things: {high} ends at step {last[high]}, "
            f"and {low} at step {last[low]}. Name a tag that counts updates, `columns: {{updates: "
            f"{high}}}`, or one that counts epochs, `columns: {{epoch: {low}}}`; tags with other "
            "steps are not read."
        )
    of_keras = all(tag.rpartition("/")[2].startswith(_EPOCH_PREFIX) for tag in last)
    return "epoch" if of_keras else "updates", [*last]


def _is_same_scale(first: int, second: int) -> bool:
    low, high = sorted((first + 1, second + 1))
    return high <= _SAME_SCALE * low


def _events(path: Path) -> Iterator[tuple[float, int, str, str]]:
    """Yield time, step, tag and value of each number of an event file.

    A truncated record of a killed training ends it.
    """
    check_regular(path, "an event file")
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


def _number(value: Any, make_array: Any) -> str | None:
    """Return the number of a summary; None for an image, a histogram or a text.

    It has the digits of its own type: 0.1 is no 0.10000000149.
    """
    import numpy as np

    if value.HasField("simple_value"):
        return str(np.float32(value.simple_value))
    if not value.HasField("tensor") or value.tensor.tensor_shape.dim:
        return None
    array = make_array(value.tensor)
    return str(array) if array.dtype.kind in "fiu" else None
