"""The largest batch that fits into memory: each size is tried in a new process.

After a process has run out of memory, its allocators keep their memory, so its later tries prove
nothing. Each batch size therefore gets a new child process (`try_in_child`). The child builds the
model, holds one batch of that size, and takes two training steps (`try_in_this_process`). The
parent kills the child above the limit, before the machine runs out of memory. `judge_exit` decides
the outcome if the child ends by itself. Memory is in MB of 10^6 bytes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import psutil
from pydantic import Field

from batchscope.core import disk, project_files
from batchscope.core.errors import UserError
from batchscope.host import memory_limits
from batchscope.study.model import Integer, Number, Setting
from batchscope.study.specifications import (
    Column,
    Figure,
    IntegerColumn,
    Table,
    TextColumn,
    Timing,
    TimingSettings,
)
from batchscope.timing import Timed

if TYPE_CHECKING:
    from batchscope.timing.timing_job import TimingJob

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 1800.0  # A child that hangs must not block the search.
USABLE_SHARE = 0.9  # share of the free memory that a try may use; other processes need some too
TRIED_STEPS = 2  # The first step leaves memory allocated, which the second one needs in addition.

# Outcomes of a try. All but the first and the last mean that the size did not fit. `store.records`
# repeats the first two: it imports the registry, which imports this module.
FITS = "fits"
OUT_OF_MEMORY = "out_of_memory"  # an allocator's refusal
OVER_LIMIT = "over_limit"  # the process used more than the limit
KILLED = "killed"  # SIGKILL ended it; the kernel sends this signal when memory runs out
FAILED = "failed"  # any other error; it proves nothing about memory
# Reasons for the end of a search, besides a failed try.
RESOLVED = "resolved"
MAX_FITS = "most_fits"  # the largest batch size that may be tried fits
NOTHING_FITS = "nothing_fits"


class MaxBatchSizeSettings(TimingSettings):
    """Settings of `max_batch_size`."""

    limit_mb: Annotated[Integer, Field(ge=0), Setting("lim", "MB")] = 0
    """Memory limit; 0 for 90 % of the free memory at the start of the search."""
    most: Annotated[Integer, Field(ge=1, le=100_000_000), Setting("most")] = 65536
    """Largest batch size to try."""
    resolution: Annotated[Number, Field(ge=0), Setting("res")] = 0.03125
    """Relative resolution of the search."""


_TRY_COLUMNS = {
    "batch_size": IntegerColumn("Batch size that was tried."),
    "outcome": TextColumn("fits, out_of_memory, over_limit or killed."),
    "peak_mb": Column("Peak memory; a lower bound if the batch size did not fit.", "MB"),
    "seconds": Column("Time of the try.", "s"),
    "message": TextColumn("Why it did not fit."),
}


ENTRY = Timing(
    version="max_batch_size-v1",
    settings=MaxBatchSizeSettings,
    batch_sizes="searched",
    tables={"largest": Table(_TRY_COLUMNS, lambda record, path: record["tries"])},
    figures=(
        Figure(
            "max_batch_size",
            "Largest batch size",
            "Machine",
            "Peak memory of every batch size that was tried, each in a new process; at the upper "
            "edge if unknown. The fit is fixed memory plus memory per example.",
            kind="sweep",
            table="largest",
            columns=("seconds", "message"),
        ),
    ),
    order=4,
)


@dataclass(frozen=True)
class Try:
    """Result of one try."""

    batch_size: int
    outcome: str
    peak_mb: float | None = None  # a lower bound if the child was killed; None if unknown
    seconds: float = 0.0  # including the start of the process
    message: str = ""  # why the size did not fit


class SearchResult(NamedTuple):
    """Result of a search; if it failed, the message of the last try says why."""

    largest: int  # largest batch size that was tried and fits; 0 if none fits
    bound: str  # reason for the end of the search
    tries: list[Try]


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Search for the largest batch size; raise `UserError` if a try fails for another reason."""
    from batchscope.store import records

    max_mb, limit_mb = free_memory_mb(), settings["limit_mb"]
    command = [sys.executable, str(project_files.CLI), "try_batch", "--results", str(job.results)]
    command += ["--sweep", job.subject.name]
    if job.gpus:
        command += ["--gpu-mb", str(limit_mb)]
    else:
        max_mb = limit_mb = min(limit_mb or max_mb, max_mb)
    if job.model_file:
        command += ["--model-file", str(job.model_file)]

    def try_size(size: int) -> Try:
        return try_in_child([*command, "--batch-size", str(size)], size, max_mb, bool(job.gpus))

    result = search(try_size, settings["most"], job.factors["replicas"], settings["resolution"])
    if result.bound == FAILED:
        last = result.tries[-1]
        raise UserError(f"max_batch_size: batch size {last.batch_size}: {last.message}")
    tries = [asdict(attempt) for attempt in result.tries]
    details = {**result._asdict(), "limit_mb": limit_mb or None, "tries": tries}
    return Timed(records.FINISHED, details)


def free_memory_mb() -> float:
    """Return 90 % of the free main memory. With more, the kernel could kill other processes.

    Free memory is the smallest of the machine's available memory and the free memory of each
    control group that contains this process, as under SLURM or in a container.
    """
    group_bytes = [group.free for group in memory_limits.control_groups()]
    free_bytes = [number for number in group_bytes if number is not None]
    return USABLE_SHARE * min([psutil.virtual_memory().available, *free_bytes]) / 10**6


def search(
    try_size: Callable[[int], Try], max_size: int, step: int = 1, resolution: float = 1 / 32
) -> SearchResult:
    """Find the largest batch size that fits: doubling until one does not fit, then bisection.

    Sizes are multiples of `step`, and `max_size` is at least one step. The bisection ends when the
    smallest size that does not fit exceeds the largest size that fits by at most the share
    `resolution` or one step. If answers are not monotone, the result fits and the next size does
    not, but a larger size may fit.
    """
    tries: list[Try] = []
    low, high, size = 0, None, step
    while True:
        tries.append(try_size(size))
        if tries[-1].outcome == FAILED:
            return SearchResult(low, FAILED, tries)
        if tries[-1].outcome == FITS:
            low = size
        else:
            high = size
        if high is None:
            size = min(2 * low, max_size) // step * step
            if size <= low:
                return SearchResult(low, MAX_FITS, tries)
        elif not low:
            return SearchResult(0, NOTHING_FITS, tries)
        elif high - low <= max(step, low * resolution):
            return SearchResult(low, RESOLVED, tries)
        else:
            size = low + (high - low) // step // 2 * step


def try_in_child(
    command: Sequence[str], batch_size: int, max_mb: float, on_gpu: bool = False
) -> Try:
    """Try a batch size in a child process, and return the result.

    The command calls `try_in_this_process`, and its option `--output` is the path of the reply. The
    child is killed if its resident memory, with its descendants, exceeds `max_mb`.
    """
    from batchscope.timing.samples import ProcessTree

    start, peak, ending = time.monotonic(), 0.0, None
    with tempfile.TemporaryDirectory() as folder:
        reply_path, stderr_path = Path(folder, "reply.json"), Path(folder, "stderr")
        command = [*command, "--output", str(reply_path)]
        with open(stderr_path, "wb") as stderr_file:
            files = {"stdout": subprocess.DEVNULL, "stderr": stderr_file}
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **files)
        process_tree = ProcessTree(process.pid)
        try:
            while ending is None:
                try:
                    process.wait(POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    _, memory_mb = process_tree.usage()
                peak = max(peak, memory_mb)  # ignores NaN
                if peak > max_mb:
                    ending = _over_limit("the process took", peak, max_mb)
                elif time.monotonic() > start + TIMEOUT_SECONDS:
                    ending = FAILED, f"the process took longer than {TIMEOUT_SECONDS:.0f} s."
        finally:
            process_tree.kill()
            process.kill()
            status = process.wait()
        reply = disk.read_json(reply_path) if reply_path.exists() else {}
        stderr = stderr_path.read_text(errors="replace")
    # The parent sees main memory, not the memory of a GPU.
    peak = reply.get("peak_mb", 0.0 if on_gpu else peak)
    outcome, message = ending or judge_exit(status, reply, stderr)
    if outcome == FITS and not on_gpu and peak > max_mb:
        outcome, message = _over_limit("the peak was", peak, max_mb)
    return Try(batch_size, outcome, peak or None, time.monotonic() - start, message)


def _over_limit(subject: str, used_mb: float, limit_mb: float) -> tuple[str, str]:
    return OVER_LIMIT, f"{subject} {used_mb:.0f} MB; at most {limit_mb:.0f} MB may be used."


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
    refusal = memory_limits.text_refusal(stderr)
    if status != 0 and refusal:
        return OUT_OF_MEMORY, refusal
    ending = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last_line = lines[-1][: memory_limits.MESSAGE_LENGTH] if lines else "nothing on stderr"
    return FAILED, f"{ending}: {last_line}"


def try_in_this_process(job: TimingJob, batch_size: int, gpu_mb: float = 0) -> None:
    """Try one batch size in this process, and write the result to the job's output.

    An allocator's refusal is a result; any other error is raised. A batch that exceeds the data set
    repeats examples.

    Args:
        gpu_mb: Size of TensorFlow's allocator on each GPU; 0 for the GPU's memory.
    """
    from batchscope.host import supervisor, tensorflow_start

    supervisor.set_parent_death_signal()
    supervisor.prefer_for_oom_kill()
    # TensorFlow may crash when memory is refused. Its last warnings then name the reason.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
    factors = job.factors
    tensorflow_start.start(factors["threads"], factors["device"], factors["replicas"])
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU") if gpu_mb else []
    for gpu in gpus:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=gpu_mb)
        tf.config.set_logical_device_configuration(gpu, [limit])
    from batchscope.timing import loops, samples
    from batchscope.training.step_loop import Totals

    outcome, message = FITS, ""
    try:
        model, train = job.network(), job.data.examples("train")
        order = np.arange(batch_size, dtype=np.int32)
        rows = train.rows(order % len(train.labels))
        loop = loops.make_step_loop(factors, model, rows, batch_size)
        del rows  # the loop has its own copy
        for _ in range(TRIED_STEPS):
            loop.run(order, 0, 1, Totals())
    except Exception as error:
        refusal = memory_limits.error_refusal(error)
        if refusal is None:
            raise
        outcome, message = OUT_OF_MEMORY, refusal
    peak_mb = samples.peak_memory()
    if job.gpus:
        devices = tf.config.list_logical_devices("GPU")
        names = [device.name.rpartition("device:")[2] for device in devices]
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in names]
        peak_mb = max(peaks) / samples.MEGABYTE
    disk.write_json(job.output, {"outcome": outcome, "message": message, "peak_mb": peak_mb})
