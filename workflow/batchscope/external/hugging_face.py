"""Hugging Face's trainer_state.json."""

from __future__ import annotations

from typing import Any

from batchscope.external import json_log
from batchscope.external.log_files import Log

_HISTORY = "log_history"
_SUMMARY = "train_runtime"  # key of the row about the whole training


def is_state(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get(_HISTORY), list)


def read(path: str, state: dict[str, Any]) -> Log:
    """Return the evaluations of a state, with the trial's parameters and `train_batch_size`.

    The latter is the batch size of one device.
    """
    constants = state.get("trial_params") or {}
    constants = {**constants, "train_batch_size": state.get("train_batch_size")}
    rows = [json_log.flat({**constants, **row}) for row in state[_HISTORY] if _SUMMARY not in row]
    table = json_log.table(path, enumerate(rows, start=1))
    return Log(path, "Hugging Face trainer state", table, unit="entry")
