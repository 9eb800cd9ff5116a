"""A contrast: one number per replicate, with its mean, t-interval, p-values and power.

A replicate is a seed or a timing job. The number is a slope against the logarithm of the batch
size, a difference of two cells or of their logarithms, or a level. `verdicts` combines contrasts.

Sources of the power of one-sided paired t-tests: Cohen, "Statistical power analysis for the
behavioral sciences" (1988), chapter 2 (a difference); Phillips, J. Pharmacokinet. Biopharm. 18
(1990), 137 (equivalence).
"""

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy import special

from batchscope.analysis import intervals
from batchscope.study.outcomes import LEVEL, MIN_SEEDS, Reason

ROUNDING = 1e-12  # relative difference below which two numbers are equal
MIN_POWER = 0.8
MAX_SEEDS = 10_000  # no study has this number of seeds
# Nodes and weights of the mean over the sample standard deviation; cached, since they are slow.
_quadrature = functools.cache(lambda: np.polynomial.legendre.leggauss(60))


@dataclass(frozen=True, eq=False)
class Contrast:
    """One number per replicate, and the statement that their mean is between two bounds.

    The contrary of the statement is that the mean is beyond one of the bounds.
    """

    numbers: Any  # shape (replicates,); numbers that are not finite are left out
    low: float = -math.inf  # `low` and `high` are the stated bounds of the mean
    high: float = math.inf
    tuned: bool = False  # whether replicates are read at different rates (`intervals.correction`)
    unbounded_low: Reason = Reason.NONE  # reason why the true mean may be lower than the interval
    unbounded_high: Reason = Reason.NONE  # reason why it may be higher
    cells: Mapping[str, Any] = field(default_factory=dict)  # factor or column -> value
    share: float = 1.0  # share of the level that this analysis may spend
    earlier: tuple[Self, ...] = ()  # the contrast at each earlier interim analysis

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The finite numbers, rounded to a bound that they equal up to `ROUNDING`."""
        values = np.asarray(self.numbers, float)
        values = values[np.isfinite(values)]
        for bound in filter(math.isfinite, (self.low, self.high)):
            close = np.abs(values - bound) <= ROUNDING * (np.abs(values) + abs(bound))
            values = np.where(close, bound, values)
        return values

    @property
    def n(self) -> int:
        return len(self.values)

    @functools.cached_property
    def mean(self) -> float:
        if not self.n:
            return math.nan
        return float(self.values[0] if np.ptp(self.values) == 0 else self.values.mean())

    @functools.cached_property
    def deviation(self) -> float:
        """Standard deviation of a replicate, with the correction for tuned rates."""
        if self.n < 2:
            return math.nan
        spread = 0.0 if np.ptp(self.values) == 0 else self.values.std(ddof=1)
        return float(spread * math.sqrt(intervals.correction(self.n, self.tuned)))

    @property
    def error(self) -> float:
        return self.deviation / math.sqrt(self.n) if self.n > 1 else math.nan

    @property
    def bound_count(self) -> int:
        return math.isfinite(self.low) + math.isfinite(self.high)

    @property
    def analyses(self) -> tuple[Self, ...]:
        return (*self.earlier, self)

    def interval(self, level_low: float, level_high: float) -> tuple[float, float]:
        """Return the t-interval of this analysis; infinite if unbounded or of one replicate."""
        if self.n < 2:
            return -math.inf, math.inf
        levels = 1 - self.share * np.array([level_low, level_high])
        below, above = (special.stdtrit(self.n - 1, levels) * self.error).tolist()
        return (
            -math.inf if self.unbounded_low else self.mean - below,
            math.inf if self.unbounded_high else self.mean + above,
        )

    @functools.cached_property
    def p(self) -> float:
        """p-value of the statement: the larger one of both bounds, at the deciding analysis."""
        return min(1.0, self.deciding_analysis().analysis_p())

    @functools.cached_property
    def p_contrary(self) -> float:
        """p-value of the contrary: the smaller one of both bounds times their number."""
        return min(1.0, self.deciding_analysis(contrary=True).analysis_p(contrary=True))

    def analysis_p(self, contrary: bool = False) -> float:
        """Return the p-value of the statement, or of its contrary, over the share of the level."""
        tails = [
            self._tail(bound, -sign if contrary else sign)
            for bound, sign in ((self.low, 1), (self.high, -1))
            if math.isfinite(bound)
        ]
        p = min(1.0, len(tails) * min(tails)) if contrary else max(tails)
        return p / self.share

    def deciding_analysis(self, contrary: bool = False) -> Self:
        """Return the analysis with the smallest p-value of the statement, or of its contrary.

        One with too few replicates for a verdict counts only if no later one has enough.
        """
        least = max(2, min(self.n, MIN_SEEDS))
        tested = [analysis for analysis in self.analyses if analysis.n >= least]
        return min(tested, key=lambda contrast: contrast.analysis_p(contrary), default=self)

    def at_analyses(self, analyses: Iterable[tuple[int, float]]) -> Self:
        """Return the contrast tested at (number of first replicates, share of the level) each."""
        numbers = np.asarray(self.numbers)
        return over_analyses(
            [replace(self, numbers=numbers[:count], share=share) for count, share in analyses]
        )

    def _tail(self, bound: float, sign: int) -> float:
        """Return the one-sided p-value of "the mean is above (sign 1) or below (-1) the bound"."""
        excess = sign * (self.mean - bound)
        if self.unbounded_low if sign > 0 else self.unbounded_high:
            return 1.0
        if self.n < 2:
            return math.nan
        if self.deviation == 0:
            return float(not excess > 0)
        return float(special.stdtr(self.n - 1, -excess / self.error))

    def reason_undecided(self, level: float) -> Reason:
        """Return the reason of the unbounded end if the contrast would be decided without it."""
        bounded = replace(self, unbounded_low=Reason.NONE, unbounded_high=Reason.NONE, earlier=())
        outside = bounded.p_contrary < level
        if not (outside or bounded.p < level):
            return Reason.NONE
        reasons = (self.unbounded_low, self.unbounded_high)
        return reasons[math.isinf(self.low) != outside]

    def replicates_to_resolve(self, level: float, contrary_level: float) -> int | None:
        """Return the number of replicates that decide with power 0.8; None if no number does.

        Levels are of one end: of the statement if the mean is inside, else of its contrary.
        """
        if self.n < 2 or self.unbounded_low or self.unbounded_high or self.deviation == 0:
            return None
        excess, other = sorted((self.mean - self.low, self.high - self.mean))
        if excess == 0:
            return None
        level = self.share * (level if excess > 0 else contrary_level)
        power = difference_power
        if excess > 0 and self.bound_count == 2:
            power = functools.partial(equivalence_power, other=other / self.deviation)
        needed = fewest_seeds(power, abs(excess) / self.deviation, level)
        return needed and max(needed, MIN_SEEDS, self.n + 1)


def over_analyses(contrasts: Iterable[Contrast]) -> Contrast:
    """Return the last of some interim analyses of a contrast, with the earlier ones.

    A contrast is tested again only if it has more replicates than at the analysis before: else it
    spends nothing.
    """
    *earlier, last = itertools.accumulate(
        contrasts, lambda before, later: later if later.n > before.n else before
    )
    return replace(last, earlier=tuple(earlier))


def difference_power(seeds: int, effect: float, level: float) -> float:
    """Return the power to show that a mean difference is above 0 by a one-sided t-test at `level`.

    It is 1 - F_nct(t_(1-level),n-1; sqrt(n) effect), with n seeds and the noncentral t-distribution
    F_nct. The effect is in standard deviations of the paired differences.
    """
    if math.isinf(effect):
        return float(effect > 0)
    critical = special.stdtrit(seeds - 1, 1 - level)
    return float(1 - special.nctdtr(seeds - 1, math.sqrt(seeds) * effect, critical))


def equivalence_power(seeds: int, margin: float, level: float, other: float | None = None) -> float:
    """Return the power of two one-sided t-tests at `level` to show that a mean is between bounds.

    The true mean is `margin` standard deviations from one bound, and `other` from the other one (by
    default as far). The mean must be t s / sqrt(n) inside both. At a fixed s this is a normal
    probability, which is averaged over the distribution of s.
    """
    other = margin if other is None else other
    freedom = seeds - 1
    critical = special.stdtrit(freedom, 1 - level)
    # Quantiles of s^2 at the nodes. Above the largest one equivalence cannot be shown.
    max_share = special.chdtr(freedom, freedom * seeds * ((margin + other) / 2 / critical) ** 2)
    nodes, weights = _quadrature()
    shares = max_share * (nodes + 1) / 2
    deviations = np.sqrt(special.chdtri(freedom, 1 - shares) / freedom)
    distances = (math.sqrt(seeds) * bound - critical * deviations for bound in (margin, other))
    probabilities = np.maximum(sum(map(special.ndtr, distances)) - 1, 0.0)
    return float(max_share / 2 * (weights @ probabilities))


def fewest_seeds(
    power: Callable[[int, float, float], float], size: float, level: float = LEVEL
) -> int | None:
    """Return the fewest seeds with a power of 0.8; None if fewer than `MAX_SEEDS` do not reach it.

    Args:
        power: `difference_power` or `equivalence_power`.
        size: Effect of the former, or margin of the latter, in standard deviations; above 0.
        level: Level of the one-sided test.
    """
    seeds = 2 + bisect.bisect_left(
        range(2, MAX_SEEDS), MIN_POWER, key=lambda seeds: power(seeds, size, level)
    )
    return seeds if seeds < MAX_SEEDS else None
