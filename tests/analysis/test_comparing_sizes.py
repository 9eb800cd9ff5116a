"""Each batch size against the best of the others: known answers, and verdicts read off it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import comparisons
from batchscope.study.outcomes import Verdict

NOISE = np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])


def study(*means, noise=0.01):
    """Returns sizes of six seeds whose differences scatter: the noise is rolled size by size."""
    return np.array([mean + noise * np.roll(NOISE, 2 * at) for at, mean in enumerate(means)])


def compare(values, margin=0.1, tuned=False, bounded=False):
    return comparisons.compare([comparisons.InterimAnalysis(values, tuned)], margin, bounded)


def verdicts(values, margin=0.1, **more):
    return [each.verdict for each in compare(values, margin, **more)]


def test_two_sizes_are_a_paired_t_test_with_the_level_of_the_pair():
    values = study(1.0, 0.7)
    worse = compare(values)[1]
    differences = values[1] - values[0]
    low = stats.ttest_1samp(differences, 0, alternative="greater").confidence_interval(0.95).low
    # The margin is many standard errors wide: the pair has the whole 5 %.
    high = stats.ttest_1samp(differences, 0, alternative="less").confidence_interval(0.95).high
    assert worse.estimate[:3] == pytest.approx((differences.mean(), low, high))
    assert (worse.verdict, worse.against) == (Verdict.BEYOND, 0)


def test_two_sizes_are_compared_by_the_seeds_that_both_have():
    values = study(1.0, 0.7, 0.5)
    values[1, 0] = math.nan
    found = compare(values)
    assert [each.estimate.n for each in found] == [5, 5, 6]  # with the size that each is beside
    assert {each.verdict for each in found} == {Verdict.PROVISIONAL}  # a pair with fewer counts
    assert all(each.seeds_to_resolve == 6 for each in found)
    with_more = np.column_stack([values, np.full((3, 2), math.nan)])
    with_more[[0, 2], 6:] = study(1.0, 0.5)[:, :2]
    last = compare(with_more)[2]
    assert last.estimate.n == 8
    assert last.estimate.mean == pytest.approx((with_more[2] - with_more[0])[[*range(8)]].mean())


def test_every_look_spends_its_share_and_the_tightest_bounds_count():
    """Of 28 seeds: the bounds of a pair are those of a t-test at w_i times 5 %, of each look."""
    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, (2, 9)) + [[0.0], [0.4]]
    shares = (6 / 28, 3 / 28)
    looks = [
        comparisons.InterimAnalysis(values[:, :n], share=w)
        for n, w in zip((6, 9), shares, strict=True)
    ]
    found = comparisons.compare(looks, 0.1)[0]
    differences = values[0] - values[1]
    low = max(
        stats.ttest_1samp(differences[:n], 0, alternative="greater")
        .confidence_interval(1 - each)
        .low
        for n, each in zip((6, 9), (0.05 * w for w in shares), strict=True)
    )
    assert found.estimate.low == pytest.approx(low)
    assert (found.estimate.mean, found.estimate.n) == (pytest.approx(differences.mean()), 9)
    same = [
        looks[0],
        comparisons.InterimAnalysis(looks[0].values, share=22 / 28),
    ]  # a look at no more seeds
    assert comparisons.compare(same, 0.1)[0].estimate == (
        comparisons.compare(looks[:1], 0.1)[0].estimate
    )
    alone = comparisons.compare(looks[1:], 0.1)[0].estimate
    assert alone.low <= found.estimate.low and found.estimate.high <= alone.high


def test_the_seeds_that_would_settle_it_follow_the_tables_of_power():
    # Equal sizes, and a margin of .8 standard deviations: 15 seeds show them to be equal.
    spread = np.array([-1.0, -1, -1, 1, 1, 1]) * math.sqrt(5 / 6)
    found = compare(np.array([np.zeros(6), spread]), 0.8)
    assert found[0].seeds_to_resolve == 15


def test_a_difference_that_is_the_margin_is_not_decided_by_rounding():
    values = np.array([[0.3] * 6, [0.1 + 0.1] * 6])  # 0.3 - 0.2 is not 0.1 in binary
    assert verdicts(values)[1] == Verdict.NOT_RESOLVED
