"""Logs that are JSON: Hugging Face's trainer_state.json, and lines of one object each."""

from __future__ import annotations

import json
from typing import Any

import pandas

from batchscope.errors import UserError
from batchscope.logs import Log, names
from batchscope.logs.tables import flat

HISTORY = "log_history"
_SUMMARY = "train_runtime"  # is of the whole training
# What a line of parameters has; one with anything else of ours is an evaluation.
_OF_WHOLE = ("batch_size", "seed", "learning_rate", "run", "machine", "status")


def state(path: str, text: str) -> list[Log]:
    """Returns the log of a trainer_state.json."""
    try:
        found = json.loads(text)
        rows = [row for row in found[HISTORY] if _SUMMARY not in row]
    except (ValueError, KeyError, TypeError) as error:
        raise _no_json(path, f"an object with {HISTORY}", error) from None
    trial = found.get("trial_params") or {}
    parameters = flat({key: found.get(key) for key in ("train_batch_size", "max_steps")})
    return [_log(path, "huggingface", enumerate(rows), {**parameters, **flat(trial)}, "entry")]


def lines(path: str, text: str) -> list[Log]:
    """Returns the log of a text with an object on each line; one without a step has parameters."""
    rows, parameters = [], {}
    for at, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = flat(json.loads(line))
        except (ValueError, AttributeError) as error:
            raise _no_json(f"{path}, line {at}", "an object", error) from None
        if any((known := names.ours(name)) and known[0] not in _OF_WHOLE for name in row):
            rows.append((at, row))
        else:
            parameters |= row
    return [_log(path, "json_lines", rows, parameters, "line")]


def _log(path: str, kind: str, rows: Any, parameters: dict[str, str], counted: str) -> Log:
    places, cells = zip(*((at, flat(row)) for at, row in rows), strict=True) or ((), ())
    table = pandas.DataFrame([*cells], index=[*places], dtype=object).fillna("")
    return Log(path, kind, table, parameters, counted=counted)


def _no_json(place: str, expected: str, error: Exception) -> UserError:
    return UserError(f"{place}: received no JSON that is {expected} ({error}); one is expected.")
