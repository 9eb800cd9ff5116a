"""A contrast: one number per replicate, with its mean, its t-interval and its p-values.

A replicate is a seed or a timing job. The number is a slope against the logarithm of the batch
size, a difference of two cells or of their logarithms, or a level. `verdicts` combines contrasts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import special

from batchscope.analysis import intervals, power
from batchscope.study.outcomes import MIN_SEEDS, Reason

ROUNDING = 1e-12  # relative difference below which two numbers are equal


@dataclass(frozen=True, eq=False)
class Contrast:
    """One number per replicate, and the statement that their mean is between two bounds."""

    numbers: Any  # shape (replicates,); numbers that are not finite are left out
    low: float = -math.inf  # `low` and `high` are the stated bounds of the mean
    high: float = math.inf
    tuned: bool = False  # whether replicates are read at different rates (`intervals.correction`)
    unbounded_low: Reason = Reason.NONE  # reason why the true mean may be lower than the interval
    unbounded_high: Reason = Reason.NONE  # reason why it may be higher
    cells: Mapping[str, Any] = field(default_factory=dict)  # factor or column -> value
    share: float = 1.0  # share of the level that this analysis may spend
    earlier: tuple[Contrast, ...] = ()  # the contrast at each earlier interim analysis

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
    def analyses(self) -> tuple[Contrast, ...]:
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
        return min(1.0, self.deciding_analysis(against=False).analysis_p(against=False))

    @functools.cached_property
    def p_against(self) -> float:
        """p-value of the contrary: the smaller one of both bounds times their number."""
        return min(1.0, self.deciding_analysis(against=True).analysis_p(against=True))

    def analysis_p(self, against: bool) -> float:
        """Return the p-value of the statement, or of its contrary, over the share of the level."""
        bounds = ((self.low, 1), (self.high, -1))
        signs = [(bound, -sign if against else sign) for bound, sign in bounds]
        tails = [self._tail(bound, sign) for bound, sign in signs if math.isfinite(bound)]
        p = min(1.0, len(tails) * min(tails)) if against else max(tails)
        return p / self.share

    def deciding_analysis(self, against: bool) -> Contrast:
        """Return the analysis with the smallest p-value of the statement, or of its contrary."""
        tested = [analysis for analysis in self.analyses if analysis.n > 1]
        return min(tested, key=lambda contrast: contrast.analysis_p(against), default=self)

    def with_first(self, replicates: int) -> Contrast:
        return replace(self, numbers=np.asarray(self.numbers)[:replicates])

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
        outside = bounded.p_against < level
        if not (outside or bounded.p < level):
            return Reason.NONE
        reasons = (self.unbounded_low, self.unbounded_high)
        return reasons[math.isinf(self.low) != outside]

    def replicates_to_resolve(self, level: float) -> int | None:
        """Return the number of replicates that decide with power 0.8; None if no number does."""
        if self.n < 2 or self.unbounded_low or self.unbounded_high or self.deviation == 0:
            return None
        excess = min(self.mean - self.low, self.high - self.mean)
        if excess == 0:
            return None
        level = self.share * (level if excess > 0 else level / self.bound_count)
        needed = power.fewest_seeds(power.difference_power, abs(excess) / self.deviation, level)
        return needed and max(needed, MIN_SEEDS, self.n + 1)
