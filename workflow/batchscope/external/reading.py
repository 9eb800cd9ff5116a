"""Recognises what a log is by its content, and hands it to its reader."""

from __future__ import annotations

from pathlib import Path

from batchscope import problems
from batchscope.errors import UserError
from batchscope.external import files, folders, json_logs, printed, tables
from batchscope.external.log import Log
from batchscope.study.log_source import AUTO, FORMATS

_TEXTS = {
    "huggingface": json_logs.state,
    "json_lines": json_logs.lines,
    "nanogpt": printed.nanogpt,
    "llm_c": printed.llm_c,
}


def read(path: str, kind: str = AUTO) -> list[Log]:
    """Returns the logs of trainings in a file or a folder.

    Args:
        kind: Its format, of `FORMATS`; recognised by its content where it is `auto`.

    Raises:
        UserError: If it is missing, damaged, too large, or no log of the format.
    """
    if kind not in (AUTO, *FORMATS):
        known = ", ".join((AUTO, *FORMATS))
        raise UserError(f"format: received {problems.show(kind)}; one of {known} is expected.")
    place = Path(path)
    is_events = kind == AUTO and place.is_file() and folders.is_event_file(place)
    if kind == "tensorboard" or place.is_dir() or is_events:
        logs = folders.tensorboard(path) if kind in (AUTO, "tensorboard") else []
        if not logs:
            raise UserError(
                f"{path}: received a folder without event files of TensorBoard; files are "
                "expected, as in logs/*.csv."
            )
        return logs
    text = files.text(path)
    if kind == AUTO:
        is_state = text.lstrip().startswith("{") and f'"{json_logs.HISTORY}"' in text
        kind = "huggingface" if is_state else printed.recognised(text)
    return _TEXTS[kind](path, text) if kind in _TEXTS else tables.read(path, text, kind)
