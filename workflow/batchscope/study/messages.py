"""Messages about a study file: `place: problem (received X). Did you mean 'Y'?`"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Tag, ValidationError
from pydantic.fields import FieldInfo

from batchscope.problems import Place, Problem, missing_blank, nearest, show


def problems(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield the problems behind a validation error, with pydantic's own wording."""
    for item in error.errors(include_url=False):
        place, parent = _located(item["loc"], model)
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            known = _keys(parent)
            yield Problem(place, f"Unknown key{_hint(place[-1], known) or _listed(known)}")
        elif item["type"] == "missing":
            yield Problem(place, "Missing key.")
        else:
            choices = item.get("ctx", {}).get("expected", "")
            hint = _hint(item["input"], re.findall("'([^']*)'", choices)).lstrip(".")
            yield Problem(place, f"{message} (received {show(item['input'])}).{hint}")


def _hint(text: Any, known: list[str]) -> str:
    """Return a question for the nearest known name, or an empty text."""
    if not isinstance(text, str):
        return ""
    match = nearest(text, known)
    return missing_blank(text) or (f". Did you mean '{match}'?" if match else "")


def _listed(known: list[str]) -> str:
    return f". Known keys: {', '.join(known)}." if known else "."


def _located(loc: tuple[str | int, ...], model: Any) -> tuple[Place, Any]:
    """Return the place in the file, and the type of the map that its last key belongs to.

    Locations of pydantic also name the members of unions.
    """
    place: list[str | int] = []
    parent, current = None, model
    for part in loc:
        members = _members(current)
        if part in members:
            current = members[part]
        elif part != "[key]":
            parent, current = _type(current), _child(_type(current), part)
            place.append(part)
    return tuple(place), parent


def _type(annotation: Any) -> Any:
    """Return a type without metadata and without None."""
    if isinstance(annotation, FieldInfo):
        return _type(annotation.annotation)
    if typing.get_origin(annotation) is Annotated:
        return _type(annotation.__origin__)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        options = [one for one in typing.get_args(annotation) if one is not type(None)]
        return _type(options[0]) if len(options) == 1 else annotation
    return annotation


def _child(annotation: Any, part: str | int) -> Any:
    """Return the type of a value in a map or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        return {field.alias or name: field for name, field in fields.items()}.get(part)
    arguments = typing.get_args(annotation)
    is_map = typing.get_origin(annotation) is dict
    return arguments[1 if is_map else 0] if arguments else None


def _members(annotation: Any) -> dict[Any, Any]:
    """Return the members of a union by their tags; nothing for any other type."""
    discriminator = None
    if isinstance(annotation, FieldInfo):
        discriminator = annotation.discriminator
    if typing.get_origin(annotation) is Annotated:
        for metadata in annotation.__metadata__:
            if isinstance(metadata, Discriminator):
                discriminator = metadata
            elif isinstance(metadata, FieldInfo) and metadata.discriminator:
                discriminator = metadata.discriminator
    found = {}
    for member in typing.get_args(_type(annotation)) if discriminator else ():
        if isinstance(discriminator, str):
            literal = member.model_fields[discriminator].annotation
            tags = typing.get_args(literal) if typing.get_origin(literal) is Literal else ()
        else:
            tags = [one.tag for one in member.__metadata__ if isinstance(one, Tag)]
        found |= dict.fromkeys(tags, member)
    return found


def _keys(model: Any) -> list[str]:
    fields = getattr(model, "model_fields", {})
    return [field.alias or name for name, field in fields.items()]
