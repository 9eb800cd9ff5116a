"""Lines that a program prints, by patterns such as "step {updates}: train loss {train_loss}"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from batchscope import problems, wording
from batchscope.errors import UserError
from batchscope.external import json_log, log_files
from batchscope.external.log_files import Log
from batchscope.study import log_names
from batchscope.study.log_keys import KERAS

_VALUE = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b|[A-Za-z][\w.-]*"
_PART = re.compile(r"\{(\w+)\}|(\*)|(\s+)|([^{*\s]+|\{)")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x08+")  # of a progress bar
_KERAS_EPOCH = re.compile(r"Epoch (\d+)/\d+")
_KERAS_VALUE = re.compile(rf" - (\w+): ({_VALUE})")
_PLACEHOLDER = re.compile(r"\{\w+\}")
_MOST_SEARCHED = 1_000_000  # characters
_LONGEST = 500  # characters of a line that is searched for known names
_EXAMPLE = '"step {updates}: train loss {train_loss}, val loss {validation_loss}"'


def read(path: str, text: str, patterns: Sequence[str]) -> Log:
    """Return the log of the lines that match a pattern.

    Raises:
        UserError: If a pattern is invalid, or no line matches.
    """
    lines = _split(text)
    if KERAS in patterns:
        rows = _of_keras(lines)
    else:
        expressions = [_compiled(pattern) for pattern in patterns]
        matches = (
            (at, expression.search(line)) for at, line in lines for expression in expressions
        )
        rows = [(at, match.groupdict()) for at, match in matches if match]
    if not rows:
        shown = wording.listed(map(problems.show, patterns), "or")
        raise UserError(f"{path}: received no line like {shown}. {proposed(text)}")
    return Log(path, "printed lines", json_log.table(path, rows))


def _split(text: str) -> list[tuple[int, str]]:
    return list(enumerate(re.split(r"\r\n|\r|\n", _ESCAPES.sub("", text)), start=1))


def _compiled(pattern: str) -> re.Pattern[str]:
    expression, names = "", []
    for name, wild, blank, literal in _PART.findall(pattern):
        expression += f"(?P<{name}>{_VALUE})" if name and name not in names else ""
        expression += ".*?" if wild else r"\s+" if blank else re.escape(literal)
        names += [name] if name else []
    if not names or len({*names}) < len(names) or not all(map(str.isidentifier, names)):
        raise UserError(
            f"lines: received {problems.show(pattern)}; different names in braces are expected, as "
            f"in {_EXAMPLE}."
        )
    return re.compile(expression)


def _of_keras(lines: list[tuple[int, str]]) -> list[tuple[int, dict[str, str]]]:
    """Return the last progress line of every epoch."""
    rows: list[tuple[int, dict[str, str]]] = []
    epoch = None
    for at, line in lines:
        if match := _KERAS_EPOCH.search(line):
            epoch = match[1]
            rows.append((at, {}))
        values = dict(_KERAS_VALUE.findall(line))
        if epoch and values:
            rows[-1] = at, {"epoch": epoch} | values
    return [row for row in rows if row[1]]


def detected(text: str) -> str:
    """Return the value of `lines` for the commonest line with two known names; empty if none has.

    It is `keras` for progress lines of Keras.
    """
    if _of_keras(_split(text)):
        return KERAS
    known = {*log_names.IDENTITY, *log_names.PROGRESS, *log_names.OUTCOMES}
    lines = (line.strip() for _, line in _split(text) if len(line) < _LONGEST)
    patterns = [log_names.pattern([line], known) for line in lines]
    useful = [pattern for pattern in patterns if len({*_PLACEHOLDER.findall(pattern)}) > 1]
    return max(useful, key=useful.count) if useful else ""


def proposed(text: str) -> str:
    """Return the advice to read printed lines, with a pattern for a line of the text."""
    pattern = detected(text)
    example = pattern if pattern == KERAS else f'"{pattern}"' if pattern else _EXAMPLE
    return f"Printed lines are read by `lines: {example}`."


def needed(path: Path) -> str:
    """Return the value of `lines` that a log needs; empty if it is of another format."""
    first = log_files.text(path)[:_MOST_SEARCHED]
    is_table = any(log_names.ours(name) for name in re.split(r"[,;\t]", first.partition("\n")[0]))
    return "" if is_table or first.lstrip()[:1] in ("{", "[") else detected(first)
