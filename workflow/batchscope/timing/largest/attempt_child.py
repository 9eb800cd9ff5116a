"""The child process that tries one batch size.

It builds the model, holds one batch of that size, and takes two training steps with the
optimizer's own variables in memory. `attempts` starts it and watches it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.timing import TimingJob, fates
from batchscope.timing.instruments.peak_memory import peak_memory, status_mb
from batchscope.timing.instruments.processes import MEGABYTE
from batchscope.timing.largest.attempts import FITS, OUT_OF_MEMORY

STEPS = 2  # the second holds what the first left behind
SLACK_MB = 1000.0  # of the fence above the limit: what is reserved is not all touched


def run(
    job: TimingJob, batch_size: int, memory_mb: float | None = None, slack_mb: float = SLACK_MB
) -> None:
    """Tries one batch size in this process, and prints what came of it as one line of JSON.

    An allocator's refusal is an answer; any other error is raised. The data set's images are
    repeated where it has fewer than the batch. On a CPU, the operating system refuses memory beyond
    the limit and `slack_mb`; on a GPU, TensorFlow's allocator has so much.
    """
    _give_way()
    # Where memory is refused, TensorFlow may crash; its last warnings then say why.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
    from batchscope.host import tensorflow_start

    factors = job.factors
    tensorflow_start.start(factors["threads"], factors["device"], factors["replicas"])
    import tensorflow as tf

    on_gpu = factors["device"] == "gpu"
    if on_gpu and memory_mb:
        for gpu in tf.config.list_physical_devices("GPU"):
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory_mb)
            tf.config.set_logical_device_configuration(gpu, [limit])
    reply: dict[str, Any] = {"outcome": FITS, "baseline_mb": None, "message": ""}
    try:
        train = _prepared(job)
        reply["baseline_mb"] = _peak_mb(on_gpu)
        if memory_mb and not on_gpu:
            _fence(memory_mb, slack_mb)
        train(batch_size)
    except Exception as error:
        _lift_fence()  # the answer itself takes memory
        refused = fates.refusal_of(error)
        if refused is None:
            raise
        reply |= {"outcome": OUT_OF_MEMORY, "message": refused}
    print(json.dumps(reply | {"peak_mb": _peak_mb(on_gpu)}), flush=True)


def _give_way() -> None:
    """Makes this process the kernel's first choice, and one that does not outlive its parent."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if sys.platform == "linux":  # an orphan would be watched by nobody
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _prepared(job: TimingJob) -> Callable[[int], None]:
    """Builds the model; returns what trains it on one batch of a size."""
    from batchscope.timing.steps import loops
    from batchscope.training import step_loop

    model, train = job.network(), job.data.examples("train")

    def train_on(batch_size: int) -> None:
        order = np.arange(batch_size, dtype=np.int32)
        rows = train.rows(order % len(train.labels))
        loop = loops.make_loop(job.factors, model, rows, batch_size)
        del rows  # the loop has its copy
        for _ in range(STEPS):
            loop.run(order, 0, 1, step_loop.Totals())

    return train_on


def _peak_mb(on_gpu: bool) -> float:
    """Returns the most memory so far: TensorFlow's on a GPU, else what was resident."""
    if not on_gpu:
        return peak_memory()
    import tensorflow as tf

    devices = [device.name.rpartition("device:")[2] for device in tf.config.list_logical_devices()]
    gpus = [name for name in devices if name.startswith("GPU")]
    return max(tf.config.experimental.get_memory_info(name)["peak"] for name in gpus) / MEGABYTE


def _fence(memory_mb: float, slack_mb: float) -> None:
    """Has the operating system refuse memory beyond the limit and some slack.

    RLIMIT_DATA counts what is reserved, threads' stacks among it, so that the count starts at
    what is reserved now.
    """
    left = max(0.0, memory_mb - status_mb("VmRSS")) + slack_mb
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = int((status_mb("VmData") + left) * MEGABYTE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _lift_fence() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
