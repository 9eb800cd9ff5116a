"""Read logs in JSON lines: an object per line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from batchscope.core.errors import UserError
from batchscope.external.log_files import Log
from batchscope.study import log_names

if TYPE_CHECKING:
    import pandas


def parse_json(text: str) -> Any:
    """Return the value of a text that is JSON; None otherwise."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read(path: str, text: str, user_names: Collection[str], metrics: Collection[str]) -> Log:
    """Return the log of a text with one object per line. Other lines are ignored.

    Nested keys get dotted names. An object without progress and outcomes states parameters of the
    following lines.

    Args:
        user_names: Names of progress and outcomes that the user states.
    """
    rows, parameters = {}, {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip()[:1] != "{":
            continue
        if not isinstance(content := parse_json(line), dict):
            raise UserError(f"{path}, line {number}: received no JSON object; one is expected.")
        row = flat_texts(content)
        if any(name in user_names or log_names.is_evaluated(name, metrics) for name in row):
            rows[number] = parameters | row
        else:
            parameters |= row
    return Log(path, "JSON lines", make_table(path, rows))


def make_table(path: str, rows: Mapping[int, Mapping[str, str]]) -> pandas.DataFrame:
    """Return a table of texts from rows by their places; an empty text if a row has no value."""
    import pandas

    if not any(rows.values()):
        raise UserError(f"{path}: received no row of an evaluation; some are expected.")
    return pandas.DataFrame([*rows.values()], index=[*rows], dtype=object).fillna("")


def flat_texts(values: Mapping[Any, Any]) -> dict[str, str]:
    """Return nested values as texts under dotted names, without lists."""
    return {
        name: "" if item is None else str(item).strip()
        for name, item in _items(values)
        if not isinstance(item, list)
    }


def _items(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _items(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
