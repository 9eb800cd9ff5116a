"""Figures of timings, from made-up tables: sweeps, searches, samples and profiles."""

import math

import numpy as np
import pandas
import pytest
from matplotlib.patches import Rectangle

from batchscope import figures
from batchscope.figures.kinds import profile
from batchscope.figures.kinds import sweep as sweep_figures
from batchscope.study import run_factors
from batchscope.study.table_entries import TIMING_FIRST_COLUMNS, TIMING_TABLES
from drawing import bars, drawn, legend, lines, reread, titles

pytestmark = pytest.mark.filterwarnings("error")
POWERS = (1, 2, 4, 8, 16, 32, 64)
DENSE = tuple(range(1, 67))
LOOPS = ("graph", "eager", "function", "fit", "fit_steps")


def line(a, b):
    return lambda size: a + b * size


def sweep(sizes=POWERS, time=None, lost=(), disturbed=(), **other):
    """Returns the rows of throughput.csv and the row of sweeps.csv of one sweep.

    Args:
        time: Batch size -> seconds per step, 2 ms + 0.5 ms per example unless given; quartiles lie
            1 % around it.
        lost: Batch sizes that ran out of memory.
        disturbed: Batch sizes with two disturbed blocks of seven.
        other: Factors, and columns of sweeps.csv.
    """
    time, rows = time or line(2e-3, 5e-4), []
    factors = {"loop": other.pop("loop", "graph")}
    for size in sizes:
        row = {**first(**factors), "batch_size": size, "status": "finished", "steps": 10}
        row |= {"blocks": 7, "disturbed_blocks": 2 if size in disturbed else 0}
        for end, factor in (("", 1.0), ("_q1", 0.99), ("_q3", 1.01)):
            row[f"seconds_per_step{end}"] = factor * time(size)
            row[f"iterations_per_second{end}"] = factor / time(size)
            row[f"examples_per_second{end}"] = factor * size / time(size)
        out_of_memory = {**first(**factors), "batch_size": size, "status": "out_of_memory"}
        rows.append(out_of_memory if size in lost else row)
    return rows, {**first(**factors), "status": "finished", **other}


def fitted(a, b, half=0.0, **other):
    """Returns the columns of a fit: intervals reach `half` of a value to either side."""
    found = {"half_batch": a / b if a > 0 else math.nan, "line_residual": 0.02}
    for name, value in (("fixed_seconds", a), ("seconds_per_image", b)):
        wide = half * abs(value)
        found |= {name: value, f"{name}_low": value - wide, f"{name}_high": value + wide}
    return {**found, "noise_floor": 1.03, **other}


def first(**given):
    """Returns what a row of a table of timings is of."""
    factors = {name: factor.default for name, factor in run_factors.SWEEP_FACTORS.items()}
    del factors["batch_size"]
    factors |= {"machine": "laptop", "dataset": "digits", "model": "cnn", "optimizer": "sgd"}
    factors |= {"dataset_digest": "12345678", "model_digest": "", "device": "cpu", "threads": 0}
    factors |= given
    factors["sweep"] = "+".join(str(value) for value in factors.values())
    return {name: factors[name] for name in TIMING_FIRST_COLUMNS}


def tables_of(**rows):
    """Returns an experiment's tables of timings, as they are read back from CSV files."""
    written = {}
    for name in ("throughput", "sweeps", "utilisation", "samples", "largest", "profiles"):
        columns = [*TIMING_FIRST_COLUMNS, *TIMING_TABLES[name].columns]
        written[name] = reread(pandas.DataFrame(rows.get(name, []), columns=columns))
    return figures.FigureTables(**written)


def tables(*made):
    """Returns the tables of sweeps."""
    rows = [row for part, _ in made for row in part]
    return tables_of(throughput=rows, sweeps=[summary for _, summary in made])


def points(axes):
    """Returns the medians of every series: a list of x and y."""
    return [container.lines[0].get_data() for container in axes.containers]


LIMITS = {
    "plateau_examples_per_second": 1900.0,
    "knee_fitted": 36.0,
    "knee_fitted_low": 32.0,
    "knee_fitted_high": 40.5,
    "knee_batch_size": 48,
    "still_rising": False,
    "noise_floor": 1.034,
}


def across(axes):
    """Return the heights of the lines across a panel."""
    return sorted(item.get_ydata()[0] for item in axes.lines if list(item.get_xdata()) == [0, 1])


def ringed(axes, size):
    """Return the batch sizes, as log2, of markers of one size without a filling."""
    rings = [item for item in axes.lines if item.get_fillstyle() == "none"]
    return [x for ring in rings if ring.get_markersize() == size for x in ring.get_xdata()]


def test_medians_and_quartiles_of_both_panels():
    drawing, _ = drawn("throughput", tables(sweep()))
    seconds = np.array([2e-3 + 5e-4 * size for size in POWERS])
    for axes, medians in zip(drawing.axes, (1 / seconds, POWERS / seconds), strict=True):
        ((x, y),) = points(axes)
        assert x == pytest.approx(np.log2(POWERS)) and y == pytest.approx(medians)
        ends = bars(axes.containers[0])[:, :, 1]
        assert ends == pytest.approx(np.column_stack([0.99 * medians, 1.01 * medians]))
    assert [axes.get_ylabel() for axes in drawing.axes] == ["iterations/s", "examples/s"]
    assert not legend(drawing)


def test_a_dense_range_has_linear_axes_from_zero():
    drawing, _ = drawn("throughput", tables(sweep(DENSE)))
    axes = drawing.axes[1]
    assert axes.get_yscale() == "linear" and axes.get_ylim()[0] == 0
    assert axes.get_xlim() == pytest.approx((0, 1.03 * 66))
    ((x, _),) = points(axes)
    assert set(x) == set(DENSE) and {16, 32, 48} <= set(axes.get_xticks())
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
    drawing, _ = drawn("throughput", tables(sweep(**{**LIMITS, **changed})))
    left, right = drawing.axes
    assert across(right) == pytest.approx(heights) and across(left) == []
    assert np.exp2(ringed(right, 7)) == pytest.approx(knees)
    assert right.get_ylim()[1] < 3000
    assert len(legend(drawing)) == len(heights) + len(knees)


@pytest.mark.parametrize("name", ["throughput", "step_time"])
def test_disturbed_and_failed_sizes_are_marked(name):
    drawing, _ = drawn(name, tables(sweep(disturbed=(4,), lost=(32, 64)), sweep(loop="eager")))
    axes = drawing.axes[0]
    (cross,) = [item for item in axes.lines if item.get_marker() == "x"]
    assert cross.get_xdata() == pytest.approx([5, 6])
    assert ringed(axes, 8) == pytest.approx([2])
    assert legend(drawing)[2:] == ["disturbed", "out of memory"]
    figure = figures.FIGURES[name]
    assert figures.select(tables(), figure).empty
    assert figures.select(tables(sweep(lost=POWERS)), figure).empty


def test_the_fitted_line_of_a_step():
    drawing, _ = drawn("step_time", tables(sweep(time=line(2e-3, 5e-4), **fitted(3e-3, 4e-4))))
    (axes,) = drawing.axes  # the costs of one series would be two points
    assert axes.get_yscale() == "log"
    assert points(axes)[0][1] == pytest.approx([2e-3 + 5e-4 * size for size in POWERS])
    (fit,) = [item for item in axes.lines if len(item.get_xdata()) == 60]
    assert fit.get_ydata() == pytest.approx(3e-3 + 4e-4 * 2 ** fit.get_xdata())


def test_costs_have_one_row_per_series_with_its_interval():
    costs = dict(zip(LOOPS, (1e-3, 6e-3, -5e-4, 4e-3, 3e-3), strict=True))
    sweeps = [sweep(loop=loop, **fitted(a, 2e-4 + a, half=0.5)) for loop, a in costs.items()]
    drawing, frame = drawn("step_time", tables(*sweeps))
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


SIZES = (1, 8, 64, 256)


def busy(gpu=False, **factors):
    """Return rows of utilisation.csv."""
    size = np.array(SIZES)
    level = 20 + 8 * np.log2(size)
    used = {"process_percent": level, "process_percent_q1": level - 2, "batch_size": size}
    used |= {"process_percent_q3": level + 3, "machine_percent": level / 2}
    used |= {"process_zero_share": 0.25 / size, "memory_peak_mb": 600 + 0.1 * size}
    used |= {"tensorflow_peak_mb": 40 + 0.5 * size, "status": "finished"}
    if gpu:
        used |= {"gpu_percent": level / 3, "gpu_zero_share": 0.5 / size}
        used |= {"gpu_bandwidth_percent": level / 12, "gpu_memory_peak_mb": 9000}
        used |= {"joules_per_epoch": 4000 / size**0.5}
    return pandas.DataFrame(used).assign(**first(**factors)).to_dict("records")


def sampled(sizes=SIZES, seconds=5.0, pause=1.0, gpu=False, **factors):
    """Return rows of samples.csv: the rests are at 2 %, trainings at 50 %."""
    spans = [(pause, None, 2.0)]
    for size in sizes:
        spans += [(seconds, size, 50.0), (pause, None, 2.0)]
    rows, start = [{**first(**factors), "batch_size": None, "seconds": 0.0, "memory_mb": 500}], 0.0
    for span, size, percent in spans:
        for time in start + np.arange(1, round(span / 0.1) + 1) * 0.1:
            row = {**first(**factors), "batch_size": size, "seconds": round(time, 3)}
            row |= {"process_percent": percent, "machine_percent": percent / 2 + 3}
            row |= {"memory_mb": 500 + (size or 0)}
            rows.append(row | ({"gpu_percent": percent / 2, "gpu_memory_mb": 9000} if gpu else {}))
        start += span
    return rows


def profiled(shares, **factors):
    """Return rows of profiles.csv; shares: batch size -> (compute, input, host, steps/s)."""
    rows, columns = [], ("compute", "input", "host", "steps_per_second")
    for size, values in shares.items():
        row = {**first(**factors), "batch_size": size, "status": "finished", "steps": 50}
        row |= dict(zip(columns, values, strict=True)) if values else {"status": "out_of_memory"}
        rows.append(row)
    return rows


def goes_through(axes, at, heights):
    """Return whether a line of a panel goes through these points."""
    lines = (np.array(line.get_data(), float) for line in axes.lines)
    return any(line.shape[1] == len(at) and np.allclose(line, [at, heights]) for line in lines)


TRIES = {
    1: ("fits", 202.0),
    256: ("fits", 712.0),
    512: ("out_of_memory", 1100.0),
    384: ("fits", 968.0),
    448: ("over_limit", 1040.0),
    416: ("killed", math.nan),
}


def searches(*limits):
    """Return the rows of both tables of searches, with a machine and its limit for each."""
    tries, sweeps = [], []
    for machine, limit in limits:
        tries += [
            {**first(machine=machine), "batch_size": size, "outcome": outcome, "peak_mb": peak}
            for size, (outcome, peak) in TRIES.items()
        ]
        search = {"max_batch_size": 384, "max_batch_size_bound": "resolved"}
        search |= {"memory_limit_mb": limit, "memory_fixed_mb": 200.0, "memory_mb_per_image": 2.0}
        # The times of all loops have the same search; a sweep of another model has none.
        sweeps += [{**first(machine=machine, loop=loop), **search} for loop in ("graph", "eager")]
    return tables_of(largest=tries, sweeps=[*sweeps, first(model="other")])


def test_tries_have_markers_by_outcome_and_each_search_has_its_limit():
    searched = searches(("laptop", 1000.0), ("cluster", 5000.0))
    drawing, frame = drawn("max_batch_size", searched)
    assert titles(drawing) == ["Laptop", "Cluster"] and len(frame) == 2 * len(TRIES)
    axes, other = drawing.axes
    assert goes_through(other, [0, 1], [5000, 5000])
    assert goes_through(axes, np.log2([1, 256, 384]), [202, 712, 968])
    assert goes_through(axes, [9.0], [1100]) and goes_through(axes, np.log2([448]), [1040])
    top = axes.get_ylim()[1]
    assert goes_through(axes, np.log2([416]), [top])  # killed, of unknown memory: at the edge
    assert goes_through(axes, [0, 1], [1000, 1000])
    ring = next(line for line in axes.lines if line.get_markersize() == 11)
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (math.log2(384), 968)
    fit = next(line for line in axes.lines if len(line.get_xdata()) == 60)
    assert np.allclose(fit.get_ydata(), 200 + 2 * 2 ** np.asarray(fit.get_xdata()))
    keys = ["fits", "out of memory", "over limit", "killed", "largest that fits", "limit", "fit"]
    assert legend(drawing) == keys and "384" in lines(drawing)


@pytest.mark.parametrize("pause", [0.0, 1.0])
def test_trainings_are_found_with_and_without_rests(pause):
    frame = pandas.DataFrame(sampled((1, 8), seconds=2.0, pause=pause))
    phases = [(1, pause, pause + 2), (8, 2 * pause + 2, 2 * pause + 4)]
    assert np.array(profile.training_phases(reread(frame))) == pytest.approx(np.array(phases))


def test_utilisation_over_time_shades_trainings_and_names_them():
    made = tables_of(samples=sampled(gpu=True, device="gpu"))
    drawing, _ = drawn("utilisation_over_time", made)
    upper, lower = drawing.axes
    spans = [patch for patch in upper.patches if isinstance(patch, Rectangle)]
    edges = [(span.get_x(), span.get_x() + span.get_width()) for span in spans]
    assert edges == [pytest.approx((1 + 6 * place, 6 + 6 * place)) for place in range(4)]
    labels = {text.get_text(): text.xy[0] for text in upper.texts if text.get_text().isdigit()}
    assert labels == {str(s): pytest.approx(3.5 + 6 * i) for i, s in enumerate(SIZES)}
    process = next(line for line in upper.lines if np.nanmax(line.get_ydata()) == 50.0)
    assert process.get_drawstyle() == "steps-pre"  # a sample is of the time before it
    assert np.nanmax(np.concatenate([line.get_ydata() for line in lower.lines])) == 9000
    assert upper.get_xlim() == lower.get_xlim() == pytest.approx((0, 25))
    assert upper.get_yscale() == "linear" and len(legend(drawing)) == 3


def test_shares_of_a_profile_are_stacked_under_their_configuration():
    rows = profiled({1: (0.2, 0.3, 0.5, 1234.0), 64: (0.93, 0.03, 0.04, 8.5)}, loop="fit")
    rows += profiled({8: None}, loop="graph")
    rows[0] |= {"process_percent": 112.0, "gpu_percent": 33.0}
    drawing, _ = drawn("profile", tables_of(profiles=rows), rendered=True)
    (axes,) = drawing.axes
    edges = np.array(sorted((bar.get_y(), bar.get_x(), bar.get_width()) for bar in axes.patches))
    assert edges[:3, 1:] == pytest.approx(np.array([(0.0, 0.2), (0.2, 0.3), (0.5, 0.5)]))
    assert edges[3:, 1:] == pytest.approx(np.array([(0.0, 0.93), (0.93, 0.03), (0.96, 0.04)]))
    assert {"20 %", "30 %", "50 %", "93 %", "1,234", "8.5", "steps/s"} <= lines(drawing)
    assert not {"3 %", "4 %"} & lines(drawing)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "64", "8"]
    headings = {"Keras fit, arrays in memory", "Loop in the graph, arrays in memory"}
    assert {*headings, "out of memory", "CPU %", "GPU %", "100", "33"} <= lines(drawing)
