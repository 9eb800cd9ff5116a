"""Columns of our tables that logs of runs fill, with the names of columns that users define.

A new cost goes into `COST_COLUMNS`, a column that is computed from others into `SOURCE_COLUMNS`. A
new metric goes into `tasks.METRICS`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Any

from batchscope.study import tasks
from batchscope.study.run_factors import FACTORS

# Columns of the costs of a run so far.
COST_COLUMNS = ("updates", "examples", "seconds")
# The loss of the first split that logs have is the default target.
_SPLITS = ("validation", "test", "train")
LOSS_COLUMNS = tuple(f"{split}_loss" for split in _SPLITS)
METRICS = {f"{split}_{name}": metric for name, metric in tasks.METRICS.items() for split in _SPLITS}
STANDARD_OUTCOMES = (*LOSS_COLUMNS, *METRICS)
# Column of our tables -> columns of a log from which it is computed.
SOURCE_COLUMNS = {
    "best_train_loss": {"train_loss"},
    "best_validation_loss": {"validation_loss"},
    "generalisation_gap": {"train_loss", "test_loss"},
    **{gap: {f"train_{metric.name}", f"test_{metric.name}"} for gap, metric in tasks.GAPS.items()},
}
# The name of a user-defined factor begins with this prefix, so that it equals no column of ours.
USER_PREFIX = "own_"
EMPTY_CELL = "none"  # value of an empty cell in a column of a user-defined factor


def metric_columns(user_metrics: tasks.Metrics) -> tuple[str, ...]:
    return tuple(f"{split}_{metric.name}" for metric in user_metrics for split in _SPLITS)


def outcomes_with(user_metrics: tasks.Metrics) -> tuple[str, ...]:
    return (*STANDARD_OUTCOMES, *metric_columns(user_metrics))


def is_user_defined(column: Any) -> bool:
    return isinstance(column, str) and column.startswith(USER_PREFIX)


def prefixed_name(column: str) -> str:
    """Return the column of a command's factor, whose values already have the factor's type."""
    return column if column in FACTORS else f"{USER_PREFIX}{column}"


def series_column(column: str, texts: Iterable[str]) -> tuple[str, list[Any]]:
    """Return the name in our tables of a column that distinguishes series, and its values.

    A factor of the pipeline keeps its name if every value has its type. Any other name begins with
    `own_`; its values become numbers if all are numbers. So a log's factor with values of another
    type gets the prefix, which `prefixed_name` does not add.
    """
    texts = list(texts)
    if column in FACTORS:
        with contextlib.suppress(ValueError):
            return column, [_as_kind(FACTORS[column].kind, text) for text in texts]
    for convert in (int, _number):
        with contextlib.suppress(ValueError):
            return f"{USER_PREFIX}{column}", [convert(text) for text in texts]
    return f"{USER_PREFIX}{column}", texts


def _as_kind(kind: str, text: str) -> Any:
    if kind == "str":
        return text
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    value = float(text)
    if not math.isfinite(value) or (kind == "int" and not value.is_integer()):
        raise ValueError(text)
    return int(value) if kind == "int" else value


def _number(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError(text)
    return value
