"""Where trainings ended, and total times in parallel."""

import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import training_ends

EPOCHS = {32: 158, 256: 958}  # those of Chang and Pathak 2020, and their seconds per epoch:
SECONDS = {(32, 1): 12.4, (256, 1): 7.7, (32, 4): 12.8, (256, 4): 3.97}


@pytest.mark.parametrize(
    ("columns", "held"),
    [
        ({"epochs_run": [40, 40, 7], "steps_run": [80, 40, 9]}, ("epochs_run", 40)),
        ({"epochs_run": [20, 40, 7], "steps_run": [80, 80, 9]}, ("steps_run", 80)),
        ({"epochs_run": [20, 40, 7], "patience": [10] * 3}, ("patience", 10)),
        ({"epochs_run": [40, 40, 7], "target_train_loss": [0.1] * 3}, ("target_train_loss", 0.1)),
        ({"epochs_run": [4, 4, 7], "target_train_loss": [0.0] * 3}, ("epochs_run", 4)),
        ({"epochs_run": [np.nan] * 3, "patience": [0] * 3}, ("", math.nan)),
    ],
)
def test_what_is_equal_where_trainings_end(columns, held):
    rows = pandas.DataFrame({"status": ["finished", "finished", "diverged"], **columns})
    assert training_ends.held_equal(rows) == pytest.approx(held, nan_ok=True)


def test_runs_that_nothing_stopped_are_counted():
    epochs = [[30, 34, 41, 29, 100, 32], [50, 100, 100, 61, 100, 70]]
    runs = pandas.DataFrame({"batch_size": np.repeat([32, 256], 6), "epochs_run": np.ravel(epochs)})
    runs = runs.assign(epochs=100, patience=10, target_train_loss=0.0, status="finished")
    runs.loc[7, "status"] = "diverged"
    assert training_ends.ran_out(runs) == {32: (1, 6), 256: (2, 5)}
    # Where nothing could stop a training, its epochs were chosen.
    assert training_ends.ran_out(runs.assign(patience=0)) == {}
    assert training_ends.ran_out(runs.assign(patience=0, target_train_loss=0.3)) != {}
    whole = runs.assign(epochs=runs["epochs_run"])
    assert training_ends.all_ran_out(whole) and not training_ends.epochs_chosen(whole)
    assert training_ends.epochs_chosen(whole.assign(patience=0))


def trained(**other):
    """Runs that patience stopped; the second of two seeds took twice as many epochs, or thrice."""
    rows = [
        {"run": f"{size}-{seed}", "batch_size": size, "seed": seed, "epochs_run": epochs * times}
        for size, epochs in EPOCHS.items()
        for seed, times in enumerate((1, 2 if size == 32 else 3))
    ]
    same = {"learning_rate": 0.01, "patience": 100, "stop_reason": "patience", "replicas": 1}
    return pandas.DataFrame(rows).assign(**{**same, **other})


def timed(device="gpu", status="finished"):
    """Runs of one epoch, on one device and on four."""
    rows = [
        {"batch_size": size, "replicas": count, "seed": seed, "seconds_per_epoch": seconds}
        for (size, count), seconds in SECONDS.items()
        for seed in (0, 1)
    ]
    same = {"learning_rate": 0.01, "patience": 0, "epochs": 1, "epochs_run": 1}
    return pandas.DataFrame(rows).assign(device=device, status=status, **same)


def test_epochs_of_one_device_times_seconds_of_several():
    found = training_ends.parallel_totals(timed(), trained())
    seconds = found.set_index(["batch_size", "replicas", "seed"])["seconds"]
    assert seconds[256, 4, 0] == pytest.approx(958 * 3.97)  # their 3,700 s
    assert seconds[32, 1, 0] == pytest.approx(158 * 12.4)  # their 1,915 s
    assert seconds[32, 4, 1] == pytest.approx(2 * 158 * 12.8)


def test_only_trainings_that_were_stopped_and_are_the_same_count():
    at_loss = trained(stop_reason="train_loss", epochs_run=3)
    for other in (trained(stop_reason="epochs"), trained(learning_rate=0.02), at_loss):
        assert training_ends.parallel_totals(timed(), other).empty
    again = pandas.concat([trained(), trained(run=[*"abcd"]), at_loss])
    assert len(training_ends.parallel_totals(timed(), again)) == len(timed())
    sooner = pandas.concat([trained(), trained(patience=5, epochs_run=7)])
    assert training_ends.parallel_totals(timed(), sooner).empty  # which of both is not stated
