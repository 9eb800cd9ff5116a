"""Figures of utilisation, memory and profiles, from tables made up by hand."""

import math

import numpy as np
import pandas
import pytest
from matplotlib.patches import Rectangle

from batchscope import figures
from batchscope.catalogue.timings import OF_SWEEPS
from batchscope.figures import max_batch_size, profile, utilisation, utilisation_over_time
from batchscope.figures.drawing import canvas
from drawing import bars, drawn, hollow, legend, lines, note, reread, titles
from made_sweeps import first, tables_of

NAMES = ("utilisation", "utilisation_over_time", "max_batch_size", "profile")
SIZES = (1, 8, 64, 256)


def busy(sizes=SIZES, gpu=False, failed=(), per_image=0.5, of="tensorflow_peak_mb", **given):
    """Returns made-up rows of utilisation.csv; `of`: what memory per example is read from."""
    rows = []
    for size in sizes:
        row = {**first(**given), "batch_size": size, "status": "finished"}
        if size in failed:
            rows.append(row | {"status": "out_of_memory"})
            continue
        level = 20 + 8 * math.log2(size)
        row |= {"process_percent": level, "process_percent_q1": level - 2}
        row |= {"process_percent_q3": level + 3, "machine_percent": level / 2}
        row |= {"process_zero_share": 0.25 / size, "memory_peak_mb": 600 + 0.1 * size}
        row |= {"tensorflow_peak_mb": 40 + per_image * size}
        for end, factor in (("", 1.0), ("_low", 0.8), ("_high", 1.2)) if of else ():
            row |= {f"memory_mb_per_image{end}": factor * per_image, "memory_of": of}
        if gpu:
            level = level / 3
            row |= {"gpu_percent": level, "gpu_percent_q1": level - 1, "gpu_percent_q3": level + 1}
            row |= {"gpu_zero_share": 0.5 / size, "gpu_bandwidth_percent": level / 4}
            row |= {"gpu_memory_peak_mb": 9000, "joules_per_epoch": 4000 / size**0.5}
        rows.append(row)
    return rows


def sampled(sizes=SIZES, seconds=5.0, pause=1.0, interval=0.1, gpu=False, **given):
    """Returns made-up rows of samples.csv: the rests are at 2 %, trainings at 50 %."""
    rows, time = [], 0.0

    def stay(span, size, percent):
        nonlocal time
        stop = time + span
        while time < stop - 1e-9:
            time = min(time + interval, stop)
            row = {**first(**given), "batch_size": size, "seconds": round(time, 3)}
            row |= {"process_percent": percent, "machine_percent": percent / 2 + 3}
            row |= {"memory_mb": 500 + (size or 0)}
            if gpu:
                row |= {"gpu_percent": percent / 2, "gpu_memory_mb": 9000}
            rows.append(row)

    rows.append({**first(**given), "batch_size": None, "seconds": 0.0, "memory_mb": 500})
    for size in sizes:
        stay(pause, None, 2.0)
        stay(seconds, size, 50.0)
    stay(pause, None, 2.0)
    return rows


def tried(outcomes, limit=1000.0, bound="resolved", fixed=200.0, per_image=2.0, **given):
    """Returns made-up rows of largest.csv and of sweeps.csv.

    Args:
        outcomes: Batch size -> (outcome, peak), in the order of the tries.
    """
    tries = [
        {**first(**given), "batch_size": size, "outcome": outcome, "peak_mb": peak, "seconds": 3.0}
        for size, (outcome, peak) in outcomes.items()
    ]
    fitting = [size for size, (outcome, _) in outcomes.items() if outcome == "fits"]
    found = {"max_batch_size": max(fitting, default=0), "max_batch_size_bound": bound}
    found |= {"memory_limit_mb": limit, "memory_fixed_mb": fixed, "memory_mb_per_image": per_image}
    return tries, found


def profiled(shares, **given):
    """Returns made-up rows of profiles.csv: batch size -> (compute, input, host, steps/s)."""
    rows = []
    for size, found in shares.items():
        row = {**first(**given), "batch_size": size, "status": "finished", "steps": 50}
        if found is None:
            rows.append(row | {"status": "out_of_memory"})
        else:
            named = zip(("compute", "input", "host", "steps_per_second"), found, strict=True)
            rows.append(row | dict(named))
    return rows


def shown(axes, at, heights):
    """Returns whether a line of a panel goes through these points."""
    found = (np.array(line.get_data(), float) for line in axes.lines)
    return any(line.shape[1] == len(at) and np.allclose(line, [at, heights]) for line in found)


SHAPES = {
    "empty": {},
    "one_size": {
        "utilisation": busy((32,)),
        "samples": sampled((32,), seconds=1.0),
        "profiles": profiled({32: (0.5, 0.2, 0.3, 12.0)}),
    },
    "nothing_ran": {
        "utilisation": busy(failed=SIZES),
        "samples": sampled((), seconds=1.0),
        "profiles": profiled({32: None}),
    },
    "two_machines": {
        "utilisation": busy() + busy(gpu=True, machine="cluster", device="gpu", failed=(256,)),
        "samples": sampled(seconds=1.0) + sampled((8,), 1.0, gpu=True, machine="cluster"),
        "profiles": profiled({8: (0.5, 0.2, 0.3, 12.0)})
        + profiled({8: (0.9, 0.0, 0.1, 3000.0)}, machine="cluster"),
    },
    "dense": {"utilisation": busy(range(1, 67)), "samples": sampled(range(1, 67), 0.3, 0.1)},
}


def searches(*found):
    """Returns the rows of two tables, from (result of `tried`, factors) of each search."""
    return {
        "largest": [row | given for (tries, _), given in found for row in tries],
        "sweeps": [{**first(**given), **summary} for (_, summary), given in found],
    }


TRIES = {1: ("fits", 300.0), 256: ("fits", 712.0), 512: ("out_of_memory", 1100.0)}
TRIES |= {384: ("fits", 968.0), 448: ("over_limit", 1040.0), 416: ("killed", math.nan)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("error")
@pytest.mark.slow
def test_every_shape_of_timing(shape):
    made = tables_of(**SHAPES[shape])
    for name in NAMES:
        drawing, frame = drawn(name, made, rendered=True)
        found = figures.FIGURES[name].found(frame)
        assert found == "" or found.endswith(".")
        if shape in ("empty", "nothing_ran"):
            assert found == "" or (name, shape) == ("utilisation_over_time", "nothing_ran")
        if shape == "one_size":
            assert "Machine: laptop." in lines(drawing) or name == "max_batch_size"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_the_same_bytes_for_the_same_data(name):
    samples = sampled((1, 8), seconds=0.5, pause=0.2)
    made = tables_of(utilisation=busy(), samples=samples, **searches((tried(TRIES), {})))
    figure = figures.FIGURES[name]
    frame = reread(figure.select(made))
    files = [canvas.svg_and_png(figure.draw(frame), figure.entry.title) for _ in range(2)]
    assert files[0] == files[1]
    assert figure.entry.measures[0] in OF_SWEEPS and len(figure.entry.caption) > 100


def test_utilisation_has_medians_quartiles_and_the_machine():
    drawing, _ = drawn("utilisation", tables_of(utilisation=busy()))
    assert titles(drawing) == ["CPU", "Peak memory", "Time at zero"]
    cpu, memory, zero = drawing.axes
    at, sizes = np.log2(SIZES), np.array(SIZES)
    level = 20 + 8 * at
    assert shown(cpu, at, level) and shown(cpu, at, level / 2) and shown(zero, at, 25 / sizes)
    (container, *_) = [found for found in cpu.containers if found.has_yerr]
    assert np.allclose(bars(container)[:, :, 1], np.column_stack([level - 2, level + 3]))
    assert shown(memory, at, 600 + 0.1 * sizes) and shown(memory, at, 40 + 0.5 * sizes)
    assert cpu.get_ylim()[0] == 0 and cpu.get_ylabel() == "CPU utilisation (%)"
    assert memory.get_yscale() == "log" and zero.get_yscale() == "linear"
    assert {"this process", "whole machine", "resident", "tensors"} <= lines(drawing)
    drawing, _ = drawn(
        "utilisation", tables_of(utilisation=[{**busy()[0], "process_zero_share": 0}])
    )
    assert titles(drawing) == ["CPU", "Peak memory"] and "No sample was at zero." in lines(drawing)


def test_what_is_known_of_a_gpu_has_panels_of_its_own():
    drawing, frame = drawn("utilisation", tables_of(utilisation=busy(gpu=True, device="gpu")))
    assert titles(drawing) == ["CPU", "GPU", "Peak memory", "Time at zero", "Energy per epoch"]
    at = np.log2(SIZES)
    _, gpu, memory, zero, energy = drawing.axes
    assert shown(gpu, at, (20 + 8 * at) / 3) and shown(gpu, at, (20 + 8 * at) / 12)
    assert shown(memory, at, np.full(4, 9000.0)) and shown(zero, at, 50 / np.array(SIZES))
    assert shown(energy, at, 4000 / np.sqrt(SIZES))
    found = utilisation.found(frame)
    assert "utilisation was 20.0 % (18.0 to 23.0 by quartiles) at batch size 1 and 84.0 %" in found
    assert "Median GPU utilisation was 6." in found
    assert "GPU energy per epoch was 4000 J at batch size 1 and 250 J at 256." in found


def test_a_training_that_others_disturbed_is_no_effect_of_the_batch_size():
    rows = busy()
    for row, flag in zip(rows, (False, False, False, True), strict=True):
        row["disturbed"] = flag
    drawing, frame = drawn("utilisation", tables_of(utilisation=rows))
    found = utilisation.found(frame)
    assert "by quartiles) at batch size 1 and 68.0 % (66.0 to 71.0 by quartiles) at 64." in found
    assert "Left out, since other processes disturbed it: batch size 256." in found
    assert "Disturbed by other processes (open markers) at batch size 256." in note(drawing)
    (mark,) = hollow(drawing.axes[0])
    assert [*mark.get_xdata(), *mark.get_ydata()] == [8, 84]
    assert "disturbed" not in "".join(lines(drawn("utilisation", tables_of(utilisation=busy()))[0]))
    # Nothing is reported of a machine that was never its own; the other keeps its name.
    rows += [row | {"machine": "cluster", "disturbed": True} for row in rows]
    found = utilisation.found(drawn("utilisation", tables_of(utilisation=rows))[1])
    expected = "Left out, since other processes disturbed them: batch sizes 256 (laptop); 1, 8"
    assert f"at 64 (laptop). {expected}" in found


def test_a_dense_range_has_a_linear_axis():
    drawing, _ = drawn("utilisation", tables_of(utilisation=busy(range(1, 67))))
    sizes = np.arange(1, 67)
    assert shown(drawing.axes[0], sizes, 20 + 8 * np.log2(sizes))


def test_two_machines_are_two_series_and_memory_that_ran_out_is_marked():
    made = tables_of(utilisation=busy() + busy(machine="cluster", failed=(256,), per_image=2.0))
    drawing, frame = drawn("utilisation", made)
    cpu = drawing.axes[0]
    assert shown(cpu, np.log2(SIZES), 20 + 8 * np.log2(SIZES))
    assert shown(cpu, np.log2(SIZES[:3]), 20 + 8 * np.log2(SIZES[:3]))
    assert shown(cpu, [8.0], [1.0])  # the cross at the upper edge
    assert "Out of memory (×) at batch size 256 (cluster)." in lines(drawing)
    assert legend(drawing) == ["laptop", "cluster"]
    found = utilisation.found(frame)
    assert "at 256 (laptop); 20.0 % (18.0 to 23.0 by quartiles) at batch size 1 and" in found
    assert "0.50 MB (95 % interval 0.40 to 0.60) (laptop); 2.00 MB" in found


def test_memory_per_image_is_reported_only_where_it_is_resolved():
    rows = busy(of="memory_peak_mb", machine="cluster")
    text = utilisation.found(utilisation.select(tables_of(utilisation=rows)))
    assert "peak resident memory, slope over batch size) was 0.50 MB" in text  # the next best
    text = utilisation.found(utilisation.select(tables_of(utilisation=busy(per_image=2.0) + rows)))
    assert "tensors hold at most, slope over batch size) was 2.00 MB" in text and "0.50" not in text
    assert "Memory" not in utilisation.found(
        utilisation.select(tables_of(utilisation=busy(of=None)))
    )


def test_a_value_that_is_missing_leaves_a_gap():
    rows = busy()
    rows[1]["process_percent"] = rows[1]["tensorflow_peak_mb"] = None
    drawing, frame = drawn("utilisation", tables_of(utilisation=rows))
    at = np.log2([1, 64, 256])
    assert shown(drawing.axes[0], at, 20 + 8 * at)
    assert "0.50 MB" in utilisation.found(frame)


def test_trainings_are_found_between_their_rests():
    made = tables_of(samples=sampled((1, 8), seconds=2.0, pause=1.0))
    _, frame = drawn("utilisation_over_time", made)
    found = np.array(utilisation_over_time.phases(frame))
    assert found == pytest.approx(np.array([(1, 1.0, 3.0), (8, 4.0, 6.0)]))
    without = reread(pandas.DataFrame(sampled((1, 8), seconds=2.0, pause=0.0)))
    found = np.array(utilisation_over_time.phases(without))
    assert found == pytest.approx(np.array([(1, 0.0, 2.0), (8, 2.0, 4.0)]))


def test_utilisation_over_time_shades_trainings_and_names_them():
    made = tables_of(samples=sampled(gpu=True, device="gpu"))
    drawing, frame = drawn("utilisation_over_time", made)
    upper, lower = drawing.axes
    spans = [patch for patch in upper.patches if isinstance(patch, Rectangle)]
    edges = [(span.get_x(), span.get_x() + span.get_width()) for span in spans]
    expected = [(1 + 6 * place, 6 + 6 * place) for place in range(4)]
    assert edges == [pytest.approx(edge) for edge in expected]
    assert spans[0].get_facecolor() == spans[2].get_facecolor() != spans[1].get_facecolor()
    labels = {text.get_text(): text.xy[0] for text in upper.texts if text.get_text().isdigit()}
    assert labels == {str(s): pytest.approx(3.5 + 6 * i) for i, s in enumerate(SIZES)}
    process = next(line for line in upper.lines if np.nanmax(line.get_ydata()) == 50.0)
    assert process.get_drawstyle() == "steps-pre"  # a sample is of the time before it
    assert np.nanmax(np.concatenate([line.get_ydata() for line in lower.lines])) == 9000
    assert upper.get_xlim() == lower.get_xlim() == pytest.approx((0, 25))
    assert utilisation_over_time.found(frame) == (
        "Mean CPU utilisation was 50.0 % while training and 2.0 % while resting. "
        "Mean GPU utilisation was 25.0 % while training and 1.0 % while resting."
    )


def test_work_between_two_trainings_is_no_rest():
    rows = sampled((1, 8), seconds=2.0, pause=1.0)
    for row in rows:
        row["phase"] = "training" if row["batch_size"] else None
    for row in rows[1:6] + rows[31:36]:  # the first half of each rest
        row |= {"phase": "lead_in", "process_percent": 100.0}
    _, frame = drawn("utilisation_over_time", tables_of(samples=rows))
    assert utilisation_over_time.found(frame) == (
        "Mean CPU utilisation was 50.0 % while training and 2.0 % while resting."
    )
    frame["phase"] = math.nan  # an older record: as far as it states it
    assert "50.0 % while training and 34.7 % while resting" in utilisation_over_time.found(frame)


def test_a_training_that_begins_with_a_sample_is_named_once():
    """Two trainings, the first sample of each with the time of the rest's last."""
    rows = []
    for row in sampled((8, 16), seconds=2.0, pause=1.0):
        if row["batch_size"] and not rows[-1]["batch_size"]:
            rows.append({**row, "seconds": rows[-1]["seconds"], "process_percent": 0.0})
        rows.append(row)
    drawing, frame = drawn("utilisation_over_time", tables_of(samples=rows))
    labels = [text.get_text() for text in drawing.axes[0].texts if text.get_text().isdigit()]
    assert labels == ["8", "16"]
    assert len(drawing.axes[0].patches) == 2
    assert "50.0 % while training and 2.0 % while resting" in utilisation_over_time.found(frame)


def test_many_trainings_are_named_upright_and_not_all():
    drawing, _ = drawn("utilisation_over_time", tables_of(samples=sampled(range(1, 67), 1.0)))
    labels = [text for text in drawing.axes[0].texts if text.get_text().isdigit()]
    assert labels[0].get_text() == "1" and labels[0].get_rotation() == 90
    assert 20 < len(labels) < 66


def test_samples_keep_their_order_in_every_series():
    rows = sampled(loop="eager") + sampled(loop="graph")
    drawing, frame = drawn("utilisation_over_time", tables_of(samples=rows[::-1]))
    assert titles(drawing)[::2] == ["Utilisation, loop in the graph", "Utilisation, eager"]
    for line in drawing.axes[0].lines:
        assert (np.diff(line.get_xdata()) > 0).all()
    assert "(loop in the graph); 50.0 % while training" in utilisation_over_time.found(frame)


def test_of_many_series_the_first_four_are_drawn():
    loops = ("graph", "eager", "function", "fit", "fit_steps")
    rows = [row for loop in loops for row in sampled((1,), 0.5, loop=loop)]
    drawing, _ = drawn("utilisation_over_time", tables_of(samples=rows))
    assert len(drawing.axes) == 8
    assert "The first 4 of 5 series; the CSV file holds all." in lines(drawing)


def test_tries_have_markers_by_outcome_and_the_limit_is_a_line():
    drawing, frame = drawn("max_batch_size", tables_of(**searches((tried(TRIES), {}))))
    (axes,) = drawing.axes
    assert shown(axes, np.log2([1, 256, 384]), [300, 712, 968])
    assert shown(axes, [9.0], [1100]) and shown(axes, np.log2([448]), [1040])
    assert shown(axes, np.log2([416]), [1.0])  # killed, of unknown memory: at the upper edge
    looks = [
        line for line in axes.lines if line.get_linestyle() == "None" and line.get_markersize() < 8
    ]
    assert len({line.get_marker() for line in looks}) == 4
    assert len({line.get_color() for line in looks}) == 4
    assert shown(axes, [0, 1], [1000, 1000])
    ring = next(line for line in axes.lines if line.get_markersize() == 11)
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (math.log2(384), 968)
    fit = next(line for line in axes.lines if line.get_color() == max_batch_size._FIT["color"])
    assert np.allclose(fit.get_ydata(), 200 + 2 * 2 ** np.asarray(fit.get_xdata()))
    keys = {"384", "fits", "out of memory", "above limit", "killed", "limit", "fixed + per example"}
    assert keys <= lines(drawing)
    assert max_batch_size.found(frame) == (
        "The largest batch size that fits is 384 under a limit of 1000 MB, while 416 does not "
        "fit. Memory is 200 MB, and 2 MB more per example."
    )


def test_a_search_that_ended_at_its_bound_says_at_least():
    fits = {size: ("fits", 200 + 2.0 * size) for size in (1, 2, 4, 8)}
    found = tried(fits, limit=math.nan, bound="most_fits", fixed=636.61, per_image=0.93512)
    drawing, frame = drawn("max_batch_size", tables_of(**searches((found, {}))))
    assert "at least 8" in lines(drawing) and "limit" not in lines(drawing)
    largest, memory = max_batch_size.found(frame).split(". ")
    assert largest.endswith("fits is at least 8: the largest that the search may try")
    assert memory == "Memory is 637 MB, and 0.935 MB more per example."


def test_where_nothing_fits_it_is_reported():
    nothing = {1: ("over_limit", 1200.0)}
    found = tried(nothing, bound="nothing_fits", fixed=math.nan, per_image=math.nan)
    drawing, frame = drawn("max_batch_size", tables_of(**searches((found, {}))), rendered=True)
    assert "nothing fits" in lines(drawing)
    assert max_batch_size.found(frame) == (
        "The largest batch size that fits is none under a limit of 1000 MB: nothing fits, not "
        "even batch size 1."
    )


def test_every_search_has_its_own_limit_and_loops_repeat_it():
    one, two = tried(TRIES), tried(TRIES, limit=5000.0)
    rows = searches((one, {}), (two, {"machine": "cluster"}))
    # The same search stands beside every loop's times; a sweep without one says nothing.
    rows["sweeps"] += [{**first(loop="eager"), **one[1]}, {**first(model="other"), "sizes": 3}]
    frame = max_batch_size.select(tables_of(**rows))
    assert len(frame) == 2 * len(TRIES)
    limits = frame.groupby("machine")["memory_limit_mb"].unique()
    assert limits["laptop"].tolist() == [1000] and limits["cluster"].tolist() == [5000]
    drawing, _ = drawn("max_batch_size", tables_of(**rows))
    assert titles(drawing) == ["Laptop", "Cluster"]
    assert shown(drawing.axes[1], [0, 1], [5000, 5000])


def test_shares_of_a_profile_are_stacked_and_written_where_there_is_room():
    rows = profiled({1: (0.2, 0.3, 0.5, 1234.0), 64: (0.93, 0.03, 0.04, 8.5)}, loop="eager")
    drawing, frame = drawn("profile", tables_of(profiles=rows))
    (axes,) = drawing.axes
    edges = np.array(sorted((bar.get_y(), bar.get_x(), bar.get_width()) for bar in axes.patches))
    assert edges[:3, 1:] == pytest.approx(np.array([(0.0, 0.2), (0.2, 0.3), (0.5, 0.5)]))
    assert edges[3:, 1:] == pytest.approx(np.array([(0.0, 0.93), (0.93, 0.03), (0.96, 0.04)]))
    heights = axes.transData.transform(edges[:, [1, 0]])[:, 1]
    assert heights[0] > heights[3]  # the smallest is above
    found = lines(drawing)
    assert {"20 %", "30 %", "50 %", "93 %", "1,234", "8.5", "steps/s"} <= found
    assert not {"3 %", "4 %"} & found
    assert "eager, arrays in memory" in found
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "64"]
    assert profile.found(frame) == (
        "Of a step's time at batch size 1, 20.0 % was computing, 30.0 % was waiting for input and "
        "50.0 % was neither. Of a step's time at batch size 64, 93.0 % was computing, 3.0 % was "
        "waiting for input and 4.0 % was neither."
    )


def test_utilisation_stands_beside_the_bars_where_it_was_sampled():
    rows = profiled({1: (0.2, 0.3, 0.5, 1234.0), 64: (0.9, 0.05, 0.05, 8.5)})
    found = lines(drawn("profile", tables_of(profiles=rows))[0])
    assert "steps/s" in found and not {"CPU %", "GPU %"} & found  # records of before
    rows[1] |= {"process_percent": 71.6, "gpu_percent": 33.0}
    drawing, _ = drawn("profile", tables_of(profiles=rows), rendered=True)
    assert {"steps/s", "CPU %", "GPU %", "71.6", "33"} <= lines(drawing)
    assert any("CPU and GPU utilisation: without the profiler" in text for text in lines(drawing))


def test_profiles_stand_under_their_configurations():
    rows = profiled({8: (0.5, 0.4, 0.1, 10.0), 4: (0.5, 0.2, 0.3, 20.0)}, loop="fit")
    rows += profiled({8: (0.6, 0.05, 0.35, 9.0)}, loop="fit", input_pipeline="prefetch")
    rows += profiled({8: None}, loop="graph")
    drawing, frame = drawn("profile", tables_of(profiles=rows))
    (axes,) = drawing.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["4", "8", "8", "8"]
    assert len(axes.patches) == 9
    headings = {"Keras fit, arrays in memory", "loop in the graph, arrays in memory"}
    assert {*headings, "Keras fit, prefetching", "out of memory"} <= lines(drawing)
    found = profile.found(frame)
    assert (
        "at batch size 8, 50.0 % (arrays in memory) to 60.0 % (prefetching) was computing, 5.0 % "
        "(prefetching) to 40.0 % (arrays in memory) was waiting for input"
    ) in found.replace("Keras fit, ", "")


def test_open_markers_mean_one_thing_and_no_machine_is_busier_than_it_is():
    made = [{**row, "machine_percent": 104.0} for row in busy()]
    drawing, _ = drawn("utilisation", tables_of(utilisation=made))
    assert not any(map(hollow, drawing.axes))
    thin = next(line for line in drawing.axes[0].lines if line.get_alpha() == 0.75)
    assert set(thin.get_ydata()) == {100.0}
    crowded = [{**row, "process_percent": 112.0} for row in profiled({8: (0.6, 0.1, 0.3, 9.0)})]
    assert {"100", "112"} & lines(drawn("profile", tables_of(profiles=crowded))[0]) == {"100"}
