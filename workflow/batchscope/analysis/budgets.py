"""Trainings that may never reach their target: how many did, and how long they took.

A training that never got there counts as infinity.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np


class Reached(NamedTuple):
    """How many of all trainings reached a target, with the interval of their share."""

    count: int
    of: int
    low: float
    high: float


def reached(times: Any) -> Reached:
    """Counts what reached its target, with the 95 % interval of Clopper and Pearson.

    Source: Clopper and Pearson 1934, Biometrika 26, 404.

    Args:
        times: What each training took, at least one; infinity where it never got there.

    Raises:
        ValueError: If there is no training, or a time is no number.
    """
    times = _times("reached", times)
    return _share(int(np.isfinite(times).sum()), len(times))


@functools.cache  # of the few pairs that a table asks for, each many times
def _share(count: int, of: int) -> Reached:
    from scipy import stats  # half a second, which the figures need not pay for

    found = stats.binomtest(count, of).proportion_ci(0.95, method="exact")
    return Reached(count, of, float(found.low), float(found.high))


def median(times: Any) -> float:
    """Returns the median of times of which some may be infinite; raises as `reached` does."""
    return float(np.median(_times("median", times)))


def restricted_mean(times: Any, horizon: float) -> float:
    """Returns the mean of min(time, horizon), which infinity does not spoil; raises likewise.

    Source: Royston and Parmar 2013, BMC Medical Research Methodology 13, 152.
    """
    return float(np.minimum(_times("restricted_mean", times), horizon).mean())


def _times(where: str, times: Any) -> np.ndarray:
    times = np.asarray(times, float).ravel()
    if not len(times) or np.isnan(times).any():
        raise ValueError(f"{where}: received {times}; at least one time, none NaN, is expected.")
    return times
