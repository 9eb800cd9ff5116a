"""Total times in parallel: epochs until a training stopped, times the time of an epoch."""

from __future__ import annotations

import math

import pandas
import pytest

from batchscope import wording
from batchscope.analysis import intervals, parallel_totals

EPOCHS = {32: 158, 256: 958}  # those of Chang and Pathak 2020, and their seconds per epoch:
SECONDS = {(32, 1): 12.4, (256, 1): 7.7, (32, 4): 12.8, (256, 4): 3.97}


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
    found = parallel_totals.totals(timed(), trained())
    seconds = found.set_index(["batch_size", "replicas", "seed"])["seconds"]
    assert seconds[256, 4, 0] == pytest.approx(958 * 3.97)  # their 3,700 s
    assert seconds[32, 1, 0] == pytest.approx(158 * 12.4)  # their 1,915 s
    assert seconds[32, 4, 1] == pytest.approx(2 * 158 * 12.8)
    text = parallel_totals.sentence(timed(), trained())
    assert text.startswith("On 4 GPUs, epochs until the training stopped times the time per epoch ")
    large, small = ([seconds[size, 4, seed] for seed in (0, 1)] for size in (256, 32))
    ratio = intervals.ratio_interval(large, small)
    assert ratio.mean == pytest.approx(958 * 3.97 / (158 * 12.8) * 1.5**0.5)
    assert text.endswith(f"(2 seeds), a factor of {wording.estimated(*ratio[:3])}.")


def test_only_trainings_that_were_stopped_and_are_the_same_count():
    at_loss = trained(stop_reason="train_loss", epochs_run=3)
    for other in (trained(stop_reason="epochs"), trained(learning_rate=0.02), at_loss):
        assert parallel_totals.totals(timed(), other).empty
    again = pandas.concat([trained(), trained(run=[*"abcd"]), at_loss])
    assert len(parallel_totals.totals(timed(), again)) == len(timed())
    sooner = pandas.concat([trained(), trained(patience=5, epochs_run=7)])
    assert parallel_totals.totals(timed(), sooner).empty  # which of both is not stated


def test_what_cannot_be_tested_is_reported_with_its_reason():
    lacks = "What MirroredStrategy saves on several GPUs cannot be tested here, since "
    cpu = parallel_totals.sentence(timed("cpu"), trained())
    assert cpu.startswith("On 4 replicas, epochs until")
    assert cpu.endswith(f"{lacks}replicas are logical devices of one CPU.")
    none = timed(status="no_gpu").assign(seconds_per_epoch=math.nan)
    assert parallel_totals.sentence(none, trained()) == f"{lacks}there is no GPU."
    assert parallel_totals.sentence(timed().assign(replicas=1), trained()) == ""
    assert parallel_totals.sentence(timed().drop(columns="replicas"), trained()) == ""


def test_several_series_have_no_one_total():
    rates = [pandas.concat([of(), of().assign(learning_rate=0.02)]) for of in (timed, trained)]
    assert parallel_totals.sentence(*rates) == ""
    elsewhere = timed().assign(machine="cluster", seconds_per_epoch=1.0)
    machines = pandas.concat([timed().assign(machine="local"), elsewhere])
    both = pandas.concat([trained().assign(machine=name) for name in ("local", "cluster")])
    alone = parallel_totals.sentence(timed(), trained())
    assert parallel_totals.sentence(machines, both) == alone != ""
