"""Tasks of data sets, and the metrics of each task."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

CLASSIFICATION, REGRESSION, MULTI_LABEL = "classification", "regression", "multi_label"
SPLITS = ("train", "validation", "test")
NATS = "nats"  # unit of a cross-entropy


@dataclass(frozen=True)
class Metric:
    """A metric of predictions. The column of a split has its name, as in `test_accuracy`.

    Attributes:
        words: Name in a sentence.
        doc: Description with `{split}`.
        share: Whether it is between 0 and 1 and shown as a percentage.
        margin: Loss of it that counts as negligible; None if that depends on its unit.
        error: Sentence of a caption about its binomial error, if figures draw one.
    """

    name: str
    words: str
    doc: str
    higher_is_better: bool
    share: bool = False
    margin: float | None = None
    least: float = 0.0
    most: float = math.inf
    error: str = ""

    @property
    def unit(self) -> str:
        return "share" if self.share else ""

    @property
    def expected(self) -> str:
        """Description of a valid value, for messages."""
        if self.share:
            return "a share from 0 to 1"
        if self.most == 1:
            return "a number of at most 1"
        return "a number" if self.least < 0 else "a number from 0 on"


METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "accuracy",
            "accuracy",
            "Share of correctly classified examples of the {split} split",
            higher_is_better=True,
            share=True,
            margin=0.01,
            most=1.0,
            error=" Pale bars: the 95 % binomial error of an accuracy on this number of examples. "
            "More seeds do not reduce it.",
        ),
        Metric(
            "f1",
            "micro-F1",
            "Micro-F1 of the labels of the {split} split, 2 TP / (2 TP + FP + FN)",
            higher_is_better=True,
            share=True,
            margin=0.01,
            most=1.0,
        ),
        Metric(
            "r2",
            "R²",
            "Explained share of the variance of the {split} split's targets",
            higher_is_better=True,
            margin=0.01,
            least=-math.inf,
            most=1.0,
        ),
        Metric(
            "mse",
            "mean squared error",
            "Mean squared error on the {split} split, in squared units of the targets",
            higher_is_better=False,
        ),
        Metric(
            "mae",
            "mean absolute error",
            "Mean absolute error on the {split} split, in units of the targets",
            higher_is_better=False,
        ),
    )
}
# Task -> its metrics. The first one compares batch sizes.
TASKS: dict[str, tuple[str, ...]] = {
    CLASSIFICATION: ("accuracy",),
    REGRESSION: ("r2", "mse", "mae"),
    MULTI_LABEL: ("f1",),
}
FIRST = tuple(METRICS[names[0]] for names in TASKS.values())
# Column of the difference between training and test data -> its metric.
GAPS = {f"generalisation_gap_{metric.name}": metric for metric in FIRST}
# Value of the factor `loss_function` -> tasks that accept it. The default is the cross-entropy for
# classes and the mean squared error for numbers.
LOSSES = {"default": tuple(TASKS), **dict.fromkeys(("mse", "mae", "huber"), (REGRESSION,))}
_OF_SPLITS = {f"{split}_{name}": metric for split in SPLITS for name, metric in METRICS.items()}
_LOSSES = tuple(f"{split}_loss" for split in SPLITS)
# Outcomes of a run: losses, then metrics.
OUTCOMES = (*_LOSSES, *_OF_SPLITS)
_METRICS = {**METRICS, **_OF_SPLITS, **GAPS}
LOWER, HIGHER = "lower", "higher"  # better values of a user-defined metric
# User-defined metrics by name. The name of a column does not say which values are better, so that
# reading a study fills this map. A process reads one study.
USER_METRICS: dict[str, Metric] = {}


def set_user_metrics(better: Mapping[str, str]) -> None:
    """Set the user-defined metrics of the study: name -> `LOWER` or `HIGHER`."""
    USER_METRICS.clear()
    for name, values in better.items():
        text = name.replace("_", " ")
        doc = f"The metric {text} on the {{split}} split"
        USER_METRICS[name] = Metric(name, text, doc, values == HIGHER, least=-math.inf)


def user_metrics() -> dict[str, str]:
    """Return the argument of `set_user_metrics` for another process."""
    return {name: HIGHER if item.higher_is_better else LOWER for name, item in USER_METRICS.items()}


def user_metric(column: str) -> Metric | None:
    split, _, name = column.partition("_")
    return USER_METRICS.get(name) if split in SPLITS else None


def metric(column: str) -> Metric | None:
    return _METRICS.get(column) or user_metric(column)


def is_share(column: str) -> bool:
    item = metric(column)
    return item is not None and item.share


def higher_is_better(column: str) -> bool:
    outcome = _OF_SPLITS.get(column) or user_metric(column)
    return outcome is not None and outcome.higher_is_better


def lower_is_better(column: str) -> bool:
    outcome = _OF_SPLITS.get(column) or user_metric(column)
    return column in _LOSSES or (outcome is not None and not outcome.higher_is_better)


def logarithmic(column: str) -> bool:
    return lower_is_better(column) and user_metric(column) is None


def falling(values: Any, column: str) -> Any:
    """Transform values of a column so that lower is better. A second call restores them.

    If higher is better, v becomes 1 - v. A user-defined metric has no known upper bound, so that v
    becomes -v.
    """
    if user_metric(column) is not None:
        return -values if higher_is_better(column) else values
    return 1 - values if higher_is_better(column) else values


def column_words(column: str) -> str:
    """Return the name of a column in a sentence: `test R²`."""
    text, item = column.replace("_", " "), metric(column)
    return text.removesuffix(item.name.replace("_", " ")) + item.words if item else text


def columns(task: str, split: str) -> tuple[str, ...]:
    return (f"{split}_loss", *(f"{split}_{name}" for name in TASKS[task]))


def of_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the tasks that have a metric among some columns; classification if none has."""
    present = {item.name for item in map(metric, names) if item}
    tasks = (task for task, metrics in TASKS.items() if not present.isdisjoint(metrics))
    return tuple(tasks) or (CLASSIFICATION,)


def kept(names: Iterable[str], tasks: Collection[str]) -> list[str]:
    """Return the columns without metrics of other tasks."""
    metrics = set(USER_METRICS).union(*(TASKS[task] for task in tasks))
    items = [(name, metric(name)) for name in names]
    return [name for name, item in items if item is None or item.name in metrics]


def unit(column_unit: str, tasks: Collection[str]) -> str:
    """Return the unit of a column for some tasks.

    The loss of a regression has no unit, since its targets are standardised.
    """
    return "" if column_unit.startswith(NATS) and REGRESSION in tasks else column_unit


def loss_margin(tasks: Collection[str]) -> float:
    """Return the negligible increase of a loss, in nats or in variances of the targets."""
    return 0.01 if REGRESSION in tasks else 0.05
