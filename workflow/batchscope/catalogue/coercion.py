"""From what YAML holds to the values of factors and settings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from batchscope.catalogue import parameters
from batchscope.catalogue.parameters import Parameter
from batchscope.problems import Place

LONGEST_NUMBER = 99  # characters; no number that somebody means has more
# `1e-3` is text to a YAML 1.1 reader: what a person means as a number is one.
NUMBER = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$"


def as_map(raw: Any) -> dict[str, Any]:
    """Returns a map, or an empty one for what is none: the schema reports that."""
    return raw if isinstance(raw, dict) else {}


def items(place: Place, raw: Any) -> Iterator[tuple[Place, Any]]:
    """Yields place and item of a list; a plain word stands for a list of it.

    What is neither yields nothing: the schema reports that.
    """
    if isinstance(raw, str):
        yield place, raw
    elif isinstance(raw, list):
        yield from (((*place, index), item) for index, item in enumerate(raw))


def number(raw: Any) -> int | float | None:
    """Returns the finite number that a value is or spells, or None."""
    if isinstance(raw, str) and len(raw) <= LONGEST_NUMBER and re.fullmatch(NUMBER, raw):
        raw = int(raw) if raw.lstrip("+-").isdigit() else float(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    # A whole number may be larger than any float; nan is at most nothing.
    return raw if abs(raw) <= sys.float_info.max else None


def plain(raw: Any) -> Any:
    """Returns the number that a value is or spells, or else the value itself."""
    value = number(raw)
    return raw if value is None else value


def coerce(parameter: Parameter, raw: Any) -> Any:
    """Returns the value of a factor or setting as its own name will hold it, a list as a tuple.

    Raises:
        ValueError: If the value is not what the parameter expects.
    """
    if parameter.many:
        if not isinstance(raw, list | tuple) or not raw:
            raise ValueError(parameter.expected)
        value: Any = tuple(coerce_item(parameter, item) for item in raw)
    else:
        value = coerce_item(parameter, raw)
    return parameters.parse_value(parameter, parameters.format_value(parameter, value))


def coerce_item(parameter: Parameter, raw: Any) -> Any:
    """Returns one scalar of a factor or setting.

    Raises:
        ValueError: If the scalar is not what the parameter expects.
    """
    for word, value in parameter.words:
        if raw == word:
            return value
    if parameter.kind in ("int", "float"):
        return _coerce_number(parameter, raw)
    kind = bool if parameter.kind == "bool" else str
    if not isinstance(raw, kind) or (parameter.choices and raw not in parameter.choices):
        raise ValueError(parameter.expected)
    return raw


def _coerce_number(parameter: Parameter, raw: Any) -> int | float:
    value = number(raw)
    if value is None or (parameter.kind == "int" and value != int(value)):
        raise ValueError(parameter.expected)
    try:
        value = int(value) if parameter.kind == "int" else float(value)
    except OverflowError:
        raise ValueError(parameter.expected) from None
    low, high, above = parameter.minimum, parameter.maximum, parameter.above
    if (
        (low is not None and value < low)
        or (high is not None and value > high)
        or (above is not None and value <= above)
    ):
        raise ValueError(parameter.expected)
    return value
