"""Values at a budget and first crossings, by hand."""

import math

import pandas
import pytest

from batchscope.analysis import trajectories

ROWS = pandas.DataFrame(
    {
        "updates": [10, 20, 30, 40, 50],
        "seconds": [1.0, 2.0, 4.0, 5.0, 6.0],
        "validation_loss": [1.0, 0.1, 0.2, 0.01, 0.01],
    }
)


@pytest.mark.parametrize("budget, expected", [(9, None), (10, 1.0), (39.9, 0.2), (1e9, 0.01)])
def test_the_last_row_not_beyond_a_budget(budget, expected):
    for rows in (ROWS, ROWS[::-1]):
        found = trajectories.value_at(rows, "updates", budget, "validation_loss")
        assert math.isnan(found) if expected is None else found == expected


@pytest.mark.parametrize(
    "target, updates, seconds",
    [
        (10**-0.5, 15, 1.5),  # half way in the logarithm, not in the loss
        (0.15, 10 + 10 * math.log10(1 / 0.15), 1 + math.log10(1 / 0.15)),  # the first of two
        (0.1, 20, 2),
        (0.01, 40, 5),
        (2.0, 10, 1),  # the first row is there already
        (0.009, math.inf, math.inf),
    ],
)
def test_the_first_crossing_is_linear_in_the_logarithm(target, updates, seconds):
    for rows in (ROWS, ROWS[::-1]):
        for axis, expected in (("updates", updates), ("seconds", seconds)):
            found = trajectories.first_crossing(rows, axis, "validation_loss", target)
            assert found == pytest.approx(expected)


def test_losses_without_a_logarithm():
    rows = ROWS.assign(validation_loss=[math.nan, math.inf, 0.5, 0.0, math.nan])
    crossing = trajectories.first_crossing
    assert crossing(rows, "updates", "validation_loss", 0.5) == 30  # nothing finite before it
    assert crossing(rows, "updates", "validation_loss", 0.3) == 40  # a loss of 0
    diverged = ROWS.assign(validation_loss=math.nan)
    assert crossing(diverged, "updates", "validation_loss", 0.3) == math.inf
