"""Recognise the format of a log by its content, and read it. A new format is a branch of `read`."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from batchscope.core.errors import UserError
from batchscope.external import (
    csv_log,
    hugging_face,
    json_log,
    log_files,
    printed_lines,
    tensorboard,
    wandb_chart,
)
from batchscope.external.log_files import Log
from batchscope.study import log_names
from batchscope.study.log_keys import LogFormat

_KNOWN_FORMATS = (
    "JSON, JSON lines, a CSV table with a known column or one that `columns: "
    "{validation_loss: ...}` names, event files of TensorBoard, a trainer_state.json of Hugging "
    "Face, or a chart of Weights & Biases"
)


def read(path: str, keys: LogFormat, metrics: Collection[str] = ()) -> list[Log]:
    """Return the logs in a file, or in a folder of TensorBoard.

    Raises:
        UserError: If the format is unknown, or the file is missing, damaged or too large.
    """
    place = Path(path)
    if place.is_dir() or (place.is_file() and tensorboard.EVENTS in place.name):
        return tensorboard.read(path, keys.columns, metrics)
    text = log_files.read_text(path)
    if keys.lines:
        return [printed_lines.read(path, text, keys.lines)]
    content = json_log.parse_json(text)
    if hugging_face.is_state(content):
        return [hugging_face.read(path, content)]
    if isinstance(content, dict | list):
        return [json_log.read(path, content)]
    if any(line.lstrip()[:1] == "{" and json_log.parse_json(line) for line in text.splitlines()):
        columns = keys.columns.items()
        user_named = {theirs for ours, theirs in columns if log_names.is_evaluated(ours, metrics)}
        return [json_log.read_lines(path, text, user_named, metrics)]
    header = [cell.strip(' "') for cell in re.split(r"[,;\t]", text.partition("\n")[0])]
    named = {cell for cell in header if log_names.our_name(cell.rpartition(" - ")[2], metrics)}
    if not named and not {*header} & {*keys.columns.values()}:
        advice = printed_lines.pattern_advice(text)
        raise UserError(f"{path}: received none of {_KNOWN_FORMATS}. {advice}")
    log = csv_log.read(path, text)
    return [wandb_chart.read(log) if wandb_chart.is_chart(log) else log]
