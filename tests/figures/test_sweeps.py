"""Times, utilisation and memory by batch size, from made-up tables."""

import math

import numpy as np
import pytest

import made_sweeps
from batchscope import figures
from batchscope.figures.kinds import sweep as sweep_figures
from drawing import bars, drawn, legend, titles
from made_sweeps import LIMITS, POWERS, fitted, line, points, sweep, tables, tables_of
from test_machine_figures import busy

pytestmark = pytest.mark.filterwarnings("error")


def across(axes):
    """Return the heights of the lines across a panel."""
    return sorted(item.get_ydata()[0] for item in axes.lines if list(item.get_xdata()) == [0, 1])


def ringed(axes, size):
    """Return the batch sizes, as log2, of markers of one size without a filling."""
    rings = [item for item in axes.lines if item.get_fillstyle() == "none"]
    return [x for ring in rings if ring.get_markersize() == size for x in ring.get_xdata()]


def test_medians_and_quartiles_of_both_panels():
    drawing, _ = made_sweeps.drawn("throughput", sweep())
    seconds = np.array([2e-3 + 5e-4 * size for size in POWERS])
    for axes, medians in zip(drawing.axes, (1 / seconds, POWERS / seconds), strict=True):
        ((x, y),) = points(axes)
        assert x == pytest.approx(np.log2(POWERS)) and y == pytest.approx(medians)
        ends = bars(axes.containers[0])[:, :, 1]
        assert ends == pytest.approx(np.column_stack([0.99 * medians, 1.01 * medians]))
    assert [axes.get_ylabel() for axes in drawing.axes] == ["iterations/s", "examples/s"]
    assert not legend(drawing)


def test_a_dense_range_has_linear_axes_from_zero():
    drawing, _ = made_sweeps.drawn("throughput", sweep(made_sweeps.DENSE))
    axes = drawing.axes[1]
    assert axes.get_yscale() == "linear" and axes.get_ylim()[0] == 0
    assert axes.get_xlim() == pytest.approx((0, 1.03 * 66))
    ((x, _),) = points(axes)
    assert set(x) == set(made_sweeps.DENSE) and {16, 32, 48} <= set(axes.get_xticks())
    assert sweep_figures.is_dense(range(1, 13)) and not sweep_figures.is_dense(range(1, 12))


NO_KNEE = {"knee_fitted": math.nan, "knee_batch_size": math.nan}


@pytest.mark.parametrize(
    ("changed", "heights", "knees"),
    [
        ({}, [1710], [36]),
        ({"noise_floor": 8.1}, [], []),
        (NO_KNEE, [1710], []),
        ({"knee_fitted": math.nan}, [1710], [48]),
    ],
)
def test_the_plateau_and_the_knee_of_throughput(changed, heights, knees):
    drawing, _ = made_sweeps.drawn("throughput", sweep(**{**LIMITS, **changed}))
    left, right = drawing.axes
    assert across(right) == pytest.approx(heights) and across(left) == []
    assert np.exp2(ringed(right, 7)) == pytest.approx(knees)
    assert right.get_ylim()[1] < 3000
    assert len(legend(drawing)) == len(heights) + len(knees)


@pytest.mark.parametrize("name", ["throughput", "step_time"])
def test_disturbed_and_failed_sizes_are_marked(name):
    drawing, _ = made_sweeps.drawn(name, sweep(disturbed=(4,), lost=(32, 64)), sweep(loop="eager"))
    axes = drawing.axes[0]
    (cross,) = [item for item in axes.lines if item.get_marker() == "x"]
    assert cross.get_xdata() == pytest.approx([5, 6])
    assert ringed(axes, 8) == pytest.approx([2])
    assert legend(drawing)[2:] == ["disturbed", "out of memory"]
    figure = figures.FIGURES[name]
    assert figures.select(tables(), figure).empty
    assert figures.select(tables(sweep(lost=POWERS)), figure).empty


def test_the_fitted_line_of_a_step():
    drawing, _ = made_sweeps.drawn("step_time", sweep(time=line(2e-3, 5e-4), **fitted(3e-3, 4e-4)))
    (axes,) = drawing.axes  # the costs of one series would be two points
    assert axes.get_yscale() == "log"
    assert points(axes)[0][1] == pytest.approx([2e-3 + 5e-4 * size for size in POWERS])
    (fit,) = [item for item in axes.lines if len(item.get_xdata()) == 60]
    assert fit.get_ydata() == pytest.approx(3e-3 + 4e-4 * 2 ** fit.get_xdata())


def test_costs_have_one_row_per_series_with_its_interval():
    costs = dict(zip(made_sweeps.LOOPS, (1e-3, 6e-3, -5e-4, 4e-3, 3e-3), strict=True))
    sweeps = [sweep(loop=loop, **fitted(a, 2e-4 + a, half=0.5)) for loop, a in costs.items()]
    drawing, frame = made_sweeps.drawn("step_time", *sweeps)
    assert titles(drawing) == ["Time per step", "Fixed cost per step", "Cost per example"]
    fixed = drawing.axes[1]
    for row, (container, a) in enumerate(zip(fixed.containers, costs.values(), strict=True)):
        (x,), (y,) = container.lines[0].get_data()
        assert (x, y) == pytest.approx((max(a, 0), row))  # no step takes less than no time
        ((low, high),) = bars(container)
        assert (low[0], high[0]) == pytest.approx((max(0.5 * a, 0), max(1.5 * a, 0)))
    assert fixed.get_ylim()[0] > fixed.get_ylim()[1] and fixed.get_xlim()[0] == 0
    assert frame["fixed_seconds_low"].min() < 0  # the table has the fitted value
    assert len([label for label in fixed.get_yticklabels() if label.get_text()]) == 5


def test_utilisation_has_a_panel_for_each_measured_column():
    drawing, _ = drawn("utilisation", tables_of(utilisation=busy()))
    always = ["CPU utilisation", "Resident memory", "Memory of tensors"]
    assert titles(drawing) == [*always, "CPU at zero"]
    cpu, at = drawing.axes[0], np.log2([1, 8, 64, 256])
    assert points(cpu)[0][1] == pytest.approx(20 + 8 * at)
    ends = np.column_stack([18 + 8 * at, 23 + 8 * at])
    assert bars(cpu.containers[0])[:, :, 1] == pytest.approx(ends)
    assert cpu.get_ylim()[0] == 0 and cpu.get_yscale() == "linear"
    changed = {"process_percent": 112.0, "process_percent_q3": None, "process_zero_share": 0}
    crowded = [{**row, **changed} for row in busy(gpu=True, device="gpu")]
    drawing, _ = drawn("utilisation", tables_of(utilisation=crowded))
    assert {"GPU utilisation", "GPU memory traffic", "Energy per epoch"} <= {*titles(drawing)}
    assert "CPU at zero" not in titles(drawing)
    assert set(points(drawing.axes[0])[0][1]) == {100.0}
