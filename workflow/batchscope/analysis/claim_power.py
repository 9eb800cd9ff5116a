"""How many replicates would decide a claim, were everything as found: the power of its own tests.

A claim holds where every one of its parts is shown. A part is either several contrasts, each tested
by a one-sided t-test, or an order of positions, tested by Page's test. Both are kept here as they
were found, so that the power is that of the test which gives the verdict, at the level at which it
is made: with its Bonferroni steps and with all contrasts at once. Parts are of different series and
are taken as independent.

Sources: of one t-test, see `seeds_wanted`; of several that share replicates, the multivariate t
distribution: C. W. Dunnett, J. Am. Stat. Assoc. 50 (1955), 1096; of Page's L as a sum over
replicates: E. B. Page, J. Am. Stat. Assoc. 58 (1963), 216.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from batchscope.analysis import seeds_wanted
from batchscope.catalogue import outcomes

_DRAWS = 2000  # of several contrasts at once: power to 1 %
HOLDS, FAILS = 1, -1  # what is shown: what is stated, or its contrary

Groups = tuple[tuple[int, ...], ...]


class Contrasts(NamedTuple):
    """Contrasts of the same replicates, each above 0 where it agrees with what is stated.

    One of some groups must be shown whole, by Bonferroni over the groups.

    Attributes:
        effects: Their means, in standard deviations, shape (contrasts,).
        noise: What replicates add to them, shape (replicates, contrasts): columns of length 1, or
            0 where replicates do not differ.
        holds: Groups of contrasts that show what is stated, where all of a group are above 0.
        fails: Groups that show its contrary, where all of one are below 0.
    """

    effects: np.ndarray
    noise: np.ndarray
    holds: Groups
    fails: Groups

    def agrees(self, way: int) -> bool:
        """Returns whether what was found lies on the side of a group that shows it."""
        groups = self.holds if way == HOLDS else self.fails
        return any((way * self.effects[list(group)] > 0).all() for group in groups)

    def power(self, replicates: int, level: float, way: int) -> float:
        """Returns the probability to show what is stated, or its contrary, were all as found."""
        groups = self.holds if way == HOLDS else self.fails
        level /= len(groups)
        if len(self.effects) == 1:
            return seeds_wanted.power_of_difference(replicates, way * self.effects[0], level)
        normal, spread = _draws(len(self.noise), replicates - 1)
        drawn = normal @ self.noise
        critical = special.stdtrit(replicates - 1, 1 - level) * spread[:, None]
        shown = way * (math.sqrt(replicates) * self.effects + drawn) > critical
        return float(np.any([shown[:, list(group)].all(axis=1) for group in groups], axis=0).mean())


@functools.lru_cache(64)  # searches ask for the same numbers of replicates, claim by claim
def _draws(found: int, freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns standard normal numbers, shape (draws, found), and draws of a standard deviation."""
    generator = np.random.default_rng(0)
    normal = generator.standard_normal((_DRAWS, found))
    return normal, np.sqrt(special.chdtri(freedom, generator.random(_DRAWS)) / freedom)


class Order(NamedTuple):
    """Positions whose order is tested by Page's test.

    Attributes:
        mean: Page's L of a replicate less what it is without a trend, in its standard deviations
            there; above 0 where the order agrees with what is stated.
        deviation: Its standard deviation over replicates, likewise.
        slope: The slope that is shown as effect, above 0 where it agrees.
    """

    mean: float
    deviation: float
    slope: float

    def agrees(self, way: int) -> bool:
        """Returns whether both the order and the slope lie on the side that is to be shown."""
        return way * self.mean > 0 and way * self.slope > 0

    @property
    def mixed(self) -> bool:
        """Whether the order and the slope point to no common side."""
        return not (self.agrees(HOLDS) or self.agrees(FAILS))

    @property
    def flat(self) -> bool:
        """Whether there is neither an order nor a slope."""
        return self.mean == 0 and self.slope == 0

    def power(self, replicates: int, level: float, way: int) -> float:
        """Returns the power of Page's test, by the normal approximation of L."""
        ahead = math.sqrt(replicates) * way * self.mean - special.ndtri(1 - level)
        if self.deviation == 0:
            return float(ahead > 0)
        return float(special.ndtr(ahead / self.deviation))


Part = Contrasts | Order


def contrasts(values: Any, holds: Groups, fails: Groups) -> Contrasts:
    """Returns contrasts as replicates found them, with the groups of `Contrasts`.

    `values`: shape (replicates, contrasts), each above 0 where it agrees; NaN where a replicate has
    none, and at least two numbers in each.
    """
    values = np.asarray(values, float)
    means, deviations = np.nanmean(values, axis=0), np.nanstd(values, axis=0, ddof=1)
    counts = np.isfinite(values).sum(axis=0)
    lengths = np.where(deviations > 0, deviations * np.sqrt(counts - 1), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        effects = np.where(means == 0, 0.0, means / deviations)
    return Contrasts(effects, np.nan_to_num(values - means) / lengths, holds, fails)


def order(values: Any, slope: float) -> Order:
    """Returns an order as replicates found it, with the slope of `Order`.

    `values`: shape (replicates, positions), at least 2 and 3, that rise where they agree.
    """
    from scipy import stats  # half a second, which the figures need not pay for

    values = np.asarray(values, float)
    count = values.shape[1]
    ranked = stats.rankdata(values, axis=1) @ np.arange(1, count + 1)
    expected = count * (count + 1) ** 2 / 4
    deviation = count * (count + 1) * math.sqrt((count - 1) / 144)
    away = (ranked - expected) / deviation
    return Order(float(away.mean()), float(away.std(ddof=1)), slope)


def replicates_wanted(
    parts: Sequence[Part], level: float, contrary: float
) -> tuple[int, int] | None:
    """Returns the replicates that would decide a claim with power .8, were everything as found.

    All parts must hold; what is stated is tested at `level`, its contrary at `contrary`.

    Returns:
        At least six, and what they would show, `HOLDS` or `FAILS`; None where no number would:
        something lies at a bound or is not known, or an order and its slope do not agree.
    """
    if parts and all(part.agrees(HOLDS) for part in parts):
        way = HOLDS
    elif any(part.agrees(FAILS) for part in parts):
        way, contrary = FAILS, contrary / len(parts)
    else:
        return None

    def power(replicates: int) -> float:
        if way == HOLDS:
            return math.prod(part.power(replicates, level, way) for part in parts)
        return 1 - math.prod(1 - part.power(replicates, contrary, way) for part in parts)

    wanted = seeds_wanted.fewest(power)
    return None if wanted >= seeds_wanted.MOST else (max(wanted, outcomes.LEAST_SEEDS), way)
