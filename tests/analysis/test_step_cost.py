"""Step costs and knees against timings with known costs and noise, and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import intervals, step_cost

POWERS = 2.0 ** np.arange(9)
SPARSE = np.array([1, 2, 4, 8, 12, 15, 16, 17, 18, 24, 31, 32, 33, 34, 48, 64, 66.0])
T1 = 12.7062  # Student's t at 97.5 % with one degree of freedom


def test_exact_timings_give_their_costs_in_any_order():
    blocks = np.outer(0.02 + 0.001 * POWERS, [1.0, 1.0])
    fit = step_cost.fit_step_cost(POWERS[::-1], blocks[::-1])
    assert fit.fixed[:3] == pytest.approx((0.02, 0.02, 0.02))
    assert fit.per_image[:3] == pytest.approx((0.001, 0.001, 0.001))
    assert fit.half_batch[:3] == pytest.approx((20, 20, 20))
    assert fit.residual < 1e-12
    without = step_cost.fit_step_cost(POWERS, blocks[:, :1])
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
    fit = step_cost.fit_step_cost(sizes, costs[0] + costs[1] * sizes[:, None])
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


def noisy(seconds, noise, seed=0, blocks=9):
    scatter = noise * np.random.default_rng(seed).standard_normal((len(seconds), blocks))
    return np.asarray(seconds)[:, None] * np.exp(scatter)


def knee(seconds, sizes=SPARSE, noise=1.0):
    blocks = np.reshape(seconds, (len(sizes), -1))
    return step_cost.knee_columns(sizes, blocks, step_cost.fit_step_cost(sizes, blocks), noise)


def fitted(found):
    return [found[f"knee_fitted{end}"] for end in intervals.SUFFIXES]


def test_the_knee_of_a_line_is_nine_times_its_half_batch():
    found = knee(4.5 + SPARSE)
    assert found["plateau_examples_per_second"] == pytest.approx(1)
    assert fitted(found) == pytest.approx([40.5] * 3)
    assert found["knee_batch_size"] == 48 and not found["still_rising"]
    before = knee(0.05 + SPARSE)  # by the first size it is behind
    assert math.isnan(before["knee_fitted"]) and before["knee_batch_size"] == 1
    strays = (6.5 + SPARSE) * np.where(np.arange(len(SPARSE)) % 2, 1.08, 0.92)
    residual = step_cost.fit_step_cost(SPARSE, strays[:, None]).residual
    for factor, is_line in ((2.1, True), (1.9, False)):  # half of the noise against the residual
        found = knee(strays, noise=math.exp(factor * residual))
        assert math.isfinite(found["knee_fitted"]) == is_line
    three = np.array([8, 32, 128])  # the interval contains every size
    assert math.isnan(knee((4 + three) * [1.03, 0.97, 1.03], three)["knee_fitted"])
    assert not knee(0.99 * 66 / 9 + SPARSE)["still_rising"]
    assert knee(1.01 * 66 / 9 + SPARSE)["still_rising"]


@pytest.mark.parametrize(
    "speeds, noise, plateau, size, rising",
    [
        ([10, 50, 95, 80, 99, 101], 1.0, 100, 16, False),  # 8 falls below again
        ([10, 20, 50, 100, 85, 70], 1.0, math.nan, None, False),  # it falls after its best
        ([10, 20, 50, 100, 85, 70], 1.17, 77.5, 8, False),  # unless all of it may be noise
        ([10, 10, 10, 50, 80, 90], 1.0, math.nan, None, True),  # by more than 10 % over half
        ([10, 10, 10, 50, 80, 87], 1.0, 83.5, 16, False),
        ([10, 20, 100, 60, 50, 80], 1.0, math.nan, None, False),  # short of the best size
    ],
)
def test_the_knee_without_a_line(speeds, noise, plateau, size, rising):
    sizes = np.array([1, 2, 4, 8, 16, 32])
    found = knee(sizes / np.array(speeds), sizes, noise)
    assert found["plateau_examples_per_second"] == pytest.approx(plateau, nan_ok=True)
    assert (found["knee_batch_size"], found["still_rising"]) == (size, rising)
    assert np.isnan(fitted(found)).all()


def test_a_size_is_short_where_its_upper_quartile_is():
    """The blocks of the last size: a median 20 % below, a quarter of them at the plateau."""
    sizes = np.array([1, 2, 4, 8, 16, 32])
    blocks = np.repeat(sizes[:5, None] / [[20], [40], [60], [100], [100]], 5, axis=1)
    for top, size in ((92, 8), (80.5, None)):  # of 81
        last = [32 / speed for speed in (80, 80, 80, top, top)]
        assert knee([*blocks, last], sizes)["knee_batch_size"] == size


def test_of_noise_no_level_is_stated():
    blocks = noisy(4.5 + SPARSE, 0.5)
    floor = step_cost.noise_floor(blocks)
    assert step_cost.is_too_noisy(floor)
    assert not any(map(step_cost.is_too_noisy, (1.2, math.nan, None)))
    found = step_cost.summary_columns(SPARSE, blocks)
    levels = ("half_batch", "knee_batch_size", "still_rising", "plateau_examples_per_second")
    assert [found[name] for name in levels] == [None] * 4 and found["fixed_seconds"] > 0
    assert fitted(found) == [None] * 3


def test_the_noise_floor():
    assert step_cost.noise_floor([[1.0, 1.0], [2.0, 2.0]]) == 1
    # Blocks alternate: the halves 1, 3, 5 and 2, 5 have the medians 3 and 3.5.
    assert step_cost.noise_floor([[1.0, 2.0, 3.0, 5.0, 5.0]]) == pytest.approx(3.5 / 3)
    # Of 100 sizes the 95 % quantile, not the worst.
    found = step_cost.noise_floor([[1.01, 1.0]] * 96 + [[2.0, 1.0]] * 4)
    assert found == pytest.approx(1.01)
