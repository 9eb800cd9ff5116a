"""Times and memory of a step by batch size in, its fixed cost, cost per example and knee out.

Times are a table with a row per batch size and a column per round, in seconds per step: a block of
each round of turns, or the median of each job. The knee is the batch size from which on the
throughput hardly grows. A new column of a sweep goes into `summary_columns`.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy import special

from batchscope.analysis import intervals
from batchscope.analysis.intervals import Interval
from batchscope.study.outcomes import LEVEL

PLATEAU_SHARE = 0.9  # the knee is where the throughput reaches this share of the plateau
# Largest relative residual of a line that fits: half of the 10 % between the knee and the plateau.
MAX_LINE_RESIDUAL = 0.05
# Noise floor above which no plateau is estimated. Half of the floor is about two standard errors
# of a median. At 20 % these are the 10 % between the share and the plateau.
MAX_NOISE = 1.2
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
    """Fit the fixed cost a of a step and the cost b per example: seconds = a + b B.

    Times scatter in proportion to themselves, so every fit weights a median by its inverse; the
    least squares stay linear. The estimate is low by about the square of the relative noise of the
    medians, 0.04 % at 2 %.

    The half-width of an interval is the root of the sum of two squared half-widths (Howe 1974,
    Journal of the American Statistical Association 69, 789). The first is the error of least
    squares over sizes, the second the variation over rounds that all sizes share.

    Args:
        batch_sizes: At least two different batch sizes, shape (sizes,).
        blocks: Positive times, shape (sizes, rounds). A single round gives no interval of a cost.
        of_jobs: Whether each round is a job. Otherwise two batch sizes give no interval.
    """
    sizes, table = np.asarray(batch_sizes, float), np.asarray(blocks, float)
    medians = np.median(table, axis=1)
    costs, covariance, squares = _line(sizes, medians, 1 / medians)
    # If a cost is 0 or hardly more, the interval of the ratio has no upper end.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slopes = np.vstack([np.eye(2), [1, -1] / costs])  # derivatives of a, b and log(a / b)
        half = _t_quantile(len(sizes) - 2) * np.sqrt(np.diag(slopes @ covariance @ slopes.T))
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


def _line(x: np.ndarray, y: np.ndarray, weights: Any) -> tuple[np.ndarray, np.ndarray, float]:
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
    logs = _logs_over_median(table)
    if of_jobs:
        medians = np.median(table, axis=1, keepdims=True)
        lines = np.linalg.lstsq(_design(sizes, 1 / medians), logs, rcond=None)[0]
        by_round = np.vstack([lines, np.subtract(*(lines / costs[:, None]))])
    else:
        by_round = np.outer([*np.abs(costs), 0.0], logs.mean(axis=0))
    return _t_quantile(rounds - 1) * math.sqrt(math.pi / 2 / rounds) * by_round.std(axis=1, ddof=1)


def _t_quantile(freedom: int) -> float:
    """Return the quantile of Student's t for a two-sided interval; NaN without freedom."""
    return float(special.stdtrit(freedom, 1 - LEVEL / 2)) if freedom > 0 else math.nan


def _design(x: np.ndarray, weights: Any) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), x]) * np.reshape(weights, (-1, 1))


def _logs_over_median(table: np.ndarray) -> np.ndarray:
    return np.log(table / np.median(table, axis=1, keepdims=True))


def memory_line(batch_sizes: Any, peaks_mb: Any) -> tuple[float, Interval]:
    """Return the fixed memory and the memory per example in MB; NaN if no line is possible."""
    sizes, peaks = np.asarray(batch_sizes, float), np.asarray(peaks_mb, float)
    lowest = peaks.min(where=np.isfinite(peaks), initial=math.inf)
    used = peaks >= lowest + _RESOLVABLE_MB  # unknown peaks (NaN) are left out as well
    if len(set(sizes[used])) < 2:
        return math.nan, Interval()
    (fixed, slope), covariance, _ = _line(sizes[used], peaks[used], 1.0)
    half = _t_quantile(used.sum() - 2) * math.sqrt(covariance[1, 1])
    return float(fixed), Interval(*map(float, (slope, slope - half, slope + half)))


def summary_columns(batch_sizes: Any, blocks: Any, of_jobs: bool = False) -> dict[str, Any]:
    """Return the columns of costs, noise, plateau and knee; arguments as for `fit_step_cost`."""
    fit = fit_step_cost(batch_sizes, blocks, of_jobs)
    noise = noise_floor(blocks, of_jobs)
    knee = knee_columns(batch_sizes, blocks, fit, noise)
    hidden_by_noise = {"half_batch": fit.half_batch.mean, **knee}
    return {
        **intervals.columns("fixed_seconds", fit.fixed),
        **intervals.columns("seconds_per_image", fit.per_image),
        "line_residual": fit.residual,
        "noise_floor": noise,
        "highest_examples_per_second": float((batch_sizes / np.median(blocks, axis=1)).max()),
        **(dict.fromkeys(hidden_by_noise) if is_too_noisy(noise) else hidden_by_noise),
    }


def knee_columns(sizes: Any, blocks: Any, cost: StepCost, noise: float) -> dict[str, Any]:
    """Return the columns of the plateau, of the knee at 90 % of it, and of `still_rising`.

    A line through three or more sizes fits if its residual is at most 5 %, or at most half of the
    noise floor, about two standard errors of a median. Its plateau is 1 / b and its knee 9 a / b.
    The knee is reported if it is within the sizes and its interval does not contain all of them.

    `knee_batch_size` is the smallest size at the plateau that is larger than every size below it. A
    size is at the plateau if its median throughput reaches the share. It is below the plateau if
    even the upper quartile of its blocks' throughputs does not.

    Throughput is still rising if the knee is beyond the largest size. The largest size must also
    have at least the share of the best throughput.
    """
    order = np.argsort(sizes)
    sizes, table = np.asarray(sizes, float)[order], np.asarray(blocks, float)[order]
    speeds, reported_knee = sizes / np.median(table, axis=1), Interval()
    first, largest = sizes[[0, -1]]
    max_residual = max(MAX_LINE_RESIDUAL, math.log(noise) / 2)
    line_fits = len(sizes) > 2 and cost.residual <= max_residual
    if line_fits and cost.per_image.mean > 0:
        plateau = 1 / cost.per_image.mean
        factor = PLATEAU_SHARE / (1 - PLATEAU_SHARE)
        line_knee = Interval(*(factor * end for end in cost.half_batch[:3]))
        is_beyond_sizes = line_knee.mean > largest
        excludes_sizes = line_knee.low > first or line_knee.high < largest
        if first <= line_knee.mean <= largest and excludes_sizes:
            reported_knee = line_knee
    else:
        plateau, is_beyond_sizes = _plateau(sizes, speeds, noise)
    still_rising = bool(is_beyond_sizes and speeds[-1] >= PLATEAU_SHARE * speeds.max())
    min_speed = PLATEAU_SHARE * plateau
    upper_quartiles = sizes / np.percentile(table, 25, axis=1)
    indices_below = np.flatnonzero(~(upper_quartiles >= min_speed))
    indices_at_plateau = np.flatnonzero(speeds >= min_speed)
    indices_at_plateau = indices_at_plateau[indices_at_plateau > indices_below.max(initial=-1)]
    has_knee = len(indices_at_plateau) and not still_rising
    return {
        **intervals.columns("knee_fitted", reported_knee),
        "plateau_examples_per_second": plateau,
        "knee_batch_size": int(sizes[indices_at_plateau[0]]) if has_knee else None,
        "still_rising": still_rising,
    }


def _plateau(sizes: np.ndarray, speeds: np.ndarray, noise: float) -> tuple[float, bool]:
    """Return the plateau if no line fits, and whether the knee is beyond the largest size.

    The largest size is compared with the next one of at most half its size. A line with its knee at
    the largest size would gain 10 % over half of it. The knee is beyond it if the gain is larger.
    Otherwise the plateau is the median throughput of the sizes from half the largest on. It is NaN
    if 90 % of the best throughput exceeds it by more than the noise.
    """
    largest, best = sizes[-1], speeds.max()
    at_most_half = np.flatnonzero(sizes <= largest / 2)
    smaller = at_most_half[-1] if len(at_most_half) else max(len(sizes) - 2, 0)
    min_gain = PLATEAU_SHARE + (1 - PLATEAU_SHARE) * largest / sizes[smaller]
    is_beyond_sizes = bool(speeds[-1] > min_gain * speeds[smaller])
    plateau = float(np.median(speeds[sizes >= largest / 2]))
    falls_after_best = noise * plateau < PLATEAU_SHARE * best
    still_rising = is_beyond_sizes and speeds[-1] >= PLATEAU_SHARE * best
    return math.nan if falls_after_best or still_rising else plateau, is_beyond_sizes


def is_too_noisy(noise: float | None) -> bool:
    """Return whether a noise floor, None if unknown, is too high to estimate a plateau."""
    return noise is not None and bool(noise > MAX_NOISE)


def noise_floor(blocks: Any, of_jobs: bool = False) -> float:
    """Return the factor, at least 1, between two measurements of the same size.

    The blocks of a size are dealt alternately into two halves. The floor is the 95 % quantile over
    sizes of |log ratio| of their medians: the largest one for up to 20 sizes. The speed of a job as
    a whole is divided out, since it hides no difference between sizes.
    """
    table = np.asarray(blocks, float)
    table = table / np.exp(_logs_over_median(table).mean(axis=0)) if of_jobs else table
    logs = np.log(np.median(table[:, ::2], axis=1) / np.median(table[:, 1::2], axis=1))
    return math.exp(np.quantile(np.abs(logs), 0.95, method="higher"))
