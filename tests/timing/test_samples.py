"""CPU time, memory and GPU use: known series give known summaries, and real work shows as such."""

import json
import subprocess
import sys
import threading
import time
import types

import numpy as np
import psutil
import pytest

from batchscope.store import records
from batchscope.timing import samples
from batchscope.timing.samples import CpuReading, ProcessTree, Sampler
from fake_nvml import NAMES, UUIDS, Nvml
from project import python

UNKNOWN = np.nan


def series(seconds, **columns) -> dict[str, np.ndarray]:
    every = {name: np.full(len(seconds), UNKNOWN) for name in samples.SAMPLE_COLUMNS}
    columns = {"seconds": seconds, **columns}
    return every | {name: np.asarray(values, float) for name, values in columns.items()}


def test_a_sample_weighs_the_time_that_it_represents():
    rows = series([0, 1, 2, 6, 7], process_percent=[UNKNOWN, 10, 20, 80, 5])
    summary = samples.summarise(rows, [(0, 6)])
    assert summary["process_percent"] == 80
    assert (summary["process_percent_q1"], summary["process_percent_q3"]) == (20, 80)
    spread = samples.spread(np.array([UNKNOWN, 10, 20, 80]), np.array([1, 1, 1, 4]))
    assert spread["mean"] == pytest.approx((10 + 20 + 4 * 80) / 6)


def test_the_share_at_zero():
    cores = [UNKNOWN, 0.0, 0.009, 0.01, 1.0]
    gpu = [UNKNOWN, 0, UNKNOWN, 1, 100]
    summary = samples.summarise(series([0, 1, 2, 3, 7], process_cores=cores, gpu_percent=gpu))
    assert summary["process_zero_share"] == pytest.approx(2 / 7)
    assert summary["gpu_zero_share"] == pytest.approx(1 / 6)  # one second is unknown


def test_a_summary_is_of_all_its_spans():
    rows = series(
        np.arange(7),
        process_percent=[UNKNOWN, 1, 9, 9, 1, 1, 9],
        gpu_energy_joules=[0, 10, 100, 190, UNKNOWN, 210, 300],
        memory_mb=[900, 1, 800, 800, 3, 2, 900],
    )
    summary = samples.summarise(rows, [(0, 1), (3, 5)])
    assert summary["process_percent"] == 1
    assert (summary["gpu_energy_joules"], summary["memory_peak_mb"]) == (10 + 10 + 10, 3)


def test_utilisation_of_the_gpu_leaves_out_the_time_before_the_span():
    seconds = np.arange(0, 3.01, 0.25)
    # NVML's window of a second: for a while after 1 s, it still includes the time before.
    rows = series(seconds, gpu_percent=np.where(seconds < 2, 30, 80))
    assert samples.summarise(rows, [(1.0, 3.0)])["gpu_percent_q1"] == 80
    assert samples.summarise(rows, [(0.0, 0.75), (1.0, 1.75)])["gpu_percent"] is None


def test_unknown_values_are_none():
    for seconds in ([0.0, 0.1, 0.2], []):
        for spans in ([(0.0, 0.2)], [(1.0, 2.0)]):
            assert set(samples.summarise(series(seconds), spans).values()) == {None}
        assert set(samples.summarise(series(seconds)).values()) == {None}


def busy(seconds: float) -> None:
    """Work for seconds of this thread's own CPU time."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        pass


@pytest.mark.slow
def test_a_busy_loop_and_a_sleep():
    with Sampler(interval=0.05, cores=2) as sampler:
        start = sampler.sample()
        before = samples.cpu_times()
        busy(0.6)
        after = samples.cpu_times()
        middle = sampler.sample()
        time.sleep(0.6)
    rows = sampler.series()
    working = samples.summarise(rows, [(start, middle)])
    asleep = samples.summarise(rows, [(middle, rows["seconds"][-1])])
    # Together, the shares of a core are the thread's whole time.
    inside = samples.in_span(rows, (start, middle))
    used = np.sum((rows["process_cores"] * samples.sample_seconds(rows))[inside])
    assert used == pytest.approx(0.6, rel=0.1)
    assert rows["process_percent"][1:] == pytest.approx(50 * rows["process_cores"][1:])
    assert working["process_zero_share"] < 0.5 < asleep["process_zero_share"]
    assert 0 < sampler.own_seconds < 0.05 * rows["seconds"][-1]
    # The thread and the readings of a block agree on the other samples.
    others = samples.foreign_cores(before, after)
    assert working["foreign_cores"] == pytest.approx(others, abs=0.2)


def test_the_ends_of_a_span_are_samples_that_belong_to_one_span():
    with Sampler(interval=60) as sampler:
        start, middle, stop = (sampler.sample() for _ in range(3))
    rows = sampler.series()
    spans = [(start, middle), (middle, stop)]
    assert [samples.in_span(rows, span).tolist() for span in spans] == [
        [False, False, True, False, False],
        [False, False, False, True, False],
    ]


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
    with pytest.raises(KeyError), sampler:
        assert threading.active_count() == before + 1
        raise KeyError
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("visible", "index"), [(None, 0), ("2,0", 2), ("GPU-bb33-2", 2), ("", None)]
)
def test_the_first_visible_gpu_is_sampled(visible, index, monkeypatch):
    fake = Nvml().install(monkeypatch, visible)
    with Sampler(interval=60, gpus=1) as sampler:
        sampler.sample()
    rows = sampler.series()
    if index is None:
        assert "Not Found" in sampler.gpu_device["problem"]
        assert all(np.isnan(rows[column]).all() for column in samples.GPU_COLUMNS)
        assert rows["memory_mb"].min() > 0
        return
    assert sampler.gpu_device == {"name": NAMES[index], "uuid": UUIDS[index]}
    assert {handle for _, handle in fake.asked} == {f"handle {index}"}
    assert set(rows["gpu_percent"]) == {63} and set(rows["gpu_bandwidth_percent"]) == {41}
    assert set(rows["gpu_memory_mb"]) == {12_345}  # bytes
    assert list(rows["gpu_energy_joules"]) == [0, 20, 40]  # mJ, and from the start


@pytest.mark.parametrize(("visible", "indices"), [(None, (0, 1)), ("2, 0,1", (2, 0))])
def test_the_energy_of_several_gpus_adds_up(visible, indices, monkeypatch):
    fake = Nvml().install(monkeypatch, visible)
    with Sampler(interval=60, gpus=2) as sampler:
        pass
    assert {handle for _, handle in fake.asked} == {f"handle {index}" for index in indices}
    rows = sampler.series()
    assert list(rows["gpu_energy_joules"]) == [0, 80]  # four readings, each 20 J after another
    assert set(rows["gpu_percent"]) == {63} and set(rows["gpu_memory_mb"]) == {12_345}


def test_a_passing_failure_of_nvml_costs_its_samples_alone(monkeypatch):
    fake = Nvml(failing=["energy", "rates"]).install(monkeypatch)
    with Sampler(interval=60, gpus=1) as sampler:
        fake.failing.clear()
        sampler.sample()
    rows = sampler.series()
    assert np.isnan(rows["gpu_percent"][0]) and rows["gpu_memory_mb"][0] > 0
    assert list(rows["gpu_energy_joules"][1:]) == [0, 20]


def test_the_gpus_of_a_machine(monkeypatch):
    Nvml().install(monkeypatch)
    assert records.machine_description()["gpu"] == NAMES


def test_foreign_cores_are_what_this_process_did_not_use():
    before = CpuReading(100.0, 7.0, 5000.0)
    assert samples.foreign_cores(before, CpuReading(102.0, 9.0, 5005.0)) == pytest.approx(1.5)
    # A tick of the machine's clock is not yet counted: no negative cores.
    assert samples.foreign_cores(before, CpuReading(102.0, 9.0, 5001.99)) == 0
    assert samples.foreign_cores(before, before) == 0


def test_busy_time_of_the_machine_counts_guests_once_and_no_idling(monkeypatch):
    times = {"user": 10, "nice": 5, "system": 3, "irq": 1, "softirq": 1, "steal": 2}
    idle = {"idle": 1000, "iowait": 100, "guest": 4, "guest_nice": 2}
    counted = types.SimpleNamespace(_asdict=lambda: times | idle)
    monkeypatch.setattr(psutil, "cpu_times", lambda: counted)
    assert samples.cpu_times().machine == 22


# Holds 150 MB, which the two processes that it forks share, and 100 MB more in each of them.
FORKED = """
import os, time
held = bytearray(b"x") * (150 * 10**6)
filled, fill = os.pipe()
for _ in range(2):
    if os.fork() == 0:
        own = bytearray(b"x") * (100 * 10**6)
        os.write(fill, b"x")
        time.sleep(60)
for _ in range(2):
    os.read(filled, 1)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_memory_that_processes_share_counts_once_and_all_are_ended():
    command = [sys.executable, "-S", "-c", FORKED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        family = ProcessTree(process.pid)
        members = family.members()
        try:
            assert len(members) == 3
            with Sampler(60, watched=family) as sampler:
                begun = time.thread_time()
                while time.thread_time() - begun < 0.3:
                    pass
        finally:
            family.kill()
    rows = sampler.series()
    # An interpreter takes some 10 MB, some of which a worker has touched itself.
    assert rows["memory_mb"].min() > 350 and rows["memory_mb"].max() < 350 + 3 * 12
    # This process is not sampled: its work is that of others.
    seconds = rows["seconds"][-1]
    assert rows["process_cores"][-1] * seconds < 0.1 < rows["foreign_cores"][-1] * seconds
    gone, alive = psutil.wait_procs(members, timeout=10)
    assert len(gone) == 3 and not alive and np.isnan(family.usage()).all()


# In a process of its own: another one frees what earlier tests left, in between.
TWO_RESETS = """
import json
import numpy as np
from batchscope.timing import samples
if samples.reset_peak_memory():
    low = samples.peak_memory()
    block = np.ones(80_000_000, np.uint8)
    del block
    high = samples.peak_memory()
    samples.reset_peak_memory()
    print(json.dumps([low, high, samples.peak_memory()]))
"""


def test_the_peak_of_memory_between_two_resets(monkeypatch, tmp_path):
    monkeypatch.setattr(samples, "_CLEAR_REFS", tmp_path / "none" / "clear_refs")
    assert samples.reset_peak_memory() is False
    done = python("-c", TWO_RESETS)
    assert done.returncode == 0, done.stderr
    if not done.stdout:
        pytest.skip("this system allows no reset of the peak")
    low, high, after = json.loads(done.stdout)
    assert high - low == pytest.approx(80, abs=8)
    assert after < high - 60
