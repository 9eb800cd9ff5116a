"""How fields of the study's models read what YAML holds, and the errors that they raise.

pydantic collects the errors, each at its place; batchscope.study.messages makes messages of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError, core_schema

LONGEST_NUMBER = 99  # characters; no number that somebody means has more
# `1e-3` is text to a YAML 1.1 reader: what a person means as a number is one.
NUMBER = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$"


class FieldReader:
    """Metadata of a field, `Annotated[type, reader]`, that reads its value."""

    expected: str  # what is expected there, for messages

    def read(self, raw: Any) -> Any:
        """Returns the value that YAML's value stands for.

        Raises:
            PydanticCustomError: Of `expected` or `problem`, if it is not what is expected.
            ValidationError: With the problem of each item.
        """
        raise NotImplementedError

    def json_schema(self) -> dict[str, Any]:
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Lets pydantic read the field by `read` alone."""
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """Lets pydantic describe the field by `json_schema`."""
        return self.json_schema()


def expected(words: str, known: Iterable[str] = ()) -> PydanticCustomError:
    context = {"expected": words, "known": tuple(known)}
    return PydanticCustomError("expected", "Expected {expected}", context)


def unknown_key(noun: str, known: Iterable[str], aliases: Mapping[str, str]) -> PydanticCustomError:
    context = {"noun": noun, "known": tuple(known), "aliases": dict(aliases)}
    return PydanticCustomError("unknown", "Unknown {noun}", context)


def absent(words: str) -> PydanticCustomError:
    return PydanticCustomError("absent", "Missing {expected}", {"expected": words})


def problem(text: str) -> PydanticCustomError:
    return PydanticCustomError("problem", "{text}", {"text": text})


def below(place: tuple[str | int, ...], error: ValidationError) -> list[InitErrorDetails]:
    """Returns the problems of what lies below a place, for an error of the whole."""
    return [
        InitErrorDetails(
            type=PydanticCustomError(each["type"], "{type}", {"type": "", **each.get("ctx", {})}),
            loc=(*place, *each["loc"]),
            input=each["input"],
        )
        for each in error.errors(include_url=False)
    ]


def read_items(
    read: Callable[[Any], Any], items: Iterable[Any], distinct: bool = True
) -> tuple[Any, ...]:
    """Returns the values of the items of a list; each may have to occur only once.

    Raises:
        ValidationError: With the problem of each item; `again` for a repeated one.
    """
    found: list[Any] = []
    wrong = []
    for index, item in enumerate(items):
        try:
            value = read(item)
            if distinct and value in found:
                raise PydanticCustomError("again", "As in {first}", {"first": found.index(value)})
        except PydanticCustomError as error:
            wrong.append(InitErrorDetails(type=error, loc=(index,), input=item))
            value = None
        found.append(value)
    if wrong:
        raise ValidationError.from_exception_data("list", wrong)
    return tuple(found)


def number(raw: Any) -> int | float | None:
    """Returns the finite number that a value is or spells, or None."""
    if isinstance(raw, str) and len(raw) <= LONGEST_NUMBER and re.fullmatch(NUMBER, raw):
        raw = int(raw) if raw.lstrip("+-").isdigit() else float(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    # A whole number may be larger than any float; nan is at most nothing.
    return raw if abs(raw) <= sys.float_info.max else None


def plain(raw: Any) -> Any:
    value = number(raw)
    return raw if value is None else value
