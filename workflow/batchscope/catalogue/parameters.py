"""Named values: what each may be, and its canonical text in the names of paths.

A factor of a run and a setting of a measure are both a `Parameter`. As metadata of a field of a
pydantic model it reads what YAML holds. A name holds it as `alias=value`, and only where the value
differs from the parameter's *frozen default*, which never changes, so that no old name ever
changes. What is computed with is the value parsed back from the name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from batchscope import wording
from batchscope.catalogue.readers import NUMBER, FieldReader, expected, number, read_items

MOST = 10**9  # of a whole number that has no maximum of its own: fits whatever computes with it
_MOST_SECONDS = 3600  # of what is timed or waited for at once

Value = int | float | bool | str


@dataclass(frozen=True)
class Parameter(FieldReader):
    """One value of a study, mostly with a name.

    Attributes:
        name: As in the configuration and as a column of the tables.
        alias: As in paths.
        kind: ``int``, ``float``, ``bool`` or ``str``.
        birth: Frozen default, at which the parameter is not spelled; None if it is always spelled.
        choices: Allowed values; empty for a free one.
        minimum: Smallest allowed number.
        above: Number that must be exceeded.
        many: Whether the value is a list (of ``kind``), joined by ``_`` in paths.
        maximum: Largest allowed number, with `minimum` or `above`; `MOST` for an ``int`` that is
            given none.
        below: Number that must not be reached.
        words: Words of the configuration, each with the value that it stands for.
        renamed: Older word -> the present one: names of paths keep the older one, and a study may
            say either.
        pattern: Of a ``str``.
        wanted: What is expected, where the rest does not say it.
    """

    name: str
    alias: str
    kind: str
    birth: Any
    doc: str
    unit: str = ""
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    above: float | None = None
    many: bool = False
    maximum: float | None = None
    below: float | None = None
    words: tuple[tuple[str, Any], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    pattern: str = ""
    wanted: str = ""

    @classmethod
    def choice(cls, name: str, alias: str, doc: str, *choices: str, **more: Any) -> Self:
        """Returns a parameter with one of some texts, the first of which is its frozen default."""
        return cls(name, alias, "str", choices[0], doc, choices=choices, **more)

    @classmethod
    def seconds(cls, name: str, alias: str, birth: float, doc: str, **more: Any) -> Self:
        """Returns a parameter of a time that a job waits or works at once."""
        return cls(name, alias, "float", birth, doc, "s", maximum=_MOST_SECONDS, **more)

    @classmethod
    def unnamed(cls, kind: str, **more: Any) -> Self:
        """Returns what a value may be whose name and doc the field that has it states."""
        return cls("", "", kind, None, "", **more)

    @property
    def core(self) -> bool:
        """Whether the parameter is always spelled."""
        return self.birth is None

    @property
    def most(self) -> float | None:
        """Largest allowed number."""
        return MOST if self.maximum is None and self.kind == "int" else self.maximum

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
        if self.wanted:
            return self.wanted
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == "bool":
            return "true or false"
        if self.kind == "str":
            return "a lower-case name"
        noun = "whole number" if self.kind == "int" else "number"
        if self.above is not None and self.below is not None:
            return f"a {noun} above {self.above:g} and below {self.below:g}"
        if self.above is not None and self.most is not None:
            return f"a {noun} above {self.above:g} and at most {_short(self.most)}"
        if self.above is not None:
            return f"a positive {noun}" if self.above == 0 else f"a {noun} above {self.above:g}"
        if self.minimum is not None and self.most is not None:
            return f"a {noun} from {self.minimum:.0f} to {_short(self.most)}"
        if self.minimum is not None:
            return f"a {noun} of at least {self.minimum:g}"
        return f"a {noun}"

    def read(self, raw: Any) -> Any:
        """Returns the value that YAML's value stands for; of `many` a tuple of distinct ones."""
        if not self.many:
            return self.read_item(raw)
        if not isinstance(raw, list | tuple) or not raw:
            raise expected(f"a list of at least one value (each {self.expected_item})")
        return read_items(self.read_item, raw)

    def read_item(self, raw: Any) -> Any:
        """Returns the value that one scalar stands for; raises as `read` does."""
        for word, value in (*self.words, *self.renamed):
            if raw == word:
                return value
        value = self._number(raw) if self.kind in ("int", "float") else self._other(raw)
        if value is None or (self.choices and value not in self.choices):
            raise expected(self.expected_item, map(str, self.choices))
        return value

    def _number(self, raw: Any) -> int | float | None:
        value = number(raw)
        if value is None or (self.kind == "int" and value != int(value)):
            return None
        value = int(value) if self.kind == "int" else float(value)
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
        if not isinstance(raw, str):
            return None
        return raw if re.fullmatch(self.pattern or ".*", raw, re.DOTALL) else None

    def json_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the value, for editors."""
        found = self.json_item()
        if self.many:
            found = {"type": "array", "minItems": 1, "items": found}
        if self.doc:
            found["description"] = self.doc + (f" In {self.unit}." if self.unit else "")
        if self.birth is not None:
            birth = shown(self, self.birth)
            found["default"] = list(birth) if self.many else birth
        return found

    def json_item(self) -> dict[str, Any]:
        """Returns the JSON schema of one scalar."""
        types = {"int": ["integer", "string"], "float": ["number", "string"], "bool": "boolean"}
        found: dict[str, Any] = {"type": types.get(self.kind, "string")}
        if self.kind in ("int", "float"):
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
            found["enum"] = [*self.choices, *(old for old, _ in self.renamed)]
        for word, _ in self.words:
            found = {"if": {"const": word}, "else": found}
        return found


Named = TypeVar("Named", bound=Parameter)


def by_name(*parameters: Named) -> dict[str, Named]:
    """Returns full name -> parameter."""
    return {parameter.name: parameter for parameter in parameters}


def shown(parameter: Parameter, value: Any) -> Any:
    """Returns the word of the configuration that stands for a value, or the value itself."""
    return next((word for word, meant in parameter.words if meant == value), value)


def _short(limit: float) -> str:
    """Returns `100`, or `10^8` for a large power of ten."""
    text = f"{limit:.0f}"
    return f"10^{len(text) - 1}" if re.fullmatch("10{6,}", text) else text


def aliases(parameters: Mapping[str, Parameter]) -> dict[str, str]:
    """Returns short name -> full name."""
    return {parameter.alias: name for name, parameter in parameters.items()}
