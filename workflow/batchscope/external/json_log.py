"""JSON, such as the `history` of Keras, and JSON lines with one object each."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from batchscope import wording
from batchscope.errors import UserError
from batchscope.external.log_files import Log, Unrecognised
from batchscope.study import log_names

if TYPE_CHECKING:
    import pandas


def parsed(text: str) -> Any:
    """Return the value of a text that is one JSON value; None otherwise."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def whole(path: str, content: Any) -> Log:
    """Return the log of one value: objects become rows, and lists of one length columns of rows.

    Nested keys have dotted names. An object with lists of one length only, as Keras's `history`,
    has the column `epoch`.
    """
    rows = list(_rows(content))
    if not any(rows):
        raise Unrecognised(path)
    return Log(path, "JSON", table(path, enumerate(rows, start=1)), unit="entry")


def _rows(value: Any) -> Iterator[dict[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _rows(item)
    if not isinstance(value, Mapping):
        return
    plain, lists = flat(value), dict(_lists(value))
    objects = [items for items in lists.values() if isinstance(items[0], dict)]
    numbers = {name: items for name, items in lists.items() if not isinstance(items[0], dict)}
    for items in objects:
        for row in _rows(items):
            yield plain | row
    lengths = {len(items) for items in numbers.values()}
    if len(lengths) == 1 and not objects:
        counted = {*log_names.candidates(numbers)} & {*log_names.PROGRESS}
        for at in range(lengths.pop()):
            row = plain | {name: shown(items[at]) for name, items in numbers.items()}
            yield row if counted else {"epoch": str(at + 1)} | row
    elif not objects and plain:
        yield plain


def _lists(value: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, list[Any]]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _lists(item, f"{before}{key}.")
        elif isinstance(item, list) and item:
            yield f"{before}{key}", item


def lines(path: str, text: str, stated: Collection[str], metrics: Collection[str]) -> Log:
    """Return the log of a text with objects, one on a line. Other lines are passed over.

    An object without progress and outcomes states parameters of the lines that follow.

    Args:
        stated: Names of progress and outcomes that the user states.
    """
    rows, parameters, others = [], {}, 0
    for at, line in enumerate(text.splitlines(), start=1):
        if line.lstrip()[:1] != "{":
            others += bool(line.strip())
            continue
        if not isinstance(content := parsed(line), dict):
            raise UserError(f"{path}, line {at}: received no JSON object; one is expected.")
        row = flat(content)
        if any(name in stated or _is_evaluated(name, metrics) for name in row):
            rows.append((at, parameters | row))
        else:
            parameters |= row
    notes = (f"{wording.count(others, 'line')} without an object passed over",) if others else ()
    return Log(path, "JSON lines", table(path, rows), notes=notes)


def _is_evaluated(name: str, metrics: Collection[str]) -> bool:
    known = log_names.ours(name, metrics)
    return known in log_names.PROGRESS or (known is not None and log_names.is_outcome(known))


def table(path: str, rows: Iterable[tuple[int, dict[str, str]]]) -> pandas.DataFrame:
    import pandas

    rows = list(rows)
    if not rows:
        raise UserError(f"{path}: received no row of an evaluation; some are expected.")
    places, cells = zip(*rows, strict=True)
    return pandas.DataFrame([*cells], index=[*places], dtype=object).fillna("")


def flat(values: Mapping[Any, Any], before: str = "") -> dict[str, str]:
    """Return nested values as texts under dotted names, without lists."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}.")
        elif not isinstance(value, list | tuple):
            found[f"{before}{key}"] = shown(value)
    return found


def shown(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
