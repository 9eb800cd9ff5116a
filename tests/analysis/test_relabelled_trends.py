"""Trends at chosen learning rates: p-values that hold the choice."""

import itertools
import math

import numpy as np
import pytest

from batchscope.analysis import chosen_rates, paired_tests, relabelled_trends
from batchscope.analysis.relabelled_trends import chosen_at_all, p_values


def cubes(random, sizes=4, rates=3, seeds=6):
    """Returns losses whose best two rates are nearly equal, and an outcome that knows which."""
    shift = np.array([0.0, 0.0, 2.0])[None, :rates, None]
    losses = shift + random.normal(0, 1, (sizes, rates, seeds))
    values = np.array([0.0, 3.0, 0.0])[None, :rates, None] + random.normal(0, 1, losses.shape)
    return losses, values


def unequal(random):
    """Three rates of two sizes, a fourth of two others: no better, and so no reason for a trend."""
    losses, values = cubes(random)
    for each in (losses, values):
        more = np.concatenate([each, each[:, 2:] + 1 + random.random((4, 1, 6))], 1)
        more[:2, 3] = np.nan
        yield more


@pytest.mark.parametrize(("made", "seed"), [(cubes, 0), (unequal, 7)])
def test_one_true_trend_has_the_smallest_p(made, seed):
    random = np.random.default_rng(seed)
    losses, _ = made(random)
    values = np.arange(4.0)[:, None, None] + 0.01 * random.random(losses.shape)
    assert p_values(losses, values, False, 999) == (0.001, 1.0, 0.001)


def test_without_a_difference_of_rates_it_is_the_exact_test():
    """The outcome is the same at every rate, so that the choice is none."""
    random = np.random.default_rng(1)
    losses, _ = cubes(random)
    values = random.normal(0, 1, (4, 1, 6)) + 0.3 * np.arange(4)[:, None, None]
    values = np.repeat(values, 3, axis=1)
    rises, falls, _ = p_values(losses, values, False)
    exact = [paired_tests.page_trend(values[:, 0].T, way) for way in ("rises", "falls")]
    assert (rises, falls) == pytest.approx(exact, abs=0.02)


def test_a_rate_that_was_tried_with_some_seeds_costs_no_seed():
    losses, values = cubes(np.random.default_rng(3))
    known = p_values(losses, values, False, 199)
    for seeds in (1, 3):
        stray = np.full((2, 4, 1, 6), np.nan)
        stray[:, 2, 0, :seeds] = 0.0
        more = [np.concatenate(each, 1) for each in ((losses, stray[0]), (values, stray[1]))]
        assert p_values(*more, False, 199) == known


@pytest.mark.parametrize("by_others", [False, True])
def test_original_labels_give_the_reported_statistic(by_others):
    random = np.random.default_rng(2)
    losses, values = cubes(random)
    losses[1, 0, 2] = losses[2, :2, 3] = np.inf
    index = chosen_rates.by_lowest(losses).index[:, None].repeat(6, axis=1)
    if by_others:
        index = chosen_rates.leave_one_out(losses)[1]
    read = np.take_along_axis(values, index[:, None], axis=1)[:, 0]
    own = np.arange(4)[:, None].repeat(6, axis=1)[None]
    page, _ = relabelled_trends._statistics(losses, values, own, by_others)
    ranks = (read[:, None] > read[None]).sum(axis=1) + 1
    assert page[0] == (ranks * np.arange(4)[:, None]).sum()


@pytest.mark.parametrize(
    ("made", "seed", "draws", "deviations", "often"),
    [(cubes, 3, 400, 3, 0.2), (unequal, 6, 300, 2, 0.15)],
)
@pytest.mark.slow
def test_without_an_effect_there_is_seldom_a_trend_where_page_often_sees_one(
    made, seed, draws, deviations, often
):
    random, wrong, naive = np.random.default_rng(seed), 0, 0
    for _ in range(draws):
        losses, values = made(random)
        wrong += min(p_values(losses, values, False, 199)[:2]) < 0.025
        read = values[np.arange(4), chosen_rates.by_lowest(losses).index].T
        naive += min(paired_tests.page_trend(read, way) for way in ("rises", "falls")) < 0.025
    assert wrong / draws <= 0.05 + deviations * math.sqrt(0.05 * 0.95 / draws)
    assert naive / draws > often


def test_rates_of_their_own_count_by_their_order():
    random = np.random.default_rng(4)
    losses, values = cubes(random)
    apart = [np.full((4, 5, 6), np.nan) for _ in range(2)]
    for size in range(4):
        for cube, full in zip((losses, values), apart, strict=True):
            full[size, size % 3 : size % 3 + 3] = cube[size]
    assert chosen_at_all(apart[0])
    assert p_values(*apart, False, 99) == p_values(losses, values, False, 99)


def test_what_cannot_be_relabelled():
    losses, values = cubes(np.random.default_rng(5))
    assert not chosen_at_all(losses[:, :1])
    losses[0, 2] = np.nan
    assert chosen_at_all(losses)
    few = losses[:, :2, :1], values[:, :2, :1]
    assert np.isnan(p_values(*few, False)).all()


def test_the_p_is_the_largest_of_all_ways_to_take_as_many_rates():
    losses, values = unequal(np.random.default_rng(8))
    chosen = chosen_rates.by_lowest(losses).index
    ways = [[start for start in range(2) if start <= chosen[size] < start + 3] for size in (2, 3)]
    found = []
    for starts in itertools.product((0,), (0,), *ways):
        index = np.array(starts)[:, None, None] + np.arange(3)[:, None]
        cut = (np.take_along_axis(each, index, axis=1) for each in (losses, values))
        found.append(p_values(*cut, False, 99))
    whole = p_values(losses, values, False, 99)
    assert whole == tuple(np.max(found, axis=0))


def test_a_size_with_one_rate_is_compared_too():
    random = np.random.default_rng(9)
    losses, _ = cubes(random)
    losses[0, 1:] = np.nan
    values = np.arange(4.0)[:, None, None] + 0.01 * random.random(losses.shape)
    values[0, 1:] = np.nan
    assert p_values(losses, values, False, 999) == (0.001, 1.0, 0.001)
