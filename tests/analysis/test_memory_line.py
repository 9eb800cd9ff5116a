"""Memory per example against lines that were made with a known slope."""

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import memory_line


def test_a_line_above_what_starting_takes():
    # 500 + 0.25 b, under a floor of 510 that starting takes, and one that is not known.
    sizes = np.array([1, 2, 16, 64, 128, 256, 400, 450])
    peaks = np.maximum(510.0, 500 + 0.25 * sizes)
    peaks[-1] = np.nan
    found = memory_line.memory_per_image(sizes, peaks)
    assert found.fixed_mb == pytest.approx(500)
    assert found.per_image == pytest.approx((0.25, 0.25, 0.25))


def test_the_interval_is_that_of_least_squares():
    sizes = np.array([64.0, 128, 192, 256, 320])
    peaks = 30 + 0.25 * sizes + [0.4, -0.3, 0.2, -0.5, 0.2]
    # The lowest peak is a floor, and no point of the line.
    sizes, peaks = np.append(sizes, 1.0), np.append(peaks, 35.0)
    fixed, slope = memory_line.memory_per_image(sizes, peaks)
    expected = stats.linregress(sizes[:-1], peaks[:-1])
    half = stats.t.ppf(0.975, 3) * expected.stderr
    assert fixed == pytest.approx(expected.intercept)
    assert slope == pytest.approx((expected.slope, expected.slope - half, expected.slope + half))
    assert slope.low < 0.25 < slope.high
    noise = 10 * (peaks - 30 - 0.25 * sizes)
    flat = memory_line.memory_per_image(sizes, 600 + np.append(noise[:-1], -10.0)).per_image
    assert flat.low < 0 < flat.high


@pytest.mark.parametrize("peaks", [[510 + size / 10 for size in (1, 2, 4, 8, 16)], [510, 530], []])
def test_memory_that_cannot_be_estimated(peaks):
    sizes = 2 ** np.arange(len(peaks))
    found = memory_line.memory_per_image(sizes, peaks)
    assert np.isnan([found.fixed_mb, *found.per_image]).all()


def test_two_sizes_have_no_interval():
    found = memory_line.memory_per_image([1, 64, 128], [510.0, 573.0, 637.0])
    fixed, (value, low, high) = found
    assert (fixed, value) == pytest.approx((509, 1))
    assert np.isnan([low, high]).all()
