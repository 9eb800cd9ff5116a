"""Read logs in JSON, such as the `history` of Keras, and in JSON lines with one object each."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
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


def read(path: str, content: Any) -> Log:
    """Return the log of one value: objects become rows, and lists of one length columns of rows.

    Nested keys get dotted names. Lists without progress, as in Keras's `history`, have one value
    per epoch.
    """
    rows = enumerate(_rows(content, {}), start=1)
    return Log(path, "JSON", make_table(path, rows), unit="entry")


def _rows(value: Any, outer: dict[str, str]) -> Iterator[dict[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _rows(item, outer)
    if not isinstance(value, Mapping):
        return
    values, outer = dict(_items(value)), outer | flat_texts(value)
    columns = {name: item for name, item in values.items() if isinstance(item, list) and item}
    objects = [items for items in columns.values() if isinstance(items[0], dict)]
    for items in objects:
        yield from _rows(items, outer)
    if objects:
        return
    lengths = {len(items) for items in columns.values()}
    if len(lengths) != 1:
        yield outer
        return
    has_progress = {*log_names.candidates(columns)} & {*log_names.PROGRESS}
    for index in range(lengths.pop()):
        row = {name: _text(items[index]) for name, items in columns.items()}
        yield ({} if has_progress else {"epoch": str(index + 1)}) | outer | row


def read_lines(path: str, text: str, user_names: Collection[str], metrics: Collection[str]) -> Log:
    """Return the log of a text with one object per line. Other lines are ignored.

    An object without progress and outcomes states parameters of the following lines.

    Args:
        user_names: Names of progress and outcomes that the user states.
    """
    rows, parameters = [], {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip()[:1] != "{":
            continue
        if not isinstance(content := parse_json(line), dict):
            raise UserError(f"{path}, line {number}: received no JSON object; one is expected.")
        row = flat_texts(content)
        if any(name in user_names or log_names.is_evaluated(name, metrics) for name in row):
            rows.append((number, parameters | row))
        else:
            parameters |= row
    return Log(path, "JSON lines", make_table(path, rows))


def make_table(path: str, rows: Iterable[tuple[int, dict[str, str]]]) -> pandas.DataFrame:
    import pandas

    rows_by_place = dict(rows)
    if not any(rows_by_place.values()):
        raise UserError(f"{path}: received no row of an evaluation; some are expected.")
    cells = pandas.DataFrame([*rows_by_place.values()], index=[*rows_by_place], dtype=object)
    return cells.fillna("")


def flat_texts(values: Mapping[Any, Any]) -> dict[str, str]:
    """Return nested values as texts under dotted names, without lists."""
    return {name: _text(item) for name, item in _items(values) if not isinstance(item, list)}


def _items(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _items(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
