"""Tests of claims: numbers that are known, and how often a false claim is reported to hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import costs
from batchscope.analysis import claim_tests

VALUES = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0])


def test_a_mean_against_one_bound_is_the_t_test():
    found = claim_tests.between(VALUES, low=2.0)
    assert found.effect == 4.0 and found.n == 6
    assert found.p == pytest.approx(stats.ttest_1samp(VALUES, 2.0, alternative="greater").pvalue)
    assert found.p_against == pytest.approx(1 - found.p)
    interval = stats.ttest_1samp(VALUES, 0.0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx(tuple(interval))
    # The interval's end is the bound at which the test is just at 5 %.
    assert claim_tests.between(VALUES, low=found.low).p == pytest.approx(0.05)


def test_a_mean_between_two_bounds_is_two_one_sided_tests():
    found = claim_tests.between(VALUES, 2.0, 7.0)
    lower = stats.ttest_1samp(VALUES, 2.0, alternative="greater").pvalue
    upper = stats.ttest_1samp(VALUES, 7.0, alternative="less").pvalue
    assert found.p == pytest.approx(max(lower, upper))
    assert found.p_against == pytest.approx(min(1.0, 2 * min(1 - lower, 1 - upper)))


def test_equal_numbers_are_certain():
    found = claim_tests.between(np.full(6, 3.0), low=2.0)
    assert (found.p, found.p_against) == (0.0, 1.0)
    assert claim_tests.between(np.full(6, 2.0), low=2.0).p == 1.0
    with pytest.raises(ValueError, match="Expected a bound at least"):
        claim_tests.between(VALUES)


@pytest.mark.parametrize(("values", "bound"), [((0.95, 0.96), 0.01), ((0.2, 0.3), 0.1)])
def test_exactly_at_its_bound_rounding_shows_nothing(values, bound):
    values = np.tile(values, (6, 1))
    difference = values[:, 1] - values[:, 0]
    assert difference[0] != bound
    for bounds in ({"low": bound}, {"high": bound}):
        found = claim_tests.between(difference, **bounds)
        assert (found.p, found.p_against) == (1.0, 1.0) and found.found[0].effects == [0.0]
    found = claim_tests.equivalence(values, bound)
    assert (found.p, found.p_against) == (1.0, 1.0) and 0.0 in found.found[0].effects


def test_one_number_is_an_effect_without_a_test():
    found = claim_tests.between([3.0, np.nan], low=2.0)
    assert (found.effect, found.n) == (3.0, 1)
    assert math.isnan(found.p) and math.isnan(found.low)
    best = claim_tests.argmax([[1.0, 2.0, 0.0]], [1])
    for one in (best, claim_tests.order([[[1.0]], [[2.0]]])):
        assert one.n == 1 and math.isnan(one.p) and math.isnan(one.p_against)


def test_a_trend_of_three_sizes_is_pages_and_of_two_the_paired_t():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(6, 4)) + [0, 1, 2, 3]
    found = claim_tests.trend(values, [16, 32, 64, 128], "rises")
    assert found.p == pytest.approx(stats.page_trend_test(values).pvalue)
    against = claim_tests.trend(-values, [16, 32, 64, 128], "rises")
    assert (found.p_against, against.p_against) == (1.0, found.p)
    exact = claim_tests.trend(np.tile([3.0, 2.0, 1.0], (6, 1)), [16, 32, 64], "falls")
    assert exact.effect == -1.0 and exact.p == pytest.approx(6.0**-6)
    two = claim_tests.trend(values[:, [0, 3]], [16, 128], "rises")
    assert two.effect == pytest.approx((values[:, 3] - values[:, 0]).mean() / 3)
    assert two.p == pytest.approx(stats.ttest_rel(values[:, 3], values[:, 0]).pvalue / 2)


def test_an_order_and_a_slope_that_point_apart_are_no_trend():
    """A throughput that rises to batch size 4 and falls a little over many sizes beyond it."""
    sizes = [1, 2, 4, 8, 16, 17, 18, 32, 33, 34, 48, 49, 50, 64]
    rises = np.minimum(np.log2(sizes), 2) - 0.01 * np.arange(14)
    values = rises + np.random.default_rng(0).normal(scale=1e-3, size=(6, 14))
    assert stats.page_trend_test(-values).pvalue < 0.05
    found = claim_tests.trend(values, sizes, "rises")
    assert found.low > 0 and found.p > 0.5 and found.p_against == 1
    falls = claim_tests.trend(values, sizes, "falls")
    assert (falls.p, falls.p_against) == (1, found.p)


def test_an_equivalence_is_of_the_two_that_are_farthest_apart():
    values = np.array([[0.0, 0.1, 0.5], [0.0, 0.2, 0.7], [0.0, 0.0, 0.6]])
    found = claim_tests.equivalence(values, 1.0)
    assert found.effect == pytest.approx(0.6)
    by_hand = stats.ttest_1samp(values[:, 2], 1.0, alternative="less").pvalue
    assert found.p == pytest.approx(by_hand)
    assert claim_tests.equivalence(values, 0.1).p_against < 0.05


def test_an_interaction_is_the_difference_of_slopes():
    at, seeds = [16, 32, 64], np.arange(6.0)[:, None]
    of = 2.0 * np.log2(at) + seeds
    to = (0.5 + 0.01 * seeds) * np.log2(at)
    found = claim_tests.interaction(of, to, at, low=0.0)
    assert found.effect == pytest.approx(1.475) and found.p < 1e-6
    gap = of.copy()
    gap[0, 0] = np.nan
    assert claim_tests.interaction(gap, to, at, low=0.0).n == 5


def test_the_best_size_beats_every_other_one():
    generator = np.random.default_rng(1)
    values = generator.normal(scale=0.1, size=(8, 4)) + [0.0, 0.4, 1.0, 0.6]
    found = claim_tests.argmax(values, [2])
    against = [stats.ttest_rel(values[:, 2], values[:, j]).pvalue / 2 for j in (0, 1, 3)]
    assert found.p == pytest.approx(max(against))
    assert found.effect == pytest.approx((values[:, 2] - values[:, 3]).mean())
    assert claim_tests.argmax(values, [0]).p_against < 0.05
    assert claim_tests.argmax(values, [1, 2]).p == pytest.approx(2 * max(against[0], against[2]))
    lowest = claim_tests.argmax(-values, [2], best="lowest")
    expected = (found.p, -found.effect, -found.high)
    assert (lowest.p, lowest.effect, lowest.low) == pytest.approx(expected)
    with pytest.raises(ValueError, match="said to be best and others"):
        claim_tests.argmax(values, [0, 1, 2, 3])


def test_an_order_holds_where_every_step_of_it_does():
    generator = np.random.default_rng(2)
    low, middle, high = (generator.normal(level, 0.1, size=(6, 1)) for level in (0, 1, 2))
    assert claim_tests.order([low, middle, high]).p < 0.001
    assert claim_tests.order([low, high, middle]).p_against < 0.001
    # Two series of one group are not compared with each other.
    assert claim_tests.order([np.hstack([low, low]), middle, high]).p < 0.001


def test_an_exception_lies_off_the_power_law_of_its_neighbours():
    at = np.array([16.0, 18.0, 24.0, 32.0])
    values = np.tile(3.0 * at**0.7, (6, 1)) * np.linspace(0.9, 1.1, 6)[:, None]
    on_line = claim_tests.exception(values, at, 1, "falls")
    assert on_line.effect == pytest.approx(1.0)
    values[:, 1] *= 0.8 * np.linspace(0.99, 1.01, 6)
    dip = claim_tests.exception(values, at, 1, "falls")
    assert dip.effect == pytest.approx(0.8, abs=1e-3) and dip.p < 1e-6
    assert claim_tests.exception(values, at, 1, "rises").p_against < 1e-6
    with pytest.raises(ValueError, match="neighbours on both sides"):
        claim_tests.exception(values, at, 0, "falls")


def part(p: float, against: float, n: int = 6) -> claim_tests.Tested:
    return claim_tests.Tested(1.0, 0.0, 2.0, n, p, against)


def test_a_claim_of_several_parts_is_no_stronger_than_the_weakest():
    found = claim_tests.every([("a", part(0.001, 0.9)), ("b", part(0.03, 0.9, 5))])
    assert (found.deciding, found.parts) == ("b", 2)
    assert (found.tested.p, found.tested.p_against, found.tested.n) == (0.03, 1.0, 5)
    against = claim_tests.every([("a", part(0.001, 0.9)), ("b", part(0.99, 0.01))])
    assert against.deciding == "b" and against.tested.p_against == pytest.approx(0.02)
    lacking = claim_tests.every([("a", part(0.001, 0.9)), ("b", part(math.nan, math.nan, 1))])
    assert lacking.deciding == "b" and math.isnan(lacking.tested.p) and lacking.tested.n == 1
    assert math.isnan(lacking.tested.p_against)


# --- Error rates: of every type, claims that are just false, and contraries that are just false ---

SEEDS = 6
AT = [16, 32, 64, 128]


def nothing(generator):
    """Four sizes with the same mean, and seeds that share what they start from."""
    return generator.normal(size=(SEEDS, 4)) + generator.normal(size=(SEEDS, 1))


FALSE = {
    "trend": lambda g: claim_tests.trend(nothing(g), AT, "rises"),
    "two sizes": lambda g: claim_tests.trend(nothing(g)[:, :2], AT[:2], "rises"),
    "value": lambda g: claim_tests.between(g.normal(size=SEEDS), low=0.0),
    "equivalence": lambda g: claim_tests.equivalence(nothing(g)[:, :2] + [0.0, 1.0], 1.0),
    "interaction": lambda g: claim_tests.interaction(nothing(g), nothing(g), AT, low=0.0),
    "argmax": lambda g: claim_tests.argmax(nothing(g)[:, :2], [1]),
    "argmax of several": lambda g: claim_tests.argmax(nothing(g), [1, 2]),
    "order": lambda g: claim_tests.order([g.normal(size=(SEEDS, 1)), g.normal(size=(SEEDS, 1))]),
    "exception": lambda g: claim_tests.exception(np.exp(nothing(g)), AT, 1, "falls"),
}


@pytest.mark.parametrize("kind", FALSE)
@costs.draws(600)
def test_what_is_false_is_shown_in_five_percent_at_most(kind, draws):
    generator = np.random.default_rng(20)
    found = [FALSE[kind](generator) for _ in range(draws)]
    most = 0.05 + 3 * math.sqrt(0.05 * 0.95 / draws)
    assert np.mean([tested.p < 0.05 for tested in found]) <= most
    assert np.mean([tested.p_against < 0.05 for tested in found]) <= most


@costs.draws(200)
def test_a_margin_that_is_met_and_a_clear_effect_are_found(draws):
    generator = np.random.default_rng(21)
    close = [claim_tests.equivalence(0.1 * nothing(generator), 1.0).p for _ in range(draws)]
    clear = [
        claim_tests.trend(0.3 * nothing(generator) + [0, 1, 2, 3], AT, "rises").p
        for _ in range(draws)
    ]
    assert np.mean(np.array(close) < 0.05) > 0.9 and np.mean(np.array(clear) < 0.05) > 0.9
