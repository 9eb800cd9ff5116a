"""Times of which some are infinite: counts, medians, restricted means."""

import math

import pytest

from batchscope.analysis import budgets

TIMES = [3, 5, 7, 9, math.inf, math.inf]


def test_known_answer():
    found = budgets.reached(TIMES)
    assert (found.count, found.of) == (4, 6)
    assert (found.low, found.high) == pytest.approx((0.22, 0.96), abs=0.005)
    assert budgets.median(TIMES) == 8
    assert budgets.restricted_mean(TIMES, 10) == pytest.approx(22 / 3)


def test_all_and_none():
    """Clopper and Pearson's ends in closed form: one tail of n trials that all agree."""
    tail = 0.025 ** (1 / 6)
    assert budgets.reached([1.0] * 6) == pytest.approx((6, 6, tail, 1))
    assert budgets.reached([math.inf] * 6) == pytest.approx((0, 6, 0, 1 - tail))
    assert budgets.median([1, math.inf, math.inf]) == math.inf
    assert budgets.median([1, math.inf]) == math.inf
    assert budgets.restricted_mean([math.inf], 10) == 10


@pytest.mark.parametrize("times", [[], [1, math.nan]])
def test_what_is_no_time(times):
    for measure in (budgets.reached, budgets.median, lambda each: budgets.restricted_mean(each, 1)):
        with pytest.raises(ValueError, match="at least one time, none NaN"):
            measure(times)
