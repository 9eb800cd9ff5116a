"""The kinds of fields that the models of a study are made of, beside factors and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.readers import FieldReader, below, expected, read_items, unknown_key


class Section(BaseModel):
    """A map of a study with known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
    noun: ClassVar[str] = "key"  # what a key is called in a message
    wanted: ClassVar[str] = "a map"  # what is expected of the whole

    @classmethod
    def kind_of(cls, raw: Any) -> type[Section]:
        return cls

    @property
    def given(self) -> dict[str, Any]:
        return {key: value for key, value in self if key in self.model_fields_set}


@dataclass(frozen=True)
class Refused(FieldReader):
    """A key that is known, to be refused in words of its own."""

    expected: str

    def read(self, raw: Any) -> None:
        """Raises that something else is expected."""
        raise expected(self.expected)

    def json_schema(self) -> dict[str, Any]:
        return {"not": {}}


@dataclass(frozen=True)
class Keyed(FieldReader):
    """A map, in the order of the file, whose keys may all be left out."""

    fields: Mapping[str, FieldReader]  # key -> what reads its value
    noun: str  # what a key is called in a message
    expected: str  # of the whole
    least: int = 0  # keys
    most: int | None = None
    # What reads the value of another key, which may have such a name; None where it may not.
    others: Callable[[str], FieldReader | None] | None = None

    def read(self, raw: Any) -> dict[str, Any]:
        """Returns the values of the keys that are given."""
        count = len(raw) if isinstance(raw, dict) else -1
        if count < self.least or (self.most is not None and count > self.most):
            raise expected(self.expected)
        found: dict[str, Any] = {}
        wrong = []
        for key, value in raw.items():
            try:
                found[key] = self._reader(key).read(value)
            except PydanticCustomError as error:
                wrong.append(InitErrorDetails(type=error, loc=(key,), input=value))
            except ValidationError as error:
                wrong += below((key,), error)
        if wrong:
            raise ValidationError.from_exception_data(self.noun, wrong)
        return found

    def _reader(self, key: str) -> FieldReader:
        """Returns what reads the value of a key; raises where there is no such key."""
        if found := self.fields.get(key) or (self.others and self.others(str(key))):
            return found
        known = [key for key, one in self.fields.items() if one.json_schema() != {"not": {}}]
        aliases = {getattr(one, "alias", key): key for key, one in self.fields.items()}
        raise unknown_key(self.noun, known, aliases)

    def json_schema(self) -> dict[str, Any]:
        """Returns the schema of a map."""
        limits = {"minProperties": self.least or None, "maxProperties": self.most}
        return {
            "type": "object",
            "additionalProperties": self.others is not None,
            "properties": {key: one.json_schema() for key, one in self.fields.items()},
            **{key: limit for key, limit in limits.items() if limit is not None},
        }


@dataclass(frozen=True)
class ListOf(FieldReader):
    """A list of at least one value of a parameter."""

    item: Parameter
    word: bool = False  # whether a plain word stands for a list of it
    distinct: bool = True  # whether each value may occur once only
    doc: str = ""  # what the list is, in the schema for editors
    wanted: str = ""  # what is expected of the whole, where its values do not say it

    @property
    def alias(self) -> str:
        return self.item.alias

    @property
    def expected(self) -> str:
        return self.wanted or f"a list of at least one value (each {self.item.expected_item})"

    def read(self, raw: Any) -> tuple[Any, ...]:
        """Returns the values."""
        given = [raw] if self.word and isinstance(raw, str) else raw
        if not isinstance(given, list) or not given:
            raise expected(self.expected)
        return read_items(self.item.read_item, given, self.distinct)

    def json_schema(self) -> dict[str, Any]:
        """Returns the schema of a list; with `word` of a word too."""
        several = {"type": "array", "minItems": 1, "items": self.item.json_item()}
        found = several
        if self.word:
            found = {"if": {"type": "array"}, "then": several, "else": self.item.json_item()}
        return {**found, "description": self.doc} if self.doc else found


def words(wanted: str, choices: Iterable[str] = ()) -> Any:
    item = Parameter(kind="str", wanted=wanted, choices=tuple(choices), pattern=".+")
    return Annotated[tuple[str, ...], ListOf(item, word=True)]


def whole(minimum: int, maximum: int) -> Any:
    return Annotated[int, Parameter(kind="int", minimum=minimum, maximum=maximum)]


def text(wanted: str = "a text", pattern: str = ".+") -> Any:
    """Returns the type of a text that is not empty."""
    return Annotated[str, Parameter(kind="str", pattern=pattern, wanted=wanted)]


def one_of(*choices: str) -> Any:
    return Annotated[str, Parameter(kind="str", choices=choices)]


Text = text()
Name = text(
    "a lower-case name (letters, digits and _, a letter first, at most 60)", "[a-z][a-z0-9_]{0,59}"
)
FilePath = text("a path")
Sha256 = text("a sha256 of 64 hexadecimal digits", "[0-9a-f]{64}")
Number = Annotated[float, Parameter(kind="float")]
Positive = Annotated[float, Parameter(kind="float", above=0)]
Count = whole(1, 1_000_000)
Seed = whole(0, 2**32 - 1)
