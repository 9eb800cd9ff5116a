"""Tries of batch sizes, utilisation over time and profiles, from made-up tables."""

import math

import numpy as np
import pandas
import pytest
from matplotlib.patches import Rectangle

from batchscope.figures.kinds import profile
from drawing import drawn, legend, lines, reread, titles
from made_sweeps import first, tables_of

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
