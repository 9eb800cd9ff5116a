"""Try whether a batch size fits into memory, in a child process that its parent watches.

`try_in_child` runs in the parent, `try_in_this_process` in the child. After a process has run out
of memory, its allocators keep their memory, so its later tries prove nothing. Each batch size
therefore gets a new child. The child builds the model, holds one batch of that size, and takes two
training steps. The parent kills the child above the limit, before the machine runs out of memory.
`judge_exit` decides the outcome if the child ends by itself. Memory is in MB of 10^6 bytes.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from batchscope.core import disk
from batchscope.host import memory_errors, memory_limits, supervisor, tensorflow_start
from batchscope.store import records
from batchscope.timing import processes
from batchscope.timing.processes import MEGABYTE, ProcessTree
from batchscope.timing.timing_job import TimingJob

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 1800.0  # A child that hangs must not block the search.
USABLE_SHARE = 0.9  # share of the free memory that a try may use; other processes need some too
TRIED_STEPS = 2  # The first step leaves memory allocated, which the second one needs in addition.

# Outcomes of a try. All but the first and the last mean that the size did not fit.
FITS = records.FITS
OUT_OF_MEMORY = records.OUT_OF_MEMORY  # an allocator's refusal
OVER_LIMIT = "over_limit"  # the process used more than the limit
KILLED = "killed"  # SIGKILL ended it; the kernel sends this signal when memory runs out
FAILED = "failed"  # any other error; it proves nothing about memory


def free_memory_mb() -> float:
    """Return 90 % of the free main memory. With more, the kernel could kill other processes.

    Free memory is the smallest of the machine's available memory and the free memory of each
    control group that contains this process, as under SLURM or in a container.
    """
    group_bytes = [group.free for group in memory_limits.control_groups()]
    free_bytes = [number for number in group_bytes if number is not None]
    return USABLE_SHARE * min([psutil.virtual_memory().available, *free_bytes]) / MEGABYTE


@dataclass(frozen=True)
class Try:
    """Result of one try."""

    batch_size: int
    outcome: str
    peak_mb: float | None = None  # a lower bound if the child was killed; None if unknown
    seconds: float = 0.0  # including the start of the process
    message: str = ""  # why the size did not fit


def try_in_child(
    command: Sequence[str], batch_size: int, max_mb: float, on_gpu: bool = False
) -> Try:
    """Try a batch size in a child process, and return the result.

    The command calls `try_in_this_process`, and its option `--output` is the path of the reply. The
    child is killed if its resident memory, with its descendants, exceeds `max_mb`.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        reply_path, stderr_path = Path(folder, "reply.json"), Path(folder, "stderr")
        command = [*command, "--output", str(reply_path)]
        with open(stderr_path, "wb") as stderr_file:
            files = {"stdout": subprocess.DEVNULL, "stderr": stderr_file}
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **files)
        process_tree = ProcessTree(process.pid)
        try:
            reason, peak = _watch(process, process_tree, max_mb)
        finally:
            process_tree.kill()
            process.kill()
            status = process.wait()
        reply = disk.read_json(reply_path) if reply_path.exists() else {}
        stderr = stderr_path.read_text(errors="replace")
    # The parent sees main memory, not the memory of a GPU.
    peak = reply.get("peak_mb", 0.0 if on_gpu else peak)
    outcome, message = reason or judge_exit(status, reply, stderr)
    if outcome == FITS and not on_gpu and peak > max_mb:
        outcome, message = _over_limit("the peak was", peak, max_mb)
    return Try(batch_size, outcome, peak or None, time.monotonic() - start, message)


def _over_limit(subject: str, used_mb: float, limit_mb: float) -> tuple[str, str]:
    return OVER_LIMIT, f"{subject} {used_mb:.0f} MB; at most {limit_mb:.0f} MB may be used."


def _watch(
    process: subprocess.Popen, process_tree: ProcessTree, max_mb: float
) -> tuple[tuple[str, str] | None, float]:
    """Watch a process until it ends or has to be killed.

    Returns:
        Outcome and message if the process has to be killed, else None; and its peak in MB.
    """
    peak, deadline = 0.0, time.monotonic() + TIMEOUT_SECONDS
    while peak <= max_mb:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
            return None, peak
        peak = max(peak, process_tree.usage().memory_mb)  # ignores NaN
        if time.monotonic() > deadline:
            return (FAILED, f"the process took longer than {TIMEOUT_SECONDS:.0f} s."), peak
    return _over_limit("the process took", peak, max_mb), peak


def judge_exit(status: int, reply: dict[str, Any], stderr: str) -> tuple[str, str]:
    """Return the outcome of a child that ended by itself, and a message if it did not fit.

    Args:
        status: Exit status; -n if signal n ended the child.
        reply: Outcome, message and peak memory from the child; {} without a reply.
    """
    if status == 0 and reply:
        return reply["outcome"], reply["message"]
    if status == -signal.SIGKILL:
        return KILLED, "ended by SIGKILL, which the kernel sends when memory runs out."
    refusal = memory_errors.text_refusal(stderr)
    if status != 0 and refusal:
        return OUT_OF_MEMORY, refusal
    ending = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last_line = lines[-1][: memory_errors.MESSAGE_LENGTH] if lines else "nothing on stderr"
    return FAILED, f"{ending}: {last_line}"


def try_in_this_process(job: TimingJob, batch_size: int, gpu_mb: float = 0) -> None:
    """Try one batch size in this process, and write the result to the job's output.

    An allocator's refusal is a result; any other error is raised. A batch that exceeds the data set
    repeats examples.

    Args:
        gpu_mb: Size of TensorFlow's allocator on each GPU; 0 for the GPU's memory.
    """
    supervisor.set_parent_death_signal()
    supervisor.prefer_for_oom_kill()
    # TensorFlow may crash when memory is refused. Its last warnings then name the reason.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
    factors = job.factors
    tensorflow_start.start(factors["threads"], factors["device"], factors["replicas"])
    import tensorflow as tf

    if gpu_mb:
        for gpu in tf.config.list_physical_devices("GPU"):
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=gpu_mb)
            tf.config.set_logical_device_configuration(gpu, [limit])
    from batchscope.timing import loops
    from batchscope.training import step_loop

    outcome, message = FITS, ""
    try:
        model, train = job.network(), job.data.examples("train")
        order = np.arange(batch_size, dtype=np.int32)
        rows = train.rows(order % len(train.labels))
        loop = loops.make_step_loop(factors, model, rows, batch_size)
        del rows  # the loop has its own copy
        for _ in range(TRIED_STEPS):
            loop.run(order, 0, 1, step_loop.Totals())
    except Exception as error:
        refusal = memory_errors.error_refusal(error)
        if refusal is None:
            raise
        outcome, message = OUT_OF_MEMORY, refusal
    reply = {"outcome": outcome, "message": message, "peak_mb": _peak_mb(job.on_gpu)}
    disk.write_json(job.output, reply)


def _peak_mb(on_gpu: bool) -> float:
    """Return the peak memory so far: TensorFlow's on a GPU, else resident memory."""
    if not on_gpu:
        return processes.peak_memory()
    from tensorflow import config

    gpus = [gpu.name.rpartition("device:")[2] for gpu in config.list_logical_devices("GPU")]
    return max(config.experimental.get_memory_info(gpu)["peak"] for gpu in gpus) / MEGABYTE
