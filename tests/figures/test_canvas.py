"""Colours of batch sizes, scales, and the files of a drawing."""

import numpy as np
import pandas
import pytest

from batchscope.analysis import intervals
from batchscope.figures import canvas
from drawing import legend


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_at_most_four_batch_sizes_have_a_colour(count):
    sizes = [2**power for power in range(count)]
    styles = canvas.size_styles(sizes)
    assert styles == canvas.size_styles(reversed(sizes))
    coloured = [look["color"] for look in styles.values() if look["color"] != canvas.GREY]
    assert len(coloured) == len(set(coloured)) == min(count, 4)
    assert styles[1]["color"] == canvas.SIZE_COLOURS[0]
    if count > 1:
        assert styles[sizes[-1]]["color"] == canvas.SIZE_COLOURS[-1]


def test_the_legend_has_one_entry_for_the_grey_sizes():
    with canvas.style():
        figure, _ = canvas.panels(1)
        canvas.draw_size_legend(figure, canvas.size_styles([8, 16, 32, 64, 128, 256]))
    assert legend(figure) == ["8", "32", "64", "256", "16, 128"]


def test_a_panel_with_zero_stays_linear_next_to_a_logarithmic_one():
    wide, narrow = np.array([0.001, 0.03, 1.0]), np.array([0.30, 0.35, 0.40])
    with canvas.style():
        _, grid = canvas.panels(3)
        canvas.set_value_scale(grid, [wide, narrow, narrow - narrow[0]])
    assert [axes.get_yscale() for axes in grid] == ["log", "log", "linear"]


@pytest.mark.parametrize(("sizes", "margin"), [((16, 32, 128), 0.45), (range(16, 129), 0.12)])
def test_the_axis_of_batch_sizes_ends_shortly_beyond_them(sizes, margin):
    _, (axes,) = canvas.panels(1)
    canvas.set_batch_size_axis(axes, [*sizes])
    assert axes.get_xlim() == pytest.approx((4 - margin, 7 + margin))


def test_the_svg_has_text_rounded_coordinates_and_no_background():
    with canvas.style():
        figure, (axes,) = canvas.panels(1)
        axes.plot([0.123456789, 1], [0, 1])
        canvas.set_title(axes, "a $_ <b>")
        canvas.write_notes(figure, pandas.DataFrame({"status": []}), "0.123456789")
    svg, _ = canvas.svg_and_png(figure, "T")
    assert "a $_ &lt;b&gt;</text>" in svg and "0.123456789</text>" in svg
    assert "fill: #ffffff" not in svg


def test_means_have_intervals_from_three_numbers_on():
    _, (axes,) = canvas.panels(1)
    values = np.array([[1.0, 2.0, np.nan], [1.0, 2.0, 4.0]])
    mean, low, high, count = canvas.mean_intervals(axes, values)
    interval = intervals.t_interval(values[1])
    assert mean == pytest.approx([1.5, 7 / 3]) and count.tolist() == [2, 3]
    assert np.isnan([low[0], high[0]]).all()
    assert (low[1], high[1]) == pytest.approx((interval.low, interval.high))
    axes.set_yscale("log")
    assert low[1] < 0 < canvas.mean_intervals(axes, values)[1][1]
