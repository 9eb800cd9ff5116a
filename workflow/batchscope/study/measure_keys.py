"""The keys `measure` and `timing` of an experiment: names, their settings, pairs of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WrapValidator, create_model
from pydantic_core import PydanticCustomError

from batchscope.study.model import GeneratedModel
from batchscope.study.specifications import REPEATS, Entry, Timing


@dataclass(frozen=True)
class MeasureRequest:
    """A measure or timing of an experiment."""

    name: str
    settings: dict[str, Any]  # every setting by name
    between: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # of pairs of runs


def entries_type(entries: Mapping[str, Entry], noun: str) -> Any:
    """Return the type of a key that lists measures or timings, or maps them to their settings."""
    fields = {name: (_settings(entry) | None, None) for name, entry in entries.items()}
    model = create_model(f"{noun.capitalize()}s", __base__=GeneratedModel, **fields)

    def read(raw: Any, validate: Any) -> tuple[MeasureRequest, ...]:
        settings = _as_map(raw, noun)
        requests, validated = [], validate(settings)
        for name in settings:
            model = getattr(validated, name)
            values = {key: getattr(model, key) for key in entries[name].parameters}
            requests.append(MeasureRequest(name, values, getattr(model, "between", {})))
        return tuple(requests)

    item = Literal[tuple(entries)] | model
    written = item | Annotated[list[item], Field(min_length=1)]
    return Annotated[model, WrapValidator(read, json_schema_input_type=written)]


def _as_map(raw: Any, noun: str) -> dict[str, Any]:
    items = raw if isinstance(raw, list) else [raw]
    maps = [{item: None} if isinstance(item, str) else item for item in items]
    if not maps or not all(isinstance(item, dict) and item for item in maps):
        text = "Input should be a list of {noun}s, or a map from {noun}s to settings"
        raise PydanticCustomError("entries", text, {"noun": noun})
    settings: dict[str, Any] = {}
    for name, value in (pair for item in maps for pair in item.items()):
        if name in settings:
            text = "Every {noun} should occur once, '{name}' occurs again"
            raise PydanticCustomError("repeated", text, {"noun": noun, "name": name})
        settings[name] = {} if value is None else value
    return settings


def _settings(entry: Entry) -> Any:
    """Return the type of the settings that a study may state."""
    keys = {"epoch": "at_epochs"} if entry.at_epochs else {}
    if isinstance(entry, Timing) and entry.trains:
        keys[REPEATS.name] = "seeds"

    def refuse(settings: Any) -> Any:
        for name, key in keys.items():
            if isinstance(settings, dict) and name in settings:
                text = "Setting '{name}' should be left out: the experiment's '{key}' gives it"
                raise PydanticCustomError("refused", text, {"name": name, "key": key})
        return settings

    return Annotated[entry.settings, BeforeValidator(refuse)]
