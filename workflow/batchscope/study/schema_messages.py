"""Turn pydantic's validation errors into messages: `place: problem (received X). Did you mean 'Y'?`

Pydantic's locations also name the members of unions, which are no part of a place.
"""

import re
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Tag, ValidationError
from pydantic.fields import FieldInfo

from batchscope.core.problems import Place, Problem, hint, missing_blank, nearest, show
from batchscope.study.factor_maps import NAME_BY_ALIAS

_MAX_LISTED = 24
# Some types of error have our own wording, since pydantic's names Python's types and our classes.
_MAP_TYPES = ("dict_type", "model_type", "model_attributes_type")
_PLAIN_MESSAGES = {
    **dict.fromkeys(_MAP_TYPES, "Input should be a map of keys"),
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
            choices = [] if "pattern" in kind else re.findall("'([^']*)'", message)
            if len(choices) > _MAX_LISTED:
                message = f"Input should be one of {', '.join(choices[:_MAX_LISTED])}, ..."
            fix = hint(value, choices) if isinstance(value, str) else ""
            # `show` would write 16.0 as 16.
            text = repr(value) if kind == "int_type" and isinstance(value, float) else show(value)
            yield Problem(place, f"{message} (received {text}).{fix}")


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
            kind, _ = _unwrap(current)
            fields = getattr(kind, "model_fields", {})
            by_key = {field.alias or name: field for name, field in fields.items()}
            tag, next_tag, known_keys = next_tag, "", list(by_key)
            item_types = typing.get_args(kind)[-1 if typing.get_origin(kind) is dict else 0 :]
            current = by_key.get(str(part)) if fields else next(iter(item_types), None)
    return tuple(place), tag, known_keys


def _unwrap(annotation: Any) -> tuple[Any, list[Any]]:
    """Return a type without metadata and without None, and its metadata."""
    metadata: list[Any] = []
    while True:
        options = [item for item in typing.get_args(annotation) if item is not types.NoneType]
        is_union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
        if isinstance(annotation, FieldInfo):
            metadata += annotation.metadata
            annotation = annotation.annotation
        elif typing.get_origin(annotation) is Annotated:
            metadata += annotation.__metadata__
            annotation = annotation.__origin__
        elif is_union and len(options) == 1:
            annotation = options[0]
        else:
            return annotation, metadata


def _union_members(annotation: Any) -> dict[Any, Any]:
    """Return the members of a union by their tags; empty for other types."""
    union, metadata = _unwrap(annotation)
    members = {}
    for discriminator in (item for item in metadata if isinstance(item, Discriminator)):
        for member in typing.get_args(union):
            if isinstance(key := discriminator.discriminator, str):
                tags = typing.get_args(member.model_fields[key].annotation)
            else:
                tags = [item.tag for item in member.__metadata__ if isinstance(item, Tag)]
            members |= dict.fromkeys(tags, member)
    return members
