"""Read lines that a program prints, by patterns such as "step {updates}: loss {train_loss}"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from batchscope.core import display, problems
from batchscope.core.errors import UserError
from batchscope.external import json_log
from batchscope.external.log_files import Log

_VALUE_REGEX = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b|[A-Za-z][\w.-]*"
_PATTERN_PART = re.compile(r"\{(\w+)\}|(\*)|(\s+)|([^{*\s]+|\{)")
_ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x08+")  # from progress bars
_EXAMPLE_PATTERN = "step {updates}: train loss {train_loss}, val loss {validation_loss}"
ADVICE = f'Printed lines are read by `lines: "{_EXAMPLE_PATTERN}"`.'


def read(path: str, text: str, patterns: Sequence[str]) -> Log:
    """Return the log of the lines that match a pattern.

    Raises:
        UserError: If a pattern is invalid, or no line matches.
    """
    expressions = [_compile_pattern(pattern) for pattern in patterns]
    lines = re.split(r"\r\n|\r|\n", _ESCAPE_SEQUENCES.sub("", text))
    rows = {}
    for number, line in enumerate(lines, start=1):
        for match in filter(None, (expression.search(line) for expression in expressions)):
            rows[number] = match.groupdict()
    if not rows:
        listed = display.listed(map(problems.show, patterns), "or")
        raise UserError(f"{path}: received no line like {listed}. {ADVICE}")
    return Log(path, "printed lines", json_log.make_table(path, rows))


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
