"""Read event files of TensorBoard, or folders of them: one `Log` per run, one row per step."""

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
_EPOCH_PREFIX = "epoch_"  # prefix of Keras's tags with epochs as steps
_MAX_SCALE_RATIO = 2.0  # largest ratio of the last steps of two tags with the same unit


def read(path: str, columns: Mapping[str, str], metrics: Collection[str]) -> list[Log]:
    """Return the log of an event file, or of every run with event files below a folder.

    A folder train or validation, as Keras and PyTorch write them, is a part of the run above it.

    Args:
        columns: Map of our name to a tag. A tag of `updates` or `epoch` decides the unit of steps.
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
    return [_read_run(str(run), parts, columns, metrics) for run, parts in by_run.items()]


def _read_run(
    run: str, paths: list[Path], columns: Mapping[str, str], metrics: Collection[str]
) -> Log:
    """Return the log of one run with a row per step."""
    steps: dict[str, dict[int, str]] = {}  # map of a tag to its steps and their values
    clock: dict[int, float] = {}
    for path in paths:
        folder = path.parent.name
        prefix = f"{folder}/" if log_names.is_split(folder) else ""
        for time, step, tag, value in _events(path):
            steps.setdefault(f"{prefix}{tag}", {})[step] = value
            clock[step] = time
    if not steps:
        raise UserError(f"{run}: received no number in its event files; some are expected.")
    outcomes = [
        tag for tag in steps if tag in columns.values() or log_names.is_evaluated(tag, metrics)
    ]
    unit, tags = _unit_and_tags(run, {tag: max(steps[tag]) for tag in outcomes or steps}, columns)
    rows = {}
    for step in sorted({step for tag in tags for step in steps[tag]}):
        since = clock[step] - min(clock.values())
        values = {tag: steps[tag][step] for tag in tags if step in steps[tag]}
        rows[step] = {unit: str(step), "wall_time": f"{since:.3f}"} | values
    table = json_log.make_table(run, rows.items()).assign(
        **{tag: "" for tag in steps if tag not in tags}
    )
    return Log(run, "TensorBoard event files", table, tuple(map(str, paths)), "step", unit)


def _unit_and_tags(
    run: str, last: dict[str, int], columns: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Return the unit of the steps, and the tags that have this unit.

    Args:
        last: Map of a tag to its last step.

    Raises:
        UserError: If the steps of tags have different units.
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
    are_epochs = all(tag.rpartition("/")[2].startswith(_EPOCH_PREFIX) for tag in last)
    return "epoch" if are_epochs else "updates", [*last]


def _is_same_scale(first: int, second: int) -> bool:
    low, high = sorted((first + 1, second + 1))
    return high <= _MAX_SCALE_RATIO * low


def _events(path: Path) -> Iterator[tuple[float, int, str, str]]:
    """Yield time, step, tag and value of each number of an event file.

    The events end before a truncated record, which a killed training leaves.
    """
    check_regular(path, "an event file")
    tensorflow_start.silence_logs()
    with tensorflow_start.hidden_stderr():
        from tensorflow import errors, make_ndarray
        from tensorflow.compat.v1.train import summary_iterator
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # no warning about an API of version 1
    with contextlib.suppress(errors.DataLossError):
        for event in summary_iterator(str(path)):
            for value in event.summary.value:
                number = _number_text(value, make_ndarray)
                if number is not None:
                    yield event.wall_time, event.step, value.tag, number


def _number_text(value: Any, make_array: Any) -> str | None:
    """Return the number of a summary; None for an image, a histogram or a text.

    It has the digits of float32: 0.1 is not read as 0.10000000149.
    """
    import numpy as np

    if value.HasField("simple_value"):
        return str(np.float32(value.simple_value))
    if not value.HasField("tensor") or value.tensor.tensor_shape.dim:
        return None
    array = make_array(value.tensor)
    return str(array) if array.dtype.kind in "fiu" else None
