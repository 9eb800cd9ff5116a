"""The kinds of fields that the models of a study are made of, beside factors and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, WrapValidator
from typing_extensions import TypedDict

from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.readers import FieldReader, expected, read_items


class Section(BaseModel):
    """A map of a study with known keys.

    Attributes:
        noun: What a key is called in a message.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
    noun: ClassVar[str] = "key"

    @property
    def given(self) -> dict[str, Any]:
        """The keys that the file has, and their values."""
        return {key: value for key, value in self if key in self.model_fields_set}


@dataclass(frozen=True)
class Words:
    """What messages say of a field.

    Attributes:
        expected: What is expected of it.
        noun: What a key of it is called.
    """

    expected: str = ""
    noun: str = "key"


@dataclass(frozen=True)
class Refused(FieldReader):
    """A key that is known, to be refused in words of its own."""

    expected: str

    def read(self, raw: Any) -> None:
        """Raises that something else is expected."""
        raise expected(self.expected)

    def json_schema(self) -> dict[str, Any]:
        """Returns the schema that nothing fits."""
        return {"not": {}}


def _as_written(raw: Any, read: Any) -> Any:
    found = read(raw)
    return {key: found[key] for key in raw if key in found}


def keyed(name: str, fields: Mapping[str, Any], noun: str, wanted: str) -> Any:
    """Returns the type of a map, in the order of the file, whose keys may all be left out.

    Args:
        name: Of the type, as in the schema for editors.
        fields: Key -> type of its value.
        noun: What a key is called in a message.
        wanted: What is expected of the whole.
    """
    known = TypedDict(name, dict(fields), total=False)  # noqa: UP013: the keys are data
    known.__pydantic_config__ = ConfigDict(extra="forbid")
    return Annotated[known, WrapValidator(_as_written), Words(wanted, noun)]


@dataclass(frozen=True)
class ListOf(FieldReader):
    """A list of at least one value of a parameter.

    Attributes:
        word: Whether a plain word stands for a list of it.
        distinct: Whether each value may occur once only.
        doc: What the list is, in the schema for editors.
    """

    item: Parameter
    word: bool = False
    distinct: bool = True
    doc: str = ""

    @property
    def expected(self) -> str:
        """What is expected of the whole."""
        return f"a list of at least one value (each {self.item.expected_item})"

    def read(self, raw: Any) -> tuple[Any, ...]:
        """Returns the values."""
        given = [raw] if self.word and isinstance(raw, str) else raw
        if not isinstance(given, list) or not given:
            raise expected(self.expected)
        return read_items(self.item.read, given, self.distinct)

    def json_schema(self) -> dict[str, Any]:
        """Returns the schema of a list; with `word` of a word too."""
        several = {"type": "array", "minItems": 1, "items": self.item.json_item()}
        found = {"anyOf": [self.item.json_item(), several]} if self.word else several
        return {**found, "description": self.doc} if self.doc else found


@dataclass(frozen=True)
class OneValue(FieldReader):
    """A value of a factor where a list is a slip: several values belong elsewhere."""

    item: Parameter

    @property
    def expected(self) -> str:
        """What is expected of it."""
        return self.item.expected

    def read(self, raw: Any) -> Any:
        """Returns the value."""
        if isinstance(raw, list):
            raise expected(f"{self.item.expected}, or a list under `vary`,")
        return self.item.read(raw)

    def json_schema(self) -> dict[str, Any]:
        """Returns the schema of the value."""
        return self.item.json_schema()


def words(wanted: str, choices: Iterable[str] = ()) -> Any:
    """Returns the type of a list of words, or of one of them."""
    item = Parameter.unnamed("str", wanted=wanted, choices=tuple(choices), pattern=".+")
    return Annotated[tuple[str, ...], ListOf(item, word=True)]


def whole(minimum: int, maximum: int) -> Any:
    """Returns the type of a whole number."""
    return Annotated[int, Parameter.unnamed("int", minimum=minimum, maximum=maximum)]


def text(wanted: str = "a text", pattern: str = ".+") -> Any:
    """Returns the type of a text that is not empty."""
    return Annotated[str, Parameter.unnamed("str", pattern=pattern, wanted=wanted)]


def one_of(*choices: str) -> Any:
    """Returns the type of one of some words."""
    return Annotated[str, Parameter.unnamed("str", choices=choices)]


Text = text()
Name = text(
    "a lower-case name (letters, digits and _, a letter first, at most 60)", "[a-z][a-z0-9_]{0,59}"
)
FilePath = text("a path")
Sha256 = text("a sha256 of 64 hexadecimal digits", "[0-9a-f]{64}")
Number = Annotated[float, Parameter.unnamed("float")]
Positive = Annotated[float, Parameter.unnamed("float", above=0)]
Count = whole(1, 1_000_000)
Seed = whole(0, 2**32 - 1)
