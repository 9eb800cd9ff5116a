"""The columns of a table of external runs, and their names in our tables."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Any

from batchscope.study import tasks
from batchscope.study.run_factors import FACTORS

# Costs of a run so far.
AXES = ("updates", "examples", "seconds")
# The first known loss is the default target.
_SPLITS = ("validation", "test", "train")
LOSSES = tuple(f"{split}_loss" for split in _SPLITS)
METRICS = {f"{split}_{name}": metric for name, metric in tasks.METRICS.items() for split in _SPLITS}
OUTCOMES = (*LOSSES, *METRICS)
# Column of our tables -> the columns of a log that it is made of.
SOURCE_COLUMNS = {
    "best_train_loss": {"train_loss"},
    "best_validation_loss": {"validation_loss"},
    "generalisation_gap": {"train_loss", "test_loss"},
    **{gap: {f"train_{metric.name}", f"test_{metric.name}"} for gap, metric in tasks.GAPS.items()},
}
MIN_SIZES = 3  # batch sizes of a series: two leave the two constants of a fit no residual
# Begins the name of a column that no factor of ours has: it can be no other column of a table.
PREFIX = "own_"
EMPTY = "none"  # value of an empty cell in such a column
AT_TARGET, AT_END = "target", "end"  # why a run with a single row stopped
EXTERNAL_MACHINE = "elsewhere"  # the machine of external runs


def metric_columns(metrics: tasks.Metrics) -> tuple[str, ...]:
    return tuple(f"{split}_{metric.name}" for metric in metrics for split in _SPLITS)


def outcomes(metrics: tasks.Metrics) -> tuple[str, ...]:
    return (*OUTCOMES, *metric_columns(metrics))


def is_user_defined(column: Any) -> bool:
    return isinstance(column, str) and column.startswith(PREFIX)


def prefixed_name(column: str) -> str:
    return column if column in FACTORS else f"{PREFIX}{column}"


def factor(column: str, texts: Iterable[str]) -> tuple[str, list[Any]]:
    """Return the name of a column that distinguishes series in our tables, and its values.

    A factor of the pipeline keeps its name if every value has its type. Any other name begins with
    `own_`; its values become numbers if all are numbers.
    """
    texts = list(texts)
    if column in FACTORS:
        with contextlib.suppress(ValueError):
            return column, [_as_kind(FACTORS[column].kind, text) for text in texts]
    for convert in (int, _finite):
        with contextlib.suppress(ValueError):
            return f"{PREFIX}{column}", [convert(text) for text in texts]
    return f"{PREFIX}{column}", texts


def _as_kind(kind: str, text: str) -> Any:
    if kind == "str":
        return text
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    value = float(text)
    if not math.isfinite(value) or (kind == "int" and not value.is_integer()):
        raise ValueError(text)
    return int(value) if kind == "int" else value


def _finite(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError(text)
    return value
