"""Trajectories at a budget and at a target, against what they must give."""

import math

import numpy as np
import pytest

from batchscope.analysis import trajectories

UPDATES = [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("budget", "expected"), [(9, math.nan), (10, 4.0), (19, 4.0), (20, 2.0), (39.9, 1.0), (99, 3.0)]
)
def test_the_last_row_not_beyond_a_budget(budget, expected):
    found = trajectories.value_at(UPDATES, [4.0, 2.0, 1.0, 3.0], budget)
    assert found == pytest.approx(expected, nan_ok=True)


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
    assert trajectories.first_crossing(UPDATES, losses, target) == pytest.approx(expected)


def test_an_exponential_decay_is_crossed_where_its_formula_says():
    updates = np.arange(7, 700, 7)
    found = trajectories.first_crossing(updates, 2.3 * np.exp(-updates / 90), 0.3)
    assert found == pytest.approx(90 * math.log(2.3 / 0.3), rel=1e-12)


def test_the_lowest_loss_that_every_training_reached():
    assert trajectories.lowest_reached_by_all([[3, 1, 2], [2, 0.5], [4, 1.5, 9]]) == 1.5
    assert trajectories.lowest_reached_by_all([[3, math.nan], [2]]) == 3
    assert math.isnan(trajectories.lowest_reached_by_all([[3, 1], [math.nan]]))
    assert math.isnan(trajectories.lowest_reached_by_all([]))
