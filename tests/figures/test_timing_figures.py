"""What the figures of throughput and of the time per step have in common."""

import math

import pytest

from batchscope import figures
from batchscope.figures.drawing import canvas, timings
from drawing import hollow, note, reread, texts
from made_sweeps import (
    DENSE,
    LIMITS,
    LOOPS,
    POWERS,
    SPARSE,
    drawn,
    fitted,
    points,
    stairs,
    sweep,
    tables,
)

NAMES = ("throughput", "step_time")


def test_dense_ranges_have_a_linear_axis():
    axes = canvas.panels(1, 2)[1][0]
    assert timings.batch_axis(axes[0], DENSE)([1, 17, 66]) == pytest.approx([1, 17, 66])
    assert list(axes[0].get_xticks()) == [0, 8, 16, 24, 32, 40, 48, 56, 64]
    assert axes[0].get_xlim()[0] == 0 and 66 < axes[0].get_xlim()[1] < 70
    assert timings.batch_axis(axes[1], POWERS)([1, 8, 64]) == pytest.approx([0, 3, 6])


@pytest.mark.parametrize("sizes", [range(1, 13), SPARSE, range(117, 129)])
def test_what_is_a_dense_range(sizes):
    assert timings.is_dense(sizes) is True


@pytest.mark.parametrize("sizes", [range(1, 12), range(118, 130), [16] * 20, []])
def test_what_is_no_dense_range(sizes):
    assert timings.is_dense(sizes) is False


def test_a_series_far_below_another_asks_for_a_logarithmic_axis():
    fast = sweep(DENSE, stairs(1e-4, 1e-5, 16), machine="gpu_box")
    for name, panel in (("throughput", 1), ("step_time", 0)):
        drawing, _, _ = drawn(name, sweep(DENSE, stairs(2e-3, 5e-4, 16)), fast)
        assert drawing.axes[panel].get_yscale() == "log"


@pytest.mark.parametrize("name", NAMES)
def test_disturbed_blocks_are_marked_and_counted(name):
    drawing, _, _ = drawn(name, sweep(disturbed=(4, 32)))
    for axes in drawing.axes[: 2 if name == "throughput" else 1]:
        (marks,) = hollow(axes)
        assert marks.get_xdata() == pytest.approx([2, 5])
    assert "4 of 49 blocks disturbed by other processes" in note(drawing)
    drawing, _, _ = drawn(name, sweep())
    assert "disturbed" not in note(drawing)
    assert not hollow(drawing.axes[0])


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


def test_the_noise_floor_of_several_series():
    floors = {"graph": 1.012, "eager": 1.1, "fit": math.nan}
    made = [sweep(loop=loop, noise_floor=floor) for loop, floor in floors.items()]
    for name in NAMES:
        drawing, _, _ = drawn(name, *made)
        assert (
            "Noise floor: a batch size differs from itself by up to 1.2 % (loop in the graph) to "
            "10.0 % (eager)."
        ) in note(drawing)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_captions_and_the_same_picture_from_the_csv_alone(name):
    figure = figures.FIGURES[name]
    assert figure.entry.measures == ("throughput",) and "batch size" in figure.entry.caption
    frame = figure.select(tables(sweep(**LIMITS), sweep(loop="eager", **fitted(2e-3, 5e-4))))
    files = [
        canvas.svg_and_png(figure.draw(table), figure.entry.title)
        for table in (frame, reread(frame))
    ]
    assert files[0] == files[1]
    assert len(files[0][0]) < 150_000
