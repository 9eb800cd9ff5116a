"""Base class, and field types of several pydantic models of a study file."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

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

    def explicit(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.model_fields_set}


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
    if is_text or isinstance(value, bool | int | float):
        return value
    raise PydanticCustomError("scalar", "Input should be a number, true, false or a short text")


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
