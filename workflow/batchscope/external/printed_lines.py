"""Read lines that a program prints, by patterns such as "step {updates}: loss {train_loss}"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from batchscope.core import display, problems
from batchscope.core.errors import UserError
from batchscope.external import json_log
from batchscope.external.log_files import Log
from batchscope.study import log_names
from batchscope.study.log_keys import KERAS

_VALUE_REGEX = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b|[A-Za-z][\w.-]*"
_PATTERN_PART = re.compile(r"\{(\w+)\}|(\*)|(\s+)|([^{*\s]+|\{)")
_ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x08+")  # from progress bars
_KERAS_EPOCH = re.compile(r"Epoch (\d+)/\d+")
_KERAS_VALUE = re.compile(rf" - (\w+): ({_VALUE_REGEX})")
_PLACEHOLDER = re.compile(r"\{\w+\}")
_BEFORE_NAMES = re.compile(
    r"^.*?(?<![A-Za-z])(?=[A-Za-z][A-Za-z_/ -]*[-_=: ]*\{)"
)  # such as a clock's time
_OTHER_NUMBER = re.compile(r"(?<!\w)\d[\d.:/]*")
_MAX_CHARACTERS = 500  # Longer lines are not searched for known names.
_EXAMPLE_PATTERN = "step {updates}: train loss {train_loss}, val loss {validation_loss}"


def read(path: str, text: str, patterns: Sequence[str]) -> Log:
    """Return the log of the lines that match a pattern.

    Raises:
        UserError: If a pattern is invalid, or no line matches.
    """
    if KERAS in patterns:
        rows = _keras_lines(text)
    else:
        expressions = [_compile_pattern(pattern) for pattern in patterns]
        rows = {}
        for number, line in _numbered_lines(text):
            for match in filter(None, (expression.search(line) for expression in expressions)):
                rows[number] = match.groupdict()
    if not rows:
        listed = display.listed(map(problems.show, patterns), "or")
        raise UserError(f"{path}: received no line like {listed}. {pattern_advice(text)}")
    return Log(path, "printed lines", json_log.make_table(path, rows.items()))


def _numbered_lines(text: str) -> list[tuple[int, str]]:
    return list(enumerate(re.split(r"\r\n|\r|\n", _ESCAPE_SEQUENCES.sub("", text)), start=1))


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    expression, names = "", []
    for name, wild, blank, literal in _PATTERN_PART.findall(pattern):
        names += [name] if name else []
        expression += f"(?P<{name}>{_VALUE_REGEX})" if name else ".*?" if wild else ""
        expression += r"\s+" if blank else re.escape(literal)
    try:
        if names:
            return re.compile(expression)
    except re.error:  # a name occurs twice, or is no identifier
        pass
    text = f'different names in braces are expected, as in "{_EXAMPLE_PATTERN}"'
    raise UserError(f"lines: received {problems.show(pattern)}; {text}.")


def _keras_lines(text: str) -> dict[int, dict[str, str]]:
    """Return the last progress line of every epoch."""
    rows: dict[int, dict[str, str]] = {}
    epoch, first_line = "", 0
    for number, line in _numbered_lines(text):
        if match := _KERAS_EPOCH.search(line):
            epoch, first_line = match[1], number
        values = dict(_KERAS_VALUE.findall(line))
        if epoch and values:
            rows[first_line] = {"epoch": epoch} | values
    return rows


def detect_pattern(text: str) -> str:
    """Return the pattern of the commonest line with two known names; an empty text if none has two.

    Lines with a value on validation data are preferred. Progress lines of Keras give `keras`.
    """
    if _keras_lines(text):
        return KERAS
    names = {*log_names.IDENTITY, *log_names.PROGRESS, *log_names.OUTCOMES}
    lines = (line.strip() for _, line in _numbered_lines(text) if len(line) < _MAX_CHARACTERS)
    patterns = [
        _OTHER_NUMBER.sub(
            "*", _BEFORE_NAMES.sub("", log_names.commonest_pattern([line], names), count=1)
        )
        for line in lines
    ]
    useful = [pattern for pattern in patterns if len({*_PLACEHOLDER.findall(pattern)}) > 1]
    return max(useful, key=lambda line: ("{validation_" in line, useful.count(line)), default="")


def pattern_advice(text: str) -> str:
    """Return the advice to use the key `lines`, with a pattern for the text."""
    pattern = detect_pattern(text) or _EXAMPLE_PATTERN
    value = pattern if pattern == KERAS else f'"{pattern}"'
    return f"Printed lines are read by `lines: {value}`."
