"""Named values, and their canonical text in the names of paths.

A factor of a run and a setting of a measure are both a `Parameter`. A name holds it as
`alias=value`, and only where the value differs from the parameter's *birth value*, which is frozen
on the day the parameter is added, so that no old name ever changes. What is computed with is the
value parsed back from the name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from batchscope import wording

MAX_NAME_LENGTH = 200
MOST = 10**9  # of a whole number that has no maximum of its own: fits whatever computes with it
_MOST_SECONDS = 3600  # of what is timed or waited for at once
NAME_PATTERN = r"[a-z][a-z0-9_]*"

Value = int | float | bool | str


@dataclass(frozen=True)
class Parameter:
    """One named value of a run or of a measure.

    Attributes:
        name: As in the configuration and as a column of the tables.
        alias: As in paths.
        kind: ``int``, ``float``, ``bool`` or ``str``.
        birth: Value at which the parameter is not spelled; None if it is always spelled.
        choices: Allowed values of a ``str``; empty for a free name.
        minimum: Smallest allowed number.
        above: Number that must be exceeded.
        many: Whether the value is a list (of ``kind``), joined by ``_`` in paths.
        maximum: Largest allowed number, with `minimum` or `above`; `MOST` for an ``int`` that is
            given none.
        words: Words of the configuration, each with the value that it stands for.
    """

    name: str
    alias: str
    kind: str
    birth: Any
    doc: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    many: bool = False
    maximum: float | None = None
    words: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Gives every whole number a maximum."""
        if self.kind == "int" and self.maximum is None:
            object.__setattr__(self, "maximum", MOST)

    @classmethod
    def choice(cls, name: str, alias: str, doc: str, *choices: str, **more: Any) -> Self:
        """Returns a parameter with one of some texts, the first of which is its birth value."""
        return cls(name, alias, "str", choices[0], doc, choices=choices, **more)

    @classmethod
    def seconds(cls, name: str, alias: str, birth: float, doc: str, **more: Any) -> Self:
        """Returns a parameter of a time that a job waits or works at once."""
        return cls(name, alias, "float", birth, doc, "s", maximum=_MOST_SECONDS, **more)

    @property
    def core(self) -> bool:
        """Whether the parameter is always spelled."""
        return self.birth is None

    @property
    def expected(self) -> str:
        """What a valid value looks like, for error messages."""
        return f"a list (each {self.expected_item})" if self.many else self.expected_item

    @property
    def expected_item(self) -> str:
        """What a valid value looks like, or one item of a list."""
        return wording.listed([*(word for word, _ in self.words), self._expected_scalar], "or")

    @property
    def _expected_scalar(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == "bool":
            return "true or false"
        if self.kind == "str":
            return "a lower-case name"
        noun = "whole number" if self.kind == "int" else "number"
        if self.above is not None and self.maximum is not None:
            return f"a {noun} above {self.above:g} and at most {_short(self.maximum)}"
        if self.above is not None:
            return f"a positive {noun}" if self.above == 0 else f"a {noun} above {self.above:g}"
        if self.minimum is not None and self.maximum is not None:
            return f"a {noun} from {self.minimum:.0f} to {_short(self.maximum)}"
        if self.minimum is not None:
            return f"a {noun} of at least {self.minimum:g}"
        return f"a {noun}"


Named = TypeVar("Named", bound=Parameter)


def by_name(*parameters: Named) -> dict[str, Named]:
    """Returns full name -> parameter."""
    return {parameter.name: parameter for parameter in parameters}


def shown(parameter: Parameter, value: Any) -> Any:
    """Returns the word of the configuration that stands for a value, or the value itself."""
    return next((word for word, meant in parameter.words if meant == value), value)


def spelled(parameter: Parameter, value: Any) -> str:
    """Returns the text of a value as a study may write it."""
    word = shown(parameter, value)
    return word if word != value else format_value(parameter, value)


def _short(limit: float) -> str:
    """Returns `100`, or `10^8` for a large power of ten."""
    text = f"{limit:.0f}"
    return f"10^{len(text) - 1}" if re.fullmatch("10{6,}", text) else text


def aliases(parameters: Mapping[str, Parameter]) -> dict[str, str]:
    """Returns short name -> full name."""
    return {parameter.alias: name for name, parameter in parameters.items()}


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
    return str(value)


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
