"""Figures of throughput and of the time per step, from tables made up by hand."""

import math

import numpy as np
import pandas
import pytest

from batchscope import figures
from batchscope.analysis import run_series
from batchscope.catalogue import timing_columns
from batchscope.figures import step_time
from batchscope.figures.drawing import canvas, timings
from drawing import note, reread, texts

FACTORS = {
    "dataset": "patches",
    "dataset_digest": "1f0a93c2",
    "model": "benchmark_cnn",
    "optimizer": "sgd",
    "device": "cpu",
    "threads": 0,
    "momentum": 0.0,
    "nesterov": False,
    "replicas": 1,
    "loop": "graph",
    "input_pipeline": "plain",
    "delay_seconds": 0.0,
}
POWERS = (1, 2, 4, 8, 16, 32, 64)
DENSE = tuple(range(1, 67))
SPARSE = (1, 2, 4, 8, 12, 15, 16, 17, 18, 24, 31, 32, 33, 34, 48, 64, 66)
LOOPS = ("graph", "eager", "function", "fit", "fit_steps")
NAMES = ("throughput", "step_time")


def line(a, b):
    return lambda size: a + b * size


def stairs(a, b, q):
    return lambda size: a + b * q * math.ceil(size / q)


def sweep(sizes=POWERS, time=None, machine="laptop", lost=(), disturbed=(), **other):
    """Returns the rows of throughput.csv and the row of sweeps.csv of one sweep.

    Args:
        sizes: Batch sizes.
        time: Batch size -> seconds per step, 2 ms + 0.5 ms per example unless given; quartiles lie
            1 % around it.
        machine: Name of the machine.
        lost: Batch sizes that ran out of memory.
        disturbed: Batch sizes with two disturbed blocks of seven.
        other: Factors, and columns of sweeps.csv.
    """
    time = time or line(2e-3, 5e-4)
    first = {**FACTORS, **{name: other.pop(name) for name in FACTORS if name in other}}
    first |= {"machine": machine, "sweep": "+".join(str(value) for value in first.values())}
    rows = []
    for size in sizes:
        row = {**first, "batch_size": size, "status": "finished", "train_examples": 5000}
        if size in lost:
            rows.append(row | {"status": "out_of_memory", "blocks": 0, "disturbed_blocks": 0})
            continue
        row |= {"steps": 10, "blocks": 7, "disturbed_blocks": 2 if size in disturbed else 0}
        for end, factor in (("", 1.0), ("_q1", 0.99), ("_q3", 1.01)):
            row[f"seconds_per_step{end}"] = factor * time(size)
            row[f"iterations_per_second{end}"] = factor / time(size)
            row[f"images_per_second{end}"] = factor * size / time(size)
        rows.append(row)
    summary = {**first, "status": "finished", "sizes": len(sizes) - len(lost), **other}
    return rows, summary


def fitted(a, b, half=0.0, **other):
    """Returns the columns of a fit: intervals reach `half` of a value to either side."""
    found = {"half_batch": a / b if a > 0 else math.nan, "line_residual": 0.02}
    for name, value in (("fixed_seconds", a), ("seconds_per_image", b)):
        wide = half * abs(value)
        found |= {name: value, f"{name}_low": value - wide, f"{name}_high": value + wide}
    return {**found, "noise_floor": 1.03, **other}


def tables(*made):
    """Returns the tables of an experiment, as they are read back from CSV files."""
    rows = [row for part, _ in made for row in part]
    summaries = [summary for _, summary in made]
    columns = [*timing_columns.FIRST, *timing_columns.COLUMNS["throughput.csv"]]
    written = {
        "throughput": pandas.DataFrame(rows, columns=columns),
        "sweeps": pandas.DataFrame(
            summaries, columns=[*timing_columns.FIRST, *timing_columns.COLUMNS["sweeps.csv"]]
        ),
    }
    return figures.Tables(**{name: reread(frame) for name, frame in written.items()})


def drawn(name, *made):
    figure = figures.FIGURES[name]
    frame = reread(figure.select(tables(*made)))
    drawing = figure.draw(frame)
    return drawing, frame, figure.found(frame)


def levels(axes):
    """Returns the heights of the lines across a panel."""
    flat = [item for item in axes.lines if list(item.get_xdata()) == [0, 1]]
    return sorted(item.get_ydata()[0] for item in flat)


def points(axes):
    """Returns the medians of every series: a list of x and y."""
    return [container.lines[0].get_data() for container in axes.containers]


def bars(container):
    """Returns the ends of the error bars, shape (points, 2 ends, x and y)."""
    return np.array(container.lines[2][0].get_segments())


def test_dense_ranges_have_a_linear_axis():
    axes = canvas.panels(1, 2)[1][0]
    at = timings.batch_axis(axes[0], DENSE)
    assert at([1, 17, 66]) == pytest.approx([1, 17, 66])
    assert list(axes[0].get_xticks()) == [0, 8, 16, 24, 32, 40, 48, 56, 64]
    assert axes[0].get_xlim()[0] == 0 and 66 < axes[0].get_xlim()[1] < 70
    at = timings.batch_axis(axes[1], POWERS)
    assert at([1, 8, 64]) == pytest.approx([0, 3, 6])


@pytest.mark.parametrize(
    ("sizes", "dense"),
    [
        (range(1, 13), True),
        (range(1, 12), False),
        (SPARSE, True),
        (range(117, 129), True),
        (range(118, 130), False),
        ([16] * 20, False),
        ([], False),
    ],
)
def test_what_is_a_dense_range(sizes, dense):
    assert timings.is_dense(sizes) is dense


def test_medians_and_quartiles_of_both_panels():
    drawing, _, _ = drawn("throughput", sweep())
    seconds = np.array([2e-3 + 5e-4 * size for size in POWERS])
    left, right = drawing.axes
    for axes, expected in ((left, 1 / seconds), (right, np.array(POWERS) / seconds)):
        ((x, y),) = points(axes)
        assert x == pytest.approx(np.log2(POWERS))
        assert y == pytest.approx(expected)
        ends = bars(axes.containers[0])
        assert ends[:, 0, 1] == pytest.approx(0.99 * expected)
        assert ends[:, 1, 1] == pytest.approx(1.01 * expected)
    assert left.get_ylabel() == "iterations/s" and right.get_ylabel() == "examples/s"
    assert "quartiles of these blocks" in note(drawing) and "Machine: laptop." in note(drawing)


@pytest.mark.parametrize("sizes", [DENSE, SPARSE])
def test_steps_are_visible_in_a_dense_range(sizes):
    """Throughput falls after 16, 32 and 48, by a part of the panel that the eye sees."""
    drawing, _, _ = drawn("throughput", sweep(sizes, stairs(2e-3, 5e-4, 16)))
    axes = drawing.axes[1]
    assert axes.get_yscale() == "linear" and axes.get_ylim()[0] == 0
    ((x, y),) = points(axes)
    speed = dict(zip(x, y, strict=True))
    assert set(speed) == set(sizes)
    for before, after in ((16, 18), (32, 34), (48, 50)):
        if after in speed:
            assert speed[before] - speed[after] > 0.15 * axes.get_ylim()[1]
    assert {16, 32, 48} <= set(axes.get_xticks())


def test_each_panel_of_one_series_has_the_axis_that_shows_most():
    """Iterations span much and are logarithmic; images span as much, and stay linear for steps."""
    drawing, _, _ = drawn("throughput", sweep(DENSE, stairs(1e-5, 5e-4, 1)))
    assert drawing.axes[0].get_yscale() == "log"
    drawing, _, _ = drawn("throughput", sweep(DENSE, stairs(2e-3, 1e-5, 16)))
    assert [axes.get_yscale() for axes in drawing.axes] == ["linear", "linear"]


def test_a_series_far_below_another_asks_for_a_logarithmic_axis():
    fast = sweep(DENSE, stairs(1e-4, 1e-5, 16), machine="gpu_box")
    drawing, _, _ = drawn("throughput", sweep(DENSE, stairs(2e-3, 5e-4, 16)), fast)
    assert drawing.axes[1].get_yscale() == "log"
    drawing, _, _ = drawn("step_time", sweep(DENSE, stairs(2e-3, 5e-4, 16)), fast)
    assert drawing.axes[0].get_yscale() == "log"


LIMITS = {
    "plateau_images_per_second": 1900.0,
    "knee_fitted": 36.0,
    "knee_fitted_low": 32.0,
    "knee_fitted_high": 40.5,
    "knee_batch_size": 48,
    "still_rising": False,
    "ceiling_images_per_second": 2500.0,
    "share_of_ceiling": 0.76,
    "noise_floor": 1.034,
    "step_verdict": "No steps seen: a straight line, 0.50% residual.",
}


def test_the_two_limits():
    drawing, _, found = drawn("throughput", sweep(**LIMITS))
    left, right = drawing.axes
    assert levels(right) == pytest.approx([0.9 * 1900, 2500])
    assert levels(left) == []
    upright = [item for item in right.lines if list(item.get_xdata()) == [np.log2(36)] * 2]
    assert upright[0].get_ydata()[1] == pytest.approx(0.9 * 1900)
    assert right.get_ylim()[1] > 2500
    assert {"36", "ceiling", "90 % of the plateau (number: knee)"} <= texts(drawing)
    assert "Noise floor: a batch size differs from itself by up to 3.4 %." in note(drawing)
    assert found == (
        "Batch size 1 takes 4.706 (4.613 to 4.801 by quartiles) times as long as 64 for the same "
        "examples. Throughput tends to a plateau of 1900 examples/s, and reaches 90 % of it at "
        "batch size 36.0 (95 % interval 32.0 to 40.5) by the fit, from batch size 48 on as timed. "
        "The highest is 76.0 % of the ceiling of 2500 examples/s. "
        "No steps seen: a straight line, 0.50% residual. "
        "A batch size differs from itself by up to 3.4 % (noise floor)."
    )


def test_a_ceiling_far_above_is_told_and_does_not_squash_the_data():
    far = {"ceiling_images_per_second": 90000.0, "share_of_ceiling": 0.0211}
    drawing, _, found = drawn("throughput", sweep(**{**LIMITS, **far}))
    axes = drawing.axes[1]
    # The ceiling lies on the upper edge, in the axes' own coordinates.
    assert levels(axes) == pytest.approx([1, 0.9 * 1900])
    assert {"ceiling, above the panel", "\N{UPWARDS ARROW} 90000 examples/s"} <= texts(drawing)
    highest = points(axes)[0][1].max()
    assert axes.get_ylim()[1] < 1.2 * highest
    assert "Ceiling far above the panel: 90000 examples/s (2.1 % of it reached)." in note(drawing)
    assert "2.1 % of the ceiling of 90000 examples/s" in found


NO_KNEE = {"knee_fitted": math.nan, "knee_batch_size": math.nan}
RISING = {**NO_KNEE, "still_rising": True}


def test_a_plateau_that_was_not_reached_is_drawn_and_has_no_knee():
    """64 images take 34 ms, which is 1880 examples/s."""
    far = {**LIMITS, **RISING, "plateau_images_per_second": 2600.0}
    drawing, _, found = drawn("throughput", sweep(**far))
    axes = drawing.axes[1]
    assert levels(axes) == pytest.approx([0.9 * 2600, 2500])
    assert axes.get_ylim()[1] > 2500
    assert not any(text.get_text().isdigit() for text in axes.texts)
    assert " Throughput still rises at the largest batch size, 64: 1880 examples/s. " in found


def test_still_rises_names_the_largest_size_with_its_own_value():
    """The size before it was as fast, by 0.1 %: what rises is the line."""

    def time(size):
        return (2e-3 + 5e-4 * size) * (0.98 if size == 48 else 1.02 if size == 64 else 1.0)

    given = sweep((*POWERS[:-1], 48, 64), time, **{**LIMITS, **RISING})
    _, frame, found = drawn("throughput", given)
    assert frame.set_index("batch_size")["images_per_second"].idxmax() == 48
    assert "Throughput still rises at the largest batch size, 64: 1850 examples/s." in found


NOISY = {
    **LIMITS,
    **NO_KNEE,
    "knee_fitted_low": math.nan,
    "knee_fitted_high": math.nan,
    "plateau_images_per_second": math.nan,
    "still_rising": None,
    "ceiling_images_per_second": math.nan,
    "share_of_ceiling": math.nan,
    "noise_floor": 8.1,
}


def test_nothing_is_drawn_of_noise():
    drawing, _, found = drawn("throughput", sweep(**NOISY))
    assert levels(drawing.axes[1]) == []
    assert "Where throughput levels off is too noisy to tell, so no line at 90 %." in note(drawing)
    assert "No plateau within" not in note(drawing)
    assert found == (
        "Where throughput levels off is too noisy to tell. No steps seen: a straight line, 0.50% "
        "residual. A batch size differs from itself by up to 710.0 % (noise floor)."
    )
    drawing, _, _ = drawn("throughput", sweep(**NOISY), sweep(loop="eager", **LIMITS))
    assert "so no line at 90 % (loop in the graph)." in note(drawing)
    assert levels(drawing.axes[1]) == pytest.approx([0.9 * 1900, 2500])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_ceiling_that_was_exceeded_is_none(count):
    exceeded = {"ceiling_images_per_second": 1832.0, "share_of_ceiling": 1.026}
    made = [sweep(loop=loop, **{**LIMITS, **exceeded}) for loop in LOOPS[:count]]
    drawing, _, found = drawn("throughput", *made)
    assert levels(drawing.axes[1]) == pytest.approx([0.9 * 1900] * count)
    assert "No ceiling, since more than it was reached" in note(drawing)
    if count < 3:
        assert (
            "The highest is 102.6 % of the 1830 examples/s that the measured peak of a matrix "
            "product allows: that is no ceiling."
        ) in found


def test_a_line_that_is_not_drawn_is_said_to_be_missing():
    above = {**LIMITS, **RISING, "plateau_images_per_second": 90000.0}
    drawing, _, _ = drawn("throughput", sweep(**above))
    assert levels(drawing.axes[1]) == pytest.approx([2500])
    told = "90 % of the plateau, by the fit, lies above the panel: 81000 examples/s."
    assert told in note(drawing)
    none = {**LIMITS, **RISING, "plateau_images_per_second": math.nan}
    drawing, _, found = drawn("throughput", sweep(**none))
    assert levels(drawing.axes[1]) == pytest.approx([2500])
    assert "No plateau within the batch sizes, so no line at 90 %." in note(drawing)
    assert "Throughput still rises at the largest batch size, 64: 1880 examples/s." in found


def test_a_plateau_that_no_batch_size_holds():
    drawing, _, found = drawn(
        "throughput", sweep(DENSE, stairs(2e-3, 5e-4, 16), **{**LIMITS, **NO_KNEE})
    )
    assert 0.9 * 1900 in levels(drawing.axes[1])
    assert "90 % of the plateau" in texts(drawing)
    assert (
        "Throughput tends to a plateau of 1900 examples/s, and reaches 90 % of it at no batch size "
        "from which on it stays there."
    ) in found


def test_a_knee_without_a_line_is_the_timed_one():
    drawing, _, found = drawn("throughput", sweep(**{**LIMITS, "knee_fitted": math.nan}))
    assert "48" in texts(drawing) and "36" not in texts(drawing)
    assert "90 % of it from batch size 48 on as timed." in found


def test_two_machines_each_have_their_limits():
    """One of them without a plateau: `still_rising` then has gaps and no type of its own."""
    other = sweep(machine="gpu_box", time=line(1e-3, 2.5e-4), ceiling_images_per_second=5000.0)
    drawing, frame, found = drawn("throughput", sweep(**LIMITS), other)
    assert levels(drawing.axes[1]) == pytest.approx([0.9 * 1900, 2500, 5000])
    assert {"laptop", "gpu_box"} <= texts(drawing)
    assert "Machine" not in note(drawing)
    assert found.startswith("Laptop: batch size 1 takes 4.706 (4.613 to 4.801 by quartiles) times")
    rising = sweep(**{**LIMITS, **RISING})
    _, frame, found = drawn("throughput", rising, other)
    assert frame["still_rising"].dtype == object
    assert "still rises" in found


COSTS = dict(zip(LOOPS, (1e-3, 5e-3, 2e-3, 4e-3, 3e-3), strict=True))


def many(**other):
    """Returns five series, of loops whose fixed costs differ, with their limits."""
    return [
        sweep(loop=loop, time=line(cost, 5e-4), **{**LIMITS, **other.get(loop, {})})
        for loop, cost in COSTS.items()
    ]


def rings(axes):
    """Returns batch size and throughput of every knee that is ringed."""
    found = [item for item in axes.lines if item.get_fillstyle() == "none"]
    return [(2 ** item.get_xdata()[0], item.get_ydata()[0]) for item in found]


def test_more_series_have_a_ring_on_each_knee_and_one_ceiling():
    drawing, _, found = drawn(
        "throughput", *many(eager=RISING, fit={"plateau_images_per_second": 1800.0})
    )
    axes = drawing.axes[1]
    shares = [0.9 * plateau for plateau in (1800, *[1900] * 4)]
    assert levels(axes) == pytest.approx([*shares, 2500])
    colours = {item.get_color() for item in axes.lines if list(item.get_xdata()) == [0, 1]}
    assert len(colours) == 6  # of each series, and that of the one ceiling
    assert len(points(axes)) == 5
    knees = [share for share in shares if share != shares[-1]] + [shares[-1]] * 3
    assert sorted(rings(axes)) == [(pytest.approx(36), pytest.approx(knee)) for knee in knees]
    assert {"eager", "Keras fit, 32 steps per execution"} <= texts(drawing)
    assert {"90 % of the plateau (ring: knee)", "ceiling"} <= texts(drawing)
    assert found == (  # 64 images in 37 and in 33 ms
        "Highest throughput of 5 series: from 1730 examples/s (eager) to 1940 examples/s (loop in "
        "the graph). Noise floor: a batch size differs from itself by up to 3.4 %."
    )
    drawing, _, found = drawn("throughput", *many()[:3])
    assert levels(drawing.axes[1]) == pytest.approx([*[1710] * 3, 2500])
    assert len(rings(drawing.axes[1])) == 3
    assert found.count("from batch size 48 on as timed") == 3


SHARES = [0.9 * 1900] * len(LOOPS)


def test_ceilings_of_more_series_that_differ():
    high = {"ceiling_images_per_second": 2900.0}
    drawing, _, _ = drawn("throughput", *many(eager=high, fit=high))
    assert levels(drawing.axes[1]) == pytest.approx([*SHARES, 2500, 2500, 2500, 2900, 2900])
    far = {"ceiling_images_per_second": 90000.0}
    drawing, _, _ = drawn("throughput", *many(eager=far))
    assert levels(drawing.axes[1]) == pytest.approx([*SHARES, *[2500] * 4])
    assert "Ceilings, some far above the panel: from 2500 examples/s (" in note(drawing)
    assert "to 90000 examples/s (eager)." in note(drawing)
    drawing, _, _ = drawn("throughput", *many(**dict.fromkeys(LOOPS, far)))
    assert levels(drawing.axes[1]) == pytest.approx(SHARES)
    assert "Ceiling far above the panel: 90000 examples/s." in note(drawing)
    none = {"ceiling_images_per_second": math.nan, "plateau_images_per_second": math.nan}
    drawing, _, _ = drawn("throughput", *many(**dict.fromkeys(LOOPS, none)))
    assert levels(drawing.axes[1]) == rings(drawing.axes[1]) == []
    assert "No plateau within the batch sizes, so no line at 90 % (" in note(drawing)


@pytest.mark.parametrize("name", NAMES)
def test_disturbed_blocks_are_marked_and_counted(name):
    drawing, _, _ = drawn(name, sweep(disturbed=(4, 32)))
    for axes in drawing.axes[: 2 if name == "throughput" else 1]:
        (hollow,) = [item for item in axes.lines if item.get_markerfacecolor() == "white"]
        assert hollow.get_xdata() == pytest.approx([2, 5])
    assert "4 of 49 blocks disturbed by other processes" in note(drawing)
    drawing, _, _ = drawn(name, sweep())
    assert "disturbed" not in note(drawing)
    assert not [item for item in drawing.axes[0].lines if item.get_markerfacecolor() == "white"]


@pytest.mark.parametrize("name", NAMES)
def test_what_ran_out_of_memory(name):
    drawing, _, _ = drawn(name, sweep(lost=(32, 64)), sweep(loop="eager"))
    axes = drawing.axes[0]
    (cross,) = [item for item in axes.lines if item.get_marker() == "x"]
    assert cross.get_xdata() == pytest.approx([5, 6])
    assert points(axes)[0][0] == pytest.approx([0, 1, 2, 3, 4])
    assert "Out of memory (×) at batch size 32, 64 (loop in the graph)." in note(drawing)
    drawing, _, found = drawn(name, sweep(lost=POWERS))
    assert timings.EMPTY in texts(drawing) and found == ""
    assert "at batch size 1, 2, 4, 8, 16, 32, 64." in note(drawing)


def test_many_series_out_of_memory_are_counted():
    _, frame, _ = drawn("throughput", *(sweep(loop=loop, lost=(64,)) for loop in LOOPS))
    assert timings.memory_note(frame) == "Out of memory (×) at batch size 64 (5 of 5 series)."
    _, frame, _ = drawn("throughput", sweep(DENSE, lost=range(40, 67)))
    assert timings.memory_note(frame) == "Out of memory (×) at batch size 40 to 66."


@pytest.mark.parametrize("name", NAMES)
def test_nothing_timed(name):
    drawing, frame, found = drawn(name)
    assert frame.empty and found == ""
    assert timings.EMPTY in texts(drawing)


@pytest.mark.parametrize("name", NAMES)
def test_one_batch_size(name):
    drawing, _, found = drawn(name, sweep((16,)))
    assert len(points(drawing.axes[0])[0][0]) == 1
    expected = {"throughput": "One batch size was timed, 16: 1600 examples/s.", "step_time": ""}
    assert found == expected[name]


def test_a_gap_in_the_times_is_left_out():
    rows, summary = sweep(**fitted(2e-3, 5e-4))
    for name in ("seconds_per_step", "images_per_second", "iterations_per_second"):
        rows[3][name] = math.nan
    for name in NAMES:
        drawing, _, _ = drawn(name, (rows, summary))
        assert points(drawing.axes[0])[0][0] == pytest.approx([0, 1, 2, 4, 5, 6])


def test_sweeps_of_different_batch_sizes_stay_apart():
    """Runs of a training would be one line here, since the batch size settles the threads."""
    made = (sweep((1, 2, 4), threads=1), sweep((8, 16, 32), threads=2))
    _, frame, _ = drawn("throughput", *made)
    groups = timings.series(frame)
    assert [group.label for group in groups] == ["1 thread", "2 threads"]
    assert [group.frame["batch_size"].tolist() for group in groups] == [[1, 2, 4], [8, 16, 32]]


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
    assert labels == [run_series.LOOP_WORDS[loop] for loop in LOOPS]
    assert fixed.get_ylim()[0] > fixed.get_ylim()[1]  # the first series at the top
    assert "(ms)" in fixed.get_xlabel() and "(ms)" in per_image.get_xlabel()
    colours = [container.lines[0].get_color() for container in fixed.containers]
    assert colours == [container.lines[0].get_color() for container in drawing.axes[0].containers]
    assert found.startswith(
        "The fixed cost per step was 1.00 [0.90, 1.10] ms (loop in the graph), 6.00 [5.40, 6.60] "
        "ms (eager), "
    )
    assert "The cost per example was 0.200 [0.180, 0.220] ms (loop in the graph), " in found
    assert found.count(", with 95 % intervals.") == 2
    assert "Half of a step is fixed cost at batch size 5 (loop in the graph), " in found


def test_costs_that_span_much_are_logarithmic():
    made = [sweep(loop=loop, **fitted(a, 2e-4)) for loop, a in (("graph", 1e-4), ("eager", 6e-3))]
    drawing, _, _ = drawn("step_time", *made)
    assert drawing.axes[1].get_xscale() == "log" and drawing.axes[2].get_xscale() == "linear"


def test_a_negative_fixed_cost_is_shown_as_it_is():
    other = sweep(loop="eager", **fitted(2e-3, 5e-4, half=0.1))
    drawing, _, found = drawn("step_time", sweep(**fitted(-5e-4, 5e-4, half=0.2)), other)
    axes = drawing.axes[1]
    assert costs(axes)[0] == pytest.approx((-0.5, 0, -0.6, -0.4))
    assert axes.get_xscale() == "linear" and axes.get_xlim()[0] < -0.6
    told = "The fixed cost per step was -0.50 [-0.60, -0.40] ms (loop in the graph)"
    assert told.replace("-", "\N{MINUS SIGN}") in found
    assert "Half of a step is fixed cost at batch size 4 (eager)." in found
    # On a logarithmic axis the line starts where it is above zero.
    lines = [item for item in drawing.axes[0].lines if len(item.get_xdata()) == 200]
    assert drawing.axes[0].get_yscale() == "log" and math.isnan(lines[0].get_ydata()[0])


def test_a_fit_without_an_interval_and_no_fit_at_all():
    none = {
        f"{name}_{end}": math.nan
        for name in ("fixed_seconds", "seconds_per_image")
        for end in ("low", "high")
    }
    two = sweep((16, 32), **{**fitted(2e-3, 5e-4), **none})
    drawing, _, found = drawn("step_time", two, sweep((16,), loop="eager"))
    value, row, low, high = costs(drawing.axes[1])[0]
    assert (value, row) == pytest.approx((2, 0)) and low == high == pytest.approx(2)
    assert "no fit" in texts(drawing)
    assert found == (
        "The fixed cost per step was 2 ms (loop in the graph). The cost per example was 0.5 ms "
        "(loop in the graph). Half of a step is fixed cost at batch size 4 (loop in the graph)."
    )


def test_many_series_are_told_by_their_ends():
    fits = ((1e-3, 1e-4), (6e-3, 3e-4), (2e-3, 2e-4), (4e-3, 5e-4), (3e-3, 4e-4))
    made = [
        sweep(loop=loop, machine=machine, **fitted(a * factor, b * factor))
        for machine, factor in (("laptop", 1.0), ("gpu_box", 0.1))
        for loop, (a, b) in zip(LOOPS, fits, strict=True)
    ]
    drawing, _, found = drawn("step_time", *made)
    assert len(costs(drawing.axes[1])) == 10
    assert found == (
        "Fixed cost per step of 10 series: from 0.1 ms (loop in the graph, gpu_box) to 6 ms "
        "(eager, laptop). Cost per example: from 0.01 ms (loop in the graph, gpu_box) to 0.5 ms "
        "(Keras fit, laptop)."
    )


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
    made = [
        sweep(**fitted(2e-3, 5e-4), loop="function", input_pipeline=name)
        for name in ("prefetch", "jpeg")
    ]
    assert (
        " and 2 ms (JPEG files (resized beforehand, in the page cache))"
        in drawn("step_time", *made)[2]
    )


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
        "Of 5 ms delay added per step, 5.20 ms (95 % interval 4.80 to 5.60), 104.0 %, came back "
        "in the fixed cost of the fit, and 5.10 ms (95 % interval 4.90 to 5.30), 102.0 %, came "
        "back as the difference of blocks with and without it, whatever their batch size."
    ) in found
    (stroke,) = strokes(drawing)
    assert stroke.get_xdata() == pytest.approx([7, 7]) and min(stroke.get_ydata()) == 1
    assert any("timed in the same turns" in text for text in texts(drawing))


@pytest.mark.parametrize(("half", "told"), [(0.4e-3, False), (0.1e-3, True)])
def test_more_than_was_waited_is_told_where_the_interval_says_so(half, told):
    _, _, found = drawn("step_time", delayed(5e-3, 5.2e-3, half))  # paired: 5.1 ms, half as wide
    assert ("The rest is sleeps that end late, or slower steps after them." in found) == told


def test_a_delay_of_one_series_alone():
    drawing, _, found = drawn("step_time", delayed(5e-3, 5.2e-3, 0.4e-3))
    assert "without it, whatever their batch size. The fixed" in found
    assert len(strokes(drawing)) == 1


def test_only_a_delay_that_took_turns_with_none_comes_back():
    made = (
        sweep(**fitted(2e-3, 5e-4)),
        sweep(delay_seconds=5e-3, **fitted(7e-3, 5e-4)),
        delayed(1e-3, 1.1e-3, loop="fit"),
        delayed(1e-3, 0.9e-3, loop="fit", machine="gpu_box"),
    )
    drawing, frame, found = drawn("step_time", *made)
    assert [(delay.index, delay.injected) for delay in step_time.delays(frame)] == [
        (2, 1e-3),
        (3, 1e-3),
    ]
    assert found.count("came back in the fixed cost") == 2 and len(strokes(drawing)) == 2
    drawing, frame, found = drawn("step_time", made[0])
    assert step_time.delays(frame) == [] and "came back" not in found and not strokes(drawing)


def test_a_delay_that_did_not_come_back_keeps_its_stroke_in_the_panel():
    drawing, _, found = drawn("step_time", delayed(9e-3, 0.0, 1e-4), sweep(**fitted(1e-3, 5e-4)))
    assert "Of 9 ms delay added per step, 0.00 ms" in found
    assert (
        found.count("not resolved from none, came back in the fixed cost of the fit, and 4.5") == 1
    )
    low, high = drawing.axes[1].get_xlim()
    assert low < 11 < high


def test_the_noise_floor_of_several_series():
    made = (
        sweep(noise_floor=1.012),
        sweep(loop="eager", noise_floor=1.1),
        sweep(loop="fit", noise_floor=math.nan),
    )
    for name in NAMES:
        drawing, _, _ = drawn(name, *made)
        assert (
            "Noise floor: a batch size differs from itself by up to 1.2 % (loop in the graph) to "
            "10.0 % (eager)."
        ) in note(drawing)


@pytest.mark.parametrize("name", NAMES)
def test_captions_and_the_same_picture_from_the_csv_alone(name):
    figure = figures.FIGURES[name]
    assert figure.entry.measures == ("throughput",) and "batch size" in figure.entry.caption
    frame = figure.select(tables(sweep(**LIMITS), sweep(loop="eager", **fitted(2e-3, 5e-4))))
    first = canvas.svg_and_png(figure.draw(frame), figure.entry.title)
    again = canvas.svg_and_png(figure.draw(reread(frame)), figure.entry.title)
    assert first == again
    assert len(first[0]) < 150_000


def test_one_large_cost_does_not_squeeze_the_others_to_zero():
    made = [
        sweep(loop="eager", **fitted(60e-3, 5e-4, half=1.5)),
        sweep(loop="fit", **fitted(2e-3, 5e-4, half=0.5)),
    ]
    drawing, _, _ = drawn("step_time", *made)
    fixed, per_image = drawing.axes[1:]
    assert "linear around zero" in note(drawing)
    assert fixed.get_xscale() == "symlog" and per_image.get_xscale() == "linear"
    place = fixed.transData.transform([(0, 0), (2, 0), (150, 0)])[:, 0]
    assert place[1] - place[0] > 0.1 * (place[2] - place[0])


def test_an_axis_around_zero_has_labels_on_its_logarithmic_part():
    made = [
        sweep(loop="graph", **fitted(0.12e-3, 5e-4, half=8.0)),
        sweep(loop="eager", **fitted(2.5e-3, 5e-4)),
    ]
    fixed = drawn("step_time", made[0], made[1])[0].axes[1]
    assert fixed.get_xscale() == "symlog"
    assert [tick for tick in fixed.get_xticks() if tick >= 0.12] == pytest.approx([0.3, 1])


def test_the_same_images_at_both_ends_and_steps_just_above_a_multiple():
    _, _, found = drawn("throughput", sweep(sizes=(16, 17, 34, 32, 128), time=line(10e-3, 0.0)))
    # A step takes the same whatever it holds: 128 images take 8 times as long at 16; quartiles
    # lie 1 % around the times.
    assert found.startswith(
        "Per step t(17) / t(16) = 1.000 (0.980 to 1.020 by quartiles), of images 1.06; t(34)"
    )
    assert ". Batch size 16 takes 8.00 (7.84 to 8.16 by quartiles) times as long as 128" in found
    assert "t(34) / t(32) = 1.000" in found and "t(18)" not in found


def test_a_line_through_two_points_tells_nothing_of_its_fit():
    drawing, _, _ = drawn("step_time", sweep(sizes=(16, 128), **fitted(1e-3, 5e-4)))
    assert "Through two batch sizes a line always goes" in note(drawing)
    assert "off the line" not in note(drawing)
    assert "off the line" in note(drawn("step_time", sweep(**fitted(1e-3, 5e-4)))[0])
