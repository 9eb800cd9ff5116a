"""What the time per step says: the fixed cost, a delay, the plateau, the noise.

Timings scatter in proportion to themselves, so every fit weights a median by its inverse: the
squares of (median - model) / median are minimised. Weights from the data make every fit one
linear problem and every model comparable on the same scale; their price is an estimate that is
low by about the square of the relative noise of the medians, 0.04 % at 2 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    """t = a + b * B, in seconds per step.

    Attributes:
        fixed: The fixed cost per step a, s; may be negative.
        per_image: The cost per example b, s.
        half_batch: The batch size a / b at which half the time is fixed cost; NaN unless both
            are positive. Its interval is the delta method's for log(a / b), so that it has no
            end below 0.
        residual: Relative root-mean-square residual.
        sizes: Number of batch sizes.
        fixed_error: Standard error of `fixed`, s.
    """

    fixed: Estimate
    per_image: Estimate
    half_batch: Estimate
    residual: float
    sizes: int
    fixed_error: float


def resolved(cost: Fit) -> bool:
    """Returns whether the line fits, and the ratio of its costs is known to a factor of e.

    Beyond that the interval of a / b, on its own scale, holds 0: there may be no fixed cost. A fit
    without intervals is taken by its values.
    """
    value, _, high = cost.half_batch
    known = value > 0 and not high > math.e * value
    return known and cost.residual <= LINE_FITS


def fixed_cost(batch_sizes: Any, blocks: Sequence[Any], of_jobs: bool = False) -> Fit:
    """Fits the fixed cost of a step and the cost per example.

    The intervals join two independent errors by the root of the sum of their squared half-widths
    (Howe 1974, Journal of the American Statistical Association 69, 789). One is that of weighted
    least squares on one median per batch size, Student's t over sizes: noise between blocks, and
    sizes that stray from the line one by one. What changes the blocks of all sizes alike is not
    in it. The other is Student's t over rounds: a machine that drifts from round to round, and
    spikes. It scales both costs, and cancels in their ratio. Jobs, processes of their own, differ
    in either cost: there the other error is that of the jobs' own lines, of each cost and of the
    ratio.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        blocks: For each batch size its blocks, one per round and in the order of rounds, or one
            median alone, in seconds per step.
        of_jobs: Whether each round is a job, and its value the median of the job's blocks.

    Returns:
        The fit; without intervals for two batch sizes of one job, with those over jobs alone for
        two of several, and without those of the costs for one round.

    Raises:
        ValueError: If there are fewer than two batch sizes, a timing is not positive, or not
            every batch size has every round.
    """
    sizes, seconds = medians_of("fixed_cost", batch_sizes, blocks)
    (a, b), covariance, residual = weighted_line(sizes, seconds)
    half, (common, half_common) = _t(len(sizes) - 2), _common_error(blocks)
    costs = np.array([a, b])
    shared, of_ratio = common * np.abs(costs), 0.0
    if of_jobs:
        table = np.asarray(blocks, float)[np.argsort(np.ravel(batch_sizes))]
        shared, of_ratio = _error_over_jobs(sizes, table, costs)
        if len(sizes) == 2:  # a line always goes through them
            half, covariance = 0.0, np.zeros((2, 2))
    errors = np.sqrt(np.diag(covariance))
    ends = np.hypot(half * errors, half_common * shared)
    fixed, per_image = (
        Estimate(*each) for each in np.column_stack([costs, costs - ends, costs + ends]).tolist()
    )
    half_batch = Estimate(math.nan)
    if a > 0 and b > 0:
        slope = np.array([1 / a, -1 / b])  # of log(a / b)
        with np.errstate(over="ignore"):  # a that may well be 0: the interval has no upper end
            error = half * np.sqrt(slope @ covariance @ slope)
            error = np.hypot(error, half_common * of_ratio) if of_jobs else error
            factor = float(np.exp(error))
        half_batch = Estimate(a / b, a / b / factor, a / b * factor)
    error = float(np.hypot(errors, shared)[0])
    return Fit(fixed, per_image, half_batch, residual, len(sizes), error)


def _t(freedom: int) -> float:
    """Returns Student's t at the level; NaN without a degree of freedom."""
    return float(special.stdtrit(freedom, 1 - LEVEL / 2)) if freedom > 0 else math.nan


def _common_error(blocks: Sequence[Any]) -> tuple[float, float]:
    """Returns the relative error of what all sizes have in common, and its Student's t.

    A round is the mean logarithm of its blocks over their medians: unlike a median of them it
    shows spikes, which draw the medians of all sizes the same way. The median of rounds errs by
    sqrt(pi / 2) times as much as their mean, for normal ones.
    """
    counts = sorted({np.size(block) for block in blocks})
    if len(counts) != 1:
        raise ValueError(
            f"fixed_cost: received {counts} blocks; as many of every batch size, one per round, "
            "are expected."
        )
    if counts == [1]:
        return math.nan, math.nan
    table = np.asarray(blocks, float)
    rounds = np.log(table / np.median(table, axis=1, keepdims=True)).mean(axis=0)
    error = float(rounds.std(ddof=1)) / math.sqrt(len(rounds))
    return math.sqrt(math.pi / 2) * error, _t(len(rounds) - 1)


def _error_over_jobs(
    sizes: np.ndarray, table: np.ndarray, costs: np.ndarray
) -> tuple[np.ndarray, float]:
    """Returns the standard errors of both costs over jobs, and of the logarithm of their ratio.

    Jobs differ from the medians by logarithms, as rounds do, and each has the line through these;
    `costs` are those of the line through the medians, and `table` has the shape (sizes, jobs).
    """
    medians = np.median(table, axis=1, keepdims=True)
    design = np.column_stack([np.ones(len(sizes)), sizes]) / medians
    lines = np.linalg.lstsq(design, np.log(table / medians), rcond=None)[0]
    with np.errstate(divide="ignore", invalid="ignore"):  # the ratio of costs that are none
        ratio = np.subtract(*(lines / costs[:, None]))
        errors = np.std([*lines, ratio], axis=1, ddof=1) * math.sqrt(math.pi / 2 / table.shape[1])
    return errors[:2], float(errors[2])


def delay_recovered(batch_sizes: Any, without: Sequence[Any], delayed: Sequence[Any]) -> Estimate:
    """Returns what a delay added to the fixed cost of a step, in seconds.

    Both are timed in the same rounds. The differences of a round give a line over the batch
    sizes, weighted as all fits here; its value at no example is what came back in that round. How
    the time of a step strays from a line, and how the machine drifts from round to round,
    cancels in the differences. One round among disturbances hardly moves the estimate.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        without: For each batch size its blocks without the delay, one per round, in seconds per
            step.

    Returns:
        The Hodges-Lehmann estimate over rounds with its signed-rank interval from six rounds on.

    Raises:
        ValueError: If there are fewer than two batch sizes, a timing is not positive, or not
            every batch size has every round twice.
    """
    sizes, medians = medians_of("delay_recovered", batch_sizes, delayed)
    differences = _differences("delay_recovered", without, delayed)[np.argsort(batch_sizes)]
    line = np.column_stack([np.ones(len(sizes)), sizes]) / medians[:, None]
    added = np.linalg.lstsq(line, differences / medians[:, None], rcond=None)[0][0]
    return Estimate(*intervals.hodges_lehmann(added))


def delay_of_pairs(without: Sequence[Any], delayed: Sequence[Any]) -> Estimate:
    """Returns what a delay added to a step at whatever batch size, in seconds.

    A delay is as long at every batch size, so that all differences estimate it alike and nothing
    need be extrapolated to no image. Blocks, of one batch size or more, and what is raised are as
    in `delay_recovered`; the estimate is over the pairs of all batch sizes and rounds.
    """
    differences = _differences("delay_of_pairs", without, delayed)
    return Estimate(*intervals.hodges_lehmann(differences.ravel()))


def _differences(where: str, without: Sequence[Any], delayed: Sequence[Any]) -> np.ndarray:
    """Returns delayed blocks less those without the delay, shape (sizes, rounds)."""
    counts = {len(blocks) for blocks in (*without, *delayed)}
    if len(counts) != 1 or len(without) != len(delayed):
        raise ValueError(
            f"{where}: received {len(without)} and {len(delayed)} batch sizes with "
            f"{sorted(counts)} blocks; as many of both are expected."
        )
    return np.asarray(delayed, float) - np.asarray(without, float)


class Knee(NamedTuple):
    """Where throughput levels off.

    Attributes:
        plateau: Throughput that it tends to, examples/s: 1 / b where the line t = a + b * B fits,
            or else the median of the sizes from half the largest on; NaN where these still rise,
            or where it is short of the share of the best size by more than the noise.
        fitted: The batch size at which the line reaches the share of the plateau, a / b times
            share / (1 - share); NaN unless the line fits and it lies within the sizes.
        batch_size: The smallest batch size that reaches the share and after which none is short
            of it; None where none does.
        still_rising: Whether the share is reached beyond the largest size; None where nothing can
            be estimated for noise.
    """

    plateau: float
    fitted: Estimate
    batch_size: int | None
    still_rising: bool | None


def knee(
    batch_sizes: Any,
    blocks: Sequence[Any],
    share: float = PLATEAU_SHARE,
    noise: float = 1.0,
    of_jobs: bool = False,
) -> Knee:
    """Finds the plateau of the throughput and the batch size that reaches a share of it.

    No estimate above a noise floor of 20 %. The line pools all sizes, so that no one decides.
    It fits where its residual is at most 5 %, or half of the noise floor, about two standard
    errors of a median. Its knee is reported unless the interval holds every size. Elsewhere
    throughput still rises if the largest size beats the largest of at most half its size by as
    much as a line with its knee at the largest size would: 10 % for half, and not by less on a
    quiet machine or by more on a noisy one. By either it rises only if the largest size is not
    short of the best one.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        blocks: For each batch size its blocks, or their median, in seconds per step. A size is
            short only where the upper quartile of its blocks' throughputs is.
        share: Share of the plateau that counts as reached.
        noise: The `noise_floor`.
        of_jobs: As `fixed_cost` takes it: the interval of the line's knee then is over jobs too.

    Raises:
        ValueError: If a timing is not positive.
    """
    sizes, seconds = medians_of("knee", batch_sizes, blocks, least=1)
    if too_noisy(noise):
        return Knee(math.nan, Estimate(math.nan), None, None)
    speeds, largest = sizes / seconds, sizes[-1]
    fitted = Estimate(math.nan)
    holds = speeds[-1] >= share * speeds.max()
    fit = None
    if len(sizes) > 2:
        fit = fixed_cost(batch_sizes, blocks, True) if of_jobs else fixed_cost(sizes, list(seconds))
    if fit and fit.per_image.value > 0 and fit.residual <= max(LINE_FITS, math.log(noise) / 2):
        plateau = 1 / fit.per_image.value
        at = Estimate(*(share / (1 - share) * value for value in fit.half_batch))
        rising = bool(at.value > largest and holds)
        resolved = at.low > sizes[0] or at.high < largest
        fitted = at if resolved and sizes[0] <= at.value <= largest else fitted
    else:
        half = np.flatnonzero(sizes <= largest / 2)
        before = half[-1] if len(half) else max(len(sizes) - 2, 0)
        least = share + (1 - share) * largest / sizes[before]
        rising = bool(speeds[-1] > least * speeds[before] and holds)
        plateau = float(np.median(speeds[sizes >= largest / 2]))
        falls = noise * plateau < share * speeds.max()
        plateau = math.nan if rising or falls else plateau
    order = np.argsort(np.asarray(batch_sizes, float).ravel())
    quick = _of_each(lambda each, **axis: np.percentile(each, 25, **axis), blocks)[order]
    short = np.flatnonzero(~(sizes / quick >= share * plateau))
    reached = np.flatnonzero(speeds >= share * plateau)
    reached = reached[reached > short.max(initial=-1)]
    stays = int(sizes[reached[0]]) if len(reached) and not rising else None
    return Knee(plateau, fitted, stays, rising)


def too_noisy(noise: float | None) -> bool:
    """Returns whether a noise floor, None where unknown, is too high to estimate a plateau."""
    return noise is not None and bool(noise > MOST_NOISE)


def within_jobs(blocks: Sequence[Any]) -> np.ndarray:
    """Returns medians in seconds by size and job without what a job's sizes have in common.

    A job that is slower at all sizes hides no difference between them.
    """
    table = np.asarray(blocks, float)
    logs = np.log(table / np.median(table, axis=1, keepdims=True))
    return table / np.exp(logs.mean(axis=0))


def noise_floor(blocks: Sequence[Any]) -> float:
    """Returns the factor, at least 1, by which a size differs from itself.

    It is the 95 % quantile over sizes of |log ratio| of two halves, into which the blocks of a size
    are dealt alternately; the largest up to 20 sizes. Halves scatter about 1.4 times as much as all
    blocks together, so it errs on the careful side.

    Args:
        blocks: For each batch size its blocks, s.

    Raises:
        ValueError: If a half is empty.
    """
    arrays = [np.atleast_1d(np.asarray(block, float)) for block in blocks]
    if min((array.size for array in arrays), default=0) < 2:
        raise ValueError(
            f"noise_floor: received {len(arrays)} and {len(arrays)} halves; two halves of at "
            "least one block for every batch size are expected."
        )
    logs = [math.log(np.median(each[0::2])) - math.log(np.median(each[1::2])) for each in arrays]
    return math.exp(np.quantile(np.abs(logs), 0.95, method="higher"))


def medians_of(
    where: str, batch_sizes: Any, blocks: Sequence[Any], least: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Returns sizes and medians, ascending in size."""
    sizes = np.asarray(batch_sizes, float).ravel()
    if len(sizes) != len(blocks) or len(set(sizes)) != len(sizes) or len(sizes) < least:
        raise ValueError(
            f"{where}: received batch sizes {list(batch_sizes)} and {len(blocks)} timings; "
            f"at least {least} different batch sizes with one timing each are expected."
        )
    medians = _of_each(np.median, blocks)
    if not (np.isfinite(medians) & (medians > 0)).all():
        raise ValueError(f"{where}: received medians {medians}; positive numbers are expected.")
    order = np.argsort(sizes)
    return sizes[order], medians[order]


def _of_each(statistic: Callable[..., Any], blocks: Sequence[Any]) -> np.ndarray:
    """Returns a statistic of each size's blocks, at once where all have as many; NaN of none."""
    counts = {np.size(block) for block in blocks}
    if len(counts) == 1 and min(counts):
        return statistic(np.reshape(blocks, (len(blocks), -1)), axis=1)
    return np.array([statistic(block) if np.size(block) else math.nan for block in blocks])


def weighted_line(x: np.ndarray, seconds: np.ndarray) -> tuple[list, np.ndarray, float]:
    """Returns intercept and slope, their covariance, and the relative residual."""
    design = np.column_stack([np.ones(len(x)), x]) / seconds[:, None]
    basis, triangle = np.linalg.qr(design)
    inverse = np.linalg.inv(triangle)
    found = inverse @ basis.sum(axis=0)  # every median over itself is 1
    found[np.abs(design * found).max(axis=0) < _ROUNDING] = 0.0
    residuals = 1 - design @ found
    squares = residuals @ residuals
    free = len(x) - 2
    covariance = inverse @ inverse.T * (squares / free if free else math.nan)
    return found.tolist(), covariance, math.sqrt(squares / len(x))
