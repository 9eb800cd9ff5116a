"""What `claims` of a study holds: checkable sentences of documents, each with its test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from batchscope.catalogue.fields import Name, Number, Positive, Section, Text, one_of
from batchscope.catalogue.outcomes import FALLS, RISES
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.readers import FieldReader, expected
from batchscope.catalogue.tables import CLAIMED as TABLES

GPU, MACHINE = "gpu", "machine"
RATIO, DIFFERENCE = "ratio", "difference"
_VALUE = {"type": ["string", "number", "boolean"]}
_VALUES = {"anyOf": [_VALUE, {"type": "array", "minItems": 1, "items": _VALUE}]}


@dataclass(frozen=True)
class _Values(FieldReader):
    """A value, or a list of values; what each may be depends on what it is a value of."""

    expected = "a value or a list of at least one"

    def read(self, raw: Any) -> list[Any]:
        """Returns the values as written."""
        values = raw if isinstance(raw, list) else [raw]
        if not values or not all(isinstance(one, str | int | float) for one in values):
            raise expected(self.expected)
        return values

    def json_schema(self) -> dict[str, Any]:
        return _VALUES


@dataclass(frozen=True)
class _Cells(FieldReader):
    """Factor, or key of the table, -> one value or several."""

    expected = "a map from factors to values"

    def read(self, raw: Any) -> dict[str, Any]:
        """Returns the map as written."""
        if not isinstance(raw, dict) or not raw:
            raise expected(self.expected)
        wrong = []
        for key, values in raw.items():
            try:
                _Values().read(values)
            except PydanticCustomError as error:
                wrong.append(InitErrorDetails(type=error, loc=(key,), input=values))
        if wrong:
            raise ValidationError.from_exception_data("cells", wrong)
        return raw

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "minProperties": 1, "additionalProperties": _VALUES}


Cells = Annotated[dict[str, Any], _Cells()]
Values = Annotated[list[Any], _Values()]
Scale = Annotated[
    one_of(DIFFERENCE, RATIO),
    Field(
        description="Whether differences or ratios of positive numbers are meant: slopes are then "
        "factors per doubling."
    ),
]
Direction = Annotated[
    one_of(RISES, FALLS),
    Field(description="Direction of a trend; for an exception, its side of its neighbours."),
]
Margin = Annotated[
    Positive,
    Field(
        description="Largest distance that counts as none; on the scale `ratio` a factor above 1."
    ),
]


class TestKeys(Section):
    """How a claim is tested."""

    type: str
    experiment: Name
    """The experiment whose runs or times test it."""
    table: one_of(*TABLES) = "runs"
    """One of its tables, without `.csv`."""
    column: Text
    """The column that is stated about."""
    cells: Cells = {}
    """The rows that count; all if left out."""
    over: Text = "batch_size"
    """The factor along which a trend, a best value or an exception is sought."""

    @model_validator(mode="after")
    def _ratios_are_positive(self) -> Self:
        """On the scale `ratio`, bounds are positive, and a margin is a factor above 1."""
        if getattr(self, "scale", DIFFERENCE) != RATIO:
            return self
        wrong = []
        for key in ("above", "below", "near", "margin"):
            value = getattr(self, key, None)
            least = 1 if key == "margin" else 0
            if value is not None and value <= least:
                error = expected(Parameter(kind="float", above=least).expected)
                wrong.append(InitErrorDetails(type=error, loc=(key,), input=value))
        if wrong:
            raise ValidationError.from_exception_data("test", wrong)
        return self


class _Bounded(TestKeys):
    """A test of bounds."""

    above: Number = None
    """Lower bound of the value, difference or ratio."""
    below: Number = None
    """Upper bound."""
    near: Number = None
    """In place of bounds, a number from which it is at most `margin` away."""
    margin: Margin = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.above is None and self.below is None and None in (self.near, self.margin):
            raise expected("a bound (above, below, or near with margin)")
        return self


class _Sides(_Bounded):
    """A test of two sides, the first less the other."""

    of: Cells
    """One side of a comparison, or one series of an interaction."""
    to: Cells
    """The other side."""
    scale: Scale = DIFFERENCE


class Trend(TestKeys):
    """The column rises or falls."""

    type: Literal["trend"]
    direction: Direction
    scale: Scale = DIFFERENCE


class Equivalence(TestKeys):
    """The column changes by less than a margin."""

    type: Literal["equivalence"]
    margin: Margin
    scale: Scale = DIFFERENCE


class Value(_Bounded):
    """The column lies within bounds."""

    type: Literal["value"]


class Comparison(_Sides):
    """Two sides differ by what lies within bounds."""

    type: Literal["comparison"]


class Interaction(_Sides):
    """The slopes of two series differ by what lies within bounds."""

    type: Literal["interaction"]


class Argmax(TestKeys):
    """The column is best at one of some values."""

    type: Literal["argmax"]
    chosen: Annotated[Values, Field(alias="is")]
    """Values of the factor that are said to be best, or each an exception."""
    best: one_of("highest", "lowest") = "highest"
    """Which value is the best, of an argmax."""


class Order(TestKeys):
    """Groups of cells are in an order."""

    type: Literal["order"]
    order: Annotated[list[Cells], Field(min_length=2)]
    """Groups of cells, from the lowest to the highest."""


class ExceptionOf(TestKeys):
    """Some values are off the line of their neighbours."""

    type: Literal["exception"]
    chosen: Annotated[Values, Field(alias="is")]
    """Values of the factor that are said to be exceptions."""
    direction: Direction


AnyTest = Annotated[
    Trend | Equivalence | Value | Comparison | Interaction | Argmax | Order | ExceptionOf,
    Field(discriminator="type", description="How a claim is tested."),
]


class ClaimKeys(Section):
    """A checkable sentence of a document."""

    wanted: ClassVar[str] = "a map"
    id: Name
    """Its name in claims.csv."""
    document: Text
    """The document; what it states in one study shares the level of the tests."""
    place: Text
    """Where it stands there."""
    sentence: Text
    """What it says, in one's own words."""
    requires: one_of(GPU, MACHINE) = ""
    """What it cannot be tested without: `gpu`, or `machine` for the results of a second one. Where
    that is, it is tested.
    """
    figure: Text = ""
    """The figure of the experiment that shows it; the first that fits if left out."""
    test: AnyTest
