"""How TensorFlow is started; each test in a process of its own, since it starts only once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WORKFLOW = str(Path(__file__).resolve().parents[2] / "workflow")


def run(code: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": WORKFLOW}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300
    )


def test_start_leaves_optional_packages_out_and_sets_threads():
    done = run(
        """
import sys
from batchscope.host import tensorflow_start
tensorflow_start.start(threads=3)
loaded = [name for name in tensorflow_start.OPTIONAL if name in sys.modules]
assert not loaded, loaded
import keras, tensorflow as tf
assert tf.config.threading.get_intra_op_parallelism_threads() == 3
assert tf.config.threading.get_inter_op_parallelism_threads() == 2
assert tf.config.get_visible_devices("GPU") == []
assert float(tf.reduce_sum(tf.ones(4))) == 4
import matplotlib, pandas, sklearn
assert pandas.DataFrame({"a": [1]}).a.sum() == 1
tensorflow_start.start(threads=3)  # the same settings again are no error
try:
    tensorflow_start.start(threads=1)
except tensorflow_start.UserError as error:
    print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert "start a new process" in done.stdout
    assert done.stderr == ""  # nothing that TensorFlow says of itself


def test_one_thread_runs_one_operation_at_a_time_and_a_missing_gpu_is_reported():
    done = run(
        """
from batchscope.host import tensorflow_start
tensorflow_start.start(threads=1)
import tensorflow as tf
assert tf.config.threading.get_intra_op_parallelism_threads() == 1
assert tf.config.threading.get_inter_op_parallelism_threads() == 1
try:
    tensorflow_start.start(threads=1, device="gpu")
except tensorflow_start.UserError as error:
    print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("device: received 'gpu', but TensorFlow finds no GPU")


def test_what_native_code_wrote_before_an_error_is_shown():
    done = run(
        """
import os
from batchscope.host import tensorflow_start
with tensorflow_start.hushed():
    os.write(2, b"lost")
with tensorflow_start.hushed():
    os.write(2, b"kept")
    raise ValueError("why")
"""
    )
    assert done.returncode == 1
    assert done.stderr.startswith("kept") and "ValueError: why" in done.stderr


def test_replicas_are_logical_devices_of_the_cpu():
    done = run(
        """
from batchscope.host import tensorflow_start
tensorflow_start.start(replicas=3)
import tensorflow as tf
assert len(tf.config.list_logical_devices("CPU")) == 3
tensorflow_start.start(replicas=3)
tensorflow_start.start(replicas=2)  # two of the three
try:
    tensorflow_start.start(replicas=4)
except tensorflow_start.UserError as error:
    print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert "start a new process" in done.stdout


def test_more_replicas_than_gpus_are_refused():
    done = run(
        """
from batchscope.host import tensorflow_start
tensorflow_start.load()
import tensorflow as tf
there = tf.config.list_physical_devices
tf.config.list_physical_devices = lambda kind=None: ["a GPU"] if kind == "GPU" else there(kind)
try:
    tensorflow_start.start(device="gpu", replicas=2)
except tensorflow_start.UserError as error:
    print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "replicas: received 2, but TensorFlow finds 1 GPU here; at most that many are expected "
        "with device: gpu.\n"
    )
