"""Turn pydantic's validation errors into messages: `place: problem (received X). Did you mean 'Y'?`

Pydantic's locations also name the members of unions, which are no part of a place.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Tag, ValidationError
from pydantic.fields import FieldInfo

from batchscope.core.problems import Place, Problem, hint, missing_blank, nearest, show
from batchscope.study.factor_models import NAME_BY_ALIAS

_MAX_LISTED = 24
# Some types of error have our own wording, since pydantic's names Python's types and our classes.
_PLAIN_MESSAGES = {
    **dict.fromkeys(("dict_type", "model_type"), "Input should be a map of keys"),
    **dict.fromkeys(("list_type", "tuple_type"), "Input should be a list"),
}


def problems(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield the problems behind a validation error, with pydantic's own wording."""
    for item in error.errors(include_url=False):
        place, tag, known_keys = _locate(item["loc"], model)
        kind, value, context = item["type"], item["input"], item.get("ctx", {})
        message = _PLAIN_MESSAGES.get(kind, item["msg"].removeprefix("Value error, "))
        if kind.startswith("union_tag"):
            place = (*place, context["discriminator"].strip("'"))
            value = context.get("tag")
            message = f"Input should be one of {context.get('expected_tags')}"
        if kind == "extra_forbidden":
            yield Problem(place, _unknown_key(str(place[-1]), tag, known_keys))
        elif kind in ("missing", "union_tag_not_found"):
            yield Problem(place, "Missing key.")
        # pydantic counts the valid items of a list, and reports the invalid ones as well.
        elif kind != "too_short" or context["actual_length"] == _length(value):
            choices = re.findall("'([^']*)'", message)
            if len(choices) > _MAX_LISTED:
                message = f"Input should be one of {', '.join(choices[:_MAX_LISTED])}, ..."
            fix = hint(value, choices) if isinstance(value, str) else ""
            yield Problem(place, f"{message} (received {show(value)}).{fix}")


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 1  # A single value may replace a list.


def _unknown_key(key: str, tag: str, known_keys: list[str]) -> str:
    problem, name = f"Unknown key of '{tag}'." if tag else "Unknown key.", key.partition(":")[0]
    alias = NAME_BY_ALIAS.get(name)
    match = alias if alias in known_keys else nearest(name, known_keys)
    if match:
        return f"{problem}{missing_blank(key) or f' Did you mean {match!r}?'}"
    end = ", ..." if len(known_keys) > _MAX_LISTED else "."
    return f"{problem} Known keys: {', '.join(known_keys[:_MAX_LISTED])}{end}"


def _locate(loc: tuple[str | int, ...], model: Any) -> tuple[Place, str, list[str]]:
    """Return the place in the file, and of the map with its last key: the tag and the known keys.

    The tag is that of a member of a union; it is empty for other maps.
    """
    place: list[str | int] = []
    current, next_tag, tag, known_keys = model, "", "", []
    for part in loc:
        members = _union_members(current)
        if part in members:
            current, next_tag = members[part], str(part)
        elif part != "[key]":
            place.append(part)
            tag, next_tag, known_keys = next_tag, "", list(_fields_by_key(current))
            current = _child_type(current, part)
    return tuple(place), tag, known_keys


def _fields_by_key(annotation: Any) -> dict[str, FieldInfo]:
    """Return the fields of a model by the keys of the file; empty for other types."""
    fields = getattr(_bare_type(annotation), "model_fields", {})
    return {field.alias or name: field for name, field in fields.items()}


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
