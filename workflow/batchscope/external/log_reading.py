"""Recognise the format of a log by its content, and read it."""

from __future__ import annotations

from pathlib import Path

from batchscope.errors import UserError
from batchscope.external import (
    csv_log,
    hugging_face,
    json_log,
    log_files,
    printed_lines,
    tensorboard,
    wandb_chart,
)
from batchscope.external.log_files import Log, Unrecognised
from batchscope.study import log_names
from batchscope.study.log_keys import LogFormat

_SHEETS = (".xlsx", ".xls")
_LOOKED_FOR = (
    "JSON, JSON lines, a table (CSV, Excel) with a known or stated column, event files of "
    "TensorBoard, a trainer_state.json of Hugging Face, or a chart of Weights & Biases"
)


def read(path: str, keys: LogFormat, metrics: tuple[str, ...] = ()) -> list[Log]:
    """Return the logs in a file, or in a folder of TensorBoard.

    Raises:
        UserError: If it is missing, damaged, too large, or no log.
    """
    place = Path(path)
    if place.is_dir() or (place.is_file() and tensorboard.is_event_file(place)):
        return tensorboard.read(path, keys.columns, metrics)
    if place.suffix.lower() in _SHEETS and place.is_file():
        return csv_log.excel(path)
    text = log_files.text(path)
    if keys.lines:
        return [printed_lines.read(path, text, keys.lines)]
    try:
        return [_of_text(path, text, keys, metrics)]
    except Unrecognised:
        advice = printed_lines.proposed(text)
        raise UserError(f"{path}: received none of {_LOOKED_FOR}. {advice}") from None


def _of_text(path: str, text: str, keys: LogFormat, metrics: tuple[str, ...]) -> Log:
    content = json_log.parsed(text)
    if hugging_face.is_state(content):
        return hugging_face.read(path, content)
    if isinstance(content, dict | list):
        return json_log.whole(path, content)
    stated = {*keys.columns.values()}
    evaluated = {
        theirs
        for ours, theirs in keys.columns.items()
        if ours in log_names.PROGRESS or log_names.is_outcome(ours)
    }
    if any(line.lstrip()[:1] == "{" and json_log.parsed(line) for line in text.splitlines()):
        return json_log.lines(path, text, evaluated, metrics)
    log = csv_log.read(path, text)
    if wandb_chart.is_chart(log):
        return wandb_chart.read(log)
    if not any(name in stated or log_names.ours(name, metrics) for name in log.rows):
        raise Unrecognised(path)
    return log
