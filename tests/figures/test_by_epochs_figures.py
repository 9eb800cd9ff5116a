"""The figures by number of epochs: what they draw and what they say."""

import numpy as np
import pandas
import pytest

from batchscope import figures
from batchscope.analysis import intervals, run_series
from batchscope.catalogue import run_factors
from batchscope.figures import accuracy_by_epochs, training_time
from batchscope.figures.drawing import against_epoch, by_epochs, canvas
from drawing import bars, legend

EPOCHS = (1, 2, 5)
SIZES = (100, 200, 400)
SECONDS = {"cpu": {100: 10.0, 200: 9.0, 400: 8.5}, "gpu": {100: 4.0, 200: 1.5, 400: 0.7}}
ACCURACY = {1: 0.90, 2: 0.95, 5: 0.99}


def frame(devices=("gpu",), spread=0.01, seeds=3, **more):
    """Rows as `select` returns them; seed s is off by s - 1 thousandths."""
    rows = [
        {
            **({"device": device} if len(devices) > 1 else {}),
            "batch_size": size,
            "seed": seed,
            "status": "finished",
            "at_epoch": epoch,
            **dict.fromkeys(accuracy_by_epochs._COLUMNS, 0.5),
            "test_accuracy": ACCURACY[epoch] - size / 1e4 + (seed - 1) / 1e3,
            "test_examples": 10000,
            "train_seconds": epoch * SECONDS[device][size],
            "seconds_per_epoch_q1": SECONDS[device][size] * (1 - spread),
            "seconds_per_epoch_q3": SECONDS[device][size] * (1 + spread),
            **more,
        }
        for device in devices
        for size in SIZES
        for seed in range(seeds)
        for epoch in EPOCHS
    ]
    return pandas.DataFrame(rows)


def draw(name, made, rendered=False):
    drawing = figures.FIGURES[name].draw(made)
    if rendered:
        drawing.draw_without_rendering()
    return drawing


def counts(axes):
    """How many small points there are, for each number of epochs."""
    return [len(line.get_ydata()) for line in axes.lines if line.get_alpha() == 0.45]


def test_accuracies_are_means_with_intervals_and_a_point_for_every_seed():
    made = frame()
    drawing = draw("accuracy_by_epochs", made, rendered=True)
    (axes,) = drawing.axes
    assert legend(drawing) == ["1 epoch", "2 epochs", "5 epochs"]
    assert len(axes.containers) == len(EPOCHS)
    for epoch, bar in zip(EPOCHS, axes.containers, strict=True):
        by_size = made[made["at_epoch"] == epoch].groupby("batch_size")["test_accuracy"]
        expected = [intervals.t_interval(values) for _, values in by_size]
        assert bar.lines[0].get_ydata() == pytest.approx([found.mean for found in expected])
        assert bars(bar)[:, :, 1].tolist() == [
            pytest.approx([found.low, found.high]) for found in expected
        ]
    assert counts(axes) == [len(SIZES) * 3] * len(EPOCHS)
    assert axes.get_ylabel() == "test accuracy (%)"


def test_the_binomial_error_is_reported():
    best, worst = ACCURACY[5] - 0.01, ACCURACY[1] - 0.04
    low, high = (100 * 1.96 * np.sqrt(p * (1 - p) / 10000) for p in (best, worst))
    text = "95 % binomial error of an accuracy counted on 10,000 test examples: "
    text += f"±{low:.2g} to ±{high:.2g} points."
    made = frame()
    assert text in draw("accuracy_by_epochs", made).get_supxlabel()
    assert text in accuracy_by_epochs.found(made)


def test_what_accuracies_say():
    text = accuracy_by_epochs.found(frame())
    assert text.startswith(
        "Mean test accuracy after 1 epoch was 89.00 % at batch size 100 and 86.00 % at 400 "
        "(3 of 3 seeds). Mean test accuracy after 5 epochs was 98.00 % at batch size 100 and "
        "95.00 % at 400 (3 of 3 seeds)."
    )


def test_accuracies_are_those_at_the_rate_that_the_validation_loss_chooses():
    made = pandas.concat(
        [
            frame().assign(learning_rate=rate, validation_loss=loss)
            for rate, loss in ((0.1, 0.3), (0.2, 0.2))
        ],
        ignore_index=True,
    )
    better = made["learning_rate"] == 0.1
    made["test_accuracy"] += 0.005 * better
    # After one epoch the other rate is ahead.
    made.loc[better & (made["at_epoch"] == 1), "validation_loss"] = 0.1
    text = accuracy_by_epochs.found(made)
    assert "was 89.50 % at batch size 100 (rate 0.1)" in text
    assert "was 98.00 % at batch size 100 (rate 0.2)" in text


def test_what_a_training_did_not_reach_is_no_point_and_counts_as_a_seed():
    made = frame()
    stopped = (made["at_epoch"] == 5) & (made["seed"] == 1) & (made["batch_size"] == 400)
    made.loc[stopped, ["test_accuracy", "train_seconds"]] = np.nan
    text = "after 5 epochs was 98.0 % at batch size 100 and 95.0 % at 400 (3 of 3 and 2 of 3 seeds)"
    assert text in accuracy_by_epochs.found(made)
    assert counts(draw("accuracy_by_epochs", made).axes[0]) == [9, 9, 8]


def test_times_are_epochs_times_the_timed_epoch_and_its_quartiles():
    made = frame(spread=0.1, seeds=1)
    drawing = draw("training_time", made, rendered=True)
    (axes,) = drawing.axes
    assert legend(drawing) == ["1 epoch", "2 epochs", "5 epochs"]
    for epoch, bar in zip(EPOCHS, axes.containers, strict=True):
        seconds = [epoch * SECONDS["gpu"][size] for size in SIZES]
        assert bar.lines[0].get_ydata() == pytest.approx(seconds)
        assert bars(bar)[:, :, 1].tolist() == [
            pytest.approx([0.9 * value, 1.1 * value]) for value in seconds
        ]
    reference = axes.lines[0]
    assert reference.get_ydata()[0] == 4.0 and reference.get_linestyle() == ":"
    assert axes.get_ylabel() == "training time (s)"


@pytest.mark.parametrize(
    ("device", "spread", "text"),
    [
        ("gpu", 0.01, "took 3.5 s: less time than 1 epoch at batch size 100 (4 s)."),
        ("cpu", 0.01, "took 42.5 s: more time than 1 epoch at batch size 100 (10 s)."),
        ("gpu", 0.10, "3.5 s: a time whose quartiles overlap with those of 1 epoch at batch"),
    ],
)
def test_whether_many_epochs_in_large_batches_beat_one_in_small(device, spread, text):
    found = training_time.found(frame((device,), spread, seeds=1))
    assert " 5 epochs at batch size 400 " in found and text in found


def test_what_a_larger_batch_saves_at_equal_epochs():
    # 5 epochs at batch size 400 take 3.5 s, at 100 five times 4 s; quartiles 10 % off.
    found = training_time.found(frame(("gpu",), 0.1, seeds=1))
    assert found.startswith(
        "For the same epochs batch size 400 takes 0.175 (0.143 to 0.214 by quartiles) times as "
        "long as 100."
    )
    one = frame(("gpu",))
    assert "the same epochs" not in training_time.found(one[one["batch_size"] == 100])


def test_several_timing_jobs_have_their_own_quartiles():
    """Each seed has a job; what a job's blocks differ by is no part of them."""
    made = frame(spread=0.5, seeds=5)
    made["train_seconds"] *= 1 + 0.1 * made["seed"]
    (axes,) = draw("training_time", made).axes
    for epoch, bar in zip(EPOCHS, axes.containers, strict=True):
        seconds = np.array([epoch * SECONDS["gpu"][size] for size in SIZES])
        assert bar.lines[0].get_ydata() == pytest.approx(1.2 * seconds)
        assert pytest.approx(np.array([1.1 * seconds, 1.3 * seconds])) == bars(bar)[:, :, 1].T


def test_one_panel_per_device_on_one_scale():
    made = frame(("cpu", "gpu"))
    drawing = draw("training_time", made, rendered=True)
    assert [axes.get_title("left") for axes in drawing.axes] == ["CPU", "GPU"]
    assert drawing.axes[0].get_ylim() == drawing.axes[1].get_ylim()
    assert drawing.axes[0].get_yscale() == "log"
    text = training_time.found(made)
    assert "batch size 400 (CPU) took 42.5 s: more" in text
    assert "batch size 400 (GPU) took 3.5 s: less" in text


def test_what_no_time_depends_on_gives_no_panel():
    made = pandas.concat([frame(learning_rate=rate) for rate in (0.1, 0.2)], ignore_index=True)
    (axes,) = draw("training_time", made).axes
    assert axes.get_title("left") == "Training time"
    assert len(draw("accuracy_by_epochs", made).axes) == 2
    assert training_time.found(made).count("took") == 1


def test_flat_times_stand_on_an_axis_from_zero():
    (axes,) = draw("training_time", frame(("cpu",))).axes
    assert axes.get_yscale() == "linear" and axes.get_ylim()[0] == 0


def test_more_series_than_panels_are_reported():
    made = [frame(learning_rate=rate / 100, seeds=1) for rate in range(1, 16)]
    drawing = accuracy_by_epochs.draw(pandas.concat(made, ignore_index=True))
    assert len(drawing.axes) == by_epochs.MOST_PANELS
    assert "3 further series in the CSV." in drawing.get_supxlabel()


def test_lines_differ_by_more_than_their_colour_and_get_lighter():
    made = pandas.DataFrame({"at_epoch": range(1, 10)})
    styles = list(by_epochs.styles(made).values())
    assert len({(style["marker"], str(style["linestyle"])) for style in styles}) == 9
    light = [
        np.dot([int(style["color"][i : i + 2], 16) for i in (1, 3, 5)], [0.299, 0.587, 0.114])
        for style in styles
    ]
    assert light == sorted(light)


def test_tables_are_joined_by_machine_and_run():
    """Two machines ran the same run: each has its own quartiles."""
    run = {"run": "a", "batch_size": 16, "seed": 0, "status": "finished", "device": "cpu"}
    rows = [
        {**run, "machine": machine, "seconds_per_epoch_q1": low, "seconds_per_epoch_q3": low + 1}
        for machine, low in (("desktop", 1.0), ("cluster", 3.0))
    ]
    rows.append({**run, "run": "b", "seed": 1, "status": "missing", "machine": "desktop"})
    runs = pandas.DataFrame(rows)
    times = [
        {**run, "machine": machine, "at_epoch": epoch, "train_seconds": epoch * seconds}
        for machine, seconds in (("desktop", 1.5), ("cluster", 3.5))
        for epoch in (1, 2)
    ]
    made = figures.Tables(runs=runs, at_epochs=pandas.DataFrame(times))
    found = training_time.select(made)
    assert len(found) == 5  # and the missing run
    cluster = found[found["machine"] == "cluster"]
    assert cluster["train_seconds"].tolist() == [3.5, 7.0]
    assert set(cluster["seconds_per_epoch_q1"]) == {3.0}
    assert found[found["status"] == "missing"]["at_epoch"].isna().all()
    drawing = draw("training_time", found)
    assert [axes.get_title("left") for axes in drawing.axes] == ["Desktop", "Cluster"]
    assert canvas.failure_note(against_epoch.runs(found)) == "Of 3 runs: 1 missing (miss.)."


def test_the_factors_that_count_are_those_of_a_timing():
    made = frame(momentum=0.9, learning_rate=0.1, patience=3)
    kept = set(run_series.timed_factors(made).columns)
    assert "momentum" in kept and not kept & {"learning_rate", "patience"}
    assert set(run_factors.TIMING_FACTORS) >= kept & set(run_factors.FACTORS) - {"seed"}
