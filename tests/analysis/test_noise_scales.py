"""The gradient noise scale: Fieller's interval, and along a training."""

import math

import numpy as np
import pandas
import pytest
from scipy import stats

from batchscope.analysis import noise_scales
from batchscope.analysis.noise_scales import fieller

VARIANCE = [39.0, 41.0, 40.5, 39.5, 40.0, 40.0]
CLEAR = [0.42, 0.38, 0.41, 0.39, 0.43, 0.37]
UNCLEAR = [0.010, -0.002, 0.007, 0.001, 0.012, -0.004]


def test_known_ratios():
    found = fieller(VARIANCE, CLEAR)
    assert (found.ratio, found.low, found.high) == pytest.approx((100.0, 93.3, 107.5), abs=0.05)
    assert found.n == 6 and found.is_resolved and not found.is_lower_bound
    unclear = fieller(VARIANCE, UNCLEAR)
    assert unclear.ratio == pytest.approx(10_000, rel=1e-12)
    assert unclear.low == pytest.approx(3633, abs=0.5)
    assert unclear.high == math.inf and unclear.is_lower_bound


def test_the_ends_are_where_the_t_test_of_the_difference_turns():
    for denominators in (CLEAR, UNCLEAR):
        found = fieller(VARIANCE, denominators)
        for end in filter(math.isfinite, (found.low, found.high)):
            residual = np.array(VARIANCE) - end * np.array(denominators)
            assert stats.ttest_1samp(residual, 0).pvalue == pytest.approx(0.05, abs=1e-9)


def test_what_is_not_resolved():
    below = fieller(VARIANCE, [-value for value in UNCLEAR])
    assert math.isnan(below.ratio) and below.is_lower_bound and 0 < below.low < math.inf
    for parts in ((VARIANCE, [-each for each in CLEAR]), ([-3, 4, -2, 3], [-0.1, 0.2, 0.1, -0.1])):
        found = fieller(*parts)
        assert not found.is_resolved and np.isnan([found.low, found.high]).all()
    alone = fieller([6.0, math.nan], [2.0, 1.0])
    assert alone.ratio == 3.0 and alone.n == 1 and math.isnan(alone.low) and alone.is_resolved
    assert not fieller([6.0], [-2.0]).is_resolved and fieller([], []).n == 0


def test_a_point_is_the_ratio_of_means_at_a_place_of_the_training():
    """Two seeds at the start, at epoch 2 and at ends of their own, and a third that diverged."""
    frame = pandas.DataFrame(
        {"place": [place] * 3, "epoch": epochs, "status": ["finished", "finished", "diverged"]}
        | {"gradient_variance": [40.0, 60.0, 900.0], "gradient_norm_squared": [1.0, 3.0, 1.0]}
        for place, epochs in (("start", [0, 0, 0]), ("epoch", [2, 2, 2]), ("end", [8, 12, 12]))
    )
    frame = frame.explode([*frame], ignore_index=True).infer_objects()
    frame = frame.assign(batch_size=16, gradient_noise_scale_error=5.0)
    found = noise_scales.noise_scale_points(frame, 16)
    assert [(each.place, each.epoch) for each in found] == [("start", 0), ("epoch", 2), ("end", 10)]
    assert all(point.ratio == fieller([40, 60], [1, 3]) for point in found)
    assert found[0].ends == found[0].ratio[1:3]
    (alone, *_) = noise_scales.noise_scale_points(frame[frame["gradient_variance"] == 40], 16)
    assert alone.ends == (35, 45)  # the error over examples
    assert noise_scales.noise_scale_points(frame.assign(gradient_variance=math.nan), 16) == []
