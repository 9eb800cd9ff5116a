"""The figure of times of trainings."""

import itertools

import pandas

from batchscope import figures
from drawing import hollow, legend, note


def _runs(**columns):
    """Rows of finished runs on a CPU."""
    alike = {"status": "finished", "replicas": 1, "device": "cpu"}
    return pandas.DataFrame({**alike, **columns})


def _hollow(axes):
    """Returns the heights of a panel's hollow points."""
    return [line.get_ydata().tolist() for line in hollow(axes)]


def test_trainings_that_nothing_stopped_are_lower_bounds():
    frame = _runs(
        batch_size=[32, 32, 256, 256],
        seed=[0, 1, 0, 1],
        seconds_per_epoch=[2.0, 2.0, 1.0, 1.0],
        epochs_run=[30, 40, 60, 100],
        train_seconds=[60.0, 80.0, 60.0, 100.0],
        epochs=100,
        patience=10,
    )
    time = figures.FIGURES["time"]
    text = "1 of 2 runs at batch size 256 ran to the last epoch that they may; their times and the"
    assert time.found(frame).endswith(
        "Mean total training time was 70 s at batch size 32 and 80 s at 256 (2 of 2 seeds), a "
        "factor of 1.12 (geometric mean of 2 pairs, 95 % interval 0.27 to 4.61). "
        f"{text} means are lower bounds."
    )
    drawing = time.draw(frame)
    assert f"{text} means are lower bounds (hollow, with an arrow)." in note(drawing)
    assert list(map(_hollow, drawing.axes)) == [[], [[100]], [[100.0]]]
    # All of them, where the horizon was too short for every run; none, where it was chosen.
    runs = frame.assign(epochs_run=100)
    every = time.draw(time.select(figures.Tables(runs=runs)))
    assert _hollow(every.axes[2]) == [[60.0, 80.0, 60.0, 100.0]]
    assert "lower bounds (hollow, with an arrow)" in note(every)
    assert "lower bounds" in time.found(frame.assign(epochs_run=100))
    chosen = time.draw(frame.assign(epochs_run=100, patience=0))
    assert "none stopped early" in chosen.get_supxlabel()
    assert not any(_hollow(chosen.axes[2]))
    stopped = frame.assign(epochs=101)
    assert "lower bound" not in time.found(stopped)
    assert "lower bound" not in time.draw(stopped).get_supxlabel()


def test_times_of_logical_devices_are_marked():
    seconds = [12.4, 7.7]
    epoch = {"epochs_run": 1, "epochs": 1, "seconds_per_epoch": seconds, "train_seconds": seconds}
    frame = _runs(batch_size=[32, 256], seed=0, replicas=4, **epoch)
    mark = "Replicas are logical devices of one CPU here: they prove correctness and not speed."
    time = figures.FIGURES["time"]
    text = "Mean time per epoch was 12.4 s at batch size 32 and 7.7 s at 256 (1 of 1 seed)."
    assert time.found(frame) == f"{text} {mark}"
    drawing = time.draw(frame)  # of one epoch, which is all that was timed
    assert mark in note(drawing) and "none stopped" not in note(drawing)
    assert [axes.get_title("left") for axes in drawing.axes] == ["Time per epoch"]
    assert mark not in time.found(frame.assign(device="gpu"))
    two = pandas.concat([frame.assign(device="gpu"), frame.assign(replicas=1, train_seconds=1.0)])
    two.loc[two["replicas"] == 1, "seconds_per_epoch"] += 10
    assert "4 replicas: 12.4 s" in time.found(two) and "1 replica: 22.4 s" in time.found(two)


def _rates(rates=(0.05, 0.1), own=False):
    """Rows of two batch sizes, two seeds and some learning rates, a timing job for each seed."""
    cells = itertools.product(rates, (32, 256), (0, 1))
    frame = pandas.DataFrame(cells, columns=["learning_rate", "batch_size", "seed"])
    times = 64 / frame["batch_size"] + 0.1 * frame["seed"] + own * frame["learning_rate"]
    found = {"seconds_per_epoch": times, "train_seconds": 10 * times}
    return _runs(**frame, **found, epochs_run=10, epochs=10)


def _series(drawing):
    return [len(axes.containers) for axes in drawing.axes]


def test_a_time_that_no_learning_rate_changes_is_drawn_once():
    time, frame = figures.FIGURES["time"], _rates()
    drawing = time.draw(frame)
    assert _series(drawing) == [1, 1, 1] and not drawing.legends
    assert [len(axes.lines[0].get_ydata()) for axes in drawing.axes] == [4, 4, 4]
    # Where trainings stop by themselves, their epochs are of their rates.
    stopped = time.draw(frame.assign(epochs=100, patience=5))
    assert _series(stopped) == [1, 2, 2]
    assert legend(stopped) == ["learning rate 0.05", "learning rate 0.1", "all runs"]
    colours = [axes.containers[0].lines[0].get_color() for axes in stopped.axes]
    assert colours[0] not in colours[1:]


def test_times_of_their_own_and_runs_that_failed_are_all_drawn():
    time = figures.FIGURES["time"]
    assert _series(time.draw(_rates(own=True))) == [2, 2, 2]
    frame = _rates(rates=(0.05, 0.1, 0.2))
    failed = frame["learning_rate"].gt(0.06) & frame["batch_size"].eq(32) & frame["seed"].eq(0)
    drawing = time.draw(frame.assign(status=frame["status"].mask(failed, "diverged")))
    assert _series(drawing) == [1, 1, 1]
    assert all("2 div." in [text.get_text() for text in axes.texts] for axes in drawing.axes)
