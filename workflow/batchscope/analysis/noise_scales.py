"""Gradient norms and variances by seed in, the gradient noise scale with its interval out.

It is a ratio of means with Fieller's interval, which is unbounded above if the denominator may be
zero.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy import special

from batchscope.analysis import run_series

NAN = math.nan
AT_START, AT_EPOCH, AT_END = "start", "epoch", "end"  # the column `place`
COLUMN_SUFFIXES = {AT_START: "_start", AT_END: ""}  # place -> suffix of columns of runs.csv


class Ratio(NamedTuple):
    """A ratio of the means of n pairs with its confidence interval."""

    ratio: float  # NaN unless the mean of the denominators is above zero
    low: float  # may be negative; NaN without an interval
    high: float  # infinite if the interval is unbounded, NaN without an interval
    n: int

    @property
    def is_lower_bound(self) -> bool:
        return math.isinf(self.high)

    @property
    def is_resolved(self) -> bool:
        """Whether there is a lower bound, or a ratio with an upper end above 0."""
        return self.is_lower_bound or (math.isfinite(self.ratio) and (self.n == 1 or self.high > 0))


class Point(NamedTuple):
    """The noise scale over all seeds of one batch size at one place in the training."""

    place: str
    epoch: float
    ratio: Ratio
    runs: pandas.DataFrame

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its interval, which may be NaN; a single run has its jackknife error."""
        if len(self.runs) > 1:
            return self.ratio.low, self.ratio.high
        error = float(self.runs["gradient_noise_scale_error"].iloc[0])
        return self.ratio.ratio - error, self.ratio.ratio + error


def fieller(numerators: Any, denominators: Any) -> Ratio:
    """Return the ratio of the means of pairs, with Fieller's 95 % interval.

    The interval contains every ratio R for which a t-test does not reject mean(s) - R mean(g) = 0.
    With the variances and the covariance of both means, these are between the roots of::

        (g^2 - t^2 vg) R^2 - 2 (s g - t^2 vsg) R + (s^2 - t^2 vs) = 0

    If the first coefficient is not above zero, the interval is unbounded above, from the positive
    root on. Pairs with a number that is not finite are left out.
    Source: E. C. Fieller 1954, J. R. Stat. Soc. B 16(2).
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
    t2 = special.stdtrit(n - 1, 0.975) ** 2
    square, half, constant = g**2 - t2 * vg, s * g - t2 * vsg, s**2 - t2 * vs
    if square > 0:
        # The discriminant is negative by rounding only if g can be distinguished from zero.
        root = math.sqrt(max(half**2 - square * constant, 0.0))
        low, high = (half - root) / square, (half + root) / square
        return Ratio(ratio, float(low), float(high), n) if g > 0 else Ratio(ratio, NAN, NAN, n)
    if constant <= 0:
        return Ratio(ratio, NAN, NAN, n)  # neither mean can be distinguished from zero
    # This form of the positive root also holds if the first coefficient is zero.
    low = constant / (half + math.sqrt(half**2 - square * constant)) if square or half > 0 else NAN
    return Ratio(ratio, float(low), math.inf if math.isfinite(low) else NAN, n)


def from_runs(runs: pandas.DataFrame) -> Ratio:
    return fieller(runs["gradient_variance"], runs["gradient_norm_squared"])


def noise_scale_points(rows: pandas.DataFrame, size: int) -> list[Point]:
    """Return the noise scales of the finished runs of a batch size, in order of their training."""
    chosen = run_series.finished_runs(rows[rows["batch_size"] == size])
    chosen = chosen[chosen["gradient_variance"].notna()]
    # Each epoch is a place. Trainings that patience stopped at different epochs share "end".
    place = chosen["place"].where(
        chosen["place"] != AT_EPOCH, chosen["epoch"].map("{:08.0f}".format)
    )
    return [
        Point(group["place"].iloc[0], float(group["epoch"].mean()), from_runs(group), group)
        for _, group in chosen.groupby(place, sort=False)
    ]
