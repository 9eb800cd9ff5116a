"""The kinds of fields that the models of a study are made of, beside factors and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, WrapValidator
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import TypedDict

from batchscope.catalogue.parameters import Parameter, expected, read_all


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


def problem(text: str) -> PydanticCustomError:
    """Returns the error whose message is the whole text."""
    return PydanticCustomError("problem", "{text}", {"text": text})


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
class Refused:
    """A key that is known, to be refused in words of its own."""

    expected: str

    def _read(self, raw: Any) -> None:
        raise expected(self.expected)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
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
    known = TypedDict(name, dict(fields), total=False)  # type: ignore[operator]
    known.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    return Annotated[known, WrapValidator(_as_written), Words(wanted, noun)]


@dataclass(frozen=True)
class ListOf:
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

    def _read(self, raw: Any) -> tuple[Any, ...]:
        given = [raw] if self.word and isinstance(raw, str) else raw
        return read_all(self.item, given, self.distinct)

    @property
    def expected(self) -> str:
        """What is expected of the whole."""
        return f"a list of at least one value (each {self.item.expected_item})"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        several = {"type": "array", "minItems": 1, "items": self.item.json_item}
        found = {"anyOf": [self.item.json_item, several]} if self.word else several
        return {**found, "description": self.doc} if self.doc else found


@dataclass(frozen=True)
class OneValue:
    """A value of a factor where a list is a slip: several values belong elsewhere."""

    item: Parameter

    @property
    def expected(self) -> str:
        """What is expected of it."""
        return self.item.expected

    def _read(self, raw: Any) -> Any:
        if isinstance(raw, list):
            raise expected(f"{self.item.expected}, or a list under `vary`,")
        return self.item.read(raw)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return self.item.__get_pydantic_json_schema__(core, handler)


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
