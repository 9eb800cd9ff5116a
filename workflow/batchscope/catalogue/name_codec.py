"""The text of values in the names of paths: `alias=value`, joined by `+`, and back.

A name is canonical: what it is parsed to is spelled as the same name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

from batchscope import wording
from batchscope.catalogue.parameters import Parameter, Value, shown

MAX_NAME_LENGTH = 200
NAME_PATTERN = r"[a-z][a-z0-9_]*"


def number_text(value: int | float) -> str:
    """Returns the canonical text of a number: ints as ints, floats in their shortest form.

    Raises:
        ValueError: If the number is not finite or does not survive the round trip.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"Expected a number. Received: {value!r}")
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"Expected a finite number. Received: {value!r}")
    text = wording.shortest(value)
    if float(text) != value:
        raise ValueError(f"Expected a number that survives its own text. Received: {value!r}")
    return text


def spelled(parameter: Parameter, value: Any) -> str:
    """Returns the text of a value as a study may write it."""
    word = shown(parameter, value)
    return word if word != value else format_value(parameter, value)


def format_value(parameter: Parameter, value: Any) -> str:
    """Returns the text of a value in a path.

    Raises:
        ValueError: If the value does not survive the round trip.
    """
    if parameter.many:
        return "_".join(_format_scalar(parameter, item) for item in value)
    return _format_scalar(parameter, value)


def _format_scalar(parameter: Parameter, value: Any) -> str:
    if parameter.kind == "bool":
        return "true" if value else "false"
    if parameter.kind in ("int", "float"):
        return number_text(int(value) if parameter.kind == "int" else float(value))
    return next((old for old, new in parameter.renamed if new == value), str(value))


def parse_value(parameter: Parameter, text: str) -> Any:
    """Returns the value behind a text in a path.

    Raises:
        ValueError: If the text is not what `format_value` would have written.
    """
    if parameter.many:
        value: Any = tuple(_parse_scalar(parameter, item) for item in text.split("_"))
    else:
        value = _parse_scalar(parameter, text)
    if format_value(parameter, value) != text:
        raise ValueError(f"Expected the canonical form of {parameter.name}. Received: {text!r}")
    return value


def _parse_scalar(parameter: Parameter, text: str) -> Value:
    if parameter.kind == "bool":
        if text not in ("true", "false"):
            raise ValueError(f"Expected true or false. Received: {text!r}")
        return text == "true"
    if parameter.kind == "int":
        return int(text)
    if parameter.kind == "float":
        return float(text)
    text = dict(parameter.renamed).get(text, text)
    if parameter.choices and text not in parameter.choices:
        raise ValueError(f"Expected {parameter.expected}. Received: {text!r}")
    return text


def encode(
    parameters: dict[str, Parameter], values: dict[str, Any], always: Collection[str]
) -> list[str]:
    """Returns `alias=value` of the parameters in `always`, and of those that differ from birth."""
    parts = []
    for name, parameter in parameters.items():
        value = values.get(name, parameter.birth)
        if name in always or value != parameter.birth:
            parts.append(f"{parameter.alias}={format_value(parameter, value)}")
    return parts


def decode(parameters: dict[str, Parameter], parts: list[str], what: str) -> dict[str, Any]:
    """Returns the values behind parts of a name, by full name.

    Args:
        parts: Each `alias=value`.

    Raises:
        ValueError: If a part is unknown, given twice or not in its canonical form.
    """
    by_alias = {parameter.alias: parameter for parameter in parameters.values()}
    values = {}
    for part in parts:
        alias, equals, text = part.partition("=")
        if not equals or alias not in by_alias or by_alias[alias].name in values:
            raise ValueError(f"Expected alias=value in {what!r}. Received: {part!r}")
        values[by_alias[alias].name] = parse_value(by_alias[alias], text)
    return values


def checked(name: str) -> str:
    """Returns a name that paths and clusters bear.

    Raises:
        ValueError: If it is too long or has a character that does not pass everywhere.
    """
    if len(name) > MAX_NAME_LENGTH:
        raise ValueError(f"Expected at most {MAX_NAME_LENGTH} characters. Received: {name!r}")
    if re.fullmatch(r"[a-z0-9_.=+-]+", name) is None:
        raise ValueError(f"Expected lower-case letters, digits and _.=+-. Received: {name!r}")
    return name
