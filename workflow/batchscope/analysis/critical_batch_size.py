"""Updates to a target by batch size in, the critical batch size with its interval out.

    log S = log S_min + log(1 + B_crit / B),    E_min = S_min * B_crit

S counts updates and E = S * B examples: (S / S_min - 1) (E / E_min - 1) = 1. At B_crit a training
takes twice the fewest updates and twice the fewest examples. Source: McCandlish et al. 2018
(arXiv 1812.06162), equations 2.11 and 2.12.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special

from batchscope.analysis import intervals
from batchscope.study.outcomes import LEVEL, MIN_FIT_SIZES

NAN = math.nan
ROUNDING = 1e-9  # largest residual of log S of an exact fit
_EQUAL = 1e-7  # smaller differences of log S are due to a search or to interpolation
# B_crit is searched up to this factor beyond the batch sizes. Ends farther away are unbounded.
_RANGE = 1e4
_CURVATURE_BOUNDS = (0.1, 10.0)
_MIN_STRAY = 2  # a batch size strays if it departs by this number of standard errors of its mean
PERFECT, MAXIMAL = "perfect scaling", "maximal data parallelism"
# Local slope of log S is -1 / (1 + B / B_crit): -0.9 and -0.1 at these shares of B_crit.
PERFECT_BELOW, MAXIMAL_ABOVE = 1 / 9, 9.0


class CriticalBatchSize(NamedTuple):
    """The fit of one series and target."""

    points: int  # number of batch sizes
    updates_min: float  # S_min; NaN if B_crit is unbounded above
    examples_min: float  # E_min; NaN if B_crit is unbounded below
    # B_crit; NaN if the updates fall as 1 / B at every size (unbounded above), or do not fall.
    critical_batch_size: float
    low: float  # lower end of its 95 % interval; NaN if it is unbounded ("at most")
    high: float  # upper end; NaN if it is unbounded ("at least")
    by_seed: bool  # whether an end of the interval is the one over seeds
    residual: float  # root mean square residual of log S, about the relative error
    lack_of_fit: float  # p-value of the departures from the curve; NaN without a test
    stray: tuple[int, ...]  # the sizes that depart from the curve, if this is significant


def is_significant(lack_of_fit: float) -> bool:
    return bool(lack_of_fit < LEVEL)


def updates(batch_sizes: Any, updates_min: float, examples_min: float) -> np.ndarray:
    """Return S(B) from both constants; one of them may be NaN as in `CriticalBatchSize`."""
    return np.nan_to_num(updates_min) + np.nan_to_num(examples_min) / np.asarray(batch_sizes, float)


def fit(batch_sizes: Any, updates: Any, tuned: Any = False) -> CriticalBatchSize:
    """Fit S_min and B_crit to the updates to a target.

    The data are the mean logarithms over seeds at each size. At a fixed B_crit the best log S_min
    is a mean, so only B_crit is searched. The profile interval contains every B_crit with
    RSS <= RSS_min (1 + F_.95;1,n-2 / (n-2)), n the number of sizes (Bates and Watts, "Nonlinear
    regression analysis and its applications", 1988, section 6.1). One fit per seed gives Student's
    t-interval of log B_crit. Each end of the result is the wider one of both intervals.

    Args:
        batch_sizes: At least three different ones, shape (sizes,).
        updates: Positive, shape (sizes,) or (sizes, seeds); NaN without a value of a seed.
        tuned: Whether seeds of a size are read at different rates (`intervals.correction`), shape
            (sizes,) or one for all.
    """
    order = np.argsort(batch_sizes)
    sizes = np.asarray(batch_sizes, float)[order]
    table = np.log(np.asarray(updates, float).reshape(len(sizes), -1)[order])
    tuned = np.broadcast_to(tuned, len(sizes))[order]
    logs = np.nanmean(table, axis=1)
    best, least = _search(sizes, logs)
    profile = _profile_interval(sizes, logs, best, least)
    seeds = _interval_over_seeds(sizes, table, tuned.any())
    low, high = min(profile[0], seeds[0]), max(profile[1], seeds[1])
    shape = _shape(best, sizes)
    centre = float(np.mean(logs - shape))
    residuals = logs - centre - shape
    p, errors = _lack_of_fit(sizes, table, residuals, best, tuned)
    departures = np.abs(residuals) / errors
    stray = sizes[departures >= min(_MIN_STRAY, departures.max())] if is_significant(p) else ()
    inside = math.isfinite(best)
    return CriticalBatchSize(
        points=len(sizes),
        updates_min=NAN if best == math.inf else math.exp(centre),
        examples_min=NAN if best == -math.inf else math.exp(centre + (best if inside else 0.0)),
        critical_batch_size=math.exp(best) if inside else NAN,
        low=math.exp(low) if low > math.log(sizes[0] / _RANGE) else NAN,
        high=math.exp(high) if high < math.log(sizes[-1] * _RANGE) else NAN,
        by_seed=bool(seeds[0] < profile[0] or seeds[1] > profile[1]),
        residual=math.sqrt(least / len(sizes)),
        lack_of_fit=p,
        stray=tuple(int(size) for size in stray),
    )


def _shape(log_critical: Any, sizes: np.ndarray) -> np.ndarray:
    """Return log(1 + B_crit / B), shape (..., sizes); an infinite B_crit gives -log B."""
    logs = np.asarray(log_critical, float)[..., None]
    finite = np.where(logs == math.inf, 0.0, logs)
    return np.where(logs == math.inf, -np.log(sizes), np.logaddexp(0, finite - np.log(sizes)))


def _residual_squares(
    log_critical: Any, sizes: np.ndarray, logs: np.ndarray, quadratic: bool = False
) -> Any:
    """Return RSS at one or several log B_crit, optionally with a term g (log B - mean)^2."""
    residuals = logs - _shape(log_critical, sizes)
    squares = np.var(residuals, axis=-1) * len(sizes)
    if quadratic:
        term = (np.log(sizes) - np.log(sizes).mean()) ** 2
        term -= term.mean()
        squares = squares - (residuals @ term) ** 2 / (term @ term)
    return squares


def _grid(sizes: np.ndarray) -> np.ndarray:
    return np.linspace(math.log(sizes[0] / _RANGE), math.log(sizes[-1] * _RANGE), 300)


def _search(sizes: np.ndarray, logs: np.ndarray, quadratic: bool = False) -> tuple[float, float]:
    """Return the best log B_crit, which may be infinite, and its RSS."""
    grid, data = _grid(sizes), (sizes, logs, quadratic)
    index = int(np.argmin(_residual_squares(grid, *data)))
    around = (grid[max(index - 1, 0)], grid[min(index + 1, len(grid) - 1)])
    inside = optimize.minimize_scalar(
        _residual_squares, bounds=around, args=data, method="bounded", options={"xatol": 1e-10}
    )
    limits = [(end, float(_residual_squares(end, *data))) for end in (math.inf, -math.inf)]
    return min(*limits, (float(inside.x), float(inside.fun)), key=lambda result: result[1])


def _profile_interval(
    sizes: np.ndarray, logs: np.ndarray, best: float, least: float
) -> tuple[float, float]:
    """Return the profile interval of log B_crit; an unbounded end is infinite."""
    freedom = len(sizes) - 2
    growth = float(special.fdtri(1, freedom, 1 - LEVEL)) / freedom
    max_squares = max(least, len(sizes) * ROUNDING**2) * (1 + growth)

    def excess(log_critical: Any) -> Any:
        return _residual_squares(log_critical, sizes, logs) - max_squares

    grid = _grid(sizes)
    grid = np.sort(np.append(grid, best)) if math.isfinite(best) else grid
    inside = np.flatnonzero(excess(grid) <= 0)
    if not len(inside):  # an exact fit at a limit excludes all other values
        return (grid[-1], math.inf) if best > 0 else (-math.inf, grid[0])
    # The profile is searched from both limits inwards, up to where it first falls to the bound.
    lowest, highest = inside[0], inside[-1]
    low, high = -math.inf, math.inf
    if lowest > 0 and excess(low) > 0:
        low = float(optimize.brentq(excess, grid[lowest - 1], grid[lowest]))
    if highest < len(grid) - 1 and excess(high) > 0:
        high = float(optimize.brentq(excess, grid[highest], grid[highest + 1]))
    return low, high


def _interval_over_seeds(sizes: np.ndarray, table: np.ndarray, tuned: bool) -> tuple[float, float]:
    """Return the t-interval of log B_crit over one fit per seed; empty with less than two."""
    by_seed = [
        _search(sizes[~np.isnan(logs)], logs[~np.isnan(logs)])[0]
        for logs in table.T
        if (~np.isnan(logs)).sum() >= MIN_FIT_SIZES
    ]
    if len(by_seed) < 2:
        return math.inf, -math.inf
    if not np.isfinite(by_seed).all():  # a seed with an unbounded B_crit has no mean
        low = -math.inf if -math.inf in by_seed else math.inf
        return low, math.inf if math.inf in by_seed else -math.inf
    return intervals.t_interval(by_seed, tuned=tuned)[1:3]


def _lack_of_fit(
    sizes: np.ndarray, table: np.ndarray, residuals: np.ndarray, best: float, tuned: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the p-value of the departures from the curve, and the standard errors of the means.

    With replicates it is the pure-error F test (Draper and Smith, "Applied regression analysis",
    1998, section 2.1). The levels of the seeds are removed if every seed has every size.
    """
    if np.abs(residuals).max() < _EQUAL:
        return 1.0, np.full(len(sizes), NAN)
    counts = (~np.isnan(table)).sum(axis=1)
    scatter, freedom = table - np.nanmean(table, axis=1, keepdims=True), int((counts - 1).sum())
    if not np.isnan(table).any():
        scatter, freedom = scatter - scatter.mean(axis=0), freedom - table.shape[1] + 1
    if freedom < 1 or np.nanmax(np.abs(scatter)) < _EQUAL:  # equal seeds are no replicates
        return _without_replicates(sizes, np.nanmean(table, axis=1), residuals, best)
    error = np.nansum(scatter**2) / freedom
    variances = error * intervals.correction(counts, tuned) / counts
    f = (residuals**2 / variances).sum() / (len(sizes) - 2)
    return float(special.fdtrc(len(sizes) - 2, freedom, f)), np.sqrt(variances)


def _without_replicates(
    sizes: np.ndarray, logs: np.ndarray, residuals: np.ndarray, best: float
) -> tuple[float, np.ndarray]:
    """Test one more constant, a bend or a quadratic term, each at half the level."""
    freedom = len(sizes) - 3
    if freedom < 1:
        return NAN, np.full(len(sizes), NAN)
    alternatives = [_search(sizes, logs, quadratic=True)[1]]
    alternatives += [_bent(sizes, logs, best)] if math.isfinite(best) else []
    least = max(min(alternatives), ROUNDING**2)
    f = max((residuals**2).sum() - least, 0.0) / (least / freedom)
    p = 2 * float(special.fdtrc(1, freedom, f))
    return min(1.0, p), np.full(len(sizes), math.sqrt(least / freedom))


def _bent(sizes: np.ndarray, logs: np.ndarray, best: float) -> float:
    """Return RSS of log S = log S_min + log(1 + (B_crit / B)^c) / c, a curve with another bend."""

    def residuals(constants: np.ndarray) -> np.ndarray:
        log_critical, log_curvature = constants
        curvature = math.exp(log_curvature)
        shape = np.logaddexp(0.0, curvature * (log_critical - np.log(sizes))) / curvature
        return (logs - shape) - (logs - shape).mean()

    grid = _grid(sizes)
    bounds = [(grid[0], math.log(_CURVATURE_BOUNDS[0])), (grid[-1], math.log(_CURVATURE_BOUNDS[1]))]
    return 2 * optimize.least_squares(residuals, (best, 0.0), bounds=bounds).cost
