"""Plateau and knee of the throughput: timings that were made with known costs and noise."""

import math

import numpy as np
import pytest

from batchscope.analysis import intervals, step_cost, throughput_knee

SPARSE = np.array([1, 2, 4, 8, 12, 15, 16, 17, 18, 24, 31, 32, 33, 34, 48, 64, 66.0])


def noisy(seconds, noise, seed=0, blocks=9):
    scatter = noise * np.random.default_rng(seed).standard_normal((len(seconds), blocks))
    return np.asarray(seconds)[:, None] * np.exp(scatter)


def knee(seconds, sizes=SPARSE, noise=1.0):
    return throughput_knee.knee_columns(
        sizes, seconds, step_cost.fit_step_cost(sizes, seconds), noise
    )


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
    residual = step_cost.fit_step_cost(SPARSE, strays).residual
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
    floor = throughput_knee.noise_floor(blocks)
    assert throughput_knee.is_too_noisy(floor) and not any(
        map(throughput_knee.is_too_noisy, (1.2, math.nan, None))
    )
    found = throughput_knee.summary_columns(SPARSE, blocks)
    levels = ("half_batch", "knee_batch_size", "still_rising", "plateau_examples_per_second")
    assert [found[name] for name in levels] == [None] * 4 and found["fixed_seconds"] > 0
    assert fitted(found) == [None] * 3


def test_the_noise_floor():
    assert throughput_knee.noise_floor([[1.0, 1.0], [2.0, 2.0]]) == 1
    # Blocks alternate: the halves 1, 3, 5 and 2, 5 have the medians 3 and 3.5.
    assert throughput_knee.noise_floor([[1.0, 2.0, 3.0, 5.0, 5.0]]) == pytest.approx(3.5 / 3)
    # Of 100 sizes the 95 % quantile, not the worst.
    found = throughput_knee.noise_floor([[1.01, 1.0]] * 96 + [[2.0, 1.0]] * 4)
    assert found == pytest.approx(1.01)
