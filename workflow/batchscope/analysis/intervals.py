"""Confidence intervals of means, of ratios and of shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy import special

ENDS = ("", "_low", "_high")  # of the columns of a value with its interval
TUNED = 0.57  # times sqrt(n): by how much more tuned seeds scatter, see `correction`


class Interval(NamedTuple):
    """A mean with its confidence interval; NaN if there is none."""

    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0


def columns(name: str, interval: Sequence[float]) -> dict[str, float]:
    """Return the columns of a value with the ends of its interval: `x`, `x_low`, `x_high`."""
    return {name + end: value for end, value in zip(ENDS, interval[:3], strict=True)}


def correction(pairs: Any, differ: Any) -> Any:
    """Return the factor on the variance of a mean over seeds that are read at different rates.

    Each seed is read at the learning rate that the others choose (leave-one-out). If they choose
    different ones, seeds are correlated: one that is good at a rate sends the others there. Among
    rates that are equally good, two seeds share a part of about c / sqrt(n) of their variance: the
    chance that a third decides between the two best rates, times the effect of that decision. c is
    1/(pi sqrt(2)) = 0.23 for two rates, 0.34 for three, 0.54 for seven, to first order; the last is
    used, rounded up. Simulated 95 % intervals then contain the truth in 94 to 98 % of studies with
    2 to 7 rates and 6 to 20 seeds, and without it in 81 to 87 % (benchmarks/coverage.py).
    """
    return np.where(differ, 1 + TUNED * np.sqrt(pairs), 1.0)


def t_interval(
    values: Any, confidence: float = 0.95, logarithmic: bool = False, differ: bool = False
) -> Interval:
    """Return the mean of finite numbers and its interval, as `t_intervals` does."""
    row = np.asarray(values, float).reshape(1, -1)
    columns = t_intervals(row, confidence, logarithmic, differ)
    return Interval(*(column.item() for column in columns))


def t_intervals(
    values: np.ndarray,
    confidence: float = 0.95,
    logarithmic: bool = False,
    differ: Any = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, low, high and n of each row, by Student's t; no ends for fewer than two.

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


def ratio_interval(values: Any, to: Any, differ: bool = False) -> Interval:
    """Return the geometric mean of ratios of pairs, and its t-interval on the logarithmic scale.

    A single denominator is used for all values. Pairs are left out unless both numbers are finite
    and positive. The interval of the inverse ratio is its inverse.
    """
    values, to = np.broadcast_arrays(np.asarray(values, float), np.asarray(to, float))
    usable = np.isfinite(values) & np.isfinite(to) & (values > 0) & (to > 0)
    logs = t_interval(np.log(values[usable]) - np.log(to[usable]), differ=differ)
    return Interval(*(float(np.exp(end)) for end in logs[:3]), logs.n)


def means(rows: Any, tuned: Any, geometric: bool) -> list[Interval]:
    """Return the mean of each row over its seeds with its 95 % t-interval.

    It is NaN without a value, or if one is infinite; a geometric mean also if one is not positive.

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
    """Return the mean of an accuracy and 1.96 sqrt(p (1 - p) / n), for each value of `by`.

    The second is its 95 % half width from counting n examples. No interval over seeds contains it.
    """
    items = column.replace("_accuracy", "_examples")
    averages = rows.groupby([*by], dropna=False)[[column, items]].mean()
    share = averages[column].astype(float)
    half = 1.96 * np.sqrt(share * (1 - share) / averages[items].astype(float))
    return pandas.DataFrame({"mean": share, "half": half})
