"""Times, utilisation and memory against batch size, from tables made up by hand."""

import math

import numpy as np
import pytest
from test_machine_figures import busy

from batchscope import figures
from batchscope.figures.kinds import sweep as sweep_figures
from drawing import bars, drawn, legend, titles
from made_sweeps import (
    DENSE,
    LIMITS,
    LOOPS,
    POWERS,
    SPARSE,
    fitted,
    line,
    points,
    stairs,
    sweep,
    tables,
    tables_of,
)
from made_sweeps import drawn as drawn_sweeps

pytestmark = pytest.mark.filterwarnings("error")


def across(axes):
    """Returns the heights of the lines across a panel."""
    return sorted(one.get_ydata()[0] for one in axes.lines if list(one.get_xdata()) == [0, 1])


def ringed(axes, size):
    """Returns the batch sizes, as log2, of markers of one size without a filling."""
    found = [one for one in axes.lines if one.get_fillstyle() == "none"]
    return [x for one in found if one.get_markersize() == size for x in one.get_xdata()]


def test_medians_and_quartiles_of_both_panels():
    drawing, _ = drawn_sweeps("throughput", sweep())
    seconds = np.array([2e-3 + 5e-4 * size for size in POWERS])
    for axes, expected in zip(drawing.axes, (1 / seconds, POWERS / seconds), strict=True):
        ((x, y),) = points(axes)
        assert x == pytest.approx(np.log2(POWERS)) and y == pytest.approx(expected)
        ends = bars(axes.containers[0])
        assert ends[:, 0, 1] == pytest.approx(0.99 * expected)
        assert ends[:, 1, 1] == pytest.approx(1.01 * expected)
    assert [axes.get_ylabel() for axes in drawing.axes] == ["iterations/s", "examples/s"]
    assert not legend(drawing)


@pytest.mark.parametrize("sizes", [DENSE, SPARSE])
def test_steps_are_visible_in_a_dense_range(sizes):
    """Throughput falls after 16, 32 and 48, by a part of the panel that the eye sees."""
    drawing, _ = drawn_sweeps("throughput", sweep(sizes, stairs(2e-3, 5e-4, 16)))
    axes = drawing.axes[1]
    assert axes.get_yscale() == "linear" and axes.get_ylim()[0] == 0
    ((x, y),) = points(axes)
    speed = dict(zip(x, y, strict=True))
    assert set(speed) == set(sizes) and {16, 32, 48} <= set(axes.get_xticks())
    for before, after in ((16, 18), (32, 34), (48, 50)):
        assert after not in speed or speed[before] - speed[after] > 0.15 * axes.get_ylim()[1]


@pytest.mark.parametrize(("sizes", "dense"), [(range(1, 13), True), (range(1, 12), False)])
def test_what_is_a_dense_range(sizes, dense):
    assert sweep_figures.is_dense(sizes) is dense


NOISY = {**LIMITS, "noise_floor": 8.1}
NO_KNEE = {"knee_fitted": math.nan, "knee_batch_size": math.nan}


@pytest.mark.parametrize(
    ("given", "heights", "knees"),
    [
        ({}, [1710], [36]),
        (NOISY, [], []),
        (NO_KNEE, [1710], []),
        ({"knee_fitted": math.nan}, [1710], [48]),
        ({**NO_KNEE, "plateau_examples_per_second": math.nan}, [], []),
    ],
)
def test_the_plateau_and_the_knee_of_throughput(given, heights, knees):
    drawing, _ = drawn_sweeps("throughput", sweep(**{**LIMITS, **given}))
    left, right = drawing.axes
    assert across(right) == pytest.approx(heights) and across(left) == []
    assert np.exp2(ringed(right, 7)) == pytest.approx(knees)
    assert right.get_ylim()[1] < 3000
    assert len(legend(drawing)) == len(heights) + len(knees)


@pytest.mark.parametrize("name", ["throughput", "step_time"])
def test_what_was_disturbed_and_what_ran_out_of_memory_is_marked(name):
    made = sweep(disturbed=(4,), lost=(32, 64)), sweep(loop="eager")
    drawing, _ = drawn_sweeps(name, *made)
    axes = drawing.axes[0]
    (cross,) = [item for item in axes.lines if item.get_marker() == "x"]
    assert cross.get_xdata() == pytest.approx([5, 6])
    assert ringed(axes, 8) == pytest.approx([2])
    assert legend(drawing)[2:] == ["disturbed", "out of memory"]


@pytest.mark.parametrize("name", ["throughput", "step_time"])
def test_where_nothing_was_timed_there_is_no_figure(name):
    figure = figures.FIGURES[name]
    assert figures.select(tables(), figure).empty
    assert figures.select(tables(sweep(lost=POWERS)), figure).empty


def test_the_fitted_line_of_a_step():
    drawing, _ = drawn_sweeps("step_time", sweep(time=line(2e-3, 5e-4), **fitted(3e-3, 4e-4)))
    (axes,) = drawing.axes  # of one series the costs would be two points
    assert axes.get_yscale() == "log"
    assert points(axes)[0][1] == pytest.approx([2e-3 + 5e-4 * size for size in POWERS])
    (fit,) = [item for item in axes.lines if len(item.get_xdata()) == 60]
    assert fit.get_ydata() == pytest.approx(3e-3 + 4e-4 * 2 ** fit.get_xdata())


def test_costs_have_one_row_per_series_with_its_interval():
    costs = dict(zip(LOOPS, (1e-3, 6e-3, -5e-4, 4e-3, 3e-3), strict=True))
    made = [sweep(loop=loop, **fitted(a, 2e-4 + a, half=0.5)) for loop, a in costs.items()]
    drawing, frame = drawn_sweeps("step_time", *made)
    assert titles(drawing) == ["Time per step", "Fixed cost per step", "Cost per example"]
    fixed = drawing.axes[1]
    for row, (container, a) in enumerate(zip(fixed.containers, costs.values(), strict=True)):
        (x,), (y,) = container.lines[0].get_data()
        assert (x, y) == pytest.approx((max(a, 0), row))  # no step takes less than no time
        ((low, high),) = bars(container)
        assert (low[0], high[0]) == pytest.approx((max(0.5 * a, 0), max(1.5 * a, 0)))
    assert fixed.get_ylim()[0] > fixed.get_ylim()[1] and fixed.get_xlim()[0] == 0
    assert frame["fixed_seconds_low"].min() < 0  # the table has what was fitted
    assert len([label for label in fixed.get_yticklabels() if label.get_text()]) == 5


def test_utilisation_has_a_panel_for_what_is_known():
    drawing, _ = drawn("utilisation", tables_of(utilisation=busy()))
    assert titles(drawing) == [
        "CPU utilisation",
        "Resident memory",
        "Memory of tensors",
        "CPU at zero",
    ]
    at = np.log2([1, 8, 64, 256])
    cpu = drawing.axes[0]
    assert points(cpu)[0][1] == pytest.approx(20 + 8 * at)
    assert bars(cpu.containers[0])[:, :, 1] == pytest.approx(
        np.column_stack([18 + 8 * at, 23 + 8 * at])
    )
    assert cpu.get_ylim()[0] == 0 and cpu.get_yscale() == "linear"
    drawing, _ = drawn("utilisation", tables_of(utilisation=busy(gpu=True, device="gpu")))
    assert {"GPU utilisation", "GPU memory traffic", "Energy per epoch"} <= {*titles(drawing)}
    over = {"process_percent": 112.0, "process_percent_q3": None}
    crowded = [{**row, **over} for row in busy()]
    drawing, _ = drawn("utilisation", tables_of(utilisation=crowded))
    assert set(points(drawing.axes[0])[0][1]) == {100.0}
    never = [{**row, "process_zero_share": 0} for row in busy()]
    assert "CPU at zero" not in titles(drawn("utilisation", tables_of(utilisation=never))[0])
