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
    found = targets.at_budget(UPDATES, [4.0, 2.0, 1.0, 3.0], budget)
    assert found == pytest.approx(expected, nan_ok=True)


def test_a_loss_is_interpolated_as_it_decays():
    updates = np.arange(7, 700, 7)
    found = targets.at_budget(updates, 2.3 * np.exp(-updates / 90), 101, True)
    assert found == pytest.approx(2.3 * math.exp(-101 / 90), rel=1e-12)
    assert targets.at_budget(UPDATES, [4, 2, 0, 0], 25, True) == 1  # which has no logarithm


def test_what_has_no_value_is_passed_over_and_what_is_infinite_is_not():
    gaps = [4.0, math.nan, 1.0, math.nan]
    assert targets.at_budget(UPDATES, gaps, 20, True) == pytest.approx(2)
    assert targets.at_budget(UPDATES, gaps, 40) == 1
    assert targets.at_budget(UPDATES, [4.0, math.inf, 1.0, 1.0], 15) == 4
    assert math.isnan(targets.at_budget([], [], 1))
    assert math.isnan(targets.at_budget([math.nan], [1.0], 1))
    # Rounding of an epoch is no shorter training.
    assert targets.at_budget([0.1, 0.2, 0.1 * 3], [3.0, 2.0, 1.0], 0.3) == 1
    assert targets.at_budget([0.1, 0.3 - 1e-16], [3.0, 1.0], 0.3) == 1


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
