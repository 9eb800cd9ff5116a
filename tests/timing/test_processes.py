"""Clocks of processes, and peaks of memory between two resets."""

import json
import subprocess
import sys
import time
import types

import numpy as np
import psutil
import pytest

from batchscope.host import tensorflow_start
from batchscope.timing import processes
from batchscope.timing.processes import CpuReading, ProcessTree
from batchscope.timing.samples import Sampler
from project import python

tensorflow_start.start()

import tensorflow as tf

from batchscope.timing import loops


def test_foreign_cores_are_what_this_process_did_not_use():
    before = CpuReading(100.0, 7.0, 5000.0)
    assert processes.foreign_cores(before, CpuReading(102.0, 9.0, 5005.0)) == pytest.approx(1.5)
    # A tick of the machine's clock is not yet counted: no negative cores.
    assert processes.foreign_cores(before, CpuReading(102.0, 9.0, 5001.99)) == 0
    assert processes.foreign_cores(before, before) == 0


def test_busy_time_of_the_machine_counts_guests_once_and_no_idling(monkeypatch):
    times = {"user": 10, "nice": 5, "system": 3, "irq": 1, "softirq": 1, "steal": 2}
    idle = {"idle": 1000, "iowait": 100, "guest": 4, "guest_nice": 2}
    counted = types.SimpleNamespace(_asdict=lambda: times | idle)
    monkeypatch.setattr(psutil, "cpu_times", lambda: counted)
    assert processes.cpu_times().machine == 22


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
from batchscope.timing import processes
if processes.reset_peak_memory():
    low = processes.peak_memory()
    block = np.ones(80_000_000, np.uint8)
    del block
    high = processes.peak_memory()
    processes.reset_peak_memory()
    print(json.dumps([low, high, processes.peak_memory()]))
"""


def test_the_peak_of_memory_between_two_resets(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "_CLEAR_REFS", tmp_path / "none" / "clear_refs")
    assert processes.reset_peak_memory() is False
    done = python("-c", TWO_RESETS)
    assert done.returncode == 0, done.stderr
    if not done.stdout:
        pytest.skip("this system allows no reset of the peak")
    low, high, after = json.loads(done.stdout)
    assert high - low == pytest.approx(80, abs=8)
    assert after < high - 60


def test_the_peak_of_tensorflows_tensors_on_the_cpu():
    runner = loops.Runner(None, 1)
    if not runner.reset_peak():
        pytest.skip("this TensorFlow keeps no count on the CPU")
    before = runner.peak_mb() or 0
    block = tf.ones(60_000, tf.float32)  # 240,000 bytes are not counted
    assert (runner.peak_mb() or 0) == before
    block = tf.ones(10_000_000, tf.float32)
    del block
    # A block may be twice as large.
    assert 39 < runner.peak_mb() - before < 82
    runner.reset_peak()
    assert (runner.peak_mb() or 0) - before == pytest.approx(0, abs=4)
    assert loops.Runner(None, 1, "gpu").reset_peak() is False
