"""The figure of the time per step, from tables made up by hand."""

import math

import numpy as np
import pytest

from batchscope.analysis import run_series
from drawing import bars, note, texts
from made_sweeps import DENSE, LOOPS, POWERS, drawn, fitted, line, points, sweep


def test_the_same_sweep_on_two_machines_keeps_its_own_fit():
    made = (sweep(**fitted(2e-3, 5e-4)), sweep(machine="gpu_box", **fitted(1e-3, 1e-5)))
    _, frame, _ = drawn("step_time", *made)
    found = frame.groupby("machine")["fixed_seconds"].unique()
    assert found["laptop"] == pytest.approx([2e-3]) and found["gpu_box"] == pytest.approx([1e-3])


@pytest.mark.parametrize("sizes", [DENSE, POWERS])
def test_the_fitted_line(sizes):
    drawing, _, _ = drawn("step_time", sweep(sizes, line(2e-3, 5e-4), **fitted(3e-3, 4e-4)))
    axes = drawing.axes[0]
    dense = sizes == DENSE
    assert axes.get_yscale() == ("linear" if dense else "log")
    assert points(axes)[0][1] == pytest.approx([1e3 * (2e-3 + 5e-4 * size) for size in sizes])
    (fit,) = [item for item in axes.lines if len(item.get_xdata()) == 200]
    x, y = fit.get_data()
    at = x if dense else 2**x
    assert y == pytest.approx(3 + 0.4 * at)
    assert at[0] == pytest.approx(0 if dense else 1) and at[-1] == pytest.approx(sizes[-1])
    assert axes.get_ylabel() == "time per step (ms)"


def costs(axes):
    """Returns value, row and interval of every dot."""
    found = []
    for container in axes.containers:
        (x, y), ((low, high),) = container.lines[0].get_data(), bars(container)
        found.append((float(x[0]), float(y[0]), float(low[0]), float(high[0])))
    return found


def test_one_row_per_series_with_its_interval():
    made = [
        sweep(loop=loop, time=line(a, 2e-4), **fitted(a, 2e-4, half=0.1))
        for loop, a in zip(LOOPS, (1e-3, 6e-3, 2e-3, 4e-3, 3e-3), strict=True)
    ]
    drawing, _, found = drawn("step_time", *made)
    _, fixed, per_image = drawing.axes
    expected = [(a, row, 0.9 * a, 1.1 * a) for row, a in enumerate((1.0, 6.0, 2.0, 4.0, 3.0))]
    assert np.array(costs(fixed)) == pytest.approx(np.array(expected))
    assert np.array(costs(per_image))[:, 0] == pytest.approx([0.2] * 5)
    labels = [text.get_text().replace("\n", " ") for text in fixed.get_yticklabels()]
    assert labels == [run_series.describe({"loop": loop}) for loop in LOOPS]
    assert fixed.get_ylim()[0] > fixed.get_ylim()[1]  # the first series at the top
    assert "(ms)" in fixed.get_xlabel() and "(ms)" in per_image.get_xlabel()
    colours = [container.lines[0].get_color() for container in fixed.containers]
    assert colours == [container.lines[0].get_color() for container in drawing.axes[0].containers]
    assert "1.00 [0.90, 1.10] ms" in found and "6.00 [5.40, 6.60] ms" in found


def test_a_negative_fixed_cost_stands_at_zero():
    other = sweep(loop="eager", **fitted(2e-3, 5e-4, half=0.1))
    drawing, _, found = drawn("step_time", sweep(**fitted(-5e-4, 5e-4, half=0.2)), other)
    axes = drawing.axes[1]
    assert costs(axes)[0] == pytest.approx((0, 0, 0, 0))
    assert axes.get_xscale() == "linear" and axes.get_xlim()[0] == 0
    assert "The fixed cost per step was not distinguishable from 0 (loop in the graph)" in found
    assert "what was fitted below 0 stands at 0." in note(drawing)
    assert "Half of a step is fixed cost at batch size 4 (eager)." in found
    # On a logarithmic axis the line starts where it is above zero.
    lines = [item for item in drawing.axes[0].lines if len(item.get_xdata()) == 200]
    assert drawing.axes[0].get_yscale() == "log" and math.isnan(lines[0].get_ydata()[0])


def test_an_interval_ends_at_zero_and_its_label_has_its_digits():
    """An interval of 3 ms to either side of 2: no step takes less than no time."""
    other = sweep(loop="eager", **fitted(2.123e-3, 5e-4, half=0.01))
    drawing, frame, found = drawn("step_time", sweep(**fitted(2.123e-3, 5e-4, half=1.5)), other)
    value, _, low, high = costs(drawing.axes[1])[0]
    assert (value, low, high) == pytest.approx((2.123, 0, 2.5 * 2.123))
    assert "2.1 [0.0, 5.3] ms (loop in the graph) and 2.123 [2.102, 2.144] ms (eager)" in found
    assert frame["fixed_seconds_low"].min() < 0  # the table has what was fitted
    assert [text.get_text() for text in drawing.axes[1].texts] == ["2.1", "2.123"]
    assert "Costs are not negative" in note(drawing)


def test_a_fit_without_an_interval_and_no_fit_at_all():
    two = sweep((16, 32), **fitted(2e-3, 5e-4, half=math.nan))
    drawing, _, found = drawn("step_time", two, sweep((16,), loop="eager"))
    value, row, low, high = costs(drawing.axes[1])[0]
    assert (value, row) == pytest.approx((2, 0)) and low == high == pytest.approx(2)
    assert "no fit" in texts(drawing)
    assert found.startswith(
        "The fixed cost per step was 2 ms (loop in the graph). The cost per example was 0.5 ms "
        "(loop in the graph). Half of a step is fixed cost at batch size 4 (loop in the graph)."
    )


def test_one_large_cost_does_not_squeeze_the_others_to_zero():
    other = sweep(loop="fit", **fitted(2e-3, 5e-4, half=0.5))
    drawing, _, _ = drawn("step_time", sweep(**fitted(60e-3, 5e-4, half=1.5)), other)
    fixed, per_image = drawing.axes[1:]
    assert "linear around zero" in note(drawing)
    assert fixed.get_xscale() == "symlog" and per_image.get_xscale() == "linear"
    place = fixed.transData.transform([(0, 0), (2, 0), (150, 0)])[:, 0]
    assert place[1] - place[0] > 0.1 * (place[2] - place[0])
