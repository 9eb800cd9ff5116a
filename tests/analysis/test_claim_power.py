"""Replicates that would decide a claim: known answers, and the power of its own tests there."""

from __future__ import annotations

import math

import numpy as np
import pytest

import costs
from batchscope.analysis import claim_power, claim_tests, paired_tests
from batchscope.analysis.claim_power import FAILS, HOLDS

LEVEL = 0.05


def shaped(values) -> np.ndarray:
    """Returns standard normal numbers with exactly this mean, variance 1 and no correlation."""
    values = values - values.mean(axis=0)
    return values @ np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(values.T))).T)


def wanted(tested, level=LEVEL, contrary=LEVEL):
    return claim_power.replicates_wanted(tested.found, level, contrary)


@pytest.mark.parametrize("size, seeds", [(0.5, 27), (0.8, 12), (1.0, 8), (1.25, 6), (2.0, 6)])
def test_one_contrast_is_the_noncentral_t(size, seeds):
    """At least six: below them no verdict is given."""
    values = np.array([-1.0, 1.0]).repeat(4) * math.sqrt(7 / 8)
    assert wanted(claim_tests.between(values + size, low=0.0)) == (seeds, HOLDS)
    assert wanted(claim_tests.between(values - size, low=0.0)) == (seeds, FAILS)


def test_equal_numbers_are_shown_by_six():
    assert wanted(claim_tests.between(np.full(6, 3.0), low=2.0)) == (6, HOLDS)
    assert wanted(claim_tests.equivalence(np.tile([3.0, 3.1, 3.2], (6, 1)), 1.0)) == (6, HOLDS)


def test_a_stricter_level_takes_more():
    values = shaped(np.random.default_rng(0).normal(size=(8, 2)))[:, 0] + 1.0
    tested = claim_tests.between(values, low=0.0)
    found = [wanted(tested, level)[0] for level in (0.05, 0.05 / 5, 0.05 / 40)]
    assert found[0] == 8 and found == sorted(set(found))


def test_nothing_helps_what_lies_at_its_bound():
    values = np.array([-1.0, 1.0] * 4)
    assert wanted(claim_tests.between(values, low=0.0)) is None
    assert wanted(claim_tests.between(values + 1e-6, low=0.0)) is None
    assert wanted(claim_tests.between([1.0, math.nan], low=0.0)) is None


def test_nothing_helps_a_trend_whose_order_and_slope_differ():
    """One replicate falls far while the others rise, which Page's test does not see."""
    values = np.tile([0.0, 1.0, 2.0], (6, 1))
    values[0] = [90.0, 10.0, 0.0]
    found = claim_tests.trend(values, [16, 32, 64], "rises")
    assert found.effect < 0 and found.p == 1
    assert wanted(found) is None
    values[0] = [2.0, 1.0, 0.0]
    assert wanted(claim_tests.trend(values, [16, 32, 64], "rises"))[1] == HOLDS
    assert wanted(claim_tests.trend(values, [16, 32, 64], "falls"))[1] == FAILS


def cells(generator, means, spread):
    """Returns 400 replicates of cells with exactly these means, and how to draw more of them."""
    means = np.array(means)
    noise = spread * shaped(generator.normal(size=(400, len(means))))
    return noise + means, lambda seeds: means + spread * generator.normal(size=(seeds, len(means)))


SIZES = [2.0**power for power in range(4, 14)]
TEN = 0.02 * np.arange(10)
CLAIMS = {
    "value": ([0.6], 1.0, lambda v: claim_tests.between(v[:, 0], low=0.0), HOLDS),
    "between": ([0.1], 1.0, lambda v: claim_tests.between(v[:, 0], -0.7, 0.7), HOLDS),
    "best": ([0.0, 0.0, 0.0, 0.6], 1.0, lambda v: claim_tests.argmax(v, [3]), HOLDS),
    "best of two": ([0.0, 0.0, 0.6, 0.4], 1.0, lambda v: claim_tests.argmax(v, [2, 3]), HOLDS),
    "not the best": ([0.6, 0.5, 0.0, 0.0], 1.0, lambda v: claim_tests.argmax(v, [2, 3]), FAILS),
    "order": ([0.0, 0.5, 1.1], 0.8, lambda v: claim_tests.order(np.split(v, 3, axis=1)), HOLDS),
    "trend": (0.25 * np.arange(5), 1.0, lambda v: claim_tests.trend(v, SIZES[:5], "rises"), HOLDS),
    "not a trend": (TEN, 0.3, lambda v: claim_tests.trend(v, SIZES, "falls"), FAILS),
    "two series": ([0.6, 0.5], 1.0, lambda v: of_series(v.T), HOLDS),
}


def of_series(values):
    return claim_tests.every([("", claim_tests.between(each, low=0.0)) for each in values]).tested


def about_eight_in_ten(p: np.ndarray, level: float) -> bool:
    error = 3 * math.sqrt(0.16 / len(p))
    return 0.75 - error < np.mean(p < level) < 0.87 + error


@pytest.mark.parametrize("kind", CLAIMS)
@costs.draws(600)
def test_the_power_there_is_about_eight_in_ten(kind, draws):
    """The first replicates have just the truth in them, and more are drawn from the same truth."""
    means, spread, test, way = CLAIMS[kind]
    first, more = cells(np.random.default_rng(3), means, spread)
    level = LEVEL / 12
    seeds, shown = wanted(test(first), level, level)
    assert shown == way and seeds > 6
    found = [test(more(seeds)) for _ in range(draws)]
    p = np.array([each.p if way == HOLDS else each.p_against for each in found])
    assert about_eight_in_ten(p, level)


@pytest.mark.parametrize("margin, way, sign", [(0.6, HOLDS, 1), (0.3, FAILS, -1)])
@costs.draws(200)
def test_of_45_pairs_too(margin, way, sign, draws):
    """Each of them alone would take fewer replicates than all of them at once."""
    means = (2.5 if way == FAILS else 1.0) * TEN
    first, more = cells(np.random.default_rng(3), means, 0.3)
    tested, level = claim_tests.equivalence(first, margin), LEVEL / 12
    seeds, shown = wanted(tested, level, level)
    assert shown == way
    drawn = np.stack([more(seeds) for _ in range(draws)], axis=1)
    left, right = np.triu_indices(10, 1)
    gaps = drawn[..., right] - drawn[..., left]
    inside = np.concatenate([gaps + margin, margin - gaps], axis=-1)
    p = paired_tests.paired_t(sign * inside, "rises")
    assert about_eight_in_ten(p.max(axis=1) if way == HOLDS else 90 * p.min(axis=1), level)
    if way == HOLDS:
        farthest = claim_tests.between(first[:, 9] - first[:, 0], -margin, margin)
        assert seeds > wanted(farthest, level)[0]


def test_a_verdict_of_holm_follows_at_the_level_of_all_that_are_open():
    """Whatever the other open tests say, a p below 5 % over their number is significant."""
    for others in ([0.5, 0.5], [0.016, 0.9], [0.001, 0.5]):
        open_ = sum(paired_tests.holm([*others, 0.3])[:2] >= LEVEL) + 1
        assert paired_tests.holm([*others, 0.99 * LEVEL / open_])[2] < LEVEL
