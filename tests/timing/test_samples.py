"""Samples: known series give known summaries, and real work shows as such."""

import threading
import time
import types

import numpy as np
import psutil
import pytest

from batchscope.timing import processes, samples
from batchscope.timing.samples import Sampler
from fake_nvml import UUIDS, Nvml

UNKNOWN = np.nan


def series(seconds, phase, **columns) -> dict[str, np.ndarray]:
    every = {name: np.full(len(seconds), UNKNOWN) for name in samples.SAMPLE_COLUMNS}
    every |= {name: np.asarray(values, float) for name, values in columns.items()}
    return {**every, "seconds": np.asarray(seconds, float), "phase": np.asarray(phase)}


def test_a_sample_weighs_the_time_that_it_represents():
    summary = samples.summarise(
        series([0, 1, 2, 6, 7], [-1, 0, 0, 0, 1], process_percent=[UNKNOWN, 10, 20, 80, 5]), 0
    )
    assert summary["process_percent"] == 80
    assert (summary["process_percent_q1"], summary["process_percent_q3"]) == (20, 80)
    spread = samples.spread(np.array([UNKNOWN, 10, 20, 80]), np.array([1, 1, 1, 4]))
    assert spread["mean"] == pytest.approx((10 + 20 + 4 * 80) / 6)


def test_the_share_at_zero():
    cores = [UNKNOWN, 0.0, 0.009, 0.01, 1.0]
    gpu = [UNKNOWN, 0, UNKNOWN, 1, 100]
    summary = samples.summarise(
        series([0, 1, 2, 3, 7], [0] * 5, process_cores=cores, gpu_percent=gpu), 0
    )
    assert summary["process_zero_share"] == pytest.approx(2 / 7)
    assert summary["gpu_zero_share"] == pytest.approx(1 / 6)  # one second is unknown


def test_a_phase_that_is_entered_again_is_one_phase():
    rows = series(
        np.arange(7),
        [-1, 0, 1, 1, 0, 0, -1],
        process_percent=[UNKNOWN, 1, 9, 9, 1, 1, 9],
        gpu_energy_joules=[0, 10, 100, 190, UNKNOWN, 210, 300],
        memory_mb=[900, 1, 800, 800, 3, 2, 900],
    )
    summary = samples.summarise(rows, 0)
    assert summary["process_percent"] == 1
    assert (summary["gpu_energy_joules"], summary["memory_peak_mb"]) == (10 + 10 + 10, 3)


def test_utilisation_of_the_gpu_leaves_out_the_time_before_the_phase():
    seconds = np.arange(0, 3.01, 0.25)
    phase = np.where(seconds > 1, 1, 0)
    # NVML's window of a second: in phase 1, with 80 %, it still includes phase 0 for a while.
    rows = series(seconds, phase, gpu_percent=np.where(seconds < 2, 30, 80))
    assert samples.summarise(rows, 1)["gpu_percent_q1"] == 80
    short = {name: values[:7] for name, values in rows.items()}
    assert samples.summarise(short, 1)["gpu_percent"] is None
    into = [*np.arange(0, 1.01, 0.25), *np.arange(0.25, 2.01, 0.25)]
    np.testing.assert_allclose(samples.seconds_into_phase(rows), into)


@pytest.mark.parametrize("phase", [0, 5, None])
def test_unknown_values_are_none(phase):
    for seconds in ([0.0, 0.1, 0.2], []):
        rows = series(seconds, np.zeros(len(seconds), int))
        assert set(samples.summarise(rows, phase).values()) == {None}


def busy(seconds: float) -> None:
    """Work for seconds of this thread's own CPU time."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        pass


@pytest.mark.slow
def test_a_busy_loop_and_a_sleep():
    with Sampler(interval=0.05, cores=2) as sampler:
        with sampler.phase("busy"):
            before = processes.cpu_times()
            busy(0.6)
            after = processes.cpu_times()
        for _ in range(2):
            with sampler.phase("asleep"):
                time.sleep(0.3)
    assert sampler.phases == ["busy", "asleep"]
    rows = sampler.series()
    working, asleep = sampler.summary("busy"), sampler.summary("asleep")
    # Together, the shares of a core are the thread's whole time.
    inside = rows["phase"] == 0
    used = np.sum((rows["process_cores"] * samples.sample_seconds(rows))[inside])
    assert used == pytest.approx(0.6, rel=0.1)
    assert rows["process_percent"][1:] == pytest.approx(50 * rows["process_cores"][1:])
    assert working["process_zero_share"] < 0.5 < asleep["process_zero_share"]
    assert 0 < sampler.own_seconds < 0.05 * rows["seconds"][-1]
    # The thread and the readings of a block agree on the other processes.
    others = processes.foreign_cores(before, after)
    assert working["foreign_cores"] == pytest.approx(others, abs=0.2)


def test_a_phase_shorter_than_the_interval_has_its_own_sample():
    with Sampler(interval=60) as sampler, sampler.phase("outer"), sampler.phase("inner"):
        time.sleep(0.02)
    assert list(sampler.series()["phase"]) == [-1, -1, 0, 1, 0, -1]


def test_the_sampling_itself_is_not_the_process():
    sampler = Sampler(interval=60)
    process = psutil.Process()

    def costly():
        busy(0.05)
        return process.memory_info()

    sampler._process = types.SimpleNamespace(memory_info=costly)
    with sampler:
        for _ in range(4):
            sampler.sample()
    rows = sampler.series()
    used = np.nansum(rows["process_cores"] * samples.sample_seconds(rows))
    assert sampler.own_seconds >= 0.3 and used < 0.02


def test_the_thread_ends_when_the_block_raises():
    before, sampler = threading.active_count(), Sampler(interval=0.01)
    with pytest.raises(KeyError), sampler, sampler.phase("fails"):
        assert threading.active_count() == before + 1
        raise KeyError
    assert threading.active_count() == before
    assert sampler.series()["phase"][-1] == samples.NO_PHASE


@pytest.mark.parametrize(
    ("visible", "index"), [(None, 0), ("2,0", 2), ("GPU-bb33-2", 2), ("", None)]
)
def test_the_first_visible_gpu_is_sampled(visible, index, monkeypatch):
    fake = Nvml().install(monkeypatch, visible)
    with Sampler(interval=60, gpu=True) as sampler:
        sampler.sample()
    rows = sampler.series()
    if index is None:
        assert "Not Found" in sampler.gpu_device["problem"]
        assert all(np.isnan(rows[column]).all() for column in samples.GPU_COLUMNS)
        assert rows["memory_mb"].min() > 0
        return
    assert sampler.gpu_device == {"name": "NVIDIA Test", "uuid": UUIDS[index]}
    assert {handle for _, handle in fake.asked} == {f"handle {index}"}
    assert set(rows["gpu_percent"]) == {63} and set(rows["gpu_bandwidth_percent"]) == {41}
    assert set(rows["gpu_memory_mb"]) == {12_345}  # bytes
    assert list(rows["gpu_energy_joules"]) == [0, 20, 40]  # mJ, and from the start


def test_a_passing_failure_of_nvml_costs_its_samples_alone(monkeypatch):
    fake = Nvml(failing=["energy", "rates"]).install(monkeypatch)
    with Sampler(interval=60, gpu=True) as sampler:
        fake.failing.clear()
        sampler.sample()
    rows = sampler.series()
    assert np.isnan(rows["gpu_percent"][0]) and rows["gpu_memory_mb"][0] > 0
    assert list(rows["gpu_energy_joules"][1:]) == [0, 20]
