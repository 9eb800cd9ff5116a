"""Import TensorFlow and Keras (`import_keras`), and set their threads and devices (`start`).

A new environment variable that changes results belongs to `ARITHMETIC_VARIABLES`.
"""

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator

from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.host import requirements

# Packages that Keras imports if they are installed, for features that this project does not use.
# Importing them takes about as long as TensorFlow itself.
OPTIONAL_PACKAGES = ("sklearn", "matplotlib", "pandas")
# Environment variables that change the rounding or the choice of operations.
ARITHMETIC_VARIABLES = (
    *("TF_ENABLE_ONEDNN_OPTS", "TF_SET_ONEDNN_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA"),
    *("NVIDIA_TF32_OVERRIDE", "TF_XLA_FLAGS", "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES"),
)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def set_backend_and_log_level() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["KERAS_BACKEND"] = "tensorflow"


@contextlib.contextmanager
def hidden_stderr() -> Iterator[None]:
    """Hide the stderr of native code inside the block, unless the block raises.

    TensorFlow's libraries report on themselves before any setting can silence them.
    """
    with tempfile.TemporaryFile() as buffer:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(buffer.fileno(), 2)
        try:
            yield
        except BaseException:
            buffer.seek(0)
            os.write(stderr, buffer.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)


def thread_count(threads: int) -> int:
    """Return the number of threads; 0 stands for the number of usable cores."""
    return threads or requirements.usable_cores()


def set_threads_and_device(threads: int = 1, device: str = "cpu") -> None:
    """Set the threads and the device of libraries before their import.

    The user's variables that change arithmetic are removed, because no result's name holds them.
    """
    for variable in ARITHMETIC_VARIABLES:
        os.environ.pop(variable, None)
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def import_keras(threads: int = 1, device: str = "cpu") -> None:
    """Import TensorFlow and Keras without starting a thread.

    The user's `~/.keras/keras.json` is overridden, because no result's name holds its settings.
    """
    set_backend_and_log_level()
    set_threads_and_device(threads, device)
    if "keras" not in sys.modules:
        blocked = [name for name in OPTIONAL_PACKAGES if name not in sys.modules]
        # Python refuses to import a module with the entry None.
        sys.modules.update(dict.fromkeys(blocked))  # type: ignore[arg-type]
        try:
            with hidden_stderr():
                importlib.import_module("keras")
        finally:
            for name in blocked:
                del sys.modules[name]
    import keras

    keras.config.set_image_data_format("channels_last")
    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)


def start(threads: int = 1, device: str = "cpu", replicas: int = 1) -> None:
    """Import TensorFlow and Keras and set them up. Call this before modules that import Keras.

    Args:
        threads: Threads of one operation; 0 for the number of cores. With one thread, operations
            also run one after another, so that sums always have the same order.
        replicas: Number of devices of a training: GPUs, or logical devices of the CPU.

    Raises:
        UserError: If TensorFlow already runs with other settings, or finds too few GPUs.
    """
    threads = thread_count(threads)
    import_keras(threads, device)
    import tensorflow as tf

    with hidden_stderr():
        gpus = tf.config.list_physical_devices("GPU")
    # Each GPU has a thread, so that no GPU waits until another GPU has received its work.
    gpu_threads = replicas if device == "gpu" and replicas > 1 else 1
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(max(min(threads, 2), gpu_threads))
        if device == "cpu":
            tf.config.set_visible_devices([], "GPU")
            cpu = tf.config.list_physical_devices("CPU")[0]
            if len(tf.config.get_logical_device_configuration(cpu) or [None]) < replicas:
                devices = [tf.config.LogicalDeviceConfiguration() for _ in range(replicas)]
                tf.config.set_logical_device_configuration(cpu, devices)
            return
        if not gpus:
            raise UserError(
                "device: received 'gpu', but TensorFlow finds no GPU here; install "
                "tensorflow[and-cuda] on a machine with an NVIDIA GPU, or use device: cpu."
            )
        if len(gpus) < replicas:
            count = display.count(len(gpus), "GPU")
            raise UserError(
                f"replicas: received {replicas}, but TensorFlow finds {count} here; at most that "
                "many are expected with device: gpu."
            )
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError as error:
        raise UserError(f"TensorFlow: runs already; start a new process ({error}).") from None
