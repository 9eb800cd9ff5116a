"""Marks of runs and series in a figure's SVG."""

from __future__ import annotations

import re

import numpy as np
import pandas
import pytest

import synthetic
from batchscope import figures
from batchscope.figures.drawing import canvas, marks
from batchscope.report import runs_table
from batchscope.report.figure_view import Finder
from costs import first
from made_figures import NAMES

# Figures without a point or a line of a single finished run.
OF_SERIES = (
    *("progress", "training_time", "gradient_alignment"),
    *("verdict_matrix", "batch_size_limits", "advice"),
)
# Whose marks are of both runs of a seed, or of all those of which a time is.
OF_PAIRS = ("line", "epoch_distance", "time")
ROWS = pandas.DataFrame({"learning_rate": [0.1, 1e-5], "batch_size": [8, 16], "seed": [0, 3]})


def _svg(draw) -> str:
    with canvas.style():
        figure, grid = canvas.panels(1, 1)
        draw(figure, grid[0, 0])
    return canvas.svg_and_png(figure, "t")[0]


def test_every_point_says_its_run_and_value():
    def draw(_, axes):
        (drawn,) = axes.plot([1, 2], [0.25, 0.123456], "o")
        marks.points(drawn, ROWS, [0.25, 0.123456])

    found = re.findall(r'<use data-run="([^"]*)" data-value="([^"]*)"', _svg(draw))
    assert found == [
        ("learning_rate=0.1 batch_size=8 seed=0", "0.25"),
        ("learning_rate=1e-5 batch_size=16 seed=3", "0.1235"),
    ]


def test_points_that_are_not_all_drawn_are_not_marked():
    def draw(_, axes):
        (drawn,) = axes.plot([1, 2], [0.25, np.nan], "o")
        marks.points(drawn, ROWS, [0.25, 0.5])

    assert "data-run" not in _svg(draw)


def test_a_line_is_of_one_run_and_series_and_legend_have_one_number():
    def draw(figure, axes):
        handles = []
        for index in range(2):
            with marks.series(axes, index):
                (drawn,) = axes.plot([1, 2], [index, 1])
                marks.line(drawn, ROWS.iloc[[index]])
            handles.append(drawn)
        canvas.legend(figure, handles, ["a", "b"])

    text = _svg(draw)
    lines = re.findall(r'<g id="[^"]*" data-series="(\d)" data-run="[^"]*seed=(\d)">', text)
    assert lines == [("0", "0"), ("1", "3")]
    assert re.findall(r'data-legend="(\d)"', text) == ["0", "0", "1", "1"]
    ids = re.findall(r'<g id="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_factors_read_as_in_names():
    row = {"method": "a b", "x": np.int64(3), "nesterov": True, "device": None, "y": float("nan")}
    assert marks.key(row) == "method=a_b x=3 nesterov=true"


@pytest.fixture(scope="module")
def find(all_finished, finished_tables):
    """What finds runs as a page does."""
    planned = synthetic.study(all_finished)
    given = finished_tables.runs.astype(str).to_dict("records")
    (name,) = planned.experiments
    found = runs_table.complete(planned, name, given)
    return Finder(found, runs_table.numbers(found))


@pytest.mark.parametrize("name", first(NAMES))
def test_every_figure_that_draws_runs_says_which(finished_tables, find, name):
    figure = figures.FIGURES[name]
    drawn = vars(figure.draw(figure.select(finished_tables))).get("batchscope_marks", {})
    found = [find(run) for mark in drawn.values() for run, _ in mark.runs]
    assert bool(found) == (name not in OF_SERIES)
    assert None not in found
    assert name in OF_PAIRS or all(number is not None for number, _ in found)
