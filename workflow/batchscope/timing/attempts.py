"""One batch size, tried by a process of its own that is watched from outside.

A process that has once run out of memory is no judge of what fits: its allocators keep what they
had. So each batch size is tried by a new child, which builds the model, holds one batch of that
size, and takes two training steps with the optimizer's own variables in memory. Its parent samples
it, and ends it above the limit, before the machine runs out. Memory is in MB of 10^6 bytes.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil

from batchscope.host import control_groups, guard, tensorflow_start
from batchscope.store import records
from batchscope.timing import step_errors
from batchscope.timing.instruments import processes, samples
from batchscope.timing.instruments.processes import MEGABYTE, Family
from batchscope.timing.instruments.sampler import Sampler
from batchscope.timing.timing_job import TimingJob

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 1800.0
FREE_SHARE = 0.9  # of the free memory: the rest is for what else goes on
STEPS = 2  # the second holds what the first left behind
SLACK_MB = (
    1000.0  # above the limit, of what the system refuses: what is reserved is not all touched
)

# Outcomes of a try. Of all but the first and the last it is only known that the size did not fit.
FITS = records.FITS
OUT_OF_MEMORY = records.OUT_OF_MEMORY  # an allocator's refusal
OVER_LIMIT = "over_limit"  # more was taken than the limit allows
KILLED = "killed"  # by SIGKILL, as the kernel does where memory runs out
FAILED = "failed"  # any other error: it says nothing about memory


@dataclass(frozen=True)
class MemoryLimits:
    """How much memory a try may take."""

    device: str  # `cpu` or `gpu`, whose memory is looked at
    asked_mb: float  # what the configuration allows; 0 for all that is free
    free_mb: float  # what a process may take of the main memory without harm to the machine

    @property
    def memory_mb(self) -> float | None:
        """The limit of the device's memory; None for a GPU's own size."""
        return self.host_mb if self.device == "cpu" else self.asked_mb or None

    @property
    def host_mb(self) -> float:
        asked = self.asked_mb if self.device == "cpu" else 0.0
        return min(asked or self.free_mb, self.free_mb)


def limits_now(device: str, asked_mb: float) -> MemoryLimits:
    """Returns the limits on this machine now, never above 90 % of the memory that is free.

    A limit above that would leave the decision to the kernel, which ends other processes too. Free
    is the least of what the machine has available and what every control group above this process
    leaves, as under SLURM or in a container.
    """
    left = [group.left() for group in control_groups.own()]
    free = [psutil.virtual_memory().available, *(most for most in left if most is not None)]
    return MemoryLimits(device, float(asked_mb), FREE_SHARE * min(free) / MEGABYTE)


@dataclass(frozen=True)
class Try:
    """What came of one batch size; times and samples include the start of the process."""

    batch_size: int
    outcome: str
    peak_mb: float | None = None  # of a child that was ended a lower bound; None if none was seen
    seconds: float = 0.0
    message: str = ""  # why the size did not fit
    utilisation: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, list[Any]] = field(default_factory=dict)
    gpu_device: dict[str, str] | None = None


def attempt(
    command: Sequence[str],
    batch_size: int,
    limits: MemoryLimits,
    cores: int = 1,
    timeout: float = TIMEOUT_SECONDS,
) -> Try:
    """Runs one child, samples what it uses, and returns how it ended.

    Its process calls `run` with `limits.memory_mb`. It is ended where its resident memory, with
    that of its own children, is above `limits.host_mb`.
    """
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        # Whatever goes wrong here, no child is left behind.
        try:
            family = Family(process.pid)
            sampler = Sampler(None, cores, 0 if limits.device == "gpu" else None, family)
            ended, seen = _watch(process, family, sampler, limits.host_mb, timeout)
        finally:
            process.kill()
            status = process.wait()
        for file in (out, err):
            file.seek(0)
        stdout, stderr = (file.read().decode(errors="replace") for file in (out, err))
    reply = _reply(stdout)
    # What is seen from outside is main memory, which says nothing of a GPU's.
    peak = reply.get("peak_mb", seen if limits.device == "cpu" else None)
    outcome, message = ended or judge(status, reply, stderr)
    if outcome == FITS and limits.memory_mb is not None and (peak or 0) > limits.memory_mb:
        outcome, message = _over("the peak was", peak, limits.memory_mb)
    return Try(
        batch_size,
        outcome,
        peak or None,
        time.monotonic() - begun,
        message,
        samples.summary(sampler.series()),
        **sampler.details(),
    )


def _over(what: str, taken: float, most: float) -> tuple[str, str]:
    return OVER_LIMIT, f"{what} {taken:.0f} MB; at most {most:.0f} MB may be taken."


def _watch(
    process: subprocess.Popen, family: Family, sampler: Sampler, most_mb: float, timeout: float
) -> tuple[tuple[str, str] | None, float]:
    """Samples a process until it ends.

    Returns outcome and message of one that was ended, and the peak that was seen, MB.
    """
    peak, ended, deadline = 0.0, None, time.monotonic() + timeout
    try:
        with sampler:
            while not ended:
                try:
                    process.wait(POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    peak = max(peak, sampler.sample()["memory_mb"])  # never what is unknown
                if peak > most_mb:
                    ended = _over("the process took", peak, most_mb)
                elif time.monotonic() > deadline:
                    ended = FAILED, f"the process took longer than {timeout:.0f} s."
                if ended:
                    family.end()  # at once, before the last sample is taken
    finally:
        family.end()
    return ended, peak


def _reply(stdout: str) -> dict[str, Any]:
    """Returns what a child printed last, else nothing; libraries may have written beside it."""
    for line in reversed(stdout.splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "outcome" in found:
                return found
    return {}


def judge(status: int, reply: dict[str, Any], stderr: str) -> tuple[str, str]:
    """Returns the outcome of a child that ended by itself, and the message of one that did not fit.

    Its exit status is -n where signal n ended it; its reply is empty where it printed none.
    """
    if status == 0 and reply:
        return reply["outcome"], reply.get("message", "")
    if status == -signal.SIGKILL:
        return KILLED, "ended by SIGKILL, as the kernel does where memory runs out."
    refused = step_errors.refusal(stderr)
    if status != 0 and refused:
        return OUT_OF_MEMORY, refused
    how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return FAILED, f"{how}: {lines[-1][: step_errors.SHOWN] if lines else 'nothing on stderr'}"


def run(
    job: TimingJob, batch_size: int, memory_mb: float | None = None, slack_mb: float = SLACK_MB
) -> None:
    """Tries one batch size in this process, and prints what came of it as one line of JSON.

    An allocator's refusal is an answer; any other error is raised. The data set's images are
    repeated where it has fewer than the batch. On a CPU, the operating system refuses memory beyond
    the limit and `slack_mb`; on a GPU, TensorFlow's allocator has so much.
    """
    give_way()
    # Where memory is refused, TensorFlow may crash; its last warnings then say why.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
    factors = job.factors
    tensorflow_start.start(factors["threads"], factors["device"], factors["replicas"])
    import tensorflow as tf

    on_gpu = factors["device"] == "gpu"
    if on_gpu and memory_mb:
        for gpu in tf.config.list_physical_devices("GPU"):
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory_mb)
            tf.config.set_logical_device_configuration(gpu, [limit])
    from batchscope.timing import loops
    from batchscope.training import step_loop

    reply: dict[str, Any] = {"outcome": FITS, "message": ""}
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        model, train = job.network(), job.data.examples("train")
        if memory_mb and not on_gpu:
            _refuse(memory_mb, slack_mb)
        order = np.arange(batch_size, dtype=np.int32)
        rows = train.rows(order % len(train.labels))
        loop = loops.make_loop(factors, model, rows, batch_size)
        del rows  # the loop has its copy
        for _ in range(STEPS):
            loop.run(order, 0, 1, step_loop.Totals())
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))  # the answer itself takes memory
        refused = step_errors.refusal_of(error)
        if refused is None:
            raise
        reply |= {"outcome": OUT_OF_MEMORY, "message": refused}
    print(json.dumps(reply | {"peak_mb": _peak_mb(on_gpu)}), flush=True)


def give_way() -> None:
    """Makes this process the kernel's first choice, and one that does not outlive its parent."""
    guard.end_with_parent()
    guard.be_killed_first()


def _peak_mb(on_gpu: bool) -> float:
    """Returns the most memory so far: TensorFlow's on a GPU, else what was resident."""
    if not on_gpu:
        return processes.peak_memory()
    import tensorflow as tf

    gpus = [
        device.name.rpartition("device:")[2] for device in tf.config.list_logical_devices("GPU")
    ]
    return max(tf.config.experimental.get_memory_info(gpu)["peak"] for gpu in gpus) / MEGABYTE


def _refuse(memory_mb: float, slack_mb: float) -> None:
    """Has the operating system refuse memory beyond the limit and some slack.

    RLIMIT_DATA counts what is reserved, threads' stacks among it, so that the count starts at
    what is reserved now.
    """
    left = max(0.0, memory_mb - processes.status_mb("VmRSS")) + slack_mb
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = int((processes.status_mb("VmData") + left) * MEGABYTE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
