"""Trajectories at a budget and at a target, against what they must give."""

import math

import numpy as np
import pytest

from batchscope.analysis import targets

UPDATES = [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(9, math.nan), (10, 4), (15, 3), (20, 2), (35, 2), (40, 3), (41, math.nan)],
)
def test_between_two_evaluations_a_value_is_interpolated(budget, expected):
    found = targets.value_at_budget(UPDATES, [4.0, 2.0, 1.0, 3.0], budget)
    assert found == pytest.approx(expected, nan_ok=True)


def test_a_loss_is_interpolated_as_it_decays():
    updates = np.arange(7, 700, 7)
    found = targets.value_at_budget(updates, 2.3 * np.exp(-updates / 90), 101, True)
    assert found == pytest.approx(2.3 * math.exp(-101 / 90), rel=1e-12)
    assert targets.value_at_budget(UPDATES, [4, 2, 0, 0], 25, True) == 1  # which has no logarithm


def test_what_has_no_value_is_passed_over_and_what_is_infinite_is_not():
    gaps = [4.0, math.nan, 1.0, math.nan]
    assert targets.value_at_budget(UPDATES, gaps, 20, True) == pytest.approx(2)
    assert targets.value_at_budget(UPDATES, gaps, 40) == 1
    for values, value in (([4, math.inf, 1, 1], 4), ([4, 2, math.inf, 1], 3)):
        assert targets.value_at_budget(UPDATES, values, 15) == value
    assert math.isnan(targets.value_at_budget([], [], 1))
    assert math.isnan(targets.value_at_budget([math.nan], [1.0], 1))
    seconds, values = [1.0, math.nan, 3.0, math.nan], [4.0, 3.0, 2.0, 1.0]  # of some rows of a log
    at = [targets.value_at_budget(seconds, values, budget) for budget in (1, 2, 3, 4)]
    assert at == pytest.approx([4, 3, 2, math.nan], nan_ok=True)
    evaluated = {"seconds": np.array(seconds), "validation_loss": np.array(values)}
    assert targets.Target("validation_loss", 3.0).crossing(evaluated, "seconds", ()) < 3
    # Rounding of an epoch is no shorter training.
    assert targets.value_at_budget([0.1, 0.2, 0.1 * 3], [3.0, 2.0, 1.0], 0.3) == 1
    assert targets.value_at_budget([0.1, 0.3 - 1e-16], [3.0, 1.0], 0.3) == 1


@pytest.mark.parametrize(
    ("losses", "target", "expected"),
    [
        ([4, 2, 1, 0.5], math.sqrt(2), 25.0),  # half way in the logarithm
        ([4, 2, 1, 0.5], 2, 20.0),
        ([4, 2, 1, 0.5], 4, 10.0),  # a single row at the target
        ([4, 2, 1, 0.5], 9, 10.0),  # or below it, with none before
        ([4, 2, 1, 0.5], 0.4, math.inf),
        ([4, 1, 3, 0.5], 2, 15.0),  # the first crossing, whatever comes after
        ([math.nan, math.inf, 1, 0.5], 2, 30.0),
        ([4, 2, 0, 0], 1, 30.0),
        ([math.nan] * 4, 2, math.inf),
    ],
)
def test_the_first_crossing_of_a_target(losses, target, expected):
    assert targets.first_crossing(UPDATES, losses, target) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("lowest", "expected"),
    [
        ([[0.2, 0.4], [0.4, 0.45], [0.4, 0.5]], 0.5),  # 2.3 - 0.9 (2.3 - 0.3)
        ([[0.2, 0.4], [0.4, 0.45], [0.6, 0.8]], 0.8),  # what all seeds of a third size reached
        ([[0.2, 0.4], [0.4, 0.9], [0.7, 0.6]], 0.9),
        ([[0.2, 0.4], [0.4, 0.45], [0.4, 2.5]], math.nan),  # no third one fell at all
        ([[0.2, 0.4], [0.4, 0.45], [math.nan] * 2], 0.5),  # all of two
        ([[0.2, 0.4], [0.4, 0.45], [0.4, math.inf]], math.nan),  # a run failed
        ([[math.inf] * 2] * 3, math.nan),
        ([[math.nan] * 2] * 3, math.nan),
        # A fourth size, badly trained: 2.3 - 0.9 (2.3 - 0.2).
        ([[0.2, 0.2], [0.3, 0.3], [0.3, 0.35], [1.19, 1.0]], 0.41),
    ],
)
def test_the_default_target_is_nine_tenths_of_the_fall_of_the_best_size(lowest, expected):
    lowest = np.array(lowest)[:, None]
    found = targets.default_value(np.full(lowest.shape, 2.3), lowest, lowest)
    assert found == pytest.approx(expected, nan_ok=True)


def test_the_best_size_of_a_default_target_is_that_of_equal_epochs_at_its_best_rate():
    """Size 0 trains longer. Of size 1 the second rate is best, and its first loss is lower."""
    first = np.array([[[2.3], [2.3]], [[2.3], [1.3]], [[2.3], [2.3]]])
    equal = np.array([[[0.9], [1.0]], [[0.8], [0.3]], [[0.5], [1.0]]])
    lowest = np.array([[[0.1], [0.1]], [[0.8], [0.3]], [[0.35], [1.0]]])
    assert targets.default_value(first, equal, lowest) == pytest.approx(0.4)
    failed = np.where(equal == 0.3, math.inf, equal)  # then size 2 is the best
    lowest = np.where(lowest == 0.3, math.inf, lowest)
    assert targets.default_value(first, failed, lowest) == pytest.approx(0.8)
