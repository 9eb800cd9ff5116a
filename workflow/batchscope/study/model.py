"""Models of a study file: their base class, types of fields, and parameters.

Parameters are factors of runs and settings of measures. They are fields with a `Setting` as
metadata, and their values have texts in paths and tables::

    blocks: Annotated[Integer, Field(ge=4), Setting("bl")] = 7
"""

import functools
import hashlib
import json
import math
import typing
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    WrapValidator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError, core_schema

from batchscope.core import display

LARGEST_INTEGER = 10**9
_LONGEST_TEXT = 500


class Model(BaseModel):
    """A map with known keys. Docstrings of attributes are the descriptions of the schema."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
        defer_build=True,
    )


class GeneratedModel(Model):
    """Base class of models that `create_model` makes: pydantic does not search their docstrings."""

    model_config = ConfigDict(use_attribute_docstrings=False)


Item = TypeVar("Item", bound=Hashable)


def _unique(values: tuple[Item, ...]) -> tuple[Item, ...]:
    for index, value in enumerate(values):
        if value in values[:index]:
            error = PydanticCustomError("repeated_value", "Every value should occur once")
            detail = InitErrorDetails(type=error, loc=(index,), input=value)
            raise ValidationError.from_exception_data("list", [detail])
    return values


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _scalar(value: Any) -> Any:
    is_text = isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_TEXT
    if is_text or (isinstance(value, bool | int | float) and abs(value) < 1e300):
        return value
    text = "Input should be a finite number, true, false or a short text"
    raise PydanticCustomError("scalar", text)


# Numbers are strict: `true` and texts are no numbers.
Integer = Annotated[int, Field(strict=True, le=LARGEST_INTEGER)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
Share = Annotated[Number, Field(gt=0, lt=1)]
Count = Annotated[Integer, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)]
Text = Annotated[str, Field(min_length=1)]
FilePath = Text
# Names become parts of paths.
Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,59}$")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Flag = Annotated[bool, Field(strict=True)]
Scalar = Annotated[Any, AfterValidator(_scalar)]
# The values of a list are distinct.
UNIQUE = AfterValidator(_unique)
Unique = Annotated[tuple[Item, ...], Field(min_length=1), UNIQUE]
# A list of distinct texts; a single text stands for a list of one.
Texts = Annotated[
    tuple[Text, ...],
    BeforeValidator(_as_list, json_schema_input_type=Text | list[Text]),
    Field(min_length=1),
    UNIQUE,
]


def mapping(model: type[Model]) -> Any:
    """Return the type of a dict: the keys of a model that the file states, in its order."""

    def read(raw: Any, validate: Any) -> dict[str, Any]:
        values = validate(raw)
        return {key: getattr(values, key) for key in raw}

    return Annotated[model, WrapValidator(read)]


@dataclass(frozen=True)
class Setting:
    """Metadata of a field that is a parameter: its alias in paths, and the unit of its values."""

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
        default: Value that names of runs and settings leave out; None if the field has no default,
            so that every name has its value.
        doc: Description, in a sentence.
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
