"""The sampler: real work shows as what it is, and phases are apart."""

import json
import threading
import time
import types

import numpy as np
import psutil
import pynvml
import pytest

from batchscope.timing.instruments import nvml, processes, samples
from batchscope.timing.instruments.sampler import Sampler
from fake_nvml import UUIDS, Nvml


def busy(seconds: float) -> None:
    """Works for seconds of this thread's own CPU time."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        pass


@pytest.mark.slow
def test_a_busy_loop_and_a_sleep():
    took = {}
    with Sampler(interval=0.05, cores=2) as running:
        with running.phase("work", "busy"):
            before = processes.cpu_times()
            busy(0.6)
            after = processes.cpu_times()
        for _ in range(2):  # one phase, however often it is entered
            begun = time.monotonic()
            with running.phase("work", "asleep"):
                time.sleep(0.3)
            took["asleep"] = took.get("asleep", 0.0) + time.monotonic() - begun
    assert running.phases == [("work", "busy"), ("work", "asleep")]
    found = running.series()
    working, asleep = running.summary("work", "busy"), running.summary("work", "asleep")
    # Of what others left of a core, all was used: together they are the thread's whole time.
    used = working["process_cores_mean"] * working["seconds"]
    assert used == pytest.approx(0.6, rel=0.1)
    assert working["process_percent_mean"] == pytest.approx(50 * working["process_cores_mean"])
    assert working["process_zero_share"] < 0.5 < asleep["process_zero_share"]
    assert asleep["process_cores_mean"] < 0.05
    assert asleep["seconds"] == pytest.approx(took["asleep"], abs=0.1)
    assert 0 <= working["machine_percent_mean"] <= 110
    assert 0 < running.own_seconds < 0.05 * found["seconds"][-1]
    # The thread and the readings of a block report the same of the others.
    others = processes.foreign_cores(before, after)
    assert working["foreign_cores"] == pytest.approx(others, abs=0.2)


def test_a_phase_shorter_than_the_interval_has_its_own_sample_and_comes_back():
    with Sampler(interval=60) as running, running.phase("outer"), running.phase("inner"):
        time.sleep(0.02)
    assert list(running.series()["phase"]) == [-1, -1, 0, 1, 0, -1]
    found = running.summary("inner")
    assert found["samples"] == 1 and found["seconds"] >= 0.02


def test_the_sampling_itself_is_not_the_process():
    running = Sampler(interval=60)
    process = psutil.Process()

    def costly():
        busy(0.05)
        return process.memory_info()

    running._process = types.SimpleNamespace(memory_info=costly)
    with running:
        for _ in range(4):
            running.sample()
    found = running.series()
    used = np.nansum(found["process_cores"] * samples.intervals(found))
    assert running.own_seconds >= 0.3 and used < 0.02


def test_the_thread_ends_when_the_block_raises():
    before, running = threading.active_count(), Sampler(interval=0.01)
    with pytest.raises(KeyError), running, running.phase("fails"):
        assert threading.active_count() == before + 1
        raise KeyError
    assert threading.active_count() == before
    assert running.series()["phase"][-1] == samples.OUTSIDE


def test_series_as_lists_for_a_record():
    with Sampler(None) as taken:
        for name in ("lead_in", "batch_size"):
            with taken.phase(name, 8):
                time.sleep(0.002)
    found = taken.details("batch_size")["samples"]
    assert found.pop("batch_size") == [None, None, None, None, 8, None]
    assert found.pop("phase") == [None, None, "lead_in", None, "batch_size", None]
    assert {len(values) for values in found.values()} == {len(taken.series()["seconds"])}
    assert found["seconds"] == sorted(found["seconds"]) and found["seconds"][0] == 0
    assert "gpu_percent" not in found and json.dumps(found)


@pytest.mark.parametrize(
    ("visible", "gpu", "expected"),
    [
        (None, 2, 2),
        ("2, 0", 1, 0),
        ("2,0", 2, None),
        ("GPU-bb33-2", 0, None),
    ],
)
def test_the_index_among_the_visible_gpus(visible, gpu, expected):
    assert nvml.physical_gpu(visible, gpu, 3) == expected


def sampled(count: int = 3) -> tuple[Sampler, dict[str, np.ndarray]]:
    with Sampler(None, gpu=0) as running:
        for _ in range(count - 2):
            running.sample()
    return running, running.series()


def test_nvml_readings_have_their_units(monkeypatch):
    fake = Nvml().install(monkeypatch, "2,0")
    running, found = sampled()
    assert running.gpu_device == {"name": "NVIDIA Test", "uuid": UUIDS[2]}
    assert {asked for _, asked in fake.asked} == {"handle 2"}
    assert set(found["gpu_percent"]) == {63} and set(found["gpu_bandwidth_percent"]) == {41}
    assert set(found["gpu_memory_mb"]) == {12_345}  # bytes
    assert set(found["gpu_power_watts"]) == {250.5}  # mW
    assert list(found["gpu_energy_joules"]) == [0, 20, 40]  # mJ, and from the start


@pytest.mark.parametrize("name", ["rates", "memory", "power", "energy"])
def test_a_reading_without_support_is_unknown_alone(monkeypatch, name):
    Nvml(missing=[name]).install(monkeypatch)
    found = sampled(5)[1]
    known = [np.isfinite(found[column]).all() for column in samples.GPU_COLUMNS]
    expected = {"rates": [0, 1], "memory": [2], "power": [3], "energy": [4]}[name]
    assert [index for index, each in enumerate(known) if not each] == expected


def test_a_passing_failure_of_nvml_costs_its_samples_alone(monkeypatch):
    fake = Nvml(failing=["energy", "power"]).install(monkeypatch)
    with Sampler(None, gpu=0) as running:
        fake.failing.clear()
        running.sample()
    found = running.series()
    assert np.isnan(found["gpu_power_watts"][0])
    assert list(found["gpu_energy_joules"][1:]) == [0, 20]


def test_a_gpu_that_is_not_there_stops_nothing(monkeypatch):
    Nvml().install(monkeypatch, "")
    assert "received 0" in sampled()[0].gpu_device["problem"]

    def no_library():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)
    running, found = sampled()
    assert "Not Found" in running.gpu_device["problem"]
    assert all(np.isnan(found[column]).all() for column in samples.GPU_COLUMNS)
