"""Read the evaluations in Hugging Face's trainer_state.json."""

from __future__ import annotations

from typing import Any

from batchscope.external import json_log
from batchscope.external.log_files import Log

_HISTORY_KEY = "log_history"
_SUMMARY_KEY = "train_runtime"  # key of the row about the whole training


def is_state(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get(_HISTORY_KEY), list)


def read(path: str, state: dict[str, Any]) -> Log:
    """Return the evaluations with the trial's parameters and the batch size of one device."""
    constants = state.get("trial_params") or {}
    constants = {**constants, "train_batch_size": state.get("train_batch_size")}
    history = (row for row in state[_HISTORY_KEY] if _SUMMARY_KEY not in row)
    rows = [json_log.flat_texts({**constants, **row}) for row in history]
    table = json_log.make_table(path, dict(enumerate(rows, start=1)))
    return Log(path, "Hugging Face trainer state", table, unit="entry")
