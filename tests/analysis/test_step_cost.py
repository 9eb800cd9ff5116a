"""Step costs: fits against timings that were made with known costs and noise, and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import step_cost

POWERS = 2.0 ** np.arange(9)
T1 = 12.7062  # Student's t at 97.5 % with one degree of freedom


def test_exact_timings_give_their_costs_in_any_order():
    blocks = np.outer(0.02 + 0.001 * POWERS, [1.0, 1.0])
    fit = step_cost.fit_step_cost(POWERS[::-1], blocks[::-1])
    assert fit.fixed[:3] == pytest.approx((0.02, 0.02, 0.02))
    assert fit.per_image[:3] == pytest.approx((0.001, 0.001, 0.001))
    assert fit.half_batch[:3] == pytest.approx((20, 20, 20))
    assert fit.residual < 1e-12
    without = step_cost.fit_step_cost(POWERS, blocks[:, 0])
    assert math.isnan(without.fixed.low) and without.half_batch[:3] == pytest.approx((20, 20, 20))


def test_weights_are_relative():
    # Weights 1, 1 and 1/4, by hand: 9a + 15b = 10 and 15a + 29b = 18, so a = 5/9 and b = 1/3.
    fit = step_cost.fit_step_cost([1, 2, 3], np.outer([1.0, 1.0, 2.0], [1, 1]))
    assert (fit.fixed.mean, fit.per_image.mean) == pytest.approx((5 / 9, 1 / 3))
    # Relative residuals 1/9, -2/9 and 2/9; the inverse matrix is [[29, -15], [-15, 9]] / 9.
    assert fit.residual == pytest.approx(math.sqrt(1 / 27))
    variance = 1 / 9 / 9
    assert fit.fixed.high - 5 / 9 == pytest.approx(T1 * math.sqrt(29 * variance), rel=1e-5)
    error = math.sqrt(variance * (29 * 81 / 25 + 2 * 15 * 27 / 5 + 9 * 9))
    assert math.log(fit.half_batch.high * 3 / 5) == pytest.approx(T1 * error, rel=1e-5)


def test_what_all_sizes_have_in_common():
    """A line without strays in two rounds, the second of which takes twice as long."""
    fit = step_cost.fit_step_cost(POWERS, np.outer(0.02 + 0.001 * POWERS, [1.0, 2.0]))
    assert (fit.fixed.mean, fit.per_image.mean) == pytest.approx((0.03, 0.0015))
    error = math.sqrt(math.pi / 2) * math.log(2) / 2
    for cost in (fit.fixed, fit.per_image):
        assert cost.high / cost.mean - 1 == pytest.approx(T1 * error, rel=1e-5)
    assert fit.half_batch[:3] == pytest.approx((20, 20, 20))


def test_jobs_have_lines_of_their_own():
    """Their fixed costs differ, their costs per example do not: with two sizes no other error."""
    blocks = [[1.0, 1.5], [2.0, 2.5]]
    fit = step_cost.fit_step_cost([1, 2], blocks, of_jobs=True)
    assert (fit.fixed.mean, fit.per_image.mean) == pytest.approx((0.25, 1))
    # The line of the jobs' logarithms about the medians 1.25 and 2.25, at no example.
    logs = np.log([[1 / 1.25, 1.5 / 1.25], [2 / 2.25, 2.5 / 2.25]]) * [[1.25], [2.25]]
    fixed, per_image = 2 * logs[0] - logs[1], logs[1] - logs[0]
    scale = T1 * math.sqrt(math.pi / 2 / 2) / math.sqrt(2)  # of two values' difference
    ends = [abs(np.diff(each)[0]) * scale for each in (fixed, per_image, fixed / 0.25 - per_image)]
    assert fit.fixed.high - 0.25 == pytest.approx(ends[0], rel=1e-4)
    assert fit.per_image[:3] == pytest.approx((1, 1 - ends[1], 1 + ends[1]), rel=1e-4)
    assert math.log(fit.half_batch.high / 0.25) == pytest.approx(ends[2], rel=1e-4)
    assert math.isnan(step_cost.fit_step_cost([1, 2], blocks).fixed.low)


@pytest.mark.parametrize("costs", [(0.011, 0.0), (0.0, 0.0003), (-0.01, 0.002)])
def test_a_cost_that_is_not_positive_halves_nothing(costs):
    """Nor does one of the size of rounding, at a batch size of 1e17."""
    sizes = np.array([8, 16, 32, 64, 128, 256])
    fit = step_cost.fit_step_cost(sizes, costs[0] + costs[1] * sizes)
    assert (fit.fixed.mean, fit.per_image.mean) == pytest.approx(costs)
    assert (fit.fixed.mean > 0, fit.per_image.mean > 0) == (costs[0] > 0, costs[1] > 0)
    assert np.isnan(fit.half_batch[:3]).all()


def test_memory_is_a_line_above_what_starting_takes():
    """500 + .25 b with strays, under a floor that starting takes, and a peak that is not known."""
    sizes = np.array([64.0, 128, 192, 256, 320, 1, 450])
    peaks = 500 + 0.25 * sizes + [0.4, -0.3, 0.2, -0.5, 0.2, 5.0, math.nan]
    fixed, slope = step_cost.memory_line(sizes, peaks)
    expected = stats.linregress(sizes[:5], peaks[:5])
    half = stats.t.ppf(0.975, 3) * expected.stderr
    assert fixed == pytest.approx(expected.intercept)
    ends = (expected.slope - half, expected.slope + half)
    assert slope[:3] == pytest.approx((expected.slope, *ends))
    fixed, slope = step_cost.memory_line([1, 64, 128], [510.0, 573.0, 637.0])
    assert [fixed, *slope[:3]] == pytest.approx([509, 1, math.nan, math.nan], nan_ok=True)
    fixed, slope = step_cost.memory_line([1, 64], [510, 530])
    assert np.isnan([fixed, *slope[:3]]).all()
