"""Means over seeds, and how far two of them are apart."""

import math

import pandas
import pytest

from batchscope.analysis import intervals, seed_means


def _means(small, large, **columns):
    rows = {"batch_size": [8] * 3 + [16] * 3, "seed": [0, 1, 2] * 2, "status": "finished"}
    rows |= {"x": [*small, *large], **columns}
    return seed_means.by_batch_size(pandas.DataFrame(rows), "x")


def test_a_mean_is_of_what_finished_among_all_seeds():
    found = _means((1, 3, 9), (2, 4, math.inf), status=["finished"] * 2 + ["diverged", *"fff"])
    assert [*found] == [8] and found[8].seeds == 3
    assert found[8].interval == pytest.approx(intervals.t_interval([1, 3]))


def test_two_means_are_apart_by_the_ratios_of_the_same_seeds():
    found = _means((1, 2, 4), (2, 4, 8))
    assert seed_means.apart(found[16], found[8]) == (pytest.approx((2, 2, 2, 3)), True)
    assert seed_means.apart(found[16], found[8], ratio=False)[0].mean == pytest.approx(7 / 3)
    # One seed makes the mean of ratios point against the means: their difference is reported.
    found = _means((1, 1, 1), (0.1, 3, 1))
    difference = intervals.t_interval([-0.9, 2, 0])
    assert seed_means.apart(found[16], found[8]) == (pytest.approx(difference), False)


def test_seeds_at_different_rates_have_wider_intervals():
    found = _means((1.5, 2.0, 1.6), (3, 3, 3), chosen_learning_rate=[0.1, 0.2, 0.1, *[0.2] * 3])
    expected = intervals.ratio_interval(3, [1.5, 2.0, 1.6], differ=True)
    assert seed_means.apart(found[16], found[8])[0] == pytest.approx(expected)
    assert found[8].rates == (0.1, 0.2) and found[16].rates == (0.2,)


def test_a_failed_run_leaves_the_ratio_of_the_other_seeds():
    rows = {"batch_size": [8] * 4 + [16] * 4, "seed": [0, 1, 2, 3] * 2, "x": [1.0] * 4 + [2.0] * 4}
    frame = pandas.DataFrame(rows).assign(status=["diverged"] + ["finished"] * 7)
    found = seed_means.by_batch_size(frame, "x")
    assert seed_means.apart(found[16], found[8]) == (pytest.approx((2, 2, 2, 3)), True)


def test_an_accuracy_has_the_binomial_error_of_its_examples():
    rows = {"batch_size": [8, 8, 16], "test_accuracy": [0.8, 0.6, 1.0], "test_examples": 100}
    found = seed_means.binomial(pandas.DataFrame(rows), "test_accuracy", ["batch_size"])
    assert found["mean"].to_dict() == pytest.approx({8: 0.7, 16: 1.0})
    assert found["half"].to_dict() == pytest.approx({8: 1.96 * math.sqrt(0.0021), 16: 0.0})
