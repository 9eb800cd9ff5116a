"""The sampler: real work shows as what it is, of this process and of another."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
import types

import numpy as np
import psutil
import pytest

from batchscope.timing.instruments import clocks, sampler, samples
from batchscope.timing.instruments.processes import Family
from batchscope.timing.instruments.sampler import Sampler, as_lists


def busy(seconds: float, of_process: bool = False) -> None:
    """Works for seconds of the wall, or of this thread's own CPU time."""
    clock = time.thread_time if of_process else time.monotonic
    begun = clock()
    while clock() - begun < seconds:
        pass


@pytest.mark.slow
def test_a_busy_loop_and_a_sleep():
    with Sampler(interval=0.05, cores=2) as running:
        with running.phase("work", "busy"):
            before = clocks.cpu_times()
            busy(0.6, of_process=True)
            after = clocks.cpu_times()
        with running.phase("work", "asleep"):
            time.sleep(0.5)
    assert running.phases == [("work", "busy"), ("work", "asleep")]
    found = running.series()
    working, asleep = samples.summary(found, 0), samples.summary(found, 1)
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
    # The thread and the readings of a block report the same of the others.
    others = clocks.foreign_cores(before, after)
    assert working["foreign_cores"] == pytest.approx(others, abs=0.2)


@pytest.mark.slow
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
    assert samples.summary(found, 0)["seconds"] == pytest.approx(took[32], abs=0.09)
    assert samples.summary(found, 1)["seconds"] == pytest.approx(took[64], abs=0.09)


def test_a_phase_shorter_than_the_interval_has_its_own_sample():
    with Sampler(interval=60) as running:
        busy(0.05)
        with running.phase("short"):
            time.sleep(0.05)
    found = samples.summary(running.series(), 0)
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
    running._run(0.1)
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
    used = np.nansum(found["process_cores"] * samples.intervals(found))
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
    assert running._phase == samples.OUTSIDE


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


CHILD = """
import subprocess, sys, time
if sys.argv[1] == "parent":
    subprocess.run([sys.executable, "-S", "-c", sys.argv[2], "itself", ""], check=True)
else:
    held = bytearray(b"x") * (100 * 10**6)
    while time.process_time() < 0.5: pass
time.sleep(0.4)
"""


@pytest.mark.parametrize("who", ["itself", "parent"])
@pytest.mark.slow
def test_another_process_and_its_children_are_sampled_and_this_one_is_not(who):
    child = subprocess.Popen([sys.executable, "-S", "-c", CHILD, who, CHILD])
    with Sampler(0.05, cores=2, watched=Family(child.pid)) as running:
        busy(0.3, of_process=True)
        assert child.wait(60) == 0
        assert np.isnan(running.sample()["process_cores"])  # there is nothing any more
    found = running.series()
    known = np.isfinite(found["process_cores"])
    used = (found["process_cores"] * samples.intervals(found))[known].sum()
    assert 0.4 < used < 0.75  # 0.5 and the start of two interpreters; this one's 0.3 are others'
    assert 100 < np.nanmax(found["memory_mb"]) < 150
    others = (found["foreign_cores"] * samples.intervals(found))[known].sum()
    assert others > 0.15


def test_samples_that_whoever_times_takes():
    before = threading.active_count()
    with Sampler(None) as running, running.phase("batch_size", 8):
        assert threading.active_count() == before
        busy(0.05, of_process=True)
        taken = running.sample()
    found = running.series()
    assert list(found["phase"]) == [-1, -1, 0, 0, -1]
    assert set(taken) == set(found)
    assert taken["memory_mb"] == found["memory_mb"][2]
    assert taken["process_cores"] * samples.intervals(found)[2] > 0.04


@pytest.mark.parametrize(
    "given", [{"interval": 0}, {"interval": -1}, {"cores": 0}, {"gpu": -1}], ids=str
)
def test_senseless_arguments_are_refused(given):
    (name,) = given
    with pytest.raises(ValueError, match=rf"^{name}: received .*; .* expected\.$"):
        Sampler(**given)


def test_samples_without_phases_have_no_column_of_them():
    with Sampler(None) as taken:
        taken.sample()
    assert not {"phase", "batch_size"} & set(as_lists(taken))
    with Sampler(None) as taken, taken.phase("plain"):
        pass
    assert as_lists(taken, "phase")["phase"] == [None, None, "plain", None]


def test_series_as_lists_for_a_record():
    with Sampler(interval=10) as taken, taken.phase("batch_size", 32):
        time.sleep(0.02)
    found = as_lists(taken)
    assert set(found["batch_size"]) == {32, None} and "gpu_percent" not in found
    assert "phase" not in found
    assert {len(values) for values in found.values()} == {len(taken.series()["seconds"])}
    assert found["seconds"] == sorted(found["seconds"]) and found["seconds"][0] == 0
    assert json.dumps(found)
