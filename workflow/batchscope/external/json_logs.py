"""Logs that are JSON: Hugging Face's trainer_state.json, and lines of one object each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pandas

from batchscope import wording
from batchscope.errors import UserError
from batchscope.external.log import Log
from batchscope.external.tables import flat
from batchscope.study import log_columns

HISTORY = "log_history"
_SUMMARY = "train_runtime"  # is of the whole training
# What ends the reading of a text, or of a part of it, that is other JSON than it should be.
_NO_JSON = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
# What a line of parameters has; one with anything else of ours is an evaluation.
_OF_WHOLE = ("batch_size", "seed", "learning_rate", "run", "machine", "status")


def state(path: str, text: str) -> list[Log]:
    """Returns the log of a trainer_state.json."""
    try:
        found = json.loads(text)
        rows = [flat(row) for row in found[HISTORY] if _SUMMARY not in row]
        parameters = flat({key: found.get(key) for key in ("train_batch_size", "max_steps")})
        parameters |= flat(found.get("trial_params") or {})
    except _NO_JSON as error:
        raise _no_json(path, f"an object with {HISTORY}", error) from None
    return [_log(path, "huggingface", [*enumerate(rows)], parameters, "entry")]


def lines(path: str, text: str) -> list[Log]:
    """Returns the log of a text with objects, one on a line; one without a step has parameters.

    Lines that are no objects are of whatever else a program printed.
    """
    rows, parameters, others = [], {}, 0
    for at, line in enumerate(text.splitlines(), start=1):
        if line.lstrip()[:1] != "{":
            others += bool(line.strip())
            continue
        try:
            row = flat(json.loads(line))
        except _NO_JSON as error:
            raise _no_json(f"{path}, line {at}", "an object", error) from None
        if any((known := log_columns.ours(name)) and known[0] not in _OF_WHOLE for name in row):
            rows.append((at, row))
        else:
            parameters |= row
    notes = (f"{wording.count(others, 'line')} without an object passed over",) if others else ()
    return [replace(_log(path, "json_lines", rows, parameters, "line"), notes=notes)]


def _log(
    path: str,
    kind: str,
    rows: Sequence[tuple[int, dict[str, str]]],
    parameters: dict[str, str],
    counted: str,
) -> Log:
    if not rows:
        raise UserError(f"{path}: received no {counted} of an evaluation; some are expected.")
    places, cells = zip(*rows, strict=True)
    table = pandas.DataFrame([*cells], index=[*places], dtype=object).fillna("")
    return Log(path, kind, table, parameters, counted=counted)


def _no_json(place: str, expected: str, error: Exception) -> UserError:
    return UserError(f"{place}: received no JSON that is {expected} ({error}); one is expected.")
