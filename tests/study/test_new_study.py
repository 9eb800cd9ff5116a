"""The grid of a new study, by hand."""

import math

import pytest

from batchscope.study import new_study

FALLS = new_study.Falls((0, 100, 200, 300, 400), (2.0, 1.0, 0.6, 0.5, 0.55))


def test_the_target_is_nine_tenths_of_the_fall_and_what_it_took_lies_between_evaluations():
    assert FALLS.best == 3 and FALLS.target() == pytest.approx(0.65)
    assert FALLS.until(0.65) == pytest.approx(100 + 100 * 0.35 / 0.4)
    assert FALLS.until(2.5) == 0 and FALLS.until(0.4) == math.inf
    assert new_study.Falls((0, 1), (3.0, 1.2344)).target() == 1.42  # 1.411 rounded up


@pytest.mark.parametrize(
    ("examples", "most", "sizes"),
    [
        (60_000, math.inf, [16, 64, 256, 1024]),
        (60_000, 300, [4, 16, 64, 256]),
        (1087, math.inf, [4, 16, 64, 256]),
        (266, math.inf, [8, 16, 32, 64]),
        (40, math.inf, [1, 2, 4, 8]),
        (12, math.inf, [1, 2]),
    ],
)
def test_sizes_follow_from_examples_and_memory(examples, most, sizes):
    assert new_study.batch_sizes(examples, most) == sizes


def test_rates_grow_as_the_root_of_the_size_and_stay_on_their_list():
    assert new_study.rates(0.003, 16, 16) == [0.001, 0.003, 0.01]
    assert new_study.rates(0.003, 16, 256) == [0.003, 0.01, 0.03]  # a factor of 4
    assert new_study.rates(0.003, 16, 4) == [0.0003, 0.001, 0.003]
    assert new_study.rates(1e-5, 64, 4)[0] == new_study.RATES[0]
    assert len(new_study.rates(new_study.RATES[-1], 16, 1024)) == 3


def test_of_rates_that_fall_alike_the_largest_is_best():
    after = {0.001: 0.52, 0.003: 0.5, 0.01: 0.504, 0.03: 0.9, 0.1: math.inf}
    assert new_study.best_rate(1.5, after) == 0.01
    assert new_study.best_rate(0.4, after) is None


def test_a_size_has_epochs_for_its_updates_and_evaluations_on_the_way():
    small, base, large = new_study.cases([4, 16, 256], 0.003, 16, FALLS, 100, 30)
    # 187.5 examples to the target: twice of it at the base, four times that at 16 times the size.
    assert [each["epochs"] for each in (small, base, large)] == [4, 4, 15]
    # An evaluation of 30 examples costs as much as training on ten: half of 20 between two.
    assert [each["evaluate_every"] for each in (small, base, large)] == [20, 20, 256]
    assert base["rates"] == [0.001, 0.003, 0.01]
