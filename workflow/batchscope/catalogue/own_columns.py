"""The columns of a table of external runs, and what its further ones are called in ours."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Any

from batchscope.catalogue import coercion, run_factors

# What a run has used so far.
AXES = ("updates", "examples", "seconds")
# In the order in which targets are stated where none is given.
LOSSES = ("validation_loss", "test_loss", "train_loss")
ACCURACIES = ("validation_accuracy", "test_accuracy", "train_accuracy")
OUTCOMES = (*LOSSES, *ACCURACIES)
LEAST_SIZES = 3  # batch sizes of a series: two leave the two constants of a fit no residual
# Begins the name of a column that no factor of ours has: it can be no other column of a table.
OWN = "own_"
# The machine of external runs.
ELSEWHERE = "elsewhere"


def is_own(column: Any) -> bool:
    """Whether a column of our tables is a further one of an external table."""
    return isinstance(column, str) and column.startswith(OWN)


def factor(column: str, texts: Iterable[str]) -> tuple[str, list[Any]]:
    """Returns the name in our tables of a column that distinguishes series, and its values.

    One of our factors keeps its name where every value is of its kind; any other column is given a
    name that begins with `own_`, and numbers where all its values are.
    """
    texts = [*texts]
    known = run_factors.FACTORS.get(column)
    kinds = {"int": [_whole], "float": [_number], "bool": [_flag], "str": [str]}
    for name, converts in (
        (column, kinds[known.kind] if known else []),
        (f"{OWN}{column}", [int, _finite, str]),
    ):
        for convert in converts:
            with contextlib.suppress(ValueError):
                return name, [convert(text) for text in texts]
    raise AssertionError(column)  # text is always of its kind


def _number(text: str) -> float:
    value = coercion.number(text)
    if value is None:
        raise ValueError(text)
    return float(value)


def _finite(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError(text)
    return value


def _whole(text: str) -> int:
    value = _number(text)
    if value != int(value):
        raise ValueError(text)
    return int(value)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"
