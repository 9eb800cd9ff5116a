"""Rises of the loss around trained weights, by run."""

import math

import pandas
import pytest

from batchscope.analysis import landscape_rises


def test_directions_are_averaged_within_a_run_first():
    frame = pandas.DataFrame({"seed": [0, 0, 0, 1, 1], "a": 1.0, "rise": [1.0, 2, 6, 5, math.inf]})
    table = landscape_rises.over_directions(frame, "rise")
    assert table.loc[1.0, 0] == pytest.approx(3.0)
    assert math.isnan(table.loc[1.0, 1])


def test_the_rise_along_the_axes_of_a_surface():
    places = [(0, 0, 1.0), (1, 0, 3.0), (0, 1, 5.0), (1, 1, 90.0), (-2, 0, 9.0), (0, 2, math.nan)]
    rows = [{"a": a, "b": b, "loss": loss, "batch_size": 8, "seed": 0} for a, b, loss in places]
    frame = pandas.DataFrame(rows).assign(index=0, status="finished")
    found = landscape_rises.along_axes(frame, [1.0, 2.0]).loc[8, 0]
    assert found[1.0] == pytest.approx(3.0) and math.isnan(found[2.0])
