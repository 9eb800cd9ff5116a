"""The critical batch size, from the updates that each batch size takes to a target.

    log S = log S_min + log(1 + B_crit / B),    E_min = S_min * B_crit

S counts updates and E = S * B examples: (S / S_min - 1) (E / E_min - 1) = 1. At B_crit a training
takes twice the fewest updates and twice the fewest examples. Source: McCandlish et al. 2018
(arXiv 1812.06162), equations 2.11 and 2.12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special

from batchscope.analysis import intervals
from batchscope.catalogue.outcomes import LEVEL
from batchscope.catalogue.own_columns import LEAST_SIZES

NAN = math.nan
ROUNDING = 1e-9  # residuals of log S below which a fit is exact
# Factor beyond the batch sizes up to which B_crit is looked for; an end farther away is open.
_SEARCH = 1e4
_CURVATURES = (0.1, 10.0)
PERFECT, DIMINISHING = "perfect scaling", "diminishing returns"
MAXIMAL = "maximal data parallelism"
# Local slope of log S is -1 / (1 + B / B_crit): -0.9 and -0.1 at these shares of B_crit.
PERFECT_BELOW, MAXIMAL_ABOVE = 1 / 9, 9.0


@dataclass(frozen=True)
class CriticalBatchSize:
    """The fit of one series and target.

    Attributes:
        updates_min: S_min, updates; NaN where B_crit is open upwards.
        examples_min: E_min, examples; NaN where B_crit is open downwards.
        critical_batch_size: B_crit; NaN where the best fit has none: the updates fall as 1 / B
            at every size (B_crit has a lower end alone), or do not fall (an upper one alone).
        low: Lower end of the 95 % interval of B_crit; NaN where it is open, "at most".
        high: Upper end; NaN where it is open, "at least".
        by_seed: Whether the interval is the one over seeds, at one end or at both.
        residual: Root-mean-square residual of log S: about relative.
        lack_of_fit: What shows that the residuals bend; empty where nothing does.
        covariance: Of (log S_min, log B_crit); NaN where B_crit is.
        freedom: Degrees of freedom of the residual.
    """

    points: int
    updates_min: float
    examples_min: float
    critical_batch_size: float
    low: float
    high: float
    by_seed: bool
    residual: float
    lack_of_fit: str
    covariance: tuple[tuple[float, float], tuple[float, float]]
    freedom: int

    def updates(self, batch_sizes: Any) -> np.ndarray:
        """Returns S(B), the fitted updates to the target."""
        sizes = np.asarray(batch_sizes, float)
        if math.isnan(self.updates_min):
            return self.examples_min / sizes
        examples = 0.0 if math.isnan(self.examples_min) else self.examples_min
        return self.updates_min + examples / sizes

    def band(self, batch_sizes: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ends of the pointwise 95 % band of S(B), by the delta method on log S.

        NaN where B_crit is.
        """
        sizes = np.asarray(batch_sizes, float)
        share = self.critical_batch_size / (self.critical_batch_size + sizes)
        slopes = np.stack([np.ones_like(share), share])
        variance = np.einsum("i...,ij,j...->...", slopes, np.array(self.covariance), slopes)
        half = special.stdtrit(self.freedom, 1 - LEVEL / 2) * np.sqrt(variance)
        return self.updates(sizes) * np.exp(-half), self.updates(sizes) * np.exp(half)

    def regime(self, batch_size: float) -> str:
        """Returns the regime of a batch size after Shallue et al. 2019 (arXiv 1811.03600)."""
        if math.isnan(self.critical_batch_size):
            return MAXIMAL if math.isnan(self.examples_min) else PERFECT
        ratio = batch_size / self.critical_batch_size
        if ratio < PERFECT_BELOW:
            return PERFECT
        return MAXIMAL if ratio > MAXIMAL_ABOVE else DIMINISHING

    def twenty_percent(self, base: float) -> float:
        """Returns the batch size that takes 20 % more examples than a base size does.

        Source: Zhang et al. 2024 (arXiv 2410.21676), whose critical batch size this is.
        """
        return 0.2 * self.critical_batch_size + 1.2 * base


def fit(batch_sizes: Any, updates: Any, differ: bool = False) -> CriticalBatchSize:
    """Fits S_min and B_crit to the updates to a target.

    For a fixed B_crit the best log S_min is a mean, so that B_crit alone is searched. The fit is
    to the mean logarithm over seeds at each size. Its interval holds every B_crit with
    RSS <= RSS_min (1 + F_.95;1,n-2 / (n-2)), n the number of sizes (profile likelihood; Bates and
    Watts, "Nonlinear regression analysis and its applications", 1988, section 6.1). With several
    seeds, one fit for each gives Student's t-interval of log B_crit. Each end is the wider one.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        updates: Shape (sizes,), or (sizes, seeds) paired by seed; NaN where a seed has none.
        differ: Whether seeds of a size are read at different rates (`intervals.correction`).

    Raises:
        ValueError: If there are fewer than three sizes, or updates are missing or not positive.
    """
    sizes = np.asarray(batch_sizes, float)
    table = np.asarray(updates, float)
    table = table[:, None] if table.ndim == 1 else table
    if len(set(sizes.tolist())) < max(LEAST_SIZES, len(sizes)) or len(table) != len(sizes):
        raise ValueError(
            f"critical_batch_size: received batch sizes {sizes.tolist()} and {len(table)} rows of "
            f"updates; at least {LEAST_SIZES} different batch sizes with one row each are expected."
        )
    numbers = table[~np.isnan(table)]
    if np.isnan(table).all(axis=1).any() or not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError(
            f"critical_batch_size: received updates {table.tolist()}; positive numbers are "
            "expected, at least one for every batch size."
        )
    order = np.argsort(sizes)
    sizes, logs = sizes[order], np.log(table[order])
    return _fit(sizes, np.nanmean(logs, axis=1), _over_seeds(sizes, logs, differ))


def _fit(sizes: np.ndarray, logs: np.ndarray, seeds: tuple[float, float]) -> CriticalBatchSize:
    n = len(sizes)
    best, least = _search(sizes, logs)
    ends = _profile_ends(sizes, logs, best, least)
    low, high = min(ends[0], seeds[0]), max(ends[1], seeds[1])
    low = low if low > math.log(sizes[0] / _SEARCH) else -math.inf
    high = high if high < math.log(sizes[-1] * _SEARCH) else math.inf
    shape = _shape(best, sizes)
    centre = float(np.mean(logs - shape))
    residuals = logs - centre - shape
    covariance, inside = np.full((2, 2), NAN), math.isfinite(best)
    if inside:
        slopes = np.column_stack([np.ones(n), 1 / (1 + sizes * math.exp(-best))])
        covariance = np.linalg.inv(slopes.T @ slopes) * least / (n - 2)
    return CriticalBatchSize(
        points=n,
        updates_min=NAN if best == math.inf else math.exp(centre),
        examples_min=NAN if best == -math.inf else math.exp(centre + (best if inside else 0.0)),
        critical_batch_size=math.exp(best) if inside else NAN,
        low=math.exp(low) if math.isfinite(low) else NAN,
        high=math.exp(high) if math.isfinite(high) else NAN,
        by_seed=bool(seeds[0] < ends[0] or seeds[1] > ends[1]),
        residual=math.sqrt(least / n),
        lack_of_fit=_lack_of_fit(sizes, logs, residuals, best),
        covariance=tuple(map(tuple, covariance.tolist())),
        freedom=n - 2,
    )


def _shape(log_critical: Any, sizes: np.ndarray) -> np.ndarray:
    """Returns log(1 + B_crit / B), shape (..., sizes); of an infinite B_crit, less log B_crit."""
    logs = np.asarray(log_critical, float)[..., None]
    whole = np.where(logs == math.inf, 0.0, logs)
    return np.where(logs == math.inf, -np.log(sizes), np.logaddexp(0, whole - np.log(sizes)))


def _squares(log_critical: Any, sizes: np.ndarray, logs: np.ndarray) -> Any:
    """Returns RSS, of one log B_crit or of several."""
    return np.var(logs - _shape(log_critical, sizes), axis=-1) * len(sizes)


def _search(sizes: np.ndarray, logs: np.ndarray) -> tuple[float, float]:
    """Returns the best log B_crit, of which both infinities are candidates, and its RSS."""
    grid = _grid(sizes)
    at = int(np.argmin(_squares(grid, sizes, logs)))
    around = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
    found = optimize.minimize_scalar(
        _squares, bounds=around, args=(sizes, logs), method="bounded", options={"xatol": 1e-10}
    )
    limits = [(end, float(_squares(end, sizes, logs))) for end in (math.inf, -math.inf)]
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


def _over_seeds(sizes: np.ndarray, logs: np.ndarray, differ: bool) -> tuple[float, float]:
    """Returns the t-interval of log B_crit over one fit per seed; empty without two of them."""
    found = []
    for column in logs.T:
        there = ~np.isnan(column)
        if there.sum() >= LEAST_SIZES:
            found.append(_search(sizes[there], column[there])[0])
    if len(found) < 2:
        return math.inf, -math.inf
    if not np.isfinite(found).all():  # a seed without an end leaves the mean none
        low = -math.inf if -math.inf in found else math.inf
        high = math.inf if math.inf in found else -math.inf
        return low, high
    return intervals.t_interval(found, 1 - LEVEL, differ=differ)[1:3]


def _lack_of_fit(sizes: np.ndarray, logs: np.ndarray, residuals: np.ndarray, best: float) -> str:
    """Returns what shows that the residuals bend; empty where nothing does."""
    if len(sizes) <= LEAST_SIZES or np.abs(residuals).max() < ROUNDING:
        return ""
    found = []
    if _runs_chance(residuals > 0) < LEVEL:
        found.append("runs test")
    if math.isfinite(best) and _bend_chance(sizes, logs, residuals, best) < LEVEL:
        found.append("curved alternative")
    return ", ".join(found)


def _runs_chance(signs: np.ndarray) -> float:
    """Returns the chance of as few runs of equal signs or fewer (Wald and Wolfowitz 1940)."""
    positive, n = int(signs.sum()), len(signs)
    runs = 1 + int((signs[1:] != signs[:-1]).sum())
    few = sum(_orders_with(each, positive, n - positive) for each in range(1, runs + 1))
    return few / math.comb(n, positive)


def _orders_with(runs: int, first: int, second: int) -> int:
    """Returns how many orders of two kinds of things have so many runs."""

    def parts(count: int, into: int) -> int:
        return math.comb(count - 1, into - 1) if 0 < into <= count else int(count == into == 0)

    less, more = runs // 2, (runs + 1) // 2
    return parts(first, more) * parts(second, less) + parts(first, less) * parts(second, more)


def _bend_chance(sizes: np.ndarray, logs: np.ndarray, residuals: np.ndarray, best: float) -> float:
    """Returns the p-value of a bend that is sharper or softer than the hyperbola's.

    The alternative keeps both ends and frees the bend between them, log S = log S_min +
    log(1 + (B_crit / B)^c) / c, and is compared by the F-test of one more constant.
    """

    def bent(constants: np.ndarray) -> np.ndarray:
        log_critical, log_curvature = constants
        curvature = math.exp(log_curvature)
        shape = np.logaddexp(0.0, curvature * (log_critical - np.log(sizes))) / curvature
        return (logs - shape) - (logs - shape).mean()

    grid = _grid(sizes)
    bounds = zip((grid[0], grid[-1]), map(math.log, _CURVATURES), strict=True)
    found = optimize.least_squares(bent, (best, 0.0), bounds=tuple(bounds))
    freedom = len(sizes) - 3
    gain = max(float((residuals**2).sum()) - 2 * found.cost, 0.0)
    return float(special.fdtrc(1, freedom, gain / max(2 * found.cost / freedom, ROUNDING**2)))
