"""Times and memory of a step by batch size in, fixed cost and cost per example out.

Times are a table with a row per batch size and a column per round, in seconds per step: a block of
each round of turns, or the median of each job. They scatter in proportion to themselves, so every
fit weights a median by its inverse. The problem is then linear. The estimate is low by about the
square of the relative noise of the medians, 0.04 % at 2 %. A new column of a sweep goes into
`throughput_knee.summary_columns`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy import special

from batchscope.analysis.intervals import Interval
from batchscope.study.outcomes import LEVEL

# Largest relative residual of a line that fits: half of the 10 % between the knee of the throughput
# and its plateau (`throughput_knee`).
MAX_LINE_RESIDUAL = 0.05
_ROUNDING = 1e-9  # a cost below this share of every time of a step is 0
# Smallest resolvable excess of a peak over the lowest one, which starting and tracing may cause.
# Repeated peaks of the same batch differ by about 1 MB.
_RESOLVABLE_MB = 4.0


class StepCost(NamedTuple):
    """The line t = a + b * B in seconds per step, by least squares of relative errors."""

    fixed: Interval  # a in seconds; it may be negative
    per_image: Interval  # b in seconds
    # a / b, the batch size with half of its time in the fixed cost; NaN unless both are positive.
    # The interval is the delta method's for log(a / b), so that no end is below 0.
    half_batch: Interval
    residual: float  # relative root mean square residual


def is_resolved(cost: StepCost) -> bool:
    """Return whether the line fits, and its ratio a / b is known up to a factor of e."""
    ratio = cost.half_batch
    has_ratio = ratio.mean > 0 and not ratio.high > math.e * ratio.mean
    return has_ratio and cost.residual <= MAX_LINE_RESIDUAL


def fit_step_cost(batch_sizes: Any, blocks: Any, of_jobs: bool = False) -> StepCost:
    """Fit the fixed cost of a step and the cost per example.

    The half-width of an interval is the root of the sum of two squared half-widths (Howe 1974,
    Journal of the American Statistical Association 69, 789). The first is the error of least
    squares over sizes, the second the variation over rounds that all sizes share.

    Args:
        batch_sizes: At least two different batch sizes, shape (sizes,).
        blocks: Positive times, shape (sizes, rounds). A single round gives no interval of a cost.
        of_jobs: Whether each round is a job. Otherwise two batch sizes give no interval.
    """
    sizes, table = sorted_times(batch_sizes, blocks)
    medians = np.median(table, axis=1)
    costs, covariance, squares = line(sizes, medians, 1 / medians)
    # If a cost is 0 or hardly more, the interval of the ratio has no upper end.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slopes = np.vstack([np.eye(2), [1, -1] / costs])  # derivatives of a, b and log(a / b)
        half = t_quantile(len(sizes) - 2) * np.sqrt(np.diag(slopes @ covariance @ slopes.T))
        if of_jobs and len(sizes) == 2:  # the line goes through both sizes without any error
            half = np.zeros(3)
        half = np.hypot(half, _common_half_widths(sizes, table, costs, of_jobs))
        factor = np.exp(half[2])
    ratio = costs[0] / costs[1] if (costs > 0).all() else math.nan
    ends = zip(costs, costs - half[:2], costs + half[:2], strict=True)
    estimates = (*ends, (ratio, ratio / factor, ratio * factor))
    costs_and_ratio = (Interval(*map(float, values)) for values in estimates)
    return StepCost(*costs_and_ratio, residual=math.sqrt(squares / len(sizes)))


def from_evaluations(rows: pandas.DataFrame) -> StepCost | None:
    """Return the line through the seconds per step of trainings; None if it is not resolved.

    Steps are counted from a run's first row to its last; with a single row, from the start. The
    interval is based on the seeds that every batch size has. Without any it is missing.

    Args:
        rows: Rows of trajectories.csv of a series. Their seconds are those of timing jobs.
    """
    if "seconds" not in rows:
        return None
    columns = ["updates", "seconds", "examples"]
    runs = rows.dropna(subset=columns).groupby(["batch_size", "seed", "run"])[columns]
    last = runs.max()
    spans = (last - runs.min()).where(lambda span: span["updates"] > 0, last)
    spans = spans[(spans > 0).all(axis=1)]
    steps = spans[["seconds", "examples"]].div(spans["updates"], axis=0)
    # Runs of one seed at several rates share its timing job.
    jobs = steps["seconds"].groupby(["batch_size", "seed"]).median().unstack("seed")
    # The last batch of an epoch is smaller. So an average step has fewer examples than a full
    # batch, and two batch sizes may have the same number of examples per step.
    jobs = jobs.groupby(steps["examples"].groupby("batch_size").median()).median()
    if len(jobs) < 2:
        return None
    shared = jobs.dropna(axis=1)
    blocks = shared if len(shared.columns) else jobs.median(axis=1).to_frame()
    cost = fit_step_cost(jobs.index, blocks.to_numpy(), len(blocks.columns) > 1)
    return cost if is_resolved(cost) else None


def line(x: np.ndarray, y: np.ndarray, weights: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Return intercept and slope, their covariance, and the weighted sum of squared residuals."""
    design = _design(x, weights)
    inverse = np.linalg.pinv(design)
    constants = inverse @ (y * weights)
    constants[np.abs(design * constants).max(axis=0) < _ROUNDING] = 0.0
    residuals = y * weights - design @ constants
    squares, freedom = float(residuals @ residuals), len(x) - 2
    variance = squares / freedom if freedom else math.nan
    return constants, inverse @ inverse.T * variance, squares


def _common_half_widths(
    sizes: np.ndarray, table: np.ndarray, costs: np.ndarray, of_jobs: bool
) -> np.ndarray:
    """Return the half-widths of a, b and log(a / b) by the variation that all sizes share.

    A round scales both costs by the mean logarithm of its blocks over their medians. It cancels in
    the ratio. A job may differ in either cost, so each job has a line through its logarithms. The
    standard error of a median of normal rounds is sqrt(pi / 2) times that of their mean.
    """
    rounds = table.shape[1]
    if rounds < 2:
        return np.array([math.nan, math.nan, 0.0])
    logs = logs_over_median(table)
    if of_jobs:
        medians = np.median(table, axis=1, keepdims=True)
        lines = np.linalg.lstsq(_design(sizes, 1 / medians), logs, rcond=None)[0]
        by_round = np.vstack([lines, np.subtract(*(lines / costs[:, None]))])
    else:
        by_round = np.outer([*np.abs(costs), 0.0], logs.mean(axis=0))
    return t_quantile(rounds - 1) * math.sqrt(math.pi / 2 / rounds) * by_round.std(axis=1, ddof=1)


def t_quantile(freedom: int) -> float:
    """Return the quantile of Student's t for a two-sided interval; NaN without freedom."""
    return float(special.stdtrit(freedom, 1 - LEVEL / 2)) if freedom > 0 else math.nan


def _design(x: np.ndarray, weights: Any) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), x]) * np.reshape(weights, (-1, 1))


def logs_over_median(table: np.ndarray) -> np.ndarray:
    return np.log(table / np.median(table, axis=1, keepdims=True))


def memory_line(batch_sizes: Any, peaks_mb: Any) -> tuple[float, Interval]:
    """Return the fixed memory and the memory per example in MB; NaN if no line is possible."""
    sizes, peaks = np.asarray(batch_sizes, float), np.asarray(peaks_mb, float)
    lowest = peaks.min(where=np.isfinite(peaks), initial=math.inf)
    used = peaks >= lowest + _RESOLVABLE_MB  # unknown peaks (NaN) are left out as well
    if len(set(sizes[used])) < 2:
        return math.nan, Interval()
    (fixed, slope), covariance, _ = line(sizes[used], peaks[used], 1.0)
    half = t_quantile(used.sum() - 2) * math.sqrt(covariance[1, 1])
    return float(fixed), Interval(*map(float, (slope, slope - half, slope + half)))


def sorted_times(batch_sizes: Any, blocks: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return batch sizes in ascending order, and their times, shape (sizes, rounds)."""
    sizes = np.asarray(batch_sizes, float).ravel()
    table = np.asarray(blocks, float).reshape(len(blocks), -1)
    order = np.argsort(sizes)
    return sizes[order], table[order]
