"""Keys and checks of the numbers that a document published (`published: FIGURE: numbers`).

Reports show them next to the measured ones. A new column goes into `COLUMNS`, and into
`COLUMNS_BY_FIGURE` for its figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, WrapValidator, create_model, model_validator
from pydantic_core import PydanticCustomError

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received
from batchscope.study.factor_models import OpenFactors, value_fields
from batchscope.study.model import Count, GeneratedModel, Number, Unique
from batchscope.study.run_factors import EVERY_FACTOR
from batchscope.study.tasks import METRICS, NATS, Metric

_WEIGHTS = "units of the weights"


class PublishedColumn(NamedTuple):
    """A column that a document may give values of, in the unit of our tables."""

    label: str
    unit: str
    minimum: float | None = 0
    maximum: float | None = None


def _metric_column(metric: Metric, data_name: str) -> PublishedColumn:
    label = f"{display.capital(metric.words)} on {data_name} data"
    unit, minimum = "shares" if metric.share else "", 0 if metric.minimum == 0 else None
    return PublishedColumn(label, unit, minimum, 1 if metric.maximum == 1 else None)


COLUMNS: dict[str, PublishedColumn] = {
    **{
        f"{split}_{metric.name}": _metric_column(metric, data)
        for metric in METRICS.values()
        for split, data in (("test", "test"), ("train", "training"))
    },
    "utilisation_percent": PublishedColumn("Utilisation", "percent", maximum=100),
    "memory_mb": PublishedColumn("Memory", "MB"),
    "examples_per_second": PublishedColumn("Throughput", "examples per second"),
    "best_train_loss": PublishedColumn("Best training loss", NATS),
    "best_validation_loss": PublishedColumn("Best validation loss", NATS),
    "epochs_run": PublishedColumn("Epochs until it stopped", "epochs"),
    "seconds_per_epoch": PublishedColumn("Time per epoch", "s"),
    "train_seconds": PublishedColumn("Total training time", "s"),
    "weight_distance": PublishedColumn("Distance from the initial weights", _WEIGHTS),
    "update_norm_median": PublishedColumn("Median norm of an update", _WEIGHTS),
    **{
        f"sharpness_{space}_{epsilon}": PublishedColumn(
            f"Sharpness in {name}, epsilon {epsilon}", "% of 1 + loss"
        )
        for space, name in (("full", "the full space"), ("subspace", "a random subspace"))
        for epsilon in ("0.001", "0.0005")
    },
}
# Figure -> columns that a study may state for it. One table of the report shows all of them, and
# the figures `accuracy` and `usage` also draw them.
COLUMNS_BY_FIGURE: dict[str, tuple[str, ...]] = {
    "accuracy": tuple(f"{split}_{name}" for name in METRICS for split in ("test", "train")),
    "usage": ("utilisation_percent", "memory_mb", "examples_per_second"),
    "best_losses": ("best_train_loss", "best_validation_loss"),
    "time": ("seconds_per_epoch", "epochs_run", "train_seconds"),
    "weight_distance": ("weight_distance",),
    "update_norms": ("update_norm_median",),
    "sharpness": tuple(name for name in COLUMNS if name.startswith("sharpness_")),
}


class _SeriesModel(GeneratedModel):
    """Keys of one series: factors, batch sizes, and one number per batch size for each column."""

    batch_size: Annotated[Unique[Count], Field(description="The document's batch sizes.")]

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        for name in COLUMNS:
            values = getattr(self, name)
            if values is not None and len(values) != len(self.batch_size):
                text = "{name} should have {count} numbers, one per batch size"
                context = {"name": name, "count": len(self.batch_size)}
                raise PydanticCustomError("length", text, context)
        return self


def _fields() -> dict[str, Any]:
    fields = value_fields(
        {name: item for name, item in EVERY_FACTOR.items() if name not in ("seed", "batch_size")}
    )
    for name, column in COLUMNS.items():
        number = Annotated[Number, Field(ge=column.minimum, le=column.maximum)]
        values = Annotated[tuple[number, ...], Field(min_length=1)]
        fields[name] = (values, Field(None, description=f"{column.label} in the document."))
    return fields


@dataclass(frozen=True)
class PublishedValues:
    """One line of a document's figure, or one row of its table.

    Attributes:
        factors: Factors that name it; data set and model are ids.
        batch_sizes: In the document's order.
        columns: Column -> one number per batch size.
    """

    factors: dict[str, Any]
    batch_sizes: tuple[int, ...]
    columns: dict[str, tuple[float, ...]]


def _as_published_values(raw: Any, validate: Any) -> PublishedValues:
    model = validate(raw)
    values = {key: getattr(model, key) for key in raw}
    columns = {key: values.pop(key) for key in raw if key in COLUMNS}
    return PublishedValues(values, values.pop("batch_size"), columns)


_PublishedSeries = create_model("PublishedSeries", __base__=_SeriesModel, **_fields())
PublishedSeries = Annotated[_PublishedSeries, WrapValidator(_as_published_values)]
# The factors of a command may have any name.
_CommandSeries = create_model("CommandSeries", __base__=(_SeriesModel, OpenFactors), **_fields())
CommandSeries = Annotated[_CommandSeries, WrapValidator(_as_published_values)]


def problems(place: Place, figure: str, numbers: list[PublishedValues]) -> Iterator[Problem]:
    """Yield the problems of the published values of a figure."""
    if figure not in COLUMNS_BY_FIGURE:
        text = f"No document may give values for '{figure}', only for "
        yield Problem(place, f"{text}{display.listed(COLUMNS_BY_FIGURE, 'or')}.")
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
