"""Turn fields of a pydantic model into parameters, whose values have texts in paths and tables.

Parameters are factors of runs and settings of measures: fields with a `Setting` as metadata::

    blocks: Annotated[Integer, Field(ge=4), Setting("bl")] = 7
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, core_schema

from batchscope.core import display


@dataclass(frozen=True)
class Setting:
    """Metadata of a field that is a parameter.

    Attributes:
        alias: Name of the field in paths.
        unit: Unit of its values.
    """

    alias: str
    unit: str = ""


@dataclass(frozen=True)
class Word:
    """Metadata of a number: a word that may replace a number in the study file."""

    text: str
    value: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        def read(raw: Any, validate: Any) -> Any:
            if isinstance(raw, str) and raw != self.text:
                text = "Input should be '{word}' or a number"
                raise PydanticCustomError("word", text, {"word": self.text})
            return self.value if raw == self.text else validate(raw)

        return core_schema.no_info_wrap_validator_function(read, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"const": self.text}, handler(core["schema"])]}


@dataclass(frozen=True)
class Parameter:
    """A field with a `Setting`: a factor of a run, or a setting of a measure or timing.

    Attributes:
        name: Name in the study file and column of the tables.
        annotation: Its type with all metadata.
        default: Value that no name spells; None if every name spells the field.
        doc: Description, in a sentence.
        metadata: Its `Setting`.
    """

    name: str
    annotation: Any
    default: Any
    doc: str
    metadata: Setting

    @property
    def alias(self) -> str:
        return self.metadata.alias

    @property
    def unit(self) -> str:
        return self.metadata.unit

    @property
    def required(self) -> bool:
        return self.default is None

    @functools.cached_property
    def is_list(self) -> bool:
        """Whether its value is a tuple; names join the items by `_`."""
        return typing.get_origin(FieldInfo.from_annotation(self.annotation).annotation) is tuple

    @functools.cached_property
    def _item(self) -> Any:
        """Type of a value, or of an item of a list, with all metadata."""
        field = FieldInfo.from_annotation(self.annotation)
        return typing.get_args(field.annotation)[0] if self.is_list else self.annotation

    @functools.cached_property
    def choices(self) -> tuple[Any, ...]:
        base = FieldInfo.from_annotation(self._item).annotation
        return typing.get_args(base) if typing.get_origin(base) is Literal else ()

    @functools.cached_property
    def type(self) -> type:
        base = FieldInfo.from_annotation(self._item).annotation
        return type(self.choices[0]) if self.choices else base

    @property
    def kind(self) -> str:
        return self.type.__name__

    @property
    def named_values(self) -> dict[str, Any]:
        metadata = FieldInfo.from_annotation(self._item).metadata
        return {item.text: item.value for item in metadata if isinstance(item, Word)}

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self._item)

    def read_item(self, raw: Any) -> Any:
        return self._adapter.validate_python(raw)

    def text(self, value: Any) -> str:
        """Return the text of a value in a path; raise ValueError if it is not finite."""
        return "_".join(map(self._item_text, value)) if self.is_list else self._item_text(value)

    def _item_text(self, value: Any) -> str:
        if self.type is bool:
            return "true" if value else "false"
        return number_text(self.type(value)) if self.type in (int, float) else str(value)

    def parse(self, text: str) -> Any:
        """Return the value of a text in a path; raise ValueError if no value has this text."""
        items = tuple(map(self._parse_item, text.split("_") if self.is_list else [text]))
        return items if self.is_list else items[0]

    def _parse_item(self, text: str) -> Any:
        if self.choices and text not in self.choices:
            raise ValueError(f"Expected one of {self.choices}. Received: {text!r}")
        return text == "true" if self.type is bool else self.type(text)

    def spelled(self, value: Any) -> str:
        """Return the word for a value if it has one, else its text in a path."""
        names = (name for name, number in self.named_values.items() if number == value)
        return next(names, None) or self.text(value)

    @property
    def allowed(self) -> str:
        """Allowed values for the reference: `integer, 1 to 4096` or `number, > 0`."""
        schema = self._adapter.json_schema()
        for option in schema.get("anyOf", ()):
            schema = schema | option
        signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
        parts = [", ".join(map(str, self.choices)) or schema["type"]]
        if {"minimum", "maximum"} <= schema.keys():
            parts.append(f"{schema['minimum']:g} to {schema['maximum']:g}")
        else:
            parts += [f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema]
        text = display.listed([*self.named_values, ", ".join(parts)], "or")
        return f"list of {text}" if self.is_list else text


def parameters(model: type[BaseModel]) -> dict[str, Parameter]:
    """Return the fields of a model that have a `Setting`, by name and in order."""
    return {
        name: Parameter(
            name,
            Annotated[(info.annotation, *info.metadata)],
            None if info.is_required() else info.default,
            " ".join((info.description or "").split()),
            metadata,
        )
        for name, info in model.model_fields.items()
        for metadata in info.metadata
        if isinstance(metadata, Setting)
    }


def number_text(value: int | float) -> str:
    """Return the shortest text of a number; raise ValueError if it is not finite."""
    if not math.isfinite(value):
        raise ValueError(f"Expected a finite number. Received: {value!r}")
    return display.shortest(value)


def digest(definition: Any) -> str:
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]
