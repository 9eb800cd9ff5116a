"""Tasks of data sets, their metrics and kinds of examples, and questions about metric columns.

A new network is an item of `NETWORKS` here, and a function in `training.networks`.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

CLASSIFICATION, REGRESSION, MULTI_LABEL = "classification", "regression", "multi_label"
SPLITS = ("train", "validation", "test")
NATS = "nats"  # unit of a cross-entropy
IMAGES, ROWS, TOKENS, SEQUENCES = "images", "rows", "tokens", "sequences"
# Kind -> its name in messages. Tokens have a class for each position, sequences one for all.
KINDS = {
    IMAGES: "images",
    ROWS: "rows of numbers",
    TOKENS: "sequences of tokens",
    SEQUENCES: "sequences of tokens with one class each",
}
TOKEN_KINDS = (TOKENS, SEQUENCES)


@dataclass(frozen=True)
class Network:
    """A built-in network."""

    kinds: tuple[str, ...] = (IMAGES,)  # kinds of examples that it takes
    min_side: int = 1  # smallest height and width of images, in pixels


# Messages suggest the first network in this order that takes the examples of a data set.
NETWORKS: dict[str, Network] = {
    "mlp": Network((IMAGES, ROWS)),
    "keskar_f1": Network((IMAGES, ROWS)),
    "keskar_f1_plain": Network((IMAGES, ROWS)),
    "small_cnn": Network(),
    "campbell_cnn": Network(min_side=13),
    "chang_vgg": Network(min_side=32),
    "lheureux_cnn": Network(min_side=2),
    "benchmark_cnn": Network(min_side=16),
    "tutorial_cnn": Network(min_side=4),
    "tiny_transformer": Network((TOKENS,)),
}


@dataclass(frozen=True)
class Metric:
    """A metric of predictions. The column of a split has its name, as in `test_accuracy`."""

    name: str
    words: str  # name in a sentence
    doc: str  # description with `{split}`
    higher_is_better: bool
    share: bool = False  # whether it is between 0 and 1 and shown as a percentage
    margin: float | None = None  # negligible deterioration; None if that depends on its unit
    minimum: float = 0.0
    maximum: float = math.inf
    error: str = ""  # sentence of a caption about its binomial error, if figures draw one

    @property
    def unit(self) -> str:
        return "share" if self.share else ""

    @property
    def expected(self) -> str:
        """Description of a valid value, for messages."""
        if self.share:
            return "a share from 0 to 1"
        if self.maximum == 1:
            return "a number of at most 1"
        return "a number" if self.minimum < 0 else "a number from 0 on"


_SHARE = {"higher_is_better": True, "share": True, "margin": 0.01, "maximum": 1.0}
_ERROR = (
    " Pale bars: the 95 % binomial error of an accuracy on this number of examples, which more "
    "seeds do not reduce."
)
_CORRECT = "Share of examples classified correctly on the {split} split"
_F1 = "Micro-F1 on the {split} split, 2 TP / (2 TP + FP + FN)"
_R2 = "Share of explained variance on the {split} split"
_MSE = "Mean squared error on the {split} split"
_MAE = "Mean absolute error on the {split} split"
METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", _CORRECT, **_SHARE, error=_ERROR),
        Metric("f1", "micro-F1", _F1, **_SHARE),
        Metric("r2", "R²", _R2, True, margin=0.01, minimum=-math.inf, maximum=1.0),
        Metric("mse", "mean squared error", _MSE, False),
        Metric("mae", "mean absolute error", _MAE, False),
    )
}
# Task -> its metrics. The first one compares batch sizes.
TASKS: dict[str, tuple[str, ...]] = {
    CLASSIFICATION: ("accuracy",),
    REGRESSION: ("r2", "mse", "mae"),
    MULTI_LABEL: ("f1",),
}
# The first metric of each task.
FIRST_METRICS = tuple(METRICS[names[0]] for names in TASKS.values())
# Column of the difference between training and test data -> its metric.
GAPS = {f"generalisation_gap_{metric.name}": metric for metric in FIRST_METRICS}
_SPLIT_METRICS = {f"{split}_{name}": metric for split in SPLITS for name, metric in METRICS.items()}
_LOSSES = tuple(f"{split}_loss" for split in SPLITS)
# Outcomes of a run: losses, then metrics.
OUTCOMES = (*_LOSSES, *_SPLIT_METRICS)
_METRICS = {**METRICS, **_SPLIT_METRICS, **GAPS}
# User-defined metrics of an experiment.
Metrics = tuple[Metric, ...]


def user_metrics(better: Mapping[str, str]) -> Metrics:
    """Return user-defined metrics from names and their better values, `lower` or `higher`."""
    metrics = []
    for name, values in better.items():
        text = name.replace("_", " ")
        doc = f"The metric {text} on the {{split}} split"
        metrics.append(Metric(name, text, doc, values == "higher", minimum=-math.inf))
    return tuple(metrics)


def user_metric(column: str, metrics: Metrics) -> Metric | None:
    split, _, name = column.partition("_")
    return next((item for item in metrics if item.name == name and split in SPLITS), None)


def metric(column: str, metrics: Metrics) -> Metric | None:
    return _METRICS.get(column) or user_metric(column, metrics)


def is_share(column: str) -> bool:
    return column in _METRICS and _METRICS[column].share


def higher_is_better(column: str, metrics: Metrics) -> bool:
    outcome = _SPLIT_METRICS.get(column) or user_metric(column, metrics)
    return outcome is not None and outcome.higher_is_better


def lower_is_better(column: str, metrics: Metrics) -> bool:
    outcome = _SPLIT_METRICS.get(column) or user_metric(column, metrics)
    return column in _LOSSES or (outcome is not None and not outcome.higher_is_better)


def is_logarithmic(column: str) -> bool:
    return lower_is_better(column, ())


def where_lower_is_better(values: Any, column: str, metrics: Metrics) -> Any:
    """Return values of a column on a scale where lower is better. A second call restores them."""
    if not higher_is_better(column, metrics):
        return values
    return 1 - values if column in _SPLIT_METRICS else -values


def column_words(column: str) -> str:
    """Return the name of a column in a sentence: `test R²`."""
    text, item = column.replace("_", " "), _METRICS.get(column)
    return text.removesuffix(item.name.replace("_", " ")) + item.words if item else text


def split_columns(task: str, split: str) -> tuple[str, ...]:
    return (f"{split}_loss", *(f"{split}_{name}" for name in TASKS[task]))


def from_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the tasks that have a metric among some columns; classification if none has."""
    present = {_METRICS[name].name for name in names if name in _METRICS}
    return tuple(task for task in TASKS if present & {*TASKS[task]}) or (CLASSIFICATION,)


def columns_of_tasks(names: Iterable[str], tasks: Collection[str]) -> list[str]:
    metrics = {metric for task in tasks for metric in TASKS[task]}
    return [name for name in names if name not in _METRICS or _METRICS[name].name in metrics]


def unit_for_tasks(column_unit: str, tasks: Collection[str]) -> str:
    """Return the unit of a column for some tasks.

    The loss of a regression has no unit, since its targets are standardised.
    """
    return "" if column_unit.startswith(NATS) and REGRESSION in tasks else column_unit


def loss_margin(tasks: Collection[str]) -> float:
    """Return the negligible increase of a loss, in nats or in variances of the targets."""
    return 0.01 if REGRESSION in tasks else 0.05
