"""How TensorFlow is started; each test in a process of its own, since it starts only once.

Where the import does not matter, in a fork of one that has it behind it.
"""

import json
import subprocess

import pytest

from batchscope.host import tensorflow_start
from project import forked, python

pytestmark = pytest.mark.slow

START = """
from batchscope.host import tensorflow_start
from batchscope.host.tensorflow_start import start

def print_refusal(**settings):
    try:
        start(**settings)
    except tensorflow_start.UserError as error:
        print(error)
"""


def done_after_the_import(code: str) -> subprocess.CompletedProcess:
    return succeeded(forked(START + code))


def succeeded(process: subprocess.CompletedProcess) -> subprocess.CompletedProcess:
    assert process.returncode == 0, process.stderr
    return process


def test_start_sets_threads_and_heeds_no_settings_of_the_users(tmp_path, monkeypatch):
    """Optional packages are left out, and TensorFlow says nothing of itself."""
    settings = {"image_data_format": "channels_first", "floatx": "float64", "epsilon": 1e-3}
    (tmp_path / "keras.json").write_text(json.dumps({**settings, "backend": "jax"}))
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    for name in tensorflow_start.ARITHMETIC_VARIABLES:
        monkeypatch.setenv(name, "0")
    process = python(
        "-c",
        START
        + """
import os, sys
start(threads=3)
loaded = [name for name in tensorflow_start.OPTIONAL_PACKAGES if name in sys.modules]
assert not loaded, loaded
import keras, tensorflow as tf
assert tf.config.threading.get_intra_op_parallelism_threads() == 3
assert tf.config.threading.get_inter_op_parallelism_threads() == 2
assert tf.config.get_visible_devices("GPU") == []
assert float(tf.reduce_sum(tf.ones(4))) == 4
found = keras.config.image_data_format(), keras.config.floatx(), keras.config.epsilon()
assert found == ("channels_last", "float32", 1e-7), found
assert (keras.config.backend(), keras.config.dtype_policy().name) == ("tensorflow", "float32")
assert keras.layers.Conv2D(1, 1).data_format == "channels_last"
assert not {*tensorflow_start.ARITHMETIC_VARIABLES} & {*os.environ}
import matplotlib, pandas, sklearn
assert pandas.DataFrame({"a": [1]}).a.sum() == 1
start(threads=3)  # the same settings again are no error
print_refusal(threads=1)
""",
    )
    assert "start a new process" in succeeded(process).stdout
    assert process.stderr == ""


def test_one_thread_runs_one_operation_at_a_time_and_a_missing_gpu_is_reported():
    process = done_after_the_import("""
start(threads=1)
import tensorflow as tf
assert tf.config.threading.get_intra_op_parallelism_threads() == 1
assert tf.config.threading.get_inter_op_parallelism_threads() == 1
print_refusal(threads=1, device="gpu")
devices = tf.config.list_physical_devices
tf.config.list_physical_devices = lambda kind=None: ["a GPU"] if kind == "GPU" else devices(kind)
print_refusal(device="gpu", replicas=2)
""")
    no_gpu, too_few = process.stdout.splitlines()
    assert no_gpu.startswith("device: received 'gpu', but TensorFlow finds no GPU")
    assert too_few.startswith("replicas: received 2, but TensorFlow finds 1 GPU here; ")


def test_what_native_code_wrote_before_an_error_is_shown():
    process = python(
        "-c",
        """
import os
from batchscope.host import tensorflow_start
with tensorflow_start.hidden_stderr():
    os.write(2, b"lost")
with tensorflow_start.hidden_stderr():
    os.write(2, b"kept")
    raise ValueError("why")
""",
    )
    assert process.returncode == 1
    assert process.stderr.startswith("kept") and "ValueError: why" in process.stderr


def test_replicas_are_logical_devices_of_the_cpu():
    process = done_after_the_import("""
start(replicas=3)
import tensorflow as tf
assert len(tf.config.list_logical_devices("CPU")) == 3
start(replicas=3)
start(replicas=2)  # two of the three
print_refusal(replicas=4)
""")
    assert "start a new process" in process.stdout
