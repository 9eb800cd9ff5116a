"""Places in a study file by pydantic's locations, which also name the members of unions."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Discriminator, Tag
from pydantic.fields import FieldInfo

from batchscope.problems import Place


class Map(NamedTuple):
    """Type of a map of the file.

    Attributes:
        tag: Tag of the member of a union that the map is, or is part of.
        members: Types of the same map in all members of that union, by tag.
        outer: Type of the map that holds it.
    """

    type: Any = None
    tag: str = ""
    members: dict[str, Any] = {}
    outer: Any = None


def located(loc: tuple[str | int, ...], model: Any) -> tuple[Place, Map]:
    """Return the place in the file, and the map that its last key belongs to."""
    place: list[str | int] = []
    home, current, tag, members = Map(), model, "", {}
    for part in loc:
        options = _members(current)
        if part in options:
            current, tag, members = options[part], str(part), options
        elif part != "[key]":
            home = Map(current, tag, members, home.type)
            current = _child(current, part)
            members = {tag: _child(member, part) for tag, member in members.items()}
            place.append(part)
    return tuple(place), home


def keys(annotation: Any) -> dict[str, FieldInfo]:
    """Return the fields of a model by the keys of the file; empty for other types."""
    fields = getattr(_type(annotation), "model_fields", {})
    return {field.alias or name: field for name, field in fields.items()}


def aliases(annotation: Any) -> Iterator[str]:
    """Yield the names that a factor or setting has in names of runs."""
    names = (getattr(metadata, "alias", None) for metadata in _metadata(annotation))
    yield from (name for name in names if name)
    for part in typing.get_args(_type(annotation)):
        yield from aliases(part)


def _type(annotation: Any) -> Any:
    """Return a type without metadata and without None."""
    if isinstance(annotation, FieldInfo):
        return _type(annotation.annotation)
    if typing.get_origin(annotation) is Annotated:
        return _type(annotation.__origin__)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        options = [member for member in typing.get_args(annotation) if member is not type(None)]
        return _type(options[0]) if len(options) == 1 else annotation
    return annotation


def _child(annotation: Any, part: str | int) -> Any:
    """Return the type of a value in a map or a list."""
    annotation = _type(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return keys(annotation).get(str(part))
    arguments = typing.get_args(annotation)
    is_map = typing.get_origin(annotation) is dict
    return arguments[1 if is_map else 0] if arguments else None


def _metadata(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, FieldInfo):
        return annotation, *annotation.metadata
    return getattr(annotation, "__metadata__", ())


def _members(annotation: Any) -> dict[Any, Any]:
    """Return the members of a union by their tags; empty for other types."""
    members = {}
    for metadata in _metadata(annotation):
        if isinstance(metadata, Discriminator):
            for member in typing.get_args(_type(annotation)):
                tags = (item.tag for item in member.__metadata__ if isinstance(item, Tag))
                members |= dict.fromkeys(tags, member)
        elif key := getattr(metadata, "discriminator", None):
            for member in typing.get_args(_type(annotation)):
                literal = member.model_fields[key].annotation
                members |= dict.fromkeys(typing.get_args(literal), member)
    return members
