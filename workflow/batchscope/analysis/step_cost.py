"""What the time per step says: the fixed cost, the plateau, the knee, the noise.

Timings scatter in proportion to themselves, so every fit weights a median by its inverse: the
squares of (median - model) / median are minimised. Weights from the data make every fit one
linear problem and every model comparable on the same scale; their price is an estimate that is
low by about the square of the relative noise of the medians, 0.04 % at 2 %.

Times are given as one row per batch size, with a block for each round of turns, or with the median
of each job, in seconds per step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from batchscope.analysis import intervals
from batchscope.catalogue.outcomes import LEVEL

PLATEAU_SHARE = 0.9  # share of the plateau at which throughput counts as level
LINE_FITS = 0.05  # relative residual, half of what separates that share from the plateau
# Noise floor above which no level of the throughput is stated. Two halves of the blocks differ with
# twice the standard error of the median of all, so that half of the floor is about two standard
# errors of a median: at 20 %, the 10 % that separate the share from the plateau.
MOST_NOISE = 1.2
TOO_NOISY = "too noisy to tell"
_ROUNDING = 1e-9  # share of every time of a step below which a cost is none


class Estimate(NamedTuple):
    """A value with its 95 % interval; the ends are NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


class Fit(NamedTuple):
    """t = a + b * B in seconds per step, by least squares of relative errors."""

    fixed: Estimate  # a, s; may be negative
    per_image: Estimate  # b, s
    # a / b, at which half the time is fixed cost; NaN unless both are positive. Its interval is the
    # delta method's for log(a / b), so that it has no end below 0.
    half_batch: Estimate
    residual: float  # relative root mean square
    sizes: int  # how many
    fixed_error: float  # standard error of a, s


def resolved(cost: Fit) -> bool:
    """Returns whether the line fits, and the ratio of its costs is known to a factor of e.

    Beyond that the interval of a / b, on its own scale, holds 0: there may be no fixed cost. A fit
    without intervals is taken by its values.
    """
    value, _, high = cost.half_batch
    known = value > 0 and not high > math.e * value
    return known and cost.residual <= LINE_FITS


def fixed_cost(batch_sizes: Any, blocks: Any, of_jobs: bool = False) -> Fit:
    """Fits the fixed cost of a step and the cost per example.

    The intervals join two independent errors by the root of the sum of their squared half-widths
    (Howe 1974, Journal of the American Statistical Association 69, 789). One is that of weighted
    least squares on one median per batch size, Student's t over sizes: noise between blocks, and
    sizes that stray from the line one by one. The other is that of what changes all sizes alike,
    Student's t over rounds: it scales both costs, and cancels in their ratio. Jobs, processes of
    their own, differ in either cost: there it is that of the jobs' own lines.

    There are no intervals for two batch sizes of one job, those over jobs alone for two of several,
    and none of the costs for one round.

    Args:
        batch_sizes: At least two different batch sizes, shape (sizes,).
        blocks: Shape (sizes, rounds) or (sizes,).
        of_jobs: Whether each round is a job.
    """
    sizes, table = _table(batch_sizes, blocks)
    if len(sizes) < 2:
        raise ValueError(f"Expected at least two batch sizes. Received: {sizes.tolist()}")
    medians = np.median(table, axis=1)
    (a, b), covariance, squares = line(sizes, medians, 1 / medians)
    over_sizes, over_rounds = student_t(len(sizes) - 2), student_t(table.shape[1] - 1)
    common, of_ratio = _common_errors(sizes, table, np.array([a, b]), of_jobs)
    if of_jobs and len(sizes) == 2:  # a line always goes through them
        over_sizes, covariance = 0.0, np.zeros((2, 2))
    errors = np.sqrt(np.diag(covariance))
    ends = np.hypot(over_sizes * errors, over_rounds * common)
    half_batch = Estimate(math.nan)
    if a > 0 and b > 0:
        slope = np.array([1 / a, -1 / b])  # of log(a / b)
        with np.errstate(over="ignore"):  # a that may well be 0: the interval has no upper end
            error = over_sizes * np.sqrt(slope @ covariance @ slope)
            factor = float(np.exp(np.hypot(error, over_rounds * of_ratio) if of_jobs else error))
        half_batch = Estimate(a / b, a / b / factor, a / b * factor)
    fixed, per_image = (
        Estimate(value, float(value - end), float(value + end))
        for value, end in zip((a, b), ends, strict=True)
    )
    residual = math.sqrt(squares / len(sizes))
    fixed_error = float(np.hypot(errors, common)[0])
    return Fit(fixed, per_image, half_batch, residual, len(sizes), fixed_error)


def line(x: np.ndarray, y: np.ndarray, weights: Any) -> tuple[list[float], np.ndarray, float]:
    """Returns intercept and slope, their covariance, and the sum of the weighted squares."""
    design = np.column_stack([np.ones(len(x)), x]) * np.reshape(weights, (-1, 1))
    basis, triangle = np.linalg.qr(design)
    inverse = np.linalg.inv(triangle)
    found = inverse @ (basis.T @ (y * weights))
    found[np.abs(design * found).max(axis=0) < _ROUNDING] = 0.0
    residuals = y * weights - design @ found
    squares, free = float(residuals @ residuals), len(x) - 2
    return found.tolist(), inverse @ inverse.T * (squares / free if free else math.nan), squares


def student_t(freedom: int) -> float:
    """Returns Student's t at the level; NaN without a degree of freedom."""
    return float(special.stdtrit(freedom, 1 - LEVEL / 2)) if freedom > 0 else math.nan


def _common_errors(
    sizes: np.ndarray, table: np.ndarray, costs: np.ndarray, of_jobs: bool
) -> tuple[np.ndarray, float]:
    """Returns the standard errors of both costs by what all sizes have in common, and of log(a/b).

    A round is the mean logarithm of its blocks over their medians: unlike a median of them it
    shows spikes, which draw the medians of all sizes the same way. A job has the line through its
    logarithms. The median of rounds errs by sqrt(pi / 2) times as much as their mean, for normal
    ones.
    """
    count = table.shape[1]
    if count < 2:
        return np.full(2, math.nan), math.nan
    scale = math.sqrt(math.pi / 2 / count)
    logs = _logs(table)
    if not of_jobs:
        return np.abs(costs) * (scale * logs.mean(axis=0).std(ddof=1)), 0.0
    design = np.column_stack([np.ones(len(sizes)), sizes]) / np.median(table, axis=1, keepdims=True)
    lines = np.linalg.lstsq(design, logs, rcond=None)[0]
    with np.errstate(divide="ignore", invalid="ignore"):  # the ratio of costs that are none
        ratio = np.subtract(*(lines / costs[:, None]))
        errors = scale * np.std([*lines, ratio], axis=1, ddof=1)
    return errors[:2], float(errors[2])


class Knee(NamedTuple):
    """Where throughput levels off: the batch size that reaches 90 % of its plateau."""

    plateau: float  # what throughput tends to, examples/s: 1 / b where the line fits
    fitted: Estimate  # 9 a / b; NaN unless the line fits and it lies within the sizes
    # The smallest size that reaches the share and after which none is short of it: by the upper
    # quartile of its blocks' throughputs.
    batch_size: int | None
    still_rising: bool | None  # whether it is reached beyond the largest size; None for noise


def knee(batch_sizes: Any, blocks: Any, cost: Fit | None = None, noise: float = 1.0) -> Knee:
    """Returns the knee of throughput, none above a noise floor of 20 %.

    The line pools all sizes, so that no one decides. Through three or more, it fits where its
    residual is at most 5 %, or half of the noise floor, about two standard errors of a median. Its
    knee is reported unless the interval holds every size. Throughput rises only if the largest
    size is not short of the best one.
    """
    sizes, table = _table(batch_sizes, blocks)
    if too_noisy(noise):
        return Knee(math.nan, Estimate(math.nan), None, None)
    speeds, fitted = sizes / np.median(table, axis=1), Estimate(math.nan)
    first, largest = sizes[[0, -1]]
    fits = cost and cost.sizes > 2 and cost.residual <= max(LINE_FITS, math.log(noise) / 2)
    if cost and fits and cost.per_image.value > 0:
        plateau = 1 / cost.per_image.value
        at = Estimate(*(PLATEAU_SHARE / (1 - PLATEAU_SHARE) * end for end in cost.half_batch))
        rises = at.value > largest
        if first <= at.value <= largest and (at.low > first or at.high < largest):
            fitted = at
    else:
        plateau, rises = _level(sizes, speeds, noise)
    rising = bool(rises and speeds[-1] >= PLATEAU_SHARE * speeds.max())
    least = PLATEAU_SHARE * plateau
    short = np.flatnonzero(~(sizes / np.percentile(table, 25, axis=1) >= least))
    reached = np.flatnonzero(speeds >= least)
    reached = reached[reached > short.max(initial=-1)]
    stays = int(sizes[reached[0]]) if len(reached) and not rising else None
    return Knee(plateau, fitted, stays, rising)


def _level(sizes: np.ndarray, speeds: np.ndarray, noise: float) -> tuple[float, bool]:
    """Returns the plateau where no line fits, and whether throughput rises.

    It rises if the largest size beats the largest of at most half its size by as much as a line
    with its knee at the largest size would: 10 % for half, whatever the noise. Else the plateau is
    the median of the sizes from half the largest on, unless it is short of the best size by more
    than the noise.
    """
    largest, best = sizes[-1], speeds.max()
    half = np.flatnonzero(sizes <= largest / 2)
    before = half[-1] if len(half) else max(len(sizes) - 2, 0)
    least = PLATEAU_SHARE + (1 - PLATEAU_SHARE) * largest / sizes[before]
    rises = bool(speeds[-1] > least * speeds[before])
    plateau = float(np.median(speeds[sizes >= largest / 2]))
    falls = noise * plateau < PLATEAU_SHARE * best
    none = falls or (rises and speeds[-1] >= PLATEAU_SHARE * best)
    return math.nan if none else plateau, rises


def summary(batch_sizes: Any, blocks: Any, of_jobs: bool = False) -> dict[str, Any]:
    """Returns costs, noise, plateau and knee by their columns, for arguments of `fixed_cost`."""
    fit = fixed_cost(batch_sizes, blocks, of_jobs)
    noise = noise_floor(_within_jobs(blocks) if of_jobs else blocks)
    level = knee(batch_sizes, blocks, fit, noise)
    return {
        **intervals.columns("fixed_seconds", fit.fixed),
        **intervals.columns("seconds_per_image", fit.per_image),
        **intervals.columns("knee_fitted", level.fitted),
        "fixed_seconds_error": fit.fixed_error,
        "half_batch": None if too_noisy(noise) else fit.half_batch.value,
        "line_residual": fit.residual,
        "noise_floor": noise,
        "highest_images_per_second": float((batch_sizes / np.median(blocks, axis=1)).max()),
        "plateau_images_per_second": level.plateau,
        "knee_batch_size": level.batch_size,
        "still_rising": level.still_rising,
    }


def too_noisy(noise: float | None) -> bool:
    """Returns whether a noise floor, None where unknown, is too high to estimate a plateau."""
    return noise is not None and bool(noise > MOST_NOISE)


def _within_jobs(blocks: Any) -> np.ndarray:
    """Returns medians in seconds by size and job without what a job's sizes have in common.

    A job that is slower at all sizes hides no difference between them.
    """
    table = np.asarray(blocks, float)
    return table / np.exp(_logs(table).mean(axis=0))


def noise_floor(blocks: Any) -> float:
    """Returns the factor, at least 1, by which a size differs from itself.

    It is the 95 % quantile over sizes of |log ratio| of two halves, into which the blocks of a size
    are dealt alternately; the largest up to 20 sizes. Halves scatter about 1.4 times as much as all
    blocks together, so it errs on the careful side.
    """
    table = np.asarray(blocks, float)
    logs = np.log(np.median(table[:, ::2], axis=1) / np.median(table[:, 1::2], axis=1))
    return math.exp(np.quantile(np.abs(logs), 0.95, method="higher"))


def _logs(table: np.ndarray) -> np.ndarray:
    return np.log(table / np.median(table, axis=1, keepdims=True))


def _table(batch_sizes: Any, blocks: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns sizes and their times, shape (sizes, rounds), ascending in size."""
    sizes = np.asarray(batch_sizes, float).ravel()
    table = np.asarray(blocks, float).reshape(len(blocks), -1)
    if not len(sizes) == len(set(sizes)) == len(table) or not (table > 0).all():
        raise ValueError(
            "Expected different batch sizes with positive times each. Received: "
            f"{sizes.tolist()} and {table.tolist()}"
        )
    order = np.argsort(sizes)
    return sizes[order], table[order]
