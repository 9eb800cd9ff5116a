"""Times of a step by batch size in; plateau of the throughput, its knee and the noise floor out.

`step_cost` describes the table of times. A new column of a sweep goes into `summary_columns`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batchscope.analysis import intervals, step_cost
from batchscope.analysis.intervals import Interval
from batchscope.analysis.step_cost import StepCost

PLATEAU_SHARE = 0.9  # the knee is where the throughput reaches this share of the plateau
# Noise floor above which no plateau is estimated. Half of the floor is about two standard errors
# of a median. At 20 % these are the 10 % between the share and the plateau.
MAX_NOISE = 1.2


def summary_columns(batch_sizes: Any, blocks: Any, of_jobs: bool = False) -> dict[str, Any]:
    """Return the columns of costs, noise, plateau and knee; arguments as for `fit_step_cost`."""
    fit = step_cost.fit_step_cost(batch_sizes, blocks, of_jobs)
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


def knee_columns(sizes: Any, blocks: Any, cost: StepCost, noise: float = 1.0) -> dict[str, Any]:
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
    sizes, table = step_cost.sorted_times(sizes, blocks)
    speeds, reported_knee = sizes / np.median(table, axis=1), Interval()
    first, largest = sizes[[0, -1]]
    max_residual = max(step_cost.MAX_LINE_RESIDUAL, math.log(noise) / 2)
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
    table = table / np.exp(step_cost.logs_over_median(table).mean(axis=0)) if of_jobs else table
    logs = np.log(np.median(table[:, ::2], axis=1) / np.median(table[:, 1::2], axis=1))
    return math.exp(np.quantile(np.abs(logs), 0.95, method="higher"))
