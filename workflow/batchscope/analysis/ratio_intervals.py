"""The ratio of two means, such as that of a variance to a squared norm, with Fieller's interval.

A mean of ratios is ruled by the seeds whose denominator is nearest zero. The ratio of means is
not, and its interval says where the denominator cannot be distinguished from zero: it is open then.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import special

NAN = math.nan


class Ratio(NamedTuple):
    """A ratio of the means of n pairs with its confidence interval.

    Attributes:
        ratio: NaN where the mean of the denominators is not above zero.
        low: NaN where nothing is known of it. May lie below zero.
        high: Infinite where the interval is open ("at least" its lower end), NaN where there is
            none.
    """

    ratio: float
    low: float
    high: float
    n: int

    @property
    def open(self) -> bool:
        """Whether it is known to be at least `low`, and no more than that."""
        return math.isinf(self.high)

    @property
    def resolved(self) -> bool:
        """Whether anything is known: a ratio with an end above it, or with none at all."""
        return self.open or (math.isfinite(self.ratio) and (self.n == 1 or self.high > 0))


def fieller(numerators: Any, denominators: Any, confidence: float = 0.95) -> Ratio:
    """Returns the ratio of the means of pairs, with Fieller's interval.

    The ratios R at which mean(s) - R mean(g) cannot be distinguished from zero by Student's t:
    with the variances and the covariance of both means, the R between the roots of::

        (g^2 - t^2 vg) R^2 - 2 (s g - t^2 vsg) R + (s^2 - t^2 vs) = 0

    Where the first coefficient is not above zero, g cannot be distinguished from zero and the
    interval is open: at least the positive root, as the true ratio is known to be positive.

    Both means, of shape (n,), are known not to be negative; single values may be. Pairs in which
    either is not finite are left out.

    Source: E. C. Fieller 1954, "Some Problems in Interval Estimation", J. R. Stat. Soc. B 16(2).
    """
    pairs = np.stack([np.asarray(numerators, float), np.asarray(denominators, float)])
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    n = pairs.shape[1]
    if n == 0:
        return Ratio(NAN, NAN, NAN, 0)
    s, g = pairs.mean(axis=1)
    ratio = float(s / g) if g > 0 else NAN
    if n == 1:
        return Ratio(ratio, NAN, NAN, 1)
    (vs, vsg), (_, vg) = np.cov(pairs) / n
    t2 = special.stdtrit(n - 1, 0.5 + confidence / 2) ** 2
    square, half, constant = g**2 - t2 * vg, s * g - t2 * vsg, s**2 - t2 * vs
    if square > 0:
        # Never below zero where g can be distinguished from zero, but for rounding.
        root = math.sqrt(max(half**2 - square * constant, 0.0))
        low, high = (half - root) / square, (half + root) / square
        return Ratio(ratio, float(low), float(high), n) if g > 0 else Ratio(ratio, NAN, NAN, n)
    if constant <= 0:
        return Ratio(ratio, NAN, NAN, n)  # neither can be distinguished from zero
    # The positive root in the form that holds where the first coefficient is zero, too.
    low = constant / (half + math.sqrt(half**2 - square * constant)) if square or half > 0 else NAN
    return Ratio(ratio, float(low), math.inf if math.isfinite(low) else NAN, n)
