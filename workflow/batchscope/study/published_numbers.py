"""Numbers of a document that stand beside a figure's own: as contrast, and not as a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from batchscope import wording
from batchscope.catalogue import coercion, run_factors, sweep_names
from batchscope.catalogue.parameters import Parameter, by_name
from batchscope.problems import Place, Problem, nearest, received, show, unknown

_WEIGHTS = "units of the weights"


def _column(name: str, alias: str, doc: str, unit: str, maximum: float | None = None) -> Parameter:
    return Parameter(name, alias, "float", None, doc, unit, minimum=0, maximum=maximum)


# What a document may give a number of, in the units of our own tables.
COLUMNS: dict[str, Parameter] = by_name(
    _column("test_accuracy", "test_accuracy", "Accuracy on test data.", "shares", 1),
    _column("train_accuracy", "train_accuracy", "Accuracy on training data.", "shares", 1),
    _column("utilisation_percent", "utilisation", "Utilisation.", "percent", 100),
    _column("memory_mb", "memory", "Memory.", "MB"),
    _column("images_per_second", "images", "Throughput.", "images per second"),
    _column("best_train_loss", "train_loss", "Best training loss.", "nats"),
    _column("best_validation_loss", "validation_loss", "Best validation loss.", "nats"),
    _column("epochs_run", "epochs_run", "Epochs until it stopped.", "epochs"),
    _column("seconds_per_epoch", "epoch_time", "Time per epoch.", "s"),
    _column("train_seconds", "train_time", "Total training time.", "s"),
    _column("weight_distance", "distance", "Distance from the initial weights.", _WEIGHTS),
    _column("update_norm_median", "update_norm", "Median norm of an update.", _WEIGHTS),
    *(
        _column(
            *(f"sharpness_{space}_{epsilon}", f"sharpness_{space}_{epsilon}"),
            *(f"Sharpness in {words}, epsilon {epsilon}.", "% of 1 + loss"),
        )
        for space, words in (("full", "the full space"), ("subspace", "a random subspace"))
        for epsilon in ("0.001", "0.0005")
    ),
)
# The figures that show them. All stand in one table of the report beside ours; `accuracy` and
# `frameworks` have panels for them too.
FIGURES: dict[str, tuple[str, ...]] = {
    "accuracy": ("test_accuracy", "train_accuracy"),
    "frameworks": ("utilisation_percent", "memory_mb", "images_per_second"),
    "best_losses": ("best_train_loss", "best_validation_loss"),
    "time": ("seconds_per_epoch", "epochs_run", "train_seconds"),
    "weight_distance": ("weight_distance",),
    "update_norms": ("update_norm_median",),
    "sharpness": tuple(name for name in COLUMNS if name.startswith("sharpness_")),
}
BATCH_SIZE = run_factors.FACTORS["batch_size"]

Report = Callable[[Problem], None]
Factors = Callable[[Place, dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Series:
    """One line of a document's figure, or one row of its table.

    Attributes:
        factors: Factor -> value, for those that name it; data set and model are tokens.
        batch_sizes: In the document's order.
        columns: Column -> one number per batch size.
    """

    factors: dict[str, Any]
    batch_sizes: tuple[int, ...]
    columns: dict[str, tuple[float, ...]]


def read(
    place: Place, figure: str, raw: Any, factors: Factors, report: Report
) -> tuple[Series, ...]:
    """Returns the sound series of a document's numbers, which stand beside a figure.

    Args:
        factors: (place, map) -> the sound factors of a map; it reports the others.
    """
    if figure not in FIGURES:
        text = f"received numbers for '{figure}', which shows no column that a document may give; "
        report(Problem(place, f"{text}{wording.listed(FIGURES, 'or')} is expected."))
        return ()
    if not isinstance(raw, list) or not raw:
        report(received(place, raw, "a list of at least one map"))
        return ()
    found = []
    for index, body in enumerate(raw):
        at = (*place, index)
        if isinstance(body, dict):
            found.append(_series(at, figure, body, factors, report))
            _check_twice(at, raw[: index + 1], report)
        else:
            report(received(at, body, "a map with batch_size and a column of numbers"))
    return tuple(found)


def _series(
    place: Place, figure: str, body: dict[str, Any], factors: Factors, report: Report
) -> Series:
    shown, columns, rest = FIGURES[figure], {}, {}
    sizes = _batch_sizes((*place, BATCH_SIZE.name), body.get(BATCH_SIZE.name), report)
    misspelt = False
    for name, raw in body.items():
        at = (*place, name)
        if name in shown:
            columns[name] = _numbers(at, raw, COLUMNS[name], report)
            _check_length(at, raw, body.get(BATCH_SIZE.name), report)
        elif name in COLUMNS:
            text = f"received a column that '{figure}' does not show; "
            report(Problem(at, f"{text}{wording.listed(shown, 'or')} is expected."))
        elif name not in sweep_names.EVERY_FACTOR and nearest(name, shown):
            report(unknown(at, "column", shown))
            misspelt = True
        elif name != BATCH_SIZE.name:
            rest[name] = raw
    if not (misspelt or COLUMNS.keys() & body.keys()):
        report(Problem(place, f"received no numbers; {wording.listed(shown, 'or')} is expected."))
    return Series(factors(place, rest), sizes, columns)


def _batch_sizes(place: Place, raw: Any, report: Report) -> tuple[int, ...]:
    found = _numbers(place, raw, BATCH_SIZE, report)
    for index, value in enumerate(found):
        if value in found[:index]:
            text = f"received {show(value)} again (as in [{found.index(value)}]); "
            report(Problem((*place, index), f"{text}every batch size once is expected."))
    return found


def _numbers(place: Place, raw: Any, parameter: Parameter, report: Report) -> tuple[Any, ...]:
    if not isinstance(raw, list) or not raw:
        expected = f"a list of at least one value (each {parameter.expected_item})"
        report(received(place, raw, expected))
        return ()
    found = []
    for index, item in enumerate(raw):
        try:
            found.append(coercion.coerce_item(parameter, item))
        except ValueError:
            report(received((*place, index), item, parameter.expected_item))
    return tuple(found)


def _check_length(place: Place, raw: Any, sizes: Any, report: Report) -> None:
    lists = isinstance(raw, list) and isinstance(sizes, list)
    if lists and raw and sizes and len(raw) != len(sizes):
        text = f"received {wording.count(len(raw), 'number')}; {len(sizes)}, one per "
        report(Problem(place, f"{text}batch size, are expected."))


def _check_twice(place: Place, bodies: list[Any], report: Report) -> None:
    """Reports the last series if an earlier one with the same factors has one of its columns."""
    *others, last = [_split(body) if isinstance(body, dict) else ({}, set()) for body in bodies]
    for index, other in enumerate(others):
        if other[0] == last[0] and other[1] & last[1]:
            text = f"received the series of numbers[{index}] again; factors that distinguish it "
            report(Problem(place, f"{text}from the others are expected."))
            return


def _split(body: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Returns the factors of a series, unchecked, and the names of its columns."""
    rest = body.keys() - COLUMNS.keys() - {BATCH_SIZE.name}
    return {name: coercion.plain(body[name]) for name in rest}, body.keys() & COLUMNS.keys()
