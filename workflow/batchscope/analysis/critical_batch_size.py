"""The critical batch size, from the updates that each batch size takes to a target.

    log S = log S_min + log(1 + B_crit / B),    E_min = S_min * B_crit

S counts updates and E = S * B examples: (S / S_min - 1) (E / E_min - 1) = 1. At B_crit a training
takes twice the fewest updates and twice the fewest examples. Source: McCandlish et al. 2018
(arXiv 1812.06162), equations 2.11 and 2.12.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special

from batchscope.analysis import intervals
from batchscope.study.outcomes import LEVEL
from batchscope.study.own_columns import LEAST_SIZES

NAN = math.nan
ROUNDING = 1e-9  # residual of log S that an exact fit has, at most
_ALIKE = 1e-7  # differences of log S that are none: of a search, of a crossing
# Factor beyond the batch sizes up to which B_crit is looked for; an end farther away is open.
_SEARCH = 1e4
_CURVATURES = (0.1, 10.0)
_STRAY = 2  # standard errors of a size's mean beyond which it strays
PERFECT, MAXIMAL = "perfect scaling", "maximal data parallelism"
# Local slope of log S is -1 / (1 + B / B_crit): -0.9 and -0.1 at these shares of B_crit.
PERFECT_BELOW, MAXIMAL_ABOVE = 1 / 9, 9.0


class CriticalBatchSize(NamedTuple):
    """The fit of one series and target."""

    points: int  # batch sizes
    updates_min: float  # S_min; NaN where B_crit is open upwards
    examples_min: float  # E_min; NaN where B_crit is open downwards
    # NaN where the updates fall as 1 / B at every size (open upwards), or do not fall (downwards).
    critical_batch_size: float
    low: float  # end of its 95 % interval; NaN where it is open: "at most"
    high: float  # NaN where it is open: "at least"
    by_seed: bool  # whether the interval is the one over seeds, at one end or at both
    residual: float  # root mean square of log S: about relative
    lack_of_fit: float  # p that sizes depart from the curve by chance; NaN where nothing can tell
    stray: tuple[int, ...]  # the sizes that do, where it is significant

    @property
    def flagged(self) -> bool:
        return departs(self.lack_of_fit)


def departs(lack_of_fit: float) -> bool:
    return bool(lack_of_fit < LEVEL)


def updates(batch_sizes: Any, updates_min: float, examples_min: float) -> np.ndarray:
    """Returns S(B) of both constants, of which one may be NaN as in `CriticalBatchSize`."""
    return np.nan_to_num(updates_min) + np.nan_to_num(examples_min) / np.asarray(batch_sizes, float)


def fit(batch_sizes: Any, updates: Any, differ: Any = False) -> CriticalBatchSize:
    """Fits S_min and B_crit to the updates to a target.

    For a fixed B_crit the best log S_min is a mean, so that B_crit alone is searched. The fit is
    to the mean logarithm over seeds at each size. Its interval holds every B_crit with
    RSS <= RSS_min (1 + F_.95;1,n-2 / (n-2)), n the number of sizes (profile likelihood; Bates and
    Watts, "Nonlinear regression analysis and its applications", 1988, section 6.1). With several
    seeds, one fit for each gives Student's t-interval of log B_crit. Each end is the wider one.

    Args:
        batch_sizes: At least three different ones, shape (sizes,).
        updates: Positive, shape (sizes,) or (sizes, seeds); NaN where a seed has none.
        differ: Whether seeds of a size are read at different rates (`intervals.correction`), shape
            (sizes,) or one for all.
    """
    order = np.argsort(batch_sizes)
    sizes = np.asarray(batch_sizes, float)[order]
    table = np.log(np.asarray(updates, float).reshape(len(sizes), -1)[order])
    differ = np.broadcast_to(differ, len(sizes))[order]
    logs = np.nanmean(table, axis=1)
    best, least = _search(sizes, logs)
    ends, seeds = _profile_ends(sizes, logs, best, least), _over_seeds(sizes, table, differ.any())
    low, high = min(ends[0], seeds[0]), max(ends[1], seeds[1])
    inside = math.isfinite(best)
    shape = _shape(best, sizes)
    centre = float(np.mean(logs - shape))
    residuals = logs - centre - shape
    p, errors = _lack_of_fit(sizes, table, residuals, best, differ)
    departures = np.abs(residuals) / errors
    stray = sizes[departures >= min(_STRAY, departures.max())] if departs(p) else ()
    return CriticalBatchSize(
        points=len(sizes),
        updates_min=NAN if best == math.inf else math.exp(centre),
        examples_min=NAN if best == -math.inf else math.exp(centre + (best if inside else 0.0)),
        critical_batch_size=math.exp(best) if inside else NAN,
        low=math.exp(low) if low > math.log(sizes[0] / _SEARCH) else NAN,
        high=math.exp(high) if high < math.log(sizes[-1] * _SEARCH) else NAN,
        by_seed=bool(seeds[0] < ends[0] or seeds[1] > ends[1]),
        residual=math.sqrt(least / len(sizes)),
        lack_of_fit=p,
        stray=tuple(int(size) for size in stray),
    )


def _shape(log_critical: Any, sizes: np.ndarray) -> np.ndarray:
    """Returns log(1 + B_crit / B), shape (..., sizes); of an infinite B_crit, less log B_crit."""
    logs = np.asarray(log_critical, float)[..., None]
    whole = np.where(logs == math.inf, 0.0, logs)
    return np.where(logs == math.inf, -np.log(sizes), np.logaddexp(0, whole - np.log(sizes)))


def _squares(
    log_critical: Any, sizes: np.ndarray, logs: np.ndarray, quadratic: bool = False
) -> Any:
    """Returns RSS, of one log B_crit or of several; with the term g (log B - mean)^2 if so."""
    residuals = logs - _shape(log_critical, sizes)
    squares = np.var(residuals, axis=-1) * len(sizes)
    if quadratic:
        term = (np.log(sizes) - np.log(sizes).mean()) ** 2
        term -= term.mean()
        squares = squares - (residuals @ term) ** 2 / (term @ term)
    return squares


def _search(sizes: np.ndarray, logs: np.ndarray, quadratic: bool = False) -> tuple[float, float]:
    """Returns the best log B_crit, of which both infinities are candidates, and its RSS."""
    grid, given = _grid(sizes), (sizes, logs, quadratic)
    at = int(np.argmin(_squares(grid, *given)))
    around = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
    found = optimize.minimize_scalar(
        _squares, bounds=around, args=given, method="bounded", options={"xatol": 1e-10}
    )
    limits = [(end, float(_squares(end, *given))) for end in (math.inf, -math.inf)]
    return min(*limits, (float(found.x), float(found.fun)), key=lambda each: each[1])


def _grid(sizes: np.ndarray) -> np.ndarray:
    return np.linspace(math.log(sizes[0] / _SEARCH), math.log(sizes[-1] * _SEARCH), 300)


def _profile_ends(
    sizes: np.ndarray, logs: np.ndarray, best: float, least: float
) -> tuple[float, float]:
    """Returns the ends of the profile interval of log B_crit; infinite where it is open."""
    freedom = len(sizes) - 2
    most = max(least, len(sizes) * ROUNDING**2) * (
        1 + float(special.fdtri(1, freedom, 1 - LEVEL)) / freedom
    )

    def excess(log_critical: Any) -> Any:
        return _squares(log_critical, sizes, logs) - most

    grid = _grid(sizes)
    grid = np.sort(np.append(grid, best)) if math.isfinite(best) else grid
    held = np.flatnonzero(excess(grid) <= 0)
    if not len(held):  # without a residual all but a limit is excluded
        return (grid[-1], math.inf) if best > 0 else (-math.inf, grid[0])
    # The profile is searched inwards from both limits: where it first falls to the bound.
    lowest, highest = held[0], held[-1]
    low, high = -math.inf, math.inf
    if lowest > 0 and excess(low) > 0:
        low = float(optimize.brentq(excess, grid[lowest - 1], grid[lowest]))
    if highest < len(grid) - 1 and excess(high) > 0:
        high = float(optimize.brentq(excess, grid[highest], grid[highest + 1]))
    return low, high


def _over_seeds(sizes: np.ndarray, table: np.ndarray, differ: bool) -> tuple[float, float]:
    """Returns the t-interval of log B_crit over one fit per seed; empty without two of them."""
    there = ~np.isnan(table.T)
    found = [
        _search(sizes[known], column[known])[0]
        for column, known in zip(table.T, there, strict=True)
        if known.sum() >= LEAST_SIZES
    ]
    if len(found) < 2:
        return math.inf, -math.inf
    if not np.isfinite(found).all():  # a seed without an end leaves the mean none
        low = -math.inf if -math.inf in found else math.inf
        high = math.inf if math.inf in found else -math.inf
        return low, high
    return intervals.t_interval(found, 1 - LEVEL, differ=differ)[1:3]


def _lack_of_fit(
    sizes: np.ndarray, table: np.ndarray, residuals: np.ndarray, best: float, differ: np.ndarray
) -> tuple[float, np.ndarray]:
    """Returns p that sizes depart from the curve by chance, and the standard errors of their means.

    With replicates the pure-error F test: the departures of the means against the scatter of
    replicates about them and, where every seed has every size, about the seeds' own levels (Draper
    and Smith, "Applied regression analysis", 1998, section 2.1).
    """
    if np.abs(residuals).max() < _ALIKE:
        return 1.0, np.full(len(sizes), NAN)
    counts = (~np.isnan(table)).sum(axis=1)
    scatter, freedom = table - np.nanmean(table, axis=1, keepdims=True), int((counts - 1).sum())
    if not np.isnan(table).any():
        scatter, freedom = scatter - scatter.mean(axis=0), freedom - table.shape[1] + 1
    if freedom < 1 or np.nanmax(np.abs(scatter)) < _ALIKE:  # seeds alike are no replicates
        return _without_replicates(sizes, np.nanmean(table, axis=1), residuals, best)
    error = np.nansum(scatter**2) / freedom
    variances = error * intervals.correction(counts, differ) / counts
    f = (residuals**2 / variances).sum() / (len(sizes) - 2)
    return float(special.fdtrc(len(sizes) - 2, freedom, f)), np.sqrt(variances)


def _without_replicates(
    sizes: np.ndarray, logs: np.ndarray, residuals: np.ndarray, best: float
) -> tuple[float, np.ndarray]:
    """Tests one more constant, each at half the level: a bend of its own, a quadratic term."""
    freedom = len(sizes) - 3
    if freedom < 1:
        return NAN, np.full(len(sizes), NAN)
    others = [_search(sizes, logs, quadratic=True)[1]]
    others += [_bent(sizes, logs, best)] if math.isfinite(best) else []
    least = max(min(others), ROUNDING**2)
    f = max((residuals**2).sum() - least, 0.0) / (least / freedom)
    p = 2 * float(special.fdtrc(1, freedom, f))
    return min(1.0, p), np.full(len(sizes), math.sqrt(least / freedom))


def _bent(sizes: np.ndarray, logs: np.ndarray, best: float) -> float:
    """Returns RSS of a bend that is sharper or softer than the hyperbola's.

    It keeps both ends: log S = log S_min + log(1 + (B_crit / B)^c) / c.
    """

    def bent(constants: np.ndarray) -> np.ndarray:
        log_critical, log_curvature = constants
        curvature = math.exp(log_curvature)
        shape = np.logaddexp(0.0, curvature * (log_critical - np.log(sizes))) / curvature
        return (logs - shape) - (logs - shape).mean()

    grid = _grid(sizes)
    bounds = zip((grid[0], grid[-1]), map(math.log, _CURVATURES), strict=True)
    return 2 * optimize.least_squares(bent, (best, 0.0), bounds=tuple(bounds)).cost
