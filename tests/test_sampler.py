"""Sampling: known series give known summaries, and real work shows as what it is."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import psutil
import pynvml
import pytest

from batchscope.timing import sampler
from batchscope.timing.sampler import Clock, Sampler

ROOT = Path(__file__).resolve().parents[1]
UNKNOWN = np.nan


def series(seconds, phase, **columns) -> dict[str, np.ndarray]:
    given = {name: np.full(len(seconds), UNKNOWN) for name in sampler.COLUMNS}
    given.update({name: np.asarray(values, float) for name, values in columns.items()})
    return {**given, "seconds": np.asarray(seconds, float), "phase": np.asarray(phase)}


def busy(seconds: float, of_process: bool = False) -> None:
    """Works for seconds of the wall, or of this thread's own CPU time."""
    clock = time.thread_time if of_process else time.monotonic
    begun = clock()
    while clock() - begun < seconds:
        pass


# Pure functions.


def test_a_sample_weighs_what_it_stands_for():
    found = sampler.summary(
        series([0, 1, 2, 6, 7], [-1, 0, 0, 0, 1], process_percent=[UNKNOWN, 10, 20, 80, 5]), 0
    )
    assert (found["samples"], found["seconds"]) == (3, 6.0)
    assert found["process_percent_mean"] == pytest.approx((10 + 20 + 4 * 80) / 6)
    assert found["process_percent"] == 80
    assert (found["process_percent_q1"], found["process_percent_q3"]) == (20, 80)


def test_quartiles_of_equal_weights():
    found = sampler.spread(np.array([4.0, 1, 3, 2, UNKNOWN]), np.full(5, 0.1))
    assert found == {"median": 2, "q1": 1, "q3": 3, "mean": 2.5}


def test_the_share_at_zero():
    cores = [UNKNOWN, 0.0, 0.009, 0.01, 1.0]
    gpu = [UNKNOWN, 0, UNKNOWN, 1, 100]
    given = series([0, 1, 2, 3, 7], [0] * 5, process_cores=cores, gpu_percent=gpu)
    found = sampler.summary(given, 0)
    assert found["process_zero_share"] == pytest.approx(2 / 7)
    assert found["gpu_zero_share"] == pytest.approx(1 / 6)  # one second is unknown


def test_energy_is_the_trapezoid_integral_of_power():
    # 100 W + 20 W/s * t over 5 s: 750 J, whatever the spacing.
    seconds = np.array([0, 0.1, 0.5, 2, 4.5, 5])
    given = series(seconds, [-1, 0, 0, 0, 0, 0], gpu_power_watts=100 + 20 * seconds)
    assert sampler.energy(given, 0) == (pytest.approx(750), pytest.approx(5), "power")
    found = sampler.summary(given, 0)
    assert found["gpu_power_watts"] == pytest.approx(150)
    assert (found["gpu_energy_joules"], found["gpu_energy_source"]) == (pytest.approx(750), "power")


def test_a_failed_reading_of_power_does_not_lose_energy():
    power = np.array([100, 100, UNKNOWN, 100, 100.0])
    given = series(np.arange(5), [0] * 5, gpu_power_watts=power)
    assert sampler.energy(given, 0) == (pytest.approx(400), pytest.approx(4), "power")
    given["gpu_power_watts"][-1] = UNKNOWN  # nothing is known to go on from
    assert sampler.energy(given, 0) == (pytest.approx(300), pytest.approx(3), "power")
    assert sampler.summary(given, 0)["gpu_power_watts"] == pytest.approx(100)


def test_the_counter_of_energy_comes_before_the_power():
    given = series(
        [0, 1, 2, 3, 4],
        [-1, 0, 0, 1, 1],
        gpu_power_watts=[500] * 5,
        gpu_energy_joules=[0, 100, 250, UNKNOWN, 650],
    )
    assert sampler.energy(given, 0) == (250, 2, "counter")
    assert sampler.energy(given, 1) == (pytest.approx(400), 2, "counter")
    assert sampler.energy(given, None) == (pytest.approx(650), 4, "counter")


def test_a_phase_that_is_entered_again_is_one_phase():
    given = series(
        np.arange(7),
        [-1, 0, 1, 1, 0, 0, -1],
        process_cores=[UNKNOWN, 1, 9, 9, 1, 1, 9],
        gpu_power_watts=[10, 10, 90, 90, 10, 10, 90],
        memory_mb=[900, 1, 800, 800, 3, 2, 900],
    )
    found = sampler.summary(given, 0)
    assert (found["samples"], found["seconds"]) == (3, 3.0)
    assert found["process_cores_mean"] == 1
    assert found["gpu_energy_joules"] == pytest.approx(10 + 50 + 10)  # 90 -> 10 is a trapezoid
    assert found["memory_peak_mb"] == 3


def test_utilisation_of_the_gpu_leaves_out_what_came_before_the_phase():
    seconds = np.arange(0, 3.01, 0.25)
    phase = np.where(seconds > 1, 1, 0)
    # NVML's window of a second: in phase 1, with 80 %, it still sees phase 0 for a while.
    seen = np.where(seconds < 2, 30, 80)
    given = series(seconds, phase, gpu_percent=seen)
    found = sampler.summary(given, 1)
    assert (found["gpu_percent_mean"], found["gpu_settled"]) == (80, True)
    short = {name: values[:7] for name, values in given.items()}
    assert sampler.summary(short, 1)["gpu_settled"] is False
    assert sampler.summary(short, 1)["gpu_percent_mean"] == 30
    np.testing.assert_allclose(
        sampler.seconds_into_phase(given), [*np.arange(0, 1.01, 0.25), *np.arange(0.25, 2.01, 0.25)]
    )


@pytest.mark.parametrize("phase", [0, 5, -1, None])
def test_what_is_unknown_is_none(phase):
    found = sampler.summary(series([0.0, 0.1, 0.2], [0, 0, 0]), phase)
    known = {"samples", "seconds"}
    assert all(value is None for name, value in found.items() if name not in known)
    empty = sampler.summary(series([], np.array([], int)), phase)
    assert (empty["samples"], empty["seconds"]) == (0, 0)


def test_foreign_cores_are_what_this_process_did_not_use():
    before = Clock(100.0, 7.0, 5000.0)
    assert sampler.foreign_cores(before, Clock(102.0, 9.0, 5005.0)) == pytest.approx(1.5)
    # A tick of the machine's clock is not yet counted: no negative cores.
    assert sampler.foreign_cores(before, Clock(102.0, 9.0, 5001.99)) == 0
    assert sampler.foreign_cores(before, before) == 0


def test_busy_time_of_the_machine_counts_guests_once_and_no_idling(monkeypatch):
    times = types.SimpleNamespace(
        _asdict=lambda: {
            **dict(user=10, nice=5, system=3, irq=1, softirq=1, steal=2),
            **dict(idle=1000, iowait=100, guest=4, guest_nice=2),
        }
    )
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    assert sampler.cpu_times().machine == 22


# The GPU that is meant.

UUIDS = ["GPU-aa11-0", "GPU-aa22-1", "GPU-bb33-2"]


@pytest.mark.parametrize(
    ("visible", "gpu", "expected"),
    [
        (None, 2, 2),
        (None, 3, None),
        ("", 0, None),
        ("2,0", 0, 2),
        ("2, 0", 1, 0),
        ("2,0", 2, None),
        ("0,-1,1", 0, 0),
        ("0,-1,1", 1, None),  # CUDA stops at the first that is none
        ("7,1", 0, None),
        ("GPU-bb33-2,GPU-aa11-0", 1, 0),
        ("GPU-bb", 0, 2),
        ("GPU-aa", 0, None),  # two begin so
        ("1,,2", 1, None),
        ("NoDevFiles", 0, None),
        ("MIG-5f", 0, "MIG-5f"),
    ],
)
def test_the_index_among_the_visible_gpus(visible, gpu, expected):
    assert sampler.physical_gpu(visible, gpu, UUIDS) == expected


# NVML at its boundary.


class Nvml:
    """Three GPUs whose readings are scripted; what is in `missing` is not supported."""

    def __init__(self, missing=(), failing=()) -> None:
        self.missing, self.failing = set(missing), set(failing)
        self.open, self.asked = 0, []
        self.energy = itertools.count(5_000_000_000, 20_000)

    def reading(self, name, handle, value):
        self.asked.append((name, handle))
        if name in self.missing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if name in self.failing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return value() if callable(value) else value

    def install(self, monkeypatch) -> Nvml:
        def count(by):
            self.open += by

        rates = types.SimpleNamespace(gpu=63, memory=41)
        memory = types.SimpleNamespace(used=12_345_000_000)
        fakes = {
            "nvmlInit": lambda: count(1),
            "nvmlShutdown": lambda: count(-1),
            "nvmlDeviceGetCount": lambda: len(UUIDS),
            "nvmlDeviceGetHandleByIndex": lambda index: f"handle {index}",
            "nvmlDeviceGetHandleByUUID": lambda uuid: f"handle {uuid}",
            "nvmlDeviceGetUUID": lambda handle: UUIDS[int(handle.split()[1])],
            "nvmlDeviceGetName": lambda handle: "NVIDIA Test",
            "nvmlDeviceGetUtilizationRates": lambda h: self.reading("rates", h, rates),
            "nvmlDeviceGetMemoryInfo": lambda h: self.reading("memory", h, memory),
            "nvmlDeviceGetPowerUsage": lambda h: self.reading("power", h, 250_500),
            "nvmlDeviceGetTotalEnergyConsumption": lambda h: self.reading(
                "energy", h, lambda: next(self.energy)
            ),
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(pynvml, name, fake)
        return self


def sampled(samples: int = 3, **given) -> tuple[Sampler, dict[str, np.ndarray]]:
    with Sampler(interval=60, **given) as running:
        for _ in range(samples - 2):
            running.sample()
    return running, running.series()


def test_nvml_readings_have_their_units(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bb33,0")
    nvml = Nvml().install(monkeypatch)
    running, found = sampled(gpu=0)
    assert running.gpu_device == {"name": "NVIDIA Test", "uuid": UUIDS[2]}
    assert {handle for _, handle in nvml.asked} == {"handle 2"}
    assert set(found["gpu_percent"]) == {63} and set(found["gpu_bandwidth_percent"]) == {41}
    assert set(found["gpu_memory_mb"]) == {12_345}  # bytes
    assert set(found["gpu_power_watts"]) == {250.5}  # mW
    assert list(found["gpu_energy_joules"]) == [0, 20, 40]  # mJ, and from the start
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("rates", ["gpu_percent", "gpu_bandwidth_percent"]),
        ("memory", ["gpu_memory_mb"]),
        ("power", ["gpu_power_watts"]),
        ("energy", ["gpu_energy_joules"]),
    ],
)
def test_what_nvml_does_not_support_is_unknown_alone(monkeypatch, name, columns):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml(missing=[name]).install(monkeypatch)
    found = sampled(samples=5, gpu=1)[1]
    for column in sampler.GPU_COLUMNS:
        assert np.isnan(found[column]).all() == (column in columns)
        assert np.isfinite(found[column]).all() == (column not in columns)
    assert [asked for asked, _ in nvml.asked].count(name) == 1
    assert sampler.summary(found)["gpu_energy_source"] == (
        "power" if name == "energy" else "counter"
    )


def test_a_passing_failure_of_nvml_costs_its_samples_alone(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml(failing=["energy", "power"]).install(monkeypatch)
    with Sampler(interval=60, gpu=0) as running:
        nvml.failing.clear()
        running.sample()
    found = running.series()
    assert np.isnan(found["gpu_power_watts"][0])
    assert list(found["gpu_energy_joules"][1:]) == [0, 20]


def test_a_mig_device_is_found_by_its_uuid(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5f")
    nvml = Nvml(missing=["rates"]).install(monkeypatch)
    running, found = sampled(gpu=0)
    assert running.gpu_device["uuid"] == "MIG-5f"
    assert {handle for _, handle in nvml.asked} == {"handle MIG-5f"}
    assert found["gpu_memory_mb"][0] == 12_345


def test_a_gpu_that_is_not_there_stops_nothing(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    nvml = Nvml().install(monkeypatch)
    running, found = sampled(gpu=1)
    assert "received 1" in running.gpu_device["problem"] and nvml.open == 0

    def no_library():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)
    running, found = sampled(gpu=0)
    assert "Not Found" in running.gpu_device["problem"]
    summary = sampler.summary(found)
    for column in sampler.GPU_COLUMNS:
        assert np.isnan(found[column]).all()
    assert summary["gpu_percent"] is None and summary["gpu_energy_joules"] is None
    assert summary["memory_peak_mb"] > 1


# The thread.


def test_a_busy_loop_and_a_sleep():
    with Sampler(interval=0.05, cores=2) as running:
        with running.phase("work", "busy"):
            before = sampler.cpu_times()
            busy(0.6, of_process=True)
            after = sampler.cpu_times()
        with running.phase("work", "asleep"):
            time.sleep(0.5)
    assert running.phases == [("work", "busy"), ("work", "asleep")]
    found = running.series()
    working, asleep = sampler.summary(found, 0), sampler.summary(found, 1)
    # Of what others left of a core, all was used: together they are the thread's whole time.
    used = working["process_cores_mean"] * working["seconds"]
    assert used == pytest.approx(0.6, rel=0.1)
    assert working["process_cores_mean"] <= 1.1
    assert working["process_percent_mean"] == pytest.approx(50 * working["process_cores_mean"])
    assert working["process_zero_share"] < 0.5
    assert asleep["process_cores_mean"] < 0.05
    assert asleep["process_zero_share"] > 0.8
    assert asleep["seconds"] == pytest.approx(0.5, abs=0.3)
    assert 0 <= working["machine_percent_mean"] <= 110
    assert 0 < running.own_seconds < 0.05 * found["seconds"][-1]
    # The thread and the readings of a block tell the same of the others.
    others = sampler.foreign_cores(before, after)
    assert working["foreign_cores"] == pytest.approx(others, abs=0.2)


def test_another_process_is_foreign():
    before = sampler.cpu_times()
    code = "import time\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)
    after = sampler.cpu_times()
    assert after.process - before.process < 0.2
    assert sampler.foreign_cores(before, after) * (after.seconds - before.seconds) > 0.5


def test_phases_get_their_samples_and_no_others():
    took = {32: 0.0, 64: 0.0}  # a busy machine sleeps for longer than it was asked to
    with Sampler(interval=0.02) as running:
        time.sleep(0.1)
        for value in (32, 64, 32):
            with running.phase("batch_size", value):
                begun = time.monotonic()
                time.sleep(0.1)
                took[value] += time.monotonic() - begun
    found = running.series()
    assert running.phases == [("batch_size", 32), ("batch_size", 64)]
    runs = [index for index, _ in itertools.groupby(found["phase"])]
    assert runs == [-1, 0, -1, 1, -1, 0, -1]
    assert sampler.summary(found, 0)["seconds"] == pytest.approx(took[32], abs=0.09)
    assert sampler.summary(found, 1)["seconds"] == pytest.approx(took[64], abs=0.09)


def test_a_phase_shorter_than_the_interval_has_its_own_sample():
    with Sampler(interval=60) as running:
        busy(0.05)
        with running.phase("short"):
            time.sleep(0.05)
    found = sampler.summary(running.series(), 0)
    assert found["samples"] == 1 and found["process_cores"] < 0.2


def test_a_phase_in_a_phase_comes_back():
    with Sampler(interval=60) as running, running.phase("outer"), running.phase("inner"):
        pass
    assert list(running.series()["phase"]) == [-1, -1, 0, 1, 0, -1]


class Schedule:
    """A clock that only waits and samples move; waits end late, and samples take their time."""

    def __init__(self, late: float, costs: list[float]) -> None:
        self.now, self.late, self.costs = 1000.0, late, list(costs)
        self.taken: list[float] = []

    def wait(self, seconds: float) -> bool:
        assert seconds >= 0
        self.now += seconds + self.late
        return not self.costs

    def sample(self) -> None:
        self.taken.append(self.now - 1000)
        self.now += self.costs.pop(0)


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ([0.03] * 200, np.arange(1, 201)),
        ([0.03, 0.25, 0.03, 0.03], [1, 2, 5, 6]),  # ticks that were missed stay out
    ],
)
def test_samples_do_not_drift(monkeypatch, costs, expected):
    schedule = Schedule(0.004, costs)
    running = Sampler(interval=0.1)
    running._stop, running.sample = schedule, schedule.sample
    monkeypatch.setattr(sampler.time, "monotonic", lambda: schedule.now)
    running._run()
    np.testing.assert_allclose(schedule.taken, 0.1 * np.asarray(expected) + 0.004, atol=1e-9)


def test_what_the_sampling_uses_is_not_the_process():
    running = Sampler(interval=60)
    process = psutil.Process()

    def costly():
        busy(0.05, of_process=True)
        return process.memory_info()

    running._process = types.SimpleNamespace(memory_info=costly)
    with running:
        for _ in range(4):
            running.sample()
    found = running.series()
    used = np.nansum(found["process_cores"] * sampler.intervals(found))
    assert running.own_seconds >= 0.3 and used < 0.02


def test_the_thread_ends_when_the_block_raises():
    before = threading.active_count()
    running = Sampler(interval=0.01)
    taking = threading.Event()

    def slow_sample() -> None:
        if threading.current_thread() is not threading.main_thread():
            taking.set()
            time.sleep(0.1)

    running.sample = slow_sample
    with pytest.raises(KeyError), running, running.phase("fails"):
        assert threading.active_count() == before + 1
        taking.wait(10)
        raise KeyError
    assert threading.active_count() == before
    assert running._phase == sampler.OUTSIDE


def test_a_sampler_starts_anew():
    running = Sampler(interval=60)
    for _ in range(2):
        with running, running.phase("again"):
            pass
        assert running.phases == [("again", None)]
        assert list(running.series()["phase"]) == [-1, -1, 0, -1]
        assert running.series()["seconds"][0] == 0


def test_an_hour_is_kept_in_few_bytes():
    running = Sampler()
    for _ in range(100):
        running.sample()
    assert len(running._rows) * running._rows.itemsize * 360 < 5e6


@pytest.mark.parametrize(
    "given", [{"interval": 0}, {"interval": -1}, {"cores": 0}, {"gpu": -1}], ids=str
)
def test_senseless_arguments_are_refused(given):
    (name,) = given
    with pytest.raises(ValueError, match=rf"^{name}: received .*; .* expected\.$"):
        Sampler(**given)


def test_the_module_needs_no_tensorflow():
    code = (
        "import sys; sys.path.insert(0, 'workflow');"
        "from batchscope.timing import sampler; print('tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


# Peaks.


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_peak_of_memory_between_two_resets():
    if not sampler.reset_peak_memory():
        pytest.skip("this system allows no reset of the peak")
    low = sampler.peak_memory()
    block = np.ones(80_000_000, np.uint8)
    del block
    high = sampler.peak_memory()
    assert (high.source, high.since) == ("VmHWM", "reset")
    assert high.megabytes - low.megabytes == pytest.approx(80, abs=8)
    sampler.reset_peak_memory()
    assert sampler.peak_memory().megabytes < high.megabytes - 60


def test_the_peak_without_proc_and_without_reset(monkeypatch, tmp_path):
    monkeypatch.setattr(sampler, "_CLEAR_REFS", tmp_path / "none" / "clear_refs")
    monkeypatch.setattr(sampler, "_was_reset", False)
    assert sampler.reset_peak_memory() is False
    status = tmp_path / "status"
    status.write_text("VmPeak:\t 9000 kB\nVmHWM:\t    5000 kB\nVmRSS:\t 4000 kB\n")
    monkeypatch.setattr(sampler, "_STATUS", status)
    assert sampler.peak_memory() == (5.12, "VmHWM", "start")
    status.unlink()
    found = sampler.peak_memory()
    assert (found.source, found.since) == ("ru_maxrss", "start")
    # Another unit would be a thousand times off.
    resident = psutil.Process().memory_info().rss / 1e6
    assert resident * 0.5 < found.megabytes < resident * 50


def test_the_peak_of_tensorflows_tensors_on_the_cpu():
    from batchscope import backend

    backend.start()
    import tensorflow as tf

    if not sampler.reset_tensorflow_peak_memory("cpu"):
        assert sampler.tensorflow_peak_memory("cpu") is None
        return
    before = sampler.tensorflow_peak_memory("cpu") or 0.0
    block = tf.ones(10_000_000, tf.float32)
    del block
    assert 39 < sampler.tensorflow_peak_memory("cpu") - before < 82  # a block may be twice as large
    sampler.reset_tensorflow_peak_memory("cpu")
    assert (sampler.tensorflow_peak_memory("cpu") or 0.0) - before == pytest.approx(0, abs=4)


def test_where_tensorflow_keeps_no_count_there_is_no_peak(monkeypatch):
    peaks = {"GPU:0": 3_000_000, "GPU:1": 0}

    def info(name):
        if name not in peaks:
            raise ValueError(f"No matching devices found for '{name}'")
        return {"current": 0, "peak": peaks[name]}

    experimental = types.SimpleNamespace(get_memory_info=info, reset_memory_stats=info)
    config = types.SimpleNamespace(experimental=experimental)
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace(config=config))
    assert sampler.tensorflow_peak_memory("gpu") == 3.0
    assert sampler.tensorflow_peak_memory("gpu:1") is None
    assert sampler.tensorflow_peak_memory("cpu") is None
    assert sampler.reset_tensorflow_peak_memory("gpu") is True
    assert sampler.reset_tensorflow_peak_memory("cpu") is False


def test_series_as_lists_for_a_record():
    with sampler.Sampler(interval=10) as taken, taken.phase("batch_size", 32):
        time.sleep(0.02)
    found = sampler.as_lists(taken)
    assert set(found["batch_size"]) == {32, None} and "gpu_percent" not in found
    assert "phase" not in found
    assert {len(values) for values in found.values()} == {len(taken.series()["seconds"])}
    assert found["seconds"] == sorted(found["seconds"]) and found["seconds"][0] == 0
    assert json.dumps(found)
