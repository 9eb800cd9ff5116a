"""Peaks of memory between two resets."""

from __future__ import annotations

import json
import sys
import types

import psutil
import pytest

from batchscope.host import tensorflow_start
from batchscope.timing.instruments import peak_memory
from project import python

tensorflow_start.start()

import tensorflow as tf

# In a process of its own: another one frees what earlier tests left, in between.
TWO_RESETS = """
import json
import numpy as np
from batchscope.timing.instruments import peak_memory
if peak_memory.reset_peak_memory():
    low = peak_memory.peak_memory()
    block = np.ones(80_000_000, np.uint8)
    del block
    high = peak_memory.peak_memory()
    peak_memory.reset_peak_memory()
    print(json.dumps([low, high, peak_memory.peak_memory()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_peak_of_memory_between_two_resets():
    done = python("-c", TWO_RESETS)
    assert done.returncode == 0, done.stderr
    if not done.stdout:
        pytest.skip("this system allows no reset of the peak")
    low, high, after = json.loads(done.stdout)
    assert high - low == pytest.approx(80, abs=8)
    assert after < high - 60


def test_the_peak_without_proc_and_without_reset(monkeypatch, tmp_path):
    monkeypatch.setattr(peak_memory, "_CLEAR_REFS", tmp_path / "none" / "clear_refs")
    assert peak_memory.reset_peak_memory() is False
    status = tmp_path / "status"
    status.write_text("VmPeak:\t 9000 kB\nVmHWM:\t    5000 kB\nVmRSS:\t 4000 kB\n")
    monkeypatch.setattr(peak_memory, "_STATUS", status)
    assert peak_memory.peak_memory() == 5.12
    status.unlink()
    # Another unit would be a thousand times off.
    resident = psutil.Process().memory_info().rss / 1e6
    assert resident * 0.5 < peak_memory.peak_memory() < resident * 50


def test_the_peak_of_tensorflows_tensors_on_the_cpu():
    if not peak_memory.reset_tensorflow_peak("cpu"):
        pytest.skip("this TensorFlow keeps no count on the CPU")
    before = peak_memory.tensorflow_peak("cpu") or 0
    block = tf.ones(60_000, tf.float32)  # 240,000 bytes are not counted
    assert (peak_memory.tensorflow_peak("cpu") or 0) == before
    block = tf.ones(10_000_000, tf.float32)
    del block
    # A block may be twice as large.
    assert 39e6 < peak_memory.tensorflow_peak("cpu") - before < 82e6
    peak_memory.reset_tensorflow_peak("cpu")
    assert (peak_memory.tensorflow_peak("cpu") or 0) - before == pytest.approx(0, abs=4e6)


def test_where_tensorflow_keeps_no_count_there_is_no_peak(monkeypatch):
    peaks = {"GPU:0": 3_000_000, "GPU:1": 0}

    def info(name):
        if name not in peaks:
            raise ValueError(f"No matching devices found for '{name}'")
        return {"current": 0, "peak": peaks[name]}

    experimental = types.SimpleNamespace(get_memory_info=info, reset_memory_stats=info)
    config = types.SimpleNamespace(experimental=experimental)
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace(config=config))
    assert peak_memory.tensorflow_peak("gpu") == 3_000_000
    assert peak_memory.tensorflow_peak("gpu:1") is None
    assert peak_memory.tensorflow_peak("cpu") is None
    assert peak_memory.reset_tensorflow_peak("gpu") is True
    assert peak_memory.reset_tensorflow_peak("cpu") is False
