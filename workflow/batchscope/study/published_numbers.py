"""Numbers of a document that stand beside a figure's own: as contrast, and not as a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic_core import InitErrorDetails, ValidationError

from batchscope import wording
from batchscope.catalogue import run_factors
from batchscope.catalogue.fields import Keyed, ListOf, Refused
from batchscope.catalogue.parameters import Parameter, by_name, readers
from batchscope.catalogue.readers import FieldReader, absent, below, problem
from batchscope.catalogue.tasks import METRICS, NATS, Metric
from batchscope.problems import Place, Problem
from batchscope.study.command_keys import own_factor

_WEIGHTS = "units of the weights"


def _column(name: str, label: str, unit: str, maximum: float | None = None) -> Parameter:
    return Parameter(name, name, "float", None, label, unit, minimum=0, maximum=maximum)


def _of_metric(metric: Metric, split: str, data: str) -> Parameter:
    label, unit = f"{wording.capital(metric.words)} on {data} data", "shares" * metric.share
    found = _column(f"{split}_{metric.name}", label, unit, 1 if metric.most == 1 else None)
    return found if metric.least == 0 else replace(found, minimum=None, wanted=metric.expected)


# What a document may give a number of, in the units of our own tables.
COLUMNS: dict[str, Parameter] = by_name(
    *(
        _of_metric(metric, split, data)
        for metric in METRICS.values()
        for split, data in (("test", "test"), ("train", "training"))
    ),
    _column("utilisation_percent", "Utilisation", "percent", 100),
    _column("memory_mb", "Memory", "MB"),
    _column("examples_per_second", "Throughput", "examples per second"),
    _column("best_train_loss", "Best training loss", NATS),
    _column("best_validation_loss", "Best validation loss", NATS),
    _column("epochs_run", "Epochs until it stopped", "epochs"),
    _column("seconds_per_epoch", "Time per epoch", "s"),
    _column("train_seconds", "Total training time", "s"),
    _column("weight_distance", "Distance from the initial weights", _WEIGHTS),
    _column("update_norm_median", "Median norm of an update", _WEIGHTS),
    *(
        _column(
            f"sharpness_{space}_{epsilon}",
            f"Sharpness in {words}, epsilon {epsilon}",
            "% of 1 + loss",
        )
        for space, words in (("full", "the full space"), ("subspace", "a random subspace"))
        for epsilon in ("0.001", "0.0005")
    ),
)
# The figures that show them. All stand in one table of the report beside ours; `accuracy` and
# `usage` have panels for them too.
FIGURES: dict[str, tuple[str, ...]] = {
    "accuracy": tuple(f"{split}_{name}" for name in METRICS for split in ("test", "train")),
    "usage": ("utilisation_percent", "memory_mb", "examples_per_second"),
    "best_losses": ("best_train_loss", "best_validation_loss"),
    "time": ("seconds_per_epoch", "epochs_run", "train_seconds"),
    "weight_distance": ("weight_distance",),
    "update_norms": ("update_norm_median",),
    "sharpness": tuple(name for name in COLUMNS if name.startswith("sharpness_")),
}
_FACTORS = readers(run_factors.EVERY_FACTOR)
_SIZES = ListOf(_FACTORS["batch_size"], doc="The document's batch sizes.")


def _numbers(column: Parameter) -> ListOf:
    unit = f", in {column.unit}" if column.unit else ""
    doc = f"{column.doc} in the document{unit}."
    return ListOf(column, distinct=False, doc=doc)


@dataclass(frozen=True)
class _SeriesKeys(FieldReader):
    """One series: factors, batch sizes, and a number of each column for each of them."""

    others: Callable[[str], FieldReader | None] | None = None  # the reader of any other factor
    expected = "a map with batch_size and a column of numbers"

    @property
    def _keys(self) -> Keyed:
        known = {
            **_FACTORS,
            "seed": Refused("a seed given by the experiment's own key 'seeds'"),
            "batch_size": _SIZES,
            **{name: _numbers(column) for name, column in COLUMNS.items()},
        }
        return Keyed(known, "key", self.expected, others=self.others)

    def read(self, raw: Any) -> dict[str, Any]:
        """Returns the values of its keys; lists have one number per batch size."""
        wrong = [*_incomplete(raw)] if isinstance(raw, dict) else []
        found = {}
        try:
            found = self._keys.read(raw)
        except ValidationError as error:
            wrong += below((), error)
        if wrong:
            raise ValidationError.from_exception_data("series", wrong)
        return found

    def json_schema(self) -> dict[str, Any]:
        schema = {"type": "object"} if self.others else self._keys.json_schema()
        return {**schema, "required": ["batch_size"]}


def _incomplete(raw: dict[str, Any]) -> Iterator[InitErrorDetails]:
    """Yields that there are no batch sizes, or not one number for each of them."""
    sizes = raw.get("batch_size")
    if "batch_size" not in raw:
        error = absent(_SIZES.expected)
        yield InitErrorDetails(type=error, loc=("batch_size",), input=raw)
    for name, values in raw.items():
        lists = isinstance(sizes, list) and isinstance(values, list)
        if name in COLUMNS and lists and sizes and values and len(values) != len(sizes):
            text = f"received {wording.count(len(values), 'number')}; {len(sizes)}, one per "
            error = problem(f"{text}batch size, are expected.")
            yield InitErrorDetails(type=error, loc=(name,), input=values)


PublishedSeries = Annotated[dict[str, Any], _SeriesKeys()]
# Of a command's experiment, whose factors may have any name.
CommandSeries = Annotated[dict[str, Any], _SeriesKeys(others=own_factor)]


@dataclass(frozen=True)
class Series:
    """One line of a document's figure, or one row of its table.

    Attributes:
        factors: Factor -> value, for those that name it; data set and model are ids.
        batch_sizes: In the document's order.
        columns: Column -> one number per batch size.
    """

    factors: dict[str, Any]
    batch_sizes: tuple[int, ...]
    columns: dict[str, tuple[float, ...]]


def factors_of(series: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in series.items() if k not in COLUMNS and k != "batch_size"}


def columns_of(series: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    return {name: values for name, values in series.items() if name in COLUMNS}


def problems(place: Place, figure: str, given: list[dict[str, Any]]) -> Iterator[Problem]:
    """Yields what is wrong with the series of numbers that stand beside a figure."""
    if figure not in FIGURES:
        text = f"received numbers for '{figure}', which shows no column that a document may give; "
        yield Problem(place, f"{text}{wording.listed(FIGURES, 'or')} is expected.")
        return
    shown = wording.listed(FIGURES[figure], "or")
    for index, series in enumerate(given):
        at, columns = (*place, index), columns_of(series)
        if not columns:
            yield Problem(at, f"received no numbers; {shown} is expected.")
        for name in columns:
            if name not in FIGURES[figure]:
                text = f"received a column that '{figure}' does not show; {shown} is expected."
                yield Problem((*at, name), text)
        for earlier, other in enumerate(given[:index]):
            same = factors_of(other) == factors_of(series)
            if same and columns_of(other).keys() & columns.keys():
                text = f"received the series of numbers[{earlier}] again; factors that "
                yield Problem(at, f"{text}distinguish it from the others are expected.")
                break
