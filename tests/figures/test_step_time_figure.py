"""The figure of the time per step, from tables made up by hand."""

import math
import re

import numpy as np
import pytest

from batchscope.analysis import run_series
from batchscope.figures import step_time
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
    assert found.startswith(
        "The fixed cost per step was lowest at 1.00 [0.90, 1.10] ms (loop in the graph) and "
        "highest at 6.00 [5.40, 6.60] ms (eager), with 95 % intervals. The cost per example was "
        "lowest at "
    )
    assert found.count(", with 95 % intervals.") == 2
    assert re.search(  # 13.8 over 18.8 ms
        r"At batch size 64 a step takes 1\.3\d* times \(eager; .* by quartiles\), .* as long as "
        r"with loop in the graph\. At batch size 1 a step",
        found,
    )


def test_costs_that_span_much_are_logarithmic():
    other = sweep(loop="eager", **fitted(6e-3, 2e-4))
    drawing, _, _ = drawn("step_time", sweep(**fitted(1e-4, 2e-4)), other)
    assert drawing.axes[1].get_xscale() == "log" and drawing.axes[2].get_xscale() == "linear"


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


def test_no_bar_is_cut():
    """A quarter of the blocks of one size takes twenty times as long."""
    rows, summary = sweep(POWERS, line(2e-3, 5e-4), **fitted(2e-3, 5e-4))
    rows[3]["seconds_per_step_q3"] = 9.0
    drawing, _, _ = drawn("step_time", (rows, summary))
    assert drawing.axes[0].get_ylim()[1] >= 9000


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


def test_many_series_are_described_by_their_ends():
    fits = ((1e-3, 1e-4), (6e-3, 3e-4), (2e-3, 2e-4), (4e-3, 5e-4), (3e-3, 4e-4))
    made = [
        sweep(loop=loop, machine=machine, **fitted(a * factor, b * factor))
        for machine, factor in (("laptop", 1.0), ("gpu_box", 0.1))
        for loop, (a, b) in zip(LOOPS, fits, strict=True)
    ]
    drawing, _, found = drawn("step_time", *made)
    assert len(costs(drawing.axes[1])) == 10
    assert re.search(
        r"^The fixed cost per step was lowest at 0\.1.* ms \(loop in the graph, gpu_box\) and "
        r"highest at 6.* ms \(eager, laptop\)",
        found,
    )
    assert " times (" in found and ") to 1" in found  # of many, the least and the most


def delayed(delay, recovered, half=0.0, **other):
    """Returns a sweep with a delay, timed in turns with its steps without it: 2 ms + .5 ms B."""
    found = {"fixed_seconds_without_delay": 2e-3}
    # The differences of the blocks say half of what the fit is off, half as widely.
    for name, value, width in (
        ("recovered_delay_seconds", recovered, half),
        ("paired_delay_seconds", (recovered + delay) / 2, half / 2),
    ):
        found |= {name: value, f"{name}_low": value - width, f"{name}_high": value + width}
    columns = fitted(2e-3 + recovered, 5e-4)
    return sweep(delay_seconds=delay, **other, **columns, **found)


def test_files_are_named_with_what_was_done_to_them():
    given = {"loop": "function", **fitted(2e-3, 5e-4)}
    made = [sweep(**given, input_pipeline=name) for name in ("prefetch", "jpeg")]
    _, _, found = drawn("step_time", *made)
    assert " and 2 ms (JPEG files (resized beforehand, in the page cache))" in found


def strokes(drawing):
    return [item for item in drawing.axes[1].lines if item.get_color() == "#000000"]


def test_an_injected_delay_comes_back_in_the_fixed_cost():
    # The series without a delay is a job of its own, and no part of the comparison.
    base = sweep(**fitted(3e-3, 5e-4))
    drawing, frame, found = drawn("step_time", base, delayed(5e-3, 5.2e-3, 0.4e-3))
    (delay,) = step_time.delays(frame)
    assert (delay.index, delay.injected, delay.fixed) == (1, 5e-3, 2e-3)
    assert delay.recovered == pytest.approx((5.2e-3, 4.8e-3, 5.6e-3))
    assert delay.paired == pytest.approx((5.1e-3, 4.9e-3, 5.3e-3))
    assert (
        "Of 5 ms delay added per step, 5.20 ms (95 % interval 4.80 to 5.60), 104 %, came back "
        "in the fixed cost of the fit, and 5.10 ms (95 % interval 4.90 to 5.30), 102 %, came "
        "back as the difference of blocks with and without it, whatever their batch size."
    ) in found
    (stroke,) = strokes(drawing)
    assert stroke.get_xdata() == pytest.approx([7, 7]) and min(stroke.get_ydata()) == 1
    assert any("timed in the same turns" in text for text in texts(drawing))


@pytest.mark.parametrize(("half", "expected"), [(0.4e-3, False), (0.1e-3, True)])
def test_a_delay_of_one_series_alone_and_more_than_was_waited(half, expected):
    """What more came back is reported where the interval says so."""
    drawing, _, found = drawn("step_time", delayed(5e-3, 5.2e-3, half))  # paired: 5.1 ms
    more = " The rest is sleeps that end late, or slower steps after them." if expected else ""
    assert f"without it, whatever their batch size.{more} The fixed" in found
    assert len(strokes(drawing)) == 1


def test_only_a_delay_that_took_turns_with_none_comes_back():
    made = (
        sweep(**fitted(2e-3, 5e-4)),
        sweep(delay_seconds=5e-3, **fitted(7e-3, 5e-4)),
        delayed(1e-3, 1.1e-3, loop="fit"),
        delayed(1e-3, 0.9e-3, loop="fit", machine="gpu_box"),
    )
    drawing, frame, found = drawn("step_time", *made)
    delays = [(delay.index, delay.injected) for delay in step_time.delays(frame)]
    assert delays == [(2, 1e-3), (3, 1e-3)]
    assert found.count("came back in the fixed cost") == 2 and len(strokes(drawing)) == 2
    drawing, frame, found = drawn("step_time", made[0])
    assert step_time.delays(frame) == [] and "came back" not in found and not strokes(drawing)


def test_a_delay_that_did_not_come_back_keeps_its_stroke_in_the_panel():
    drawing, _, found = drawn("step_time", delayed(9e-3, 0.0, 1e-4), sweep(**fitted(1e-3, 5e-4)))
    assert "Of 9 ms delay added per step, 0.00 ms" in found
    none = "not distinguishable from 0, came back in the fixed cost of the fit, and 4.5"
    assert found.count(none) == 1
    low, high = drawing.axes[1].get_xlim()
    assert low < 11 < high


def test_one_large_cost_does_not_squeeze_the_others_to_zero():
    other = sweep(loop="fit", **fitted(2e-3, 5e-4, half=0.5))
    drawing, _, _ = drawn("step_time", sweep(**fitted(60e-3, 5e-4, half=1.5)), other)
    fixed, per_image = drawing.axes[1:]
    assert "linear around zero" in note(drawing)
    assert fixed.get_xscale() == "symlog" and per_image.get_xscale() == "linear"
    place = fixed.transData.transform([(0, 0), (2, 0), (150, 0)])[:, 0]
    assert place[1] - place[0] > 0.1 * (place[2] - place[0])


def test_a_line_through_two_points_shows_nothing_of_its_fit():
    drawing, _, _ = drawn("step_time", sweep(sizes=(16, 128), **fitted(1e-3, 5e-4)))
    assert "Through two batch sizes a line always goes" in note(drawing)
    assert "off the line" not in note(drawing)
    assert "off the line" in note(drawn("step_time", sweep(**fitted(1e-3, 5e-4)))[0])


def test_an_axis_around_zero_has_labels_on_its_logarithmic_part():
    other = sweep(loop="eager", **fitted(2.5e-3, 5e-4))
    drawing, _, _ = drawn("step_time", sweep(**fitted(0.12e-3, 5e-4, half=8.0)), other)
    fixed = drawing.axes[1]
    assert fixed.get_xscale() == "symlog"
    assert [tick for tick in fixed.get_xticks() if tick >= 0.12] == pytest.approx([0.3, 1])
