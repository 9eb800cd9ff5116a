"""Turn pydantic's validation errors into messages: `place: problem (received X). Did you mean 'Y'?`

Pydantic's locations also name the members of unions, which are no part of a place.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Discriminator, Tag, ValidationError
from pydantic.fields import FieldInfo

from batchscope.core import display
from batchscope.core.problems import Place, Problem, hint, missing_blank, nearest, show

_MAX_LISTED = 24
# Some types of error have our own wording, since pydantic's names Python's types and our classes.
_MAP_MESSAGE = "Input should be a map of keys"
_PLAIN_MESSAGES = dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), _MAP_MESSAGE)
_PLAIN_MESSAGES |= dict.fromkeys(("list_type", "tuple_type"), "Input should be a list")


class MapType(NamedTuple):
    """Type of a map of the file, with the types that an unknown key of it may belong to.

    Attributes:
        tag: Tag of the member of a union that the map is, or is part of.
        members: Types of the same map in all members of that union, by tag.
        outer: Type of the map that holds it.
    """

    type: Any = None
    tag: str = ""
    members: dict[str, Any] = {}
    outer: Any = None


def problems(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield the problems behind a validation error, with pydantic's own wording."""
    located = [(item, *_locate(item["loc"], model)) for item in error.errors(include_url=False)]
    # Keys that unknown keys probably mean are not reported as missing.
    misspelled = {
        (*place[:-1], _unknown_key(place[-1], map_type)[1])
        for item, place, map_type in located
        if item["type"] == "extra_forbidden"
    }
    for item, place, map_type in located:
        kind, value, context = item["type"], item["input"], item.get("ctx", {})
        message = _PLAIN_MESSAGES.get(kind, item["msg"].removeprefix("Value error, "))
        if kind.startswith("union_tag"):
            place = (*place, context["discriminator"].strip("'"))
            value = context.get("tag")
            message = f"Input should be one of {context.get('expected_tags')}"
        if kind == "union_tag_not_found":
            key = next((key for key in item["input"] if nearest(key, place[-1:])), None)
            if key is not None:
                yield Problem((*place[:-1], key), f"Unknown key. Did you mean '{place[-1]}'?")
                continue
        if kind == "too_short":
            message = f"Input should have {display.count(context['min_length'], 'item')} or more"
        if kind == "too_long":
            message = f"Input should have {display.count(context['max_length'], 'item')} or fewer"
        if kind == "extra_forbidden":
            yield Problem(place, _unknown_key(place[-1], map_type)[0])
        elif kind in ("missing", "union_tag_not_found"):
            if place not in misspelled:
                yield Problem(place, "Missing key.")
        # pydantic counts the valid items of a list, and reports the invalid ones as well.
        elif kind != "too_short" or context["actual_length"] == _length(value):
            choices = re.findall("'([^']*)'", message)
            if len(choices) > _MAX_LISTED:
                message = f"Input should be one of {', '.join(choices[:_MAX_LISTED])}, ..."
            fix = hint(value, choices) if isinstance(value, str) else ""
            if value is None and message == _MAP_MESSAGE:
                fix = " Indent its keys, or remove it."
            yield Problem(place, f"{message} (received {show(value)}).{fix}")


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 1  # A single value may replace a list.


def _unknown_key(key: Any, map_type: MapType) -> tuple[str, str | None]:
    """Return the problem of an unknown key, and the key that is probably meant."""
    fields = _fields_by_key(map_type.type)
    by_member = {tag: _fields_by_key(member) for tag, member in map_type.members.items()}
    tags = [f"'{tag}'" for tag, keys in by_member.items() if key in keys]
    if tags:
        return f"Unknown key of '{map_type.tag}', only of {display.listed(tags, 'or')}.", None
    name = str(key).partition(":")[0]
    aliases = {alias: key for key, field in fields.items() for alias in _parameter_aliases(field)}
    match = aliases.get(name) or nearest(name, fields)
    match = match or nearest(name, {key for keys in by_member.values() for key in keys})
    if match:
        return f"Unknown key.{missing_blank(str(key)) or f' Did you mean {match!r}?'}", match
    if match := nearest(name, _fields_by_key(map_type.outer)):
        return f"Unknown key. Did you mean '{match}', one level up?", match
    end = ", ..." if len(fields) > _MAX_LISTED else "."
    return f"Unknown key. Known keys: {', '.join([*fields][:_MAX_LISTED])}{end}", None


def _locate(loc: tuple[str | int, ...], model: Any) -> tuple[Place, MapType]:
    """Return the place in the file, and the map that its last key belongs to."""
    place: list[str | int] = []
    map_type, current, tag, members = MapType(), model, "", {}
    for part in loc:
        options = _union_members(current)
        if part in options:
            current, tag, members = options[part], str(part), options
        elif part != "[key]":
            map_type = MapType(current, tag, members, map_type.type)
            current = _child_type(current, part)
            members = {tag: _child_type(member, part) for tag, member in members.items()}
            place.append(part)
    return tuple(place), map_type


def _fields_by_key(annotation: Any) -> dict[str, FieldInfo]:
    """Return the fields of a model by the keys of the file; empty for other types."""
    fields = getattr(_bare_type(annotation), "model_fields", {})
    return {field.alias or name: field for name, field in fields.items()}


def _parameter_aliases(annotation: Any) -> Iterator[str]:
    """Yield the names that a factor or setting has in names of runs."""
    names = (getattr(metadata, "alias", None) for metadata in _metadata(annotation))
    yield from (name for name in names if name)
    for part in typing.get_args(_bare_type(annotation)):
        yield from _parameter_aliases(part)


def _bare_type(annotation: Any) -> Any:
    """Return a type without metadata and without None."""
    if isinstance(annotation, FieldInfo):
        return _bare_type(annotation.annotation)
    if typing.get_origin(annotation) is Annotated:
        return _bare_type(annotation.__origin__)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        options = [member for member in typing.get_args(annotation) if member is not type(None)]
        return _bare_type(options[0]) if len(options) == 1 else annotation
    return annotation


def _child_type(annotation: Any, part: str | int) -> Any:
    """Return the type of the value at a key of a map or at an index of a list."""
    annotation = _bare_type(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _fields_by_key(annotation).get(str(part))
    arguments = typing.get_args(annotation)
    is_map = typing.get_origin(annotation) is dict
    return arguments[1 if is_map else 0] if arguments else None


def _metadata(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, FieldInfo):
        return annotation, *annotation.metadata
    return getattr(annotation, "__metadata__", ())


def _union_members(annotation: Any) -> dict[Any, Any]:
    """Return the members of a union by their tags; empty for other types."""
    members = {}
    for metadata in _metadata(annotation):
        if isinstance(metadata, Discriminator):
            for member in typing.get_args(_bare_type(annotation)):
                tags = (item.tag for item in member.__metadata__ if isinstance(item, Tag))
                members |= dict.fromkeys(tags, member)
        elif key := getattr(metadata, "discriminator", None):
            for member in typing.get_args(_bare_type(annotation)):
                literal = member.model_fields[key].annotation
                members |= dict.fromkeys(typing.get_args(literal), member)
    return members
