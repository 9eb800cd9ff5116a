"""Tests of runs that are paired by seed: trends, differences, equivalence, Holm's adjustment."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from batchscope.analysis import intervals
from batchscope.catalogue.outcomes import FALLS, RISES

_ROUNDING = 1e-12  # share of the values below which their difference is none


def slopes_per_doubling(values: np.ndarray, batch_sizes: np.ndarray) -> np.ndarray:
    """Returns the `slopes` against log2(batch size)."""
    return slopes(values, np.log2(np.asarray(batch_sizes, float)))


def slopes(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Returns the least-squares slope against positions, at least two distinct ones, per seed.

    `values` has shape (seeds, positions).
    """
    positions = np.asarray(positions, float)
    centred = positions - positions.mean()
    if not centred.any():
        raise ValueError("Expected at least two positions. Received: one.")
    values = np.asarray(values, float)
    found = values @ centred / (centred @ centred)
    return np.where(np.ptp(values, axis=1) > 0, found, 0.0)  # not what rounding makes of none


def page_trend(values: np.ndarray, direction: str) -> float:
    """Returns the p-value of Page's trend test (Page 1963), with seeds as blocks.

    Args:
        values: Shape (seeds, batch sizes): at least 2 and 3, ordered by batch size.
        direction: `rises` or `falls`, stated before the runs.
    """
    from scipy import stats  # half a second, which the figures need not pay for

    values = np.asarray(values, float) * _sign(direction)
    return float(stats.page_trend_test(values).pvalue)


def trend(values: np.ndarray, batch_sizes: np.ndarray, direction: str) -> float:
    """Returns Page's p-value, and 1 where the mean slope does not have the direction.

    Page's test takes every step from one size to the next alike, whether it is from 8 to 16 or from
    16 to 17: its order and the slope per doubling may point apart, and then there is no trend.
    """
    return trend_along(values, np.log2(np.asarray(batch_sizes, float)), direction)


def trend_along(values: np.ndarray, positions: np.ndarray, direction: str) -> float:
    """Returns what `trend` does, with the slope against positions in place of doublings."""
    slope = slopes(values, positions).mean() * _sign(direction)
    return page_trend(values, direction) if slope > 0 else 1.0


def friedman(values: np.ndarray) -> float:
    """Returns the p-value of Friedman's test (1937) that columns differ, with seeds as blocks.

    Values have shape (seeds, batch sizes), at least 2 and 3; 1 where those of every seed are equal.
    """
    from scipy import stats  # half a second, which the figures need not pay for

    with np.errstate(divide="ignore", invalid="ignore"):
        p = float(stats.friedmanchisquare(*np.asarray(values, float).T).pvalue)
    return 1.0 if np.isnan(p) else p


def paired_t(differences: Any, direction: str, differ: Any = False) -> Any:
    """Returns the p-value of the one-sided paired t-test that the mean difference is not zero.

    Where all differences are equal, 0 if they have the direction, else 1.

    Args:
        differences: Shape (pairs, ...), at least two pairs; each column is a test.
        direction: `rises` (mean above zero) or `falls`, stated before the runs.
        differ: Whether seeds are read at different rates (see `intervals.correction`), shape
            (...).
    """
    values = np.moveaxis(_sign(direction) * np.asarray(differences, float), 0, -1)
    pairs, means = values.shape[-1], values.mean(axis=-1)
    # The numbers of `scipy.stats.ttest_1samp`, whose checks take twenty times as long.
    with np.errstate(divide="ignore", invalid="ignore"):
        unbiased = np.divide(pairs, pairs - 1)
        variance = np.square(values - means[..., None]).mean(axis=-1) * unbiased
        variance = variance * intervals.correction(pairs, differ)
        p = special.stdtr(pairs - 1, -means / np.sqrt(variance / pairs))
    return np.where(np.isnan(p), 1.0, p)


def unrounded(differences: Any, scale: Any) -> np.ndarray:
    """Returns differences, and 0 for what rounding makes of none, against a scale of the values."""
    return np.where(np.abs(differences) < _ROUNDING * scale, 0.0, differences)


def holm(p_values: Any) -> np.ndarray:
    """Returns Holm's adjusted p-values (Holm 1979); NaN stays NaN and does not count."""
    p_values = np.asarray(p_values, float)
    adjusted = np.full(p_values.shape, np.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    weights = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * weights), 1.0)
    return adjusted


def _sign(direction: str) -> int:
    signs = {RISES: 1, FALLS: -1}
    if direction not in signs:
        raise ValueError(f"Expected rises or falls. Received: {direction!r}")
    return signs[direction]
