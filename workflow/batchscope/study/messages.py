"""From pydantic's errors to problems: a place in the file, what was received, what is expected."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from batchscope.catalogue.fields import Refused, Section
from batchscope.catalogue.readers import FieldReader
from batchscope.problems import Place, Problem, inside, missing, received, show, unknown

_OF_READERS = ("absent", "unknown", "problem", "again", "expected")
_KEY = "[key]"  # the end of pydantic's place of a key that is not as expected


def problems(error: ValidationError, model: type[Section], raw: Any) -> list[Problem]:
    """Returns the problems behind an error of validation.

    Args:
        model: What was validated.
        raw: What it was validated against.
    """
    found = []
    for each in error.errors(include_url=False):
        place, field = _located(each["loc"], model, raw)
        home = _parts(_located(each["loc"][:-1], model, raw)[1])[0]
        if each["type"] == "extra_forbidden" and hasattr(home, "noun"):
            found.append(unknown(place, home.noun, _known_keys(home)))
        elif each["type"] not in _OF_READERS and (
            field is None or _parts(field)[0].__module__ == "batchscope.study.asked"
        ):
            found.append(Problem(place, f"{each['msg']} (received {show(each['input'])})."))
        else:
            found.append(_problem(each, place, field))
    return found


def _problem(error: Any, place: Place, field: Any) -> Problem:
    loc, value, context = error["loc"], error["input"], error.get("ctx", {})
    match error["type"]:
        case "missing":
            return missing(place, expected(field))
        case "absent":
            return missing(place, context["expected"])
        case "unknown":
            return unknown(place, context["noun"], context["known"], context["aliases"])
        case "problem":
            return Problem(place, context["text"])
        case "again":
            text = f"received {show(value)} again (as in [{context['first']}]); "
            return Problem(place, f"{text}every value once is expected.")
        case "expected" if loc[-1:] == (_KEY,):
            return Problem(place, f"received this name; {context['expected']} is expected.")
        case "expected":
            return received(place, value, context["expected"], context["known"])
        case "union_tag_invalid" | "union_tag_not_found" if isinstance(value, dict):
            tags = _members(field)
            key, wanted = _discriminator(field), f"one of {', '.join(tags)}"
            at = (*place, key)
            return received(at, value[key], wanted, tags) if key in value else missing(at, wanted)
        case _:
            return received(place, value, expected(field))


def expected(field: Any) -> str:
    """Returns what is expected of a field, or of an annotation."""
    annotation, metadata = _parts(field)
    readers = [one for one in metadata if isinstance(one, FieldReader)]
    if readers:
        return readers[-1].expected
    origin = typing.get_origin(annotation) or annotation
    if origin in (list, tuple):
        return f"a list of at least one item (each {expected(typing.get_args(annotation)[0])})"
    return getattr(annotation, "wanted", "a map")


def _located(loc: Place, model: type[Section], raw: Any) -> tuple[Place, Any]:
    """Returns the place in the file, and the field or annotation there, of pydantic's place."""
    place: Place = ()
    field: Any = model
    for part in loc:
        members = _members(field)
        if part in members:  # the tag of a union's member is no part of the place
            field = members[part]
        elif part != _KEY and not (isinstance(raw, str) and part == 0):  # a word for a list
            place, raw = (*place, part), inside(raw, part)
            field = _child(field, part)
            model = _parts(field)[0]
            if isinstance(model, type) and issubclass(model, Section):
                kind = model.kind_of(raw)
                field = field if kind is model else kind
    return place, field


def _parts(field: Any) -> tuple[Any, list[Any]]:
    """Returns the annotation of a field, and its metadata."""
    if isinstance(field, FieldInfo):
        inner, metadata = _parts(field.annotation)
        return inner, [*metadata, *field.metadata]
    if typing.get_origin(field) is Annotated:
        inner, metadata = _parts(field.__origin__)
        return inner, [*metadata, *field.__metadata__]
    return field, []


def _child(field: Any, part: str | int) -> Any:
    annotation, _ = _parts(field)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return _fields(annotation).get(part)
    arguments = typing.get_args(annotation)
    return arguments[-1 if typing.get_origin(annotation) is dict else 0] if arguments else None


def _discriminator(field: Any) -> str:
    """Returns the key that distinguishes the members of a union, or an empty text."""
    given = [field] if isinstance(field, FieldInfo) else []
    found = [*given, *(one for one in _parts(field)[1] if isinstance(one, FieldInfo))]
    return next((one.discriminator for one in found if one.discriminator), "")


def _members(field: Any) -> dict[str, Any]:
    """Returns the members of a union by their tags; of anything else none."""
    key = _discriminator(field)
    members = typing.get_args(_parts(field)[0]) if key else ()
    return {tag: member for member in members for tag in typing.get_args(_annotation(member, key))}


def _annotation(member: Any, key: str) -> Any:
    return _parts(member)[0].model_fields[key].annotation


def _known_keys(model: type[Section]) -> list[str]:
    return [
        key
        for key, field in _fields(model).items()
        if not any(isinstance(one, Refused) for one in field.metadata)
    ]


def _fields(model: type[Section]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def read(read_one: Callable[[Any], Any], raw: Any, place: Place) -> tuple[Any, list[Problem]]:
    """Returns what a reader reads, or None and what is wrong."""
    try:
        return read_one(raw), []
    except PydanticCustomError as error:
        found = [{"type": error.type, "loc": (), "input": raw, "ctx": error.context or {}}]
    except ValidationError as error:
        found = error.errors(include_url=False)
    return None, [_problem({**one, "loc": ()}, (*place, *one["loc"]), None) for one in found]
