"""The keys `measure` and `timing` of an experiment: names, their settings, pairs of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, create_model
from pydantic_core import PydanticCustomError, core_schema

from batchscope.study.model import GeneratedModel
from batchscope.study.specifications import REPEATS, Entry, Timing


@dataclass(frozen=True)
class MeasureRequest:
    """A measure or timing of an experiment.

    Attributes:
        settings: Every setting by name.
        between: Factor -> its value in the small and in the large run of each pair.
    """

    name: str
    settings: dict[str, Any]
    between: dict[str, tuple[Any, Any]] = field(default_factory=dict)


def entries_type(entries: Mapping[str, Entry], noun: str) -> Any:
    """Return the type of a key that lists measures or timings, or maps them to their settings."""
    fields = {name: (_settings(entry) | None, None) for name, entry in entries.items()}
    model = create_model(f"{noun.capitalize()}s", __base__=GeneratedModel, **fields)
    return Annotated[model, _Entries(entries, noun)]


@dataclass(frozen=True)
class _Entries:
    """Metadata of a map of measures or timings: a name and a list are read as one."""

    entries: Mapping[str, Entry]
    noun: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        def read(raw: Any, validate: Any) -> tuple[MeasureRequest, ...]:
            settings = self._as_map(raw)
            model = validate(settings)
            return tuple(self._entry(name, getattr(model, name)) for name in settings)

        return core_schema.no_info_wrap_validator_function(read, handler(source))

    def _as_map(self, raw: Any) -> dict[str, Any]:
        items = raw if isinstance(raw, list) else [raw]
        maps = [{item: None} if isinstance(item, str) else item for item in items]
        if not maps or not all(isinstance(item, dict) and item for item in maps):
            text = "Input should be a list of {noun}s, or a map from {noun}s to settings"
            raise PydanticCustomError("entries", text, {"noun": self.noun})
        settings: dict[str, Any] = {}
        for name, value in (pair for item in maps for pair in item.items()):
            if name in settings:
                text = "Every {noun} should occur once, '{name}' occurs again"
                raise PydanticCustomError("repeated", text, {"noun": self.noun, "name": name})
            settings[name] = {} if value is None else value
        return settings

    def _entry(self, name: str, settings: Any) -> MeasureRequest:
        values = {key: getattr(settings, key) for key in self.entries[name].parameters}
        return MeasureRequest(name, values, getattr(settings, "between", {}))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        settings = handler(core["schema"])
        item = {"anyOf": [{"enum": list(self.entries)}, settings]}
        return {"anyOf": [*item["anyOf"], {"type": "array", "minItems": 1, "items": item}]}


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

    return Annotated[entry.settings, BeforeValidator(refuse)] if keys else entry.settings
