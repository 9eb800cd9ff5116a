"""An effect size in, the number of seeds that shows it out: power of one-sided paired t-tests.

Effects and margins are in units of the standard deviation s of the paired differences.
Sources: Cohen, "Statistical power analysis for the behavioral sciences" (1988), chapter 2 (a
difference); Phillips, J. Pharmacokinet. Biopharm. 18 (1990), 137 (equivalence).
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable

import numpy as np
from scipy import special

from batchscope.study import outcomes

MIN_POWER = 0.8
MAX_SEEDS = 10_000  # no study has this number of seeds
# Nodes and weights of the mean over the sample standard deviation; cached, since they are slow.
_quadrature = functools.cache(lambda: np.polynomial.legendre.leggauss(60))


def difference_power(seeds: int, effect: float, level: float) -> float:
    """Return the power 1 - F_nct(t_.95,n-1; sqrt(n) effect) to show a mean difference above 0."""
    if math.isinf(effect):
        return float(effect > 0)
    critical = special.stdtrit(seeds - 1, 1 - level)
    return float(1 - special.nctdtr(seeds - 1, math.sqrt(seeds) * effect, critical))


def equivalence_power(seeds: int, margin: float, level: float) -> float:
    """Return the power to show that a difference is within a margin if it is 0.

    The mean must be within margin - t s / sqrt(n) of 0. At a fixed s this is a normal probability,
    which is averaged over the distribution of s.
    """
    freedom = seeds - 1
    critical = special.stdtrit(freedom, 1 - level)
    # Quantiles of s^2 at the nodes. Above the largest one equivalence cannot be shown.
    max_share = special.chdtr(freedom, freedom * seeds * margin**2 / critical**2)
    nodes, weights = _quadrature()
    shares = max_share * (nodes + 1) / 2
    deviations = np.sqrt(special.chdtri(freedom, 1 - shares) / freedom)
    distances = np.maximum(math.sqrt(seeds) * margin - critical * deviations, 0.0)
    probabilities = 2 * special.ndtr(distances) - 1
    return float(max_share / 2 * (weights @ probabilities))


def fewest_seeds(
    power: Callable[[int, float, float], float], size: float, level: float = outcomes.LEVEL
) -> int | None:
    """Return the fewest seeds with a power of 0.8; None if fewer than `MAX_SEEDS` do not reach it.

    Args:
        power: `difference_power` or `equivalence_power`.
        size: Effect size of the former, or margin of the latter, in standard deviations; above 0.
    """
    seeds = 2 + bisect.bisect_left(
        range(2, MAX_SEEDS), MIN_POWER, key=lambda seeds: power(seeds, size, level)
    )
    return seeds if seeds < MAX_SEEDS else None
