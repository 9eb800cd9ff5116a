"""Confidence intervals, against values worked out by hand or by SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import intervals


def test_t_interval_against_scipy():
    values = [1.0, 2.0, 4.0, 7.0]
    ends = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert intervals.t_interval(values) == pytest.approx((3.5, *ends, 4))
    for few, mean, n in (([], math.nan, 0), ([2.0, math.nan], 2.0, 1)):
        expected = (mean, math.nan, math.nan, n)
        assert intervals.t_interval(few) == pytest.approx(expected, nan_ok=True)


def test_on_a_logarithmic_axis_an_interval_stays_positive():
    values = [0.1, 0.2, 3.0]
    linear, log = (intervals.t_interval(values, logarithmic=way) for way in (False, True))
    assert linear.low < 0 < log.low and log.mean == linear.mean
    # As far in ratios as the other one is in shares of the mean.
    ratio = np.exp(linear.high / linear.mean - 1)
    assert (log.high, log.low) == pytest.approx((log.mean * ratio, log.mean / ratio))
    below = intervals.t_interval([-1.0, -2.0, -4.0], logarithmic=True)
    assert below == intervals.t_interval([-1.0, -2.0, -4.0])


def test_ratio_interval_is_the_t_interval_of_the_logarithms():
    ratio = intervals.ratio_interval([2.0, 8.0, 8.0, -1.0, 1.0], [1.0, 2.0, 4.0, 1.0, 0.0])
    logs = intervals.t_interval(np.log([2.0, 4.0, 2.0]))  # what has no logarithm is left out
    assert ratio == pytest.approx((16 ** (1 / 3), math.exp(logs.low), math.exp(logs.high), 3))
    assert intervals.ratio_interval([], []).n == 0


def test_means_of_rows_need_a_finite_value_of_every_seed():
    costs = [[1.0, 4.0], [2.0, math.inf], [3.0, math.nan], [0.0, 1.0]]
    found = intervals.means(costs, False, geometric=True)
    assert [each.mean for each in found] == pytest.approx([2, math.nan, 3, math.nan], nan_ok=True)
    assert [each.n for each in found] == [2, 0, 1, 0] and math.isnan(found[2].low)
    quantile = 12.7062  # of Student's t with a degree of freedom
    assert found[0].high == pytest.approx(2 * 2**quantile, rel=1e-4)
    wider = intervals.means(costs, [True, False, False, False], geometric=True)[0]
    assert math.log2(wider.high / 2) == pytest.approx(quantile * math.sqrt(1 + 0.57 * 2**0.5))
    plain = intervals.means(costs, False, geometric=False)
    assert [each.mean for each in plain] == pytest.approx([2.5, math.nan, 3, 0.5], nan_ok=True)
