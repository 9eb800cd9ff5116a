"""Ratios of means with Fieller's interval, against worked examples and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis.ratio_intervals import fieller

VARIANCE = [390, 410, 405, 395, 400, 400]
CLEAR = [4.2, 3.8, 4.1, 3.9, 4.3, 3.7]
UNCLEAR = [0.10, -0.02, 0.07, 0.01, 0.12, -0.04]


def test_a_denominator_far_from_zero():
    found = fieller(VARIANCE, CLEAR)
    assert (found.ratio, found.low, found.high) == pytest.approx((100.0, 93.3, 107.5), abs=0.05)
    assert found.n == 6 and found.resolved and not found.open


def test_a_denominator_that_cannot_be_distinguished_from_zero():
    found = fieller(VARIANCE, UNCLEAR)
    assert found.ratio == pytest.approx(10_000, rel=1e-12)
    assert found.low == pytest.approx(3633, abs=0.5)
    assert found.high == math.inf and found.open


def test_the_ends_are_where_the_t_test_of_the_difference_turns():
    for denominators in (CLEAR, UNCLEAR):
        found = fieller(VARIANCE, denominators)
        for end in filter(math.isfinite, (found.low, found.high)):
            residual = np.array(VARIANCE) - end * np.array(denominators)
            assert stats.ttest_1samp(residual, 0).pvalue == pytest.approx(0.05, abs=1e-9)


def test_a_negative_mean_has_no_ratio_but_may_have_a_lower_end():
    found = fieller(VARIANCE, [-value for value in UNCLEAR])
    assert math.isnan(found.ratio)
    assert found.open and 0 < found.low < math.inf
    clear = fieller(VARIANCE, [-value for value in CLEAR])
    assert not clear.resolved and np.isnan([clear.ratio, clear.low, clear.high]).all()


def test_both_unclear_says_nothing():
    found = fieller([-3, 4, -2, 3], [-0.1, 0.2, 0.1, -0.1])
    assert not found.resolved and np.isnan([found.low, found.high]).all()


def test_one_pair_has_a_ratio_alone():
    found = fieller([6.0, math.nan], [2.0, 1.0])
    assert found.ratio == 3.0 and found.n == 1 and math.isnan(found.low) and found.resolved
    assert not fieller([6.0], [-2.0]).resolved
    assert fieller([], []).n == 0


@pytest.mark.parametrize("norm_squared, spread", [(4.0, 0.25), (0.05, 0.05)])
def test_coverage(norm_squared, spread):
    """Six seeds, numerators and denominators correlated; the second is mostly open."""
    random = np.random.default_rng(7)
    covered, opened, repeats = 0, 0, 4000
    common, own = random.standard_normal((2, repeats, 6))
    denominators = norm_squared + spread * common
    numerators = 400 + 10 * (0.5 * common + math.sqrt(0.75) * own)
    for s, g in zip(numerators, denominators, strict=True):
        found = fieller(s, g)
        covered += found.low <= 400 / norm_squared <= found.high
        opened += found.open
    assert 0.93 <= covered / repeats <= 0.97
    assert opened / repeats < 0.001 if norm_squared > 1 else 0.3 < opened / repeats < 0.9
