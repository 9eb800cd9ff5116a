"""Tests of runs that are paired by seed: trends, differences, equivalence, Holm's adjustment."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from batchscope.analysis import intervals

LEAST_SEEDS = 6  # paired seeds below which no verdict is given
LEVEL = 0.05
EXACT_SIGN_FLIPS = 16  # pairs up to which every flip is counted: 65,536


def slopes_per_doubling(values: np.ndarray, batch_sizes: np.ndarray) -> np.ndarray:
    """Returns the least-squares slope against log2(batch size), one per seed.

    Args:
        values: Shape (seeds, batch sizes).
        batch_sizes: Shape (batch sizes,), at least two of them distinct.
    """
    doublings = np.log2(np.asarray(batch_sizes, float))
    centred = doublings - doublings.mean()
    if not centred.any():
        raise ValueError("Expected at least two batch sizes. Received: one.")
    return np.asarray(values, float) @ centred / (centred @ centred)


def page_trend(values: np.ndarray, direction: str) -> float:
    """Returns the p-value of Page's trend test (Page 1963), with seeds as blocks.

    Args:
        values: Shape (seeds, batch sizes): at least 2 and 3, ordered by batch size.
        direction: `rises` or `falls`, stated before the runs.
    """
    from scipy import stats  # half a second, which the figures need not pay for

    values = np.asarray(values, float) * _sign(direction)
    return float(stats.page_trend_test(values).pvalue)


def sign_flip(differences: Any, alternative: str = "two-sided", draws: int = 1 << 16) -> float:
    """Returns the p-value of the sign-flip test that paired differences centre on zero.

    Exact up to 16 pairs; beyond that by random flips from a fixed generator.

    Args:
        differences: Shape (pairs,).
        alternative: `two-sided`, `rises` (mean above zero) or `falls`.
        draws: Random flips beyond 16 pairs.
    """
    differences = np.asarray(differences, float)
    n = len(differences)
    if n == 0:
        return intervals.NAN
    if alternative == "falls":
        differences = -differences
    if n <= EXACT_SIGN_FLIPS:
        bits = np.arange(1 << n)[:, None] >> np.arange(n) & 1
        sums, extra = (1 - 2 * bits) @ differences, 0
    else:
        generator = np.random.default_rng(0)
        signs = generator.integers(0, 2, (draws, n), np.int8) * 2 - 1
        sums, extra = signs @ differences, 1  # the flip that was observed
    observed = differences.sum()
    slack = 1e-12 * np.abs(differences).sum()  # sums in another order round otherwise
    if alternative == "two-sided":
        hits = np.abs(sums) >= abs(observed) - slack
    else:
        hits = sums >= observed - slack
    return float((hits.sum() + extra) / (len(sums) + extra))


def holm(p_values: Any) -> np.ndarray:
    """Returns Holm's adjusted p-values (Holm 1979); NaN stays NaN and does not count."""
    p_values = np.asarray(p_values, float)
    adjusted = np.full(p_values.shape, intervals.NAN)
    tested = np.flatnonzero(np.isfinite(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    weights = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * weights), 1.0)
    return adjusted


class Equivalence(NamedTuple):
    """Whether paired differences lie within a margin."""

    equivalent: bool
    p: float
    interval: intervals.Interval  # at confidence 1 - 2 * level


def equivalence(differences: Any, margin: float, level: float = LEVEL) -> Equivalence:
    """Tests that the mean difference lies within +-margin: two one-sided paired t-tests.

    Args:
        differences: Shape (pairs,); those that are not finite are left out.
        margin: Largest difference that counts as none, written down before the runs.
        level: Size of each of the two tests.

    Raises:
        ValueError: If the margin is not positive.
    """
    if not margin > 0:
        raise ValueError(f"Expected a positive margin. Received: {margin!r}")
    differences = np.asarray(differences, float)
    differences = differences[np.isfinite(differences)]
    interval = intervals.t_interval(differences, 1 - 2 * level)
    if interval.n < 2:
        return Equivalence(False, intervals.NAN, interval)
    error = float(differences.std(ddof=1)) / math.sqrt(interval.n)
    if error == 0:
        p = 0.0 if abs(interval.mean) < margin else 1.0
    else:
        nearest = min(interval.mean + margin, margin - interval.mean)
        p = float(special.stdtr(interval.n - 1, -nearest / error))
    return Equivalence(p < level, p, interval)


def _sign(direction: str) -> int:
    signs = {"rises": 1, "falls": -1}
    if direction not in signs:
        raise ValueError(f"Expected rises or falls. Received: {direction!r}")
    return signs[direction]
