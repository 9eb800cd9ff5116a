"""Hugging Face's trainer_state.json."""

from __future__ import annotations

from typing import Any

from batchscope.external.json_log import flat, table
from batchscope.external.log_files import Log

HISTORY = "log_history"
_SUMMARY = "train_runtime"  # key of the row about the whole training


def is_state(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get(HISTORY), list)


def read(path: str, state: dict[str, Any]) -> Log:
    """Return the evaluations of a state, with the trial's parameters and `train_batch_size`.

    The latter is the batch size of one device.
    """
    constants = flat(state.get("trial_params") or {})
    constants |= flat({"train_batch_size": state.get("train_batch_size")})
    rows = [constants | flat(row) for row in state[HISTORY] if _SUMMARY not in row]
    return Log(path, "Hugging Face trainer state", table(path, enumerate(rows)), unit="entry")
