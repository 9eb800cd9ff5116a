"""Logs that are what a program prints: of nanoGPT, the main.log of llm.c, objects among words."""

from __future__ import annotations

import json
import re

import pandas

from batchscope.errors import UserError
from batchscope.external.log import Log

_NUMBER = r"[-+]?[\d.]+(?:[eE][-+]?\d+)?|nan|inf"
# What a line begins with -> names of its parts, by which it is one of the log's rows.
_EVALUATION = re.compile(
    rf"step (?P<step>\d+): train loss (?P<train_loss>{_NUMBER}), val loss (?P<val_loss>{_NUMBER})"
)
_ITERATION = re.compile(rf"iter (?P<step>\d+): loss (?P<loss>{_NUMBER}), time")
_SETTING = re.compile(r"Overriding: (\w+) = (.+)")
_OF_WHOLE_BATCH = ("tokens_per_iteration", "gradient_accumulation_steps")
_TOKENS = re.compile(r"tokens per iteration will be: ([\d,]+)")
_LLM_C = re.compile(r"s:(\d+) ((?:\w+:\S+ ?)+)")
_HEAD = 1_000_000  # characters among which a program prints its first row
_NAMES = {"tel": "val_loss", "trl": "train_loss"}


def nanogpt(path: str, text: str) -> list[Log]:
    """Returns the log of nanoGPT's output: its evaluations, without any its iterations."""
    lines = [*enumerate(text.splitlines(), start=1)]
    for form in (_EVALUATION, _ITERATION):
        if rows := {at: found.groupdict() for at, line in lines if (found := form.match(line))}:
            break
    parameters = {
        found[1]: found[2].strip("'\"") for _, line in lines if (found := _SETTING.match(line))
    }
    if tokens := _TOKENS.search(text):
        parameters["tokens_per_iteration"] = tokens[1].replace(",", "")
    if "batch_size" in parameters and ({*parameters} & {*_OF_WHOLE_BATCH}):
        parameters["micro_batch_size"] = parameters.pop("batch_size")  # in sequences, of one device
    return [_log(path, "nanogpt", rows, parameters)]


def llm_c(path: str, text: str) -> list[Log]:
    """Returns the log of a main.log: of a step that was made again, the last row of each kind."""
    rows: dict[int, dict[str, str]] = {}
    last: dict[tuple[str, ...], int] = {}
    for at, line in enumerate(text.splitlines(), start=1):
        if found := _LLM_C.match(line):
            parts = dict(part.split(":", 1) for part in found[2].split())
            rows.pop(last.get(key := (found[1], *parts)), None)
            last[key] = at
            rows[at] = {"step": found[1], **{_NAMES.get(k, k): v for k, v in parts.items()}}
    return [_log(path, "llm_c", rows, {})]


def recognised(text: str) -> str:
    """Returns the format of what a program printed; empty where it is none."""
    forms = {"nanogpt": (_EVALUATION, _ITERATION), "llm_c": (_LLM_C,)}
    lines = text[:_HEAD].splitlines()
    for line in lines:
        for kind, several in forms.items():
            if any(form.match(line) for form in several):
                return kind
    return "json_lines" if any(map(_is_object, lines)) else ""


def _is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    try:
        return line.lstrip().startswith("{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _log(path: str, kind: str, rows: dict[int, dict[str, str]], parameters: dict[str, str]) -> Log:
    if not rows:
        raise UserError(f"{path}: received no line of an evaluation; some are expected.")
    table = pandas.DataFrame([*rows.values()], index=[*rows], dtype=object).fillna("")
    return Log(path, kind, table, parameters)
