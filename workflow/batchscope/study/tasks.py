"""What is learned of examples: the task of a data set, and what is counted beside its loss."""

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
    """What is counted of predictions beside their loss; `test_accuracy` is one on a split."""

    name: str  # of a column, after the split's
    words: str
    doc: str  # what it is, with `{split}`
    higher_is_better: bool
    share: bool = False  # whether it lies in [0, 1] and is shown as a percentage
    margin: float | None = None  # loss of it that counts as negligible; None where its unit decides
    least: float = 0.0
    most: float = math.inf
    error: str = ""  # said where its own error is drawn: that of a share of so many examples

    @property
    def unit(self) -> str:
        """Its unit in a table; that of a target is not known here."""
        return "share" if self.share else ""

    @property
    def expected(self) -> str:
        """What a value of it is, for messages."""
        if self.share:
            return "a share from 0 to 1"
        if self.most == 1:
            return "a number of at most 1"
        return "a number" if self.least < 0 else "a number from 0 on"


METRICS = {
    each.name: each
    for each in (
        Metric(
            "accuracy",
            "accuracy",
            "Share of the {split} split that is classified rightly",
            higher_is_better=True,
            share=True,
            margin=0.01,
            most=1.0,
            error=" Pale bars: the 95 % binomial error of an accuracy counted on so many examples, "
            "which no number of seeds undoes.",
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
            "Share of the variance of the {split} split's targets that is explained",
            higher_is_better=True,
            margin=0.01,
            least=-math.inf,
            most=1.0,
        ),
        Metric(
            "mse",
            "mean squared error",
            "Mean squared error on the {split} split, in the targets' own units squared",
            higher_is_better=False,
        ),
        Metric(
            "mae",
            "mean absolute error",
            "Mean absolute error on the {split} split, in the targets' own units",
            higher_is_better=False,
        ),
    )
}
# Task -> its metrics; the first is what batch sizes are compared by.
TASKS: dict[str, tuple[str, ...]] = {
    CLASSIFICATION: ("accuracy",),
    REGRESSION: ("r2", "mse", "mae"),
    MULTI_LABEL: ("f1",),
}
FIRST = tuple(METRICS[names[0]] for names in TASKS.values())
# Column of how much worse it is on test data than on the training data.
GAPS = {f"generalisation_gap_{each.name}": each for each in FIRST}
# Value of the factor `loss_function` -> the tasks that it is for. The default is the task's own:
# the cross-entropy of classes, the mean squared error of numbers.
LOSSES = {"default": tuple(TASKS), **dict.fromkeys(("mse", "mae", "huber"), (REGRESSION,))}
_OF_SPLITS = {f"{split}_{name}": one for split in SPLITS for name, one in METRICS.items()}
_LOSSES = tuple(f"{split}_loss" for split in SPLITS)
# Outcomes of a run: losses, then metrics.
OUTCOMES = (*_LOSSES, *_OF_SPLITS)
_METRICS = {**METRICS, **_OF_SPLITS, **GAPS}
LOWER, HIGHER = "lower", "higher"  # which values of a study's own metric are better
# The metrics that a study names. What compares, draws and words a column knows its name alone,
# which does not say which values are better: reading a study fills this, and a process reads one.
OWN: dict[str, Metric] = {}


def name_own(better: Mapping[str, str]) -> None:
    """Makes these the metrics of the study: name -> `LOWER` or `HIGHER`."""
    OWN.clear()
    for name, which in better.items():
        text = name.replace("_", " ")
        doc = f"The metric {text} on the {{split}} split"
        OWN[name] = Metric(name, text, doc, which == HIGHER, least=-math.inf)


def named_own() -> dict[str, str]:
    """Returns the metrics of the study as `name_own` takes them, for another process."""
    return {name: HIGHER if one.higher_is_better else LOWER for name, one in OWN.items()}


def own(column: str) -> Metric | None:
    """Returns the study's own metric that a column is of; None of any other column."""
    split, _, name = column.partition("_")
    return OWN.get(name) if split in SPLITS else None


def metric(column: str) -> Metric | None:
    """Returns the metric that a column is of, such as `test_accuracy`; None of any other column."""
    return _METRICS.get(column) or own(column)


def is_share(column: str) -> bool:
    """Returns whether a column is of a metric that is shown as a percentage."""
    found = metric(column)
    return found is not None and found.share


def higher_is_better(column: str) -> bool:
    found = _OF_SPLITS.get(column) or own(column)
    return found is not None and found.higher_is_better


def lower_is_better(column: str) -> bool:
    found = _OF_SPLITS.get(column) or own(column)
    return column in _LOSSES or (found is not None and not found.higher_is_better)


def logarithmic(column: str) -> bool:
    return lower_is_better(column) and own(column) is None


def falling(values: Any, column: str) -> Any:
    """Returns values such that lower is better, and those back: of a share what is missing to 1.

    Nobody knows the most that a study's own metric may be: of one that rises, the negative.
    """
    if own(column) is not None:
        return -values if higher_is_better(column) else values
    return 1 - values if higher_is_better(column) else values


def words(column: str) -> str:
    """Returns a column as it stands within a sentence: `test R²`."""
    named = column.replace("_", " ")
    found = metric(column)
    return named.removesuffix(found.name.replace("_", " ")) + found.words if found else named


def columns(task: str, split: str) -> tuple[str, ...]:
    return (f"{split}_loss", *(f"{split}_{name}" for name in TASKS[task]))


def of(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the tasks whose metrics some columns are of; classification where there is none."""
    there = {found.name for found in map(metric, names) if found}
    return tuple(task for task, own in TASKS.items() if there & {*own}) or (CLASSIFICATION,)


def kept(names: Iterable[str], tasks: Collection[str]) -> list[str]:
    kept_names = {*OWN, *(name for task in tasks for name in TASKS[task])}
    return [name for name in names if not (found := metric(name)) or found.name in kept_names]


def unit(named: str, tasks: Collection[str]) -> str:
    """Returns the unit of a column of losses where these tasks are learned.

    The loss of a regression is of standardised targets and has none.
    """
    return "" if named.startswith(NATS) and REGRESSION in tasks else named


def loss_margin(tasks: Collection[str]) -> float:
    """Returns the increase of a loss that counts as negligible: in nats, or in target variances."""
    return 0.01 if REGRESSION in tasks else 0.05
