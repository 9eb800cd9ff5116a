"""Which values a column of outcomes can have, whatever an interval around its mean reaches."""

from __future__ import annotations

import math
from collections.abc import Iterable

_SIGNED = "generalisation_gap"
_POSITIVE = ("sharpness_", "weight_distance", "update_norm", "path_length", "seconds_per_")
_POSITIVE_ENDS = ("_loss", "_seconds", "_norm", "epochs_run", "distance")


def possible(column: str) -> tuple[float, float]:
    """Returns the least and the largest value of a column: shares lie from 0 to 1.

    What is not known to be bounded has infinite ends: differences, cosines and curvatures.
    """
    if column.startswith(_SIGNED):
        return -math.inf, math.inf
    if column.endswith("accuracy"):
        return 0.0, 1.0
    if column.removesuffix("_q1").removesuffix("_q3").endswith("_percent"):
        return 0.0, 100.0
    if column.startswith(_POSITIVE) or column.endswith(_POSITIVE_ENDS):
        return 0.0, math.inf
    return -math.inf, math.inf


def clipped(column: str, values: Iterable[float]) -> list[float]:
    """Returns values, each moved to the nearest that the column can have; NaN stays what it is."""
    least, largest = possible(column)
    return [each if math.isnan(each) else min(max(each, least), largest) for each in values]
