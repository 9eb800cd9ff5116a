"""Trainings that may never reach their target: how many did, and how long they took.

A training that never got there counts as infinity.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from scipy import stats


class Reached(NamedTuple):
    """How many reached a target, with the interval of their share.

    Attributes:
        count: Trainings that reached it.
        of: All trainings.
        low: Lower end of the share.
        high: Upper end of the share.
    """

    count: int
    of: int
    low: float
    high: float


def reached(times: Any, confidence: float = 0.95) -> Reached:
    """Counts what reached its target, with the interval of Clopper and Pearson.

    Source: Clopper and Pearson 1934, Biometrika 26, 404.

    Args:
        times: What each training took, at least one; infinity where it never got there.
        confidence: Least coverage.

    Raises:
        ValueError: If there is no training, or a time is no number.
    """
    times = _times("reached", times)
    return _share(int(np.isfinite(times).sum()), len(times), confidence)


@functools.cache  # of the few pairs that a table asks for, each many times
def _share(count: int, of: int, confidence: float) -> Reached:
    found = stats.binomtest(count, of).proportion_ci(confidence, method="exact")
    return Reached(count, of, float(found.low), float(found.high))


def median(times: Any) -> float:
    """Returns the median of times of which some may be infinite; raises as `reached` does."""
    return float(np.median(_times("median", times)))


def restricted_mean(times: Any, horizon: float) -> float:
    """Returns the mean of min(time, horizon), which infinity does not spoil.

    Source: Royston and Parmar 2013, BMC Medical Research Methodology 13, 152.

    Args:
        times: As `reached` takes them.
        horizon: Where each is cut, in the unit of the times.

    Raises:
        ValueError: If there is no training, or a time is no number.
    """
    return float(np.minimum(_times("restricted_mean", times), horizon).mean())


def _times(where: str, times: Any) -> np.ndarray:
    times = np.asarray(times, float).ravel()
    if not len(times) or np.isnan(times).any():
        raise ValueError(f"{where}: received {times}; at least one time, none NaN, is expected.")
    return times
