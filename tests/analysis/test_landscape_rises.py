"""Rises of the loss around trained weights, by run."""

import math

import pandas
import pytest

from batchscope.analysis import landscape_rises


def test_directions_are_averaged_within_a_run_first():
    frame = pandas.DataFrame(
        {
            "seed": [0, 0, 0, 1, 1],
            "index": [0, 1, 2, 0, 1],
            "a": [1.0] * 5,
            "rise": [1.0, 2.0, 6.0, 5.0, math.inf],
        }
    )
    table = landscape_rises.over_directions(frame, "rise")
    assert table.loc[1.0, 0] == pytest.approx(3.0)
    assert math.isnan(table.loc[1.0, 1])
