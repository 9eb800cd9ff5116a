"""Named values: what each may be, and its canonical text in the names of paths.

A factor of a run and a setting of a measure are both a `Parameter`. As metadata of a field of a
pydantic model it reads what YAML holds. What is computed with is the value parsed back from a name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from batchscope import wording
from batchscope.catalogue import setting
from batchscope.catalogue.readers import NUMBER, FieldReader, expected, number, read_items

MOST = 10**9  # of a whole number that has no maximum of its own: fits whatever computes with it
_MOST_SECONDS = 3600  # of what is timed or waited for at once
_NUMBERS = {"int": int, "float": float}

Value = int | float | bool | str


@dataclass(frozen=True)
class Parameter(FieldReader):
    """One value of a study; as metadata without name and doc, which the field states."""

    name: str = ""  # as in the configuration and as a column of the tables
    alias: str = ""  # as in paths
    kind: str = ""  # `int`, `float`, `bool` or `str`
    default: Any = None  # frozen: no name spells it, so it never changes; None: always spelled
    doc: str = ""
    unit: str = ""
    choices: tuple[Any, ...] = ()  # allowed values; empty for a free one
    minimum: float | None = None
    above: float | None = None  # number that must be exceeded
    many: bool = False  # whether it is a list (of `kind`), joined by `_` in paths
    maximum: float | None = None  # with `minimum` or `above`
    below: float | None = None  # number that must not be reached
    words: tuple[tuple[str, Any], ...] = ()  # of the configuration, each with what it stands for
    pattern: str = ""  # of a `str`
    wanted: str = ""  # what is expected, where the rest does not say it

    @classmethod
    def seconds(cls, name: str, alias: str, default: float, doc: str, **more: Any) -> Self:
        return cls(name, alias, "float", default, doc, "s", maximum=_MOST_SECONDS, **more)

    @property
    def core(self) -> bool:
        return self.default is None

    @property
    def most(self) -> float | None:
        return MOST if self.maximum is None and self.kind == "int" else self.maximum

    @property
    def expected(self) -> str:
        return f"a list (each {self.expected_item})" if self.many else self.expected_item

    @property
    def expected_item(self) -> str:
        return wording.listed([*(word for word, _ in self.words), self._expected_scalar], "or")

    @property
    def _expected_scalar(self) -> str:
        if self.wanted:
            return self.wanted
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind not in _NUMBERS:
            return "true or false" if self.kind == "bool" else "a lower-case name"
        noun = "whole number" if self.kind == "int" else "number"
        if self.above is not None and self.below is not None:
            return f"a {noun} above {self.above:g} and below {self.below:g}"
        if self.above is not None and self.most is not None:
            return f"a {noun} above {self.above:g} and at most {_short(self.most)}"
        if self.above is not None:
            return f"a positive {noun}" if self.above == 0 else f"a {noun} above {self.above:g}"
        if self.minimum is not None and self.most is not None:
            return f"a {noun} from {self.minimum:.0f} to {_short(self.most)}"
        return f"a {noun}" if self.minimum is None else f"a {noun} of at least {self.minimum:g}"

    def read(self, raw: Any) -> Any:
        """Returns the value that YAML's value stands for; of `many` a tuple of distinct ones."""
        if not self.many:
            return self.read_item(raw)
        if not isinstance(raw, list | tuple) or not raw:
            raise expected(f"a list of at least one value (each {self.expected_item})")
        return read_items(self.read_item, raw)

    def read_item(self, raw: Any) -> Any:
        """Returns the value that one scalar stands for; raises as `read` does."""
        for word, value in self.words:
            if raw == word:
                return value
        value = self._number(raw) if self.kind in _NUMBERS else self._other(raw)
        if value is None or (self.choices and value not in self.choices):
            raise expected(self.expected_item, map(str, self.choices))
        return value

    def _number(self, raw: Any) -> int | float | None:
        value = number(raw)
        if value is None or (self.kind == "int" and value != int(value)):
            return None
        value = _NUMBERS[self.kind](value)
        fits = (
            (self.minimum is None or value >= self.minimum)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )
        return value if fits else None

    def _other(self, raw: Any) -> bool | str | None:
        if self.kind == "bool":
            return raw if isinstance(raw, bool) else None
        fits = isinstance(raw, str) and re.fullmatch(self.pattern or ".*", raw, re.DOTALL)
        return raw if fits else None

    def text(self, value: Any) -> str:
        """Returns the text of a value in a path; ValueError if it does not survive that."""
        return "_".join(map(self._item_text, value)) if self.many else self._item_text(value)

    def _item_text(self, value: Any) -> str:
        if self.kind == "bool":
            return "true" if value else "false"
        if self.kind in _NUMBERS:
            return number_text(_NUMBERS[self.kind](value))
        return str(value)

    def parse(self, text: str) -> Any:
        """Returns the value behind a text in a path; ValueError if `text` writes no such thing."""
        items = tuple(map(self._parse_item, text.split("_") if self.many else [text]))
        value = items if self.many else items[0]
        if self.text(value) != text:
            raise ValueError(f"Expected the canonical form of {self.name}. Received: {text!r}")
        return value

    def _parse_item(self, text: str) -> Value:
        if self.kind == "bool":
            return text == "true"
        if self.kind in _NUMBERS:
            return _NUMBERS[self.kind](text)
        if self.choices and text not in self.choices:
            raise ValueError(f"Expected {self.expected}. Received: {text!r}")
        return text

    def shown(self, value: Any) -> Any:
        return next((word for word, meant in self.words if meant == value), value)

    def spelled(self, value: Any) -> str:
        word = self.shown(value)
        return word if word != value else self.text(value)

    def json_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the value, for editors."""
        found = self.json_item()
        if self.many:
            found = {"type": "array", "minItems": 1, "items": found}
        if self.doc:
            found["description"] = self.doc + (f" In {self.unit}." if self.unit else "")
        if not self.core:
            default = self.shown(self.default)
            found["default"] = list(default) if self.many else default
        return found

    def json_item(self) -> dict[str, Any]:
        """Returns the JSON schema of one scalar."""
        types = {"int": ["integer", "string"], "float": ["number", "string"], "bool": "boolean"}
        found: dict[str, Any] = {"type": types.get(self.kind, "string")}
        if self.kind in _NUMBERS:
            limits = {
                "minimum": self.minimum,
                "maximum": self.most,
                "exclusiveMinimum": self.above,
                "exclusiveMaximum": self.below,
            }
            found |= {key: limit for key, limit in limits.items() if limit is not None}
            found["pattern"] = NUMBER
        elif self.pattern:
            found["pattern"] = f"^(?:{self.pattern})$"
        if self.choices:
            found["enum"] = list(self.choices)
        for word, _ in self.words:
            found = {"if": {"const": word}, "else": found}
        return found


def reader(factor: setting.Parameter) -> Parameter:
    """Return what reads the field of a model."""
    limits = {"ge": "minimum", "gt": "above", "le": "maximum", "lt": "below"}
    bounds = {
        ours: getattr(one, limit)
        for one in getattr(factor.annotation, "__metadata__", ())
        for limit, ours in limits.items()
        if hasattr(one, limit)
    }
    same = {key: getattr(factor, key) for key in ("name", "alias", "kind", "default", "doc")}
    words = tuple(factor.words.items())
    return Parameter(**same, unit=factor.unit, choices=factor.choices, words=words, **bounds)


def readers(factors: Mapping[str, setting.Parameter]) -> dict[str, Parameter]:
    return {name: reader(factor) for name, factor in factors.items()}


Named = TypeVar("Named", bound=Parameter)


def by_name(*parameters: Named) -> dict[str, Named]:
    return {parameter.name: parameter for parameter in parameters}


def number_text(value: int | float) -> str:
    """Returns the canonical text of a number: ints as ints, floats in their shortest form.

    Raises:
        ValueError: If the number is not finite or does not survive the round trip.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise ValueError(f"Expected a finite number. Received: {value!r}")
    text = wording.shortest(value)
    if float(text) != value:
        raise ValueError(f"Expected a number that survives its own text. Received: {value!r}")
    return text


def _short(limit: float) -> str:
    """Returns `100`, or `10^8` for a large power of ten."""
    text = f"{limit:.0f}"
    return f"10^{len(text) - 1}" if re.fullmatch("10{6,}", text) else text
