"""Messages about a study file: `place: problem (received X). Did you mean 'Y'?`"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from batchscope import wording
from batchscope.problems import Problem, missing_blank, nearest, show
from batchscope.study import locations
from batchscope.study.locations import Map

_MOST_LISTED = 24
# Replaces wording that names Python's types and our classes.
_MAP = "Input should be a map of keys"
_PLAIN = dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), _MAP)
_PLAIN |= dict.fromkeys(("list_type", "tuple_type"), "Input should be a list")


def problems(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield the problems behind a validation error, with pydantic's own wording."""
    located = [
        (item, *locations.located(item["loc"], model)) for item in error.errors(include_url=False)
    ]
    misspelled = {
        (*place[:-1], _unknown(place[-1], home)[1])
        for item, place, home in located
        if item["type"] == "extra_forbidden"
    }
    for item, place, home in located:
        kind, value, context = item["type"], item["input"], item.get("ctx", {})
        message = _PLAIN.get(kind, item["msg"].removeprefix("Value error, "))
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
            message = f"Input should have {wording.count(context['min_length'], 'item')} or more"
        if kind == "too_long":
            message = f"Input should have {wording.count(context['max_length'], 'item')} or fewer"
        if kind == "extra_forbidden":
            yield Problem(place, _unknown(place[-1], home)[0])
        elif kind in ("missing", "union_tag_not_found"):
            if place not in misspelled:
                yield Problem(place, "Missing key.")
        # pydantic counts the valid items of a list, and reports the invalid ones as well.
        elif kind != "too_short" or context["actual_length"] == _length(value):
            choices = re.findall("'([^']*)'", message)
            if len(choices) > _MOST_LISTED:
                message = f"Input should be one of {', '.join(choices[:_MOST_LISTED])}, ..."
            hint = _hint(value, choices) if isinstance(value, str) else ""
            if value is None and message == _MAP:
                hint = " Indent its keys, or remove it."
            yield Problem(place, f"{message} (received {show(value)}).{hint}")


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 1  # a single value may replace a list


def _hint(text: str, choices: list[str]) -> str:
    match = nearest(text, choices)
    return missing_blank(text) or (f" Did you mean '{match}'?" if match else "")


def _unknown(key: Any, home: Map) -> tuple[str, str | None]:
    """Return the problem of an unknown key, and the key that is probably meant."""
    fields = locations.keys(home.type)
    by_member = {tag: locations.keys(member) for tag, member in home.members.items()}
    tags = [f"'{tag}'" for tag, keys in by_member.items() if key in keys]
    if tags:
        return f"Unknown key of '{home.tag}', only of {wording.listed(tags, 'or')}.", None
    name = str(key).partition(":")[0]
    aliases = {alias: key for key, field in fields.items() for alias in locations.aliases(field)}
    match = aliases.get(name) or nearest(name, fields)
    match = match or nearest(name, {key for keys in by_member.values() for key in keys})
    if match:
        return f"Unknown key.{missing_blank(str(key)) or f' Did you mean {match!r}?'}", match
    if match := nearest(name, locations.keys(home.outer)):
        return f"Unknown key. Did you mean '{match}', one level up?", match
    end = ", ..." if len(fields) > _MOST_LISTED else "."
    return f"Unknown key. Known keys: {', '.join([*fields][:_MOST_LISTED])}{end}", None
