"""Values that a document published, which reports show next to the measured ones.

A study states them as `published: FIGURE: numbers`. One series is a line of the document's figure
or a row of its table: the factors that name it, its batch sizes, and one number per batch size for
each column. It is validated and becomes a `PublishedValues`::

    {optimizer: adam, batch_size: [32, 128], test_accuracy: [0.6859, 0.6977]}
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, WrapValidator, create_model
from pydantic_core import PydanticCustomError

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received
from batchscope.study import table_entries
from batchscope.study.factor_maps import OpenFactors, factor_fields
from batchscope.study.model import Count, GeneratedModel, Number, Unique
from batchscope.study.run_factors import EVERY_FACTOR
from batchscope.study.specifications import Column, PercentColumn, PositiveColumn
from batchscope.study.tasks import METRICS, NATS

# Figure -> columns that a study may state for it. One table of the report shows all of them, and
# the figures `accuracy` and `usage` also draw them.
COLUMNS_BY_FIGURE: dict[str, tuple[str, ...]] = {
    "accuracy": tuple(f"{split}_{name}" for name in METRICS for split in ("test", "train")),
    "usage": ("utilisation_percent", "memory_mb", "examples_per_second"),
    "best_losses": ("best_train_loss", "best_validation_loss"),
    "time": ("seconds_per_epoch", "epochs_run", "train_seconds"),
    "weight_distance": ("weight_distance",),
    "update_norms": ("update_norm_median",),
    "sharpness": tuple(
        f"sharpness_{space}_{epsilon}"
        for space in ("full", "subspace")
        for epsilon in ("0.001", "0.0005")
    ),
}
# These columns of documents have another name, label or unit than those of runs.csv.
_DOCUMENT_COLUMNS = {
    "utilisation_percent": PercentColumn("", "%", label="Utilisation"),
    "memory_mb": PositiveColumn("", "MB", label="Memory"),
    "examples_per_second": PositiveColumn("", "examples per second", label="Throughput"),
    "best_train_loss": PositiveColumn("", NATS, label="Best training loss"),
    "best_validation_loss": PositiveColumn("", NATS, label="Best validation loss"),
}
# Column -> label, unit and range of its values, by default those of runs.csv.
COLUMNS: dict[str, Column] = {
    name: _DOCUMENT_COLUMNS.get(name) or table_entries.describe(name)
    for names in COLUMNS_BY_FIGURE.values()
    for name in names
}


@dataclass(frozen=True)
class PublishedValues:
    """One line of a document's figure, or one row of its table.

    Attributes:
        factors: Factors that name it.
        batch_sizes: In the document's order.
        columns: Column -> one number per batch size.
    """

    factors: dict[str, Any]
    batch_sizes: tuple[int, ...]
    columns: dict[str, tuple[float, ...]]


def _read_series(raw: Any, validate: Any) -> PublishedValues:
    model = validate(raw)
    factors = {key: getattr(model, key) for key in raw}
    batch_sizes = factors.pop("batch_size")
    numbers = {key: factors.pop(key) for key in raw if key in COLUMNS}
    for name, values in numbers.items():
        if len(values) != len(batch_sizes):
            text = "{name} should have {count} numbers, one per batch size"
            raise PydanticCustomError("length", text, {"name": name, "count": len(batch_sizes)})
    return PublishedValues(factors, batch_sizes, numbers)


def _series_type(name: str, base: type[GeneratedModel] = GeneratedModel) -> Any:
    """Return the type of a series: a map of factors and columns that `_read_series` reads."""
    factors = {key: item for key, item in EVERY_FACTOR.items() if key not in ("seed", "batch_size")}
    batch_sizes = (Unique[Count], Field(description="The document's batch sizes."))
    fields = {"batch_size": batch_sizes, **factor_fields(factors)}
    for key, column in COLUMNS.items():
        # A JSON schema has no infinite bounds.
        low, high = (None if math.isinf(end) else end for end in (column.minimum, column.maximum))
        number = Annotated[Number, Field(ge=low, le=high)]
        values = Annotated[tuple[number, ...], Field(min_length=1)]
        fields[key] = (values, Field(None, description=f"{column.label} in the document."))
    model = create_model(name, __base__=base, **fields)
    return Annotated[model, WrapValidator(_read_series)]


PublishedSeries = _series_type("PublishedSeries")
# The factors of a command may have any name.
CommandSeries = _series_type("CommandSeries", OpenFactors)


def problems(place: Place, figure: str, numbers: list[PublishedValues]) -> Iterator[Problem]:
    """Yield the problems of the published values of a figure."""
    if figure not in COLUMNS_BY_FIGURE:
        expected = f"values of {display.listed(COLUMNS_BY_FIGURE, 'or')}"
        yield received(place, figure, expected)
        return
    expected = display.listed(COLUMNS_BY_FIGURE[figure], "or")
    for index, series in enumerate(numbers):
        key_place = (*place, index)
        if not series.columns:
            yield Problem(key_place, f"Missing numbers of {expected}.")
        for name in series.columns:
            if name not in COLUMNS_BY_FIGURE[figure]:
                yield received((*key_place, name), name, f"a column of the figure ({expected})")
        for earlier, other in enumerate(numbers[:index]):
            if other.factors == series.factors and other.columns.keys() & series.columns.keys():
                text = f"The same series as numbers[{earlier}]. State factors that distinguish it."
                yield Problem(key_place, text)
                break
