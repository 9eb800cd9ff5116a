"""Numbers in, confidence intervals out: of means, of ratios and of shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy import special

SUFFIXES = ("", "_low", "_high")  # suffixes of the columns of a value with its interval
TUNED_COEFFICIENT = 0.57  # variance added by tuned seeds is this times sqrt(n) (see `correction`)


class Interval(NamedTuple):
    """A mean with its confidence interval; NaN if there is none."""

    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0


def columns(name: str, interval: Sequence[float]) -> dict[str, float]:
    """Return the columns of a value with the ends of its interval: `x`, `x_low`, `x_high`."""
    return {name + end: value for end, value in zip(SUFFIXES, interval[:3], strict=True)}


def correction(pairs: Any, differ: Any) -> Any:
    """Return the factor on the variance of a mean over seeds that are read at different rates.

    Each seed is read at the learning rate that the others choose. If these rates differ, the seeds
    are correlated. Among equally good rates, two seeds share about c / sqrt(n) of their variance.
    To first order c is 1/(pi sqrt(2)) = 0.23 for two rates, 0.34 for three and 0.54 for seven. The
    last is used, rounded up. benchmarks/coverage.py simulates the coverage (docs/limits.md).
    """
    return np.where(differ, 1 + TUNED_COEFFICIENT * np.sqrt(pairs), 1.0)


def t_interval(
    values: Any, confidence: float = 0.95, logarithmic: bool = False, differ: bool = False
) -> Interval:
    """Return the mean of finite numbers and its interval, as `t_intervals` does."""
    row = np.asarray(values, float).reshape(1, -1)
    columns = t_intervals(row, confidence, logarithmic, differ)
    return Interval(*(column.item() for column in columns))


def t_intervals(
    values: np.ndarray, confidence: float = 0.95, logarithmic: bool = False, differ: Any = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, low, high and n of each row by Student's t; NaN ends for fewer than two values.

    Args:
        values: Shape (rows, numbers); numbers that are not finite are left out.
        logarithmic: Whether to use the interval of the mean's logarithm, so that no end of a
            positive mean is below 0 (delta method; Oehlert, The American Statistician 46 (1992),
            27).
        differ: Whether each row has seeds that are read at different rates (see `correction`).
    """
    finite = np.isfinite(values)
    n = finite.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = np.where(finite, values, 0.0).sum(axis=1) / n
        deviations = np.where(finite, values - mean[:, None], 0.0)
        error = np.sqrt((deviations**2).sum(axis=1) / (n - 1) / n * correction(n, differ))
        half = np.where(n > 1, special.stdtrit(n - 1, 0.5 + confidence / 2) * error, math.nan)
        low, high = mean - half, mean + half
        if logarithmic:
            factor = np.exp(half / mean)
            low, high = np.where(mean > 0, [mean / factor, mean * factor], [low, high])
    return mean, low, high, n


def ratio_interval(values: Any, denominators: Any, differ: bool = False) -> Interval:
    """Return the geometric mean of ratios of pairs, and its t-interval on the logarithmic scale.

    A single denominator is used for all values. Pairs are left out unless both numbers are finite
    and positive. The interval of the inverse ratio is its inverse.
    """
    pairs = np.asarray(values, float), np.asarray(denominators, float)
    values, denominators = np.broadcast_arrays(*pairs)
    usable = np.isfinite(values) & np.isfinite(denominators) & (values > 0) & (denominators > 0)
    logs = t_interval(np.log(values[usable]) - np.log(denominators[usable]), differ=differ)
    return Interval(*(float(np.exp(end)) for end in logs[:3]), logs.n)


def means(rows: Any, tuned: Any, geometric: bool) -> list[Interval]:
    """Return the mean of each row over its seeds with its 95 % t-interval.

    It is NaN without a value, or if a value is infinite or, for a geometric mean, not positive.

    Args:
        rows: Shape (rows, seeds); NaN without a run.
        tuned: Whether the seeds of each row are read at different rates (see `correction`).
    """
    result, rows = [], np.asarray(rows, float)
    for row, differ in zip(rows, np.broadcast_to(tuned, len(rows)).tolist(), strict=True):
        values = row[~np.isnan(row)]
        if not len(values) or np.isinf(values).any() or (geometric and (values <= 0).any()):
            result.append(Interval())
        elif geometric:
            result.append(ratio_interval(values, 1.0, differ))
        else:
            result.append(t_interval(values, differ=differ))
    return result


def binomial(rows: pandas.DataFrame, column: str, by: Sequence[str]) -> pandas.DataFrame:
    """Return the mean p of an accuracy and 1.96 sqrt(p (1 - p) / n), for each value of `by`.

    The second is the half-width of a 95 % interval for the n counted examples.
    """
    examples = column.replace("_accuracy", "_examples")
    averages = rows.groupby([*by], dropna=False)[[column, examples]].mean()
    share = averages[column].astype(float)
    half = 1.96 * np.sqrt(share * (1 - share) / averages[examples].astype(float))
    return pandas.DataFrame({"mean": share, "half": half})
