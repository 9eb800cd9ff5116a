"""Read an event file of TensorBoard, or the folder of a run: one row per step."""

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from batchscope.core.errors import UserError, check_regular
from batchscope.external.text_logs import Log, make_table
from batchscope.host import tensorflow_start
from batchscope.study import log_format

EVENTS = "tfevents"  # in the name of every event file
_EPOCH_PREFIX = "epoch_"  # prefix of Keras's tags with epochs as steps
_MAX_SCALE_RATIO = 2.0  # largest ratio of the last steps of two tags with the same unit


def read(path: str, columns: Mapping[str, str], metrics: Collection[str]) -> Log:
    """Return the log of an event file, or of the run with event files below a folder.

    A folder train or validation, as Keras and PyTorch write them, is a part of the run above it.

    Args:
        columns: Map of our name to a tag.
        metrics: User-defined metrics.

    Raises:
        UserError: If there is no number, or several runs, or steps count different things.
    """
    root = Path(path)
    files = sorted(root.rglob(f"*{EVENTS}*")) if root.is_dir() else [root]
    parents = [file.parent for file in files]
    runs = {parent.parent if log_format.is_split(parent.name) else parent for parent in parents}
    if len(runs) != 1:
        expected = "the folder of one run, as in `files: logs/bs{batch_size}`, is expected"
        raise UserError(f"{path}: received event files of {len(runs)} runs; {expected}.")
    steps: dict[str, dict[int, str]] = {}  # map of a tag to its steps and their values
    clock: dict[int, float] = {}
    for file in files:
        folder = file.parent.name
        prefix = f"{folder}/" if log_format.is_split(folder) else ""
        for time, step, tag, value in _events(file):
            steps.setdefault(f"{prefix}{tag}", {})[step] = value
            clock[step] = time
    if not steps:
        raise UserError(f"{path}: received no number in its event files; some are expected.")
    outcomes = [
        tag for tag in steps if tag in columns.values() or log_format.is_evaluated(tag, metrics)
    ]
    tags = outcomes or list(steps)
    unit, rows = _unit(path, {tag: max(steps[tag]) for tag in tags}), {}
    for step in sorted({step for tag in tags for step in steps[tag]}):
        since = clock[step] - min(clock.values())
        values = {tag: steps[tag][step] for tag in tags if step in steps[tag]}
        rows[step] = {unit: str(step), "wall_time": f"{since:.3f}"} | values
    table = make_table(path, rows).assign(**{tag: "" for tag in steps if tag not in tags})
    return Log(path, "TensorBoard event files", table, tuple(map(str, files)), "step")


def _unit(path: str, last: dict[str, int]) -> str:
    """Return the unit of the steps of all tags: `updates` or `epoch`.

    Args:
        last: Map of a tag to its last step.

    Raises:
        UserError: If the steps of tags count different things.
    """
    low, high = min(last, key=last.__getitem__), max(last, key=last.__getitem__)
    if last[high] + 1 > _MAX_SCALE_RATIO * (last[low] + 1):
        raise UserError(
            f"{path}: the steps of tags count different things: {high} ends at step {last[high]}, "
            f"and {low} at step {last[low]}; the same counter is expected in both."
        )
    are_epochs = all(tag.rpartition("/")[2].startswith(_EPOCH_PREFIX) for tag in last)
    return "epoch" if are_epochs else "updates"


def _events(path: Path) -> Iterator[tuple[float, int, str, str]]:
    """Yield time, step, tag and value of each number of an event file.

    The events end before a truncated record, which a killed training leaves.
    """
    check_regular(path, "an event file")
    tensorflow_start.set_backend_and_log_level()
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
