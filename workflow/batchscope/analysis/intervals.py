"""Numbers in, confidence intervals out: of means, of ratios and of shares."""

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


def correction(pairs: Any, tuned: Any) -> Any:
    """Return the factor on the variance of a mean over seeds with tuned learning rates.

    Each seed is read at the learning rate that the others choose. If these rates differ (`tuned`),
    the seeds are correlated. Among equally good rates, two seeds share about c / sqrt(n) of their
    variance. To first order c is 1/(pi sqrt(2)) = 0.23 for two rates, 0.34 for three and 0.54 for
    seven. The last is used, rounded up. benchmarks/coverage.py simulates the coverage.
    """
    return np.where(tuned, 1 + TUNED_COEFFICIENT * np.sqrt(pairs), 1.0)


def t_interval(
    values: Any, confidence: float = 0.95, logarithmic: bool = False, tuned: bool = False
) -> Interval:
    """Return the mean of finite numbers and its interval, as `t_intervals` does."""
    row = np.asarray(values, float).reshape(1, -1)
    columns = t_intervals(row, confidence, logarithmic, tuned)
    return Interval(*(column.item() for column in columns))


def t_intervals(
    values: np.ndarray, confidence: float = 0.95, logarithmic: bool = False, tuned: Any = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, low, high and n of each row by Student's t; NaN ends for fewer than two values.

    Args:
        values: Shape (rows, numbers); numbers that are not finite are left out.
        logarithmic: Whether to use the interval of the mean's logarithm, so that no end of a
            positive mean is below 0 (delta method; Oehlert, The American Statistician 46 (1992),
            27).
        tuned: Whether each row has seeds that are read at different rates (see `correction`).
    """
    finite = np.isfinite(values)
    n = finite.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = np.where(finite, values, 0.0).sum(axis=1) / n
        deviations = np.where(finite, values - mean[:, None], 0.0)
        error = np.sqrt((deviations**2).sum(axis=1) / (n - 1) / n * correction(n, tuned))
        half = np.where(n > 1, special.stdtrit(n - 1, 0.5 + confidence / 2) * error, math.nan)
        low, high = mean - half, mean + half
        if logarithmic:
            factor = np.exp(half / mean)
            low, high = np.where(mean > 0, [mean / factor, mean * factor], [low, high])
    return mean, low, high, n


def ratio_interval(values: Any, denominators: Any) -> Interval:
    """Return the geometric mean of ratios of pairs, and its t-interval on the logarithmic scale.

    Pairs are left out unless both numbers are finite and positive.
    """
    pairs = np.array([values, denominators], float)
    values, denominators = pairs[:, (np.isfinite(pairs) & (pairs > 0)).all(axis=0)]
    logs = t_interval(np.log(values) - np.log(denominators))
    return Interval(*np.exp(logs[:3]).tolist(), logs.n)


def means(rows: Any, tuned: Any, geometric: bool) -> list[Interval]:
    """Return the mean of each row over its seeds with its 95 % t-interval.

    It is NaN without a value, or if a value is infinite or, for a geometric mean, not positive.

    Args:
        rows: Shape (rows, seeds); NaN without a run.
        tuned: Whether the seeds of each row are read at different rates (see `correction`).
    """
    rows = np.asarray(rows, float)
    excluded = np.isinf(rows) | (rows <= 0) if geometric else np.isinf(rows)
    rows = np.where(excluded.any(axis=1, keepdims=True), math.nan, rows)
    *numbers, n = t_intervals(np.log(rows) if geometric else rows, tuned=tuned)
    numbers = np.exp(numbers) if geometric else numbers
    return [Interval(*map(float, row), int(count)) for *row, count in zip(*numbers, n, strict=True)]


def binomial(rows: pandas.DataFrame, column: str, by: Sequence[str]) -> pandas.DataFrame:
    """Return the mean p of an accuracy and 1.96 sqrt(p (1 - p) / n), for each value of `by`.

    The second is the half-width of a 95 % interval for the n counted examples.
    """
    examples = column.replace("_accuracy", "_examples")
    averages = rows.groupby([*by], dropna=False)[[column, examples]].mean()
    share = averages[column].astype(float)
    half = 1.96 * np.sqrt(share * (1 - share) / averages[examples].astype(float))
    return pandas.DataFrame({"mean": share, "half": half})
