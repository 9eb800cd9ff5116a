"""The largest batch that fits into memory, found by trying: every try is a process of its own.

A process that has once run out of memory is no judge of what fits: its allocators keep what they
had, and the next try would start from there. So each batch size is tried by a new child, which
builds the model, holds one batch of that size, and takes two training steps with the optimizer's
own variables in memory. The parent watches it from outside and ends it above the limit, before
the machine runs out. Memory is in MB of 10^6 bytes throughout.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import psutil

from batchscope import records
from batchscope.timing.epoch import make_optimizer

if TYPE_CHECKING:
    from batchscope.datasets import Dataset

# Outcomes of a try. Of all but the first and the last it is only known that the size did not fit.
FITS = "fits"
OUT_OF_MEMORY = records.OUT_OF_MEMORY  # an allocator's refusal
OVER_LIMIT = "over_limit"  # more was taken than the limit allows
KILLED = "killed"  # by SIGKILL, as the kernel does where memory runs out
FAILED = "failed"  # any other error: it says nothing about memory

# Why a search ended.
RESOLVED = "resolved"
MOST_FITS = "most_fits"
NOTHING_FITS = "nothing_fits"

RESOLUTION = 1 / 32
FREE_SHARE = 0.9  # of the free memory: the rest is for what else goes on
STEPS = 2  # the second holds what the first left behind
POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 1800.0
SLACK_MB = 1000.0  # of the fence above the limit: what is reserved is not all touched
RESOLVABLE_MB = 4.0  # between two peaks: the same batch repeats to about 1 MB

_MB = 10**6
_SHOWN = 300  # characters of a message that are kept
_REFUSAL = re.compile(
    r"std::bad_alloc|MemoryError|ResourceExhausted|RESOURCE_EXHAUSTED|OOM when allocating"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
    r"|Cannot allocate memory|[Uu]nable to allocate|failed to allocate|out of memory"
)
# What TensorFlow's allocators say of what they then got in another way.
_NO_REFUSAL = re.compile(r"not a failure")
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] |\{\{.*?\}\} ?")


@dataclass(frozen=True)
class Try:
    """What came of one batch size.

    Attributes:
        batch_size: Examples in the batch.
        outcome: `fits`, `out_of_memory`, `over_limit`, `killed` or `failed`.
        peak_mb: Most memory taken, in MB. Of a child that was ended it is what was seen last,
            a lower bound; None where nothing was seen.
        baseline_mb: The same before the batch was there: the framework and the model.
        seconds: What the try took, start of the process included.
        message: Why the size did not fit.
    """

    batch_size: int
    outcome: str
    peak_mb: float | None = None
    baseline_mb: float | None = None
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class Result:
    """What a search found.

    Attributes:
        largest: The largest size that was seen to fit; 0 if none was.
        refused: The smallest size that was seen not to fit; None if none was.
        stopped: `resolved`, `most_fits` (the largest size that may be tried), `nothing_fits`,
            or `failed`: the last try failed, and its message says why.
        tries: Every try, in order.
    """

    largest: int
    refused: int | None
    stopped: str
    tries: tuple[Try, ...]


@dataclass(frozen=True)
class Limits:
    """How much memory a try may take.

    Attributes:
        device: `cpu` or `gpu`, whose memory is looked at.
        asked_mb: What the configuration allows; 0 for all that is free.
        free_mb: What a process may take of the main memory without harm to the machine.
    """

    device: str
    asked_mb: float
    free_mb: float

    @property
    def memory_mb(self) -> float | None:
        """The limit of the device's memory; None for a GPU's own size."""
        return self.host_mb if self.device == "cpu" else self.asked_mb or None

    @property
    def host_mb(self) -> float:
        """The limit of resident memory, above which a child is ended."""
        asked = self.asked_mb if self.device == "cpu" else 0.0
        return min(asked or self.free_mb, self.free_mb)


def limits_now(device: str = "cpu", asked_mb: float = 0) -> Limits:
    """Returns the limits that hold on this machine now.

    Never more than 90 % of the free memory: a limit above it would leave the decision to the
    kernel, which ends other processes too.

    Args:
        device: `cpu` or `gpu`.
        asked_mb: What the configuration allows, in MB; 0 for 90 % of what is free on a CPU, and
            for all that TensorFlow can have on a GPU.
    """
    return Limits(device, float(asked_mb), FREE_SHARE * free_mb())


def free_mb() -> float:
    """Returns the memory that this process and its children can still have, in MB.

    The least of what the machine has available and what every control group above this process
    leaves, as under SLURM or in a container.
    """
    free = [psutil.virtual_memory().available / _MB]
    with contextlib.suppress(OSError):
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8")
        free += _free_in_groups(groups, Path("/sys/fs/cgroup"))
    return min(free)


def _free_in_groups(groups: str, root: Path) -> Iterator[float]:
    """Yields what each control group leaves, from the text of /proc/PID/cgroup (versions 1, 2)."""
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, files = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            folder = root / "memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # A container sees its own group as the root, whatever its path says.
        own = folder / path.strip("/")
        for group in {folder, own, *own.parents} - {*folder.parents}:
            with contextlib.suppress(OSError, ValueError):
                yield _free_in_group(group, *files)


def _free_in_group(group: Path, limit: str, usage: str, cache: str) -> float:
    """Returns limit - (usage - cache that is given up first), in MB; a limit `max` raises."""
    most = int((group / limit).read_text())
    used = int((group / usage).read_text())
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return max(0, most - max(0, used - int(stat.get(cache, 0)))) / _MB


def search(
    fits: Callable[[int], Try],
    start: int = 1,
    most: int | None = None,
    step: int = 1,
    resolution: float = RESOLUTION,
) -> Result:
    """Finds the largest batch size that fits: doubling until one does not, then bisection.

    Every try halves what is left or doubles what is known, so that the search ends whatever the
    answers are. Where they are not monotone, the result is a size that fits beside one that does
    not, and perhaps not the only such pair.

    Args:
        fits: Tries a size.
        start: Smallest size.
        most: Largest size that may be tried; None for no bound.
        step: Sizes are `start` plus a multiple of it.
        resolution: The bisection ends where the smallest size that does not fit is no further
            from the largest that does than this share of it, or than one step; 0 for exact.

    Raises:
        ValueError: If an argument is out of range.
    """
    if start < 1 or step < 1 or resolution < 0 or (most is not None and most < start):
        raise ValueError(
            f"search: received start {start}, most {most}, step {step}, resolution {resolution}; "
            "1 <= start <= most, step >= 1 and resolution >= 0 are expected."
        )

    def on_grid(size: int) -> int:
        size = size if most is None else min(size, most)
        return start + (size - start) // step * step

    tries: list[Try] = []
    low, high, size = 0, None, start
    while True:
        tries.append(fits(size))
        if tries[-1].outcome == FAILED:
            return Result(low, high, FAILED, tuple(tries))
        if tries[-1].outcome == FITS:
            low = size
        else:
            high = size
        if high is None:
            size = on_grid(max(2 * low, low + step))
            size = size if size > low else on_grid(low + step)
            if size == low:
                return Result(low, None, MOST_FITS, tuple(tries))
            continue
        if not low:
            return Result(0, high, NOTHING_FITS, tuple(tries))
        if high - low <= max(step, low * resolution):
            return Result(low, high, RESOLVED, tuple(tries))
        size = low + (high - low) // step // 2 * step


def memory_per_image(tries: Sequence[Try]) -> tuple[float, float]:
    """Fits what memory a batch takes: peak = fixed + batch size x memory per image.

    Least squares over the sizes that fit and whose peak stands out of the lowest one. Below it,
    the peak is what starting and tracing took for a moment, whatever the batch.

    Args:
        tries: Tries of one search.

    Returns:
        The fixed part in MB, and MB per image; both NaN with fewer than two sizes to fit.
    """
    points = [(entry.batch_size, entry.peak_mb) for entry in tries if entry.outcome == FITS]
    known = [(size, peak) for size, peak in points if peak is not None]
    floor = min((peak for _, peak in known), default=0.0) + RESOLVABLE_MB
    resolved = [(size, peak) for size, peak in known if peak >= floor]
    if len({size for size, _ in resolved}) < 2:
        return math.nan, math.nan
    sizes, peaks = np.array(resolved, np.float64).T
    slope, intercept = np.polyfit(sizes, peaks, 1)
    return float(intercept), float(slope)


def find(
    command: Callable[[int], Sequence[str]],
    limits: Limits,
    start: int = 1,
    most: int | None = None,
    step: int = 1,
    resolution: float = RESOLUTION,
) -> Result:
    """Searches with a child process for every try.

    Args:
        command: Batch size -> the command line whose process calls `child`, with
            `limits.memory_mb`.
        limits: See `limits_now`.
        start: As `search` takes it.
        most: As `search` takes it.
        step: As `search` takes it.
        resolution: As `search` takes it.
    """
    return search(lambda size: attempt(command(size), size, limits), start, most, step, resolution)


def attempt(
    command: Sequence[str],
    batch_size: int,
    limits: Limits,
    timeout: float = TIMEOUT_SECONDS,
) -> Try:
    """Runs one child, watches its memory, and tells what came of it.

    Args:
        command: The child's command line.
        batch_size: The size that it tries.
        limits: Its limits; it is ended where its resident memory, with that of its own children,
            is above `host_mb`.
        timeout: Seconds after which it is ended as failed.
    """
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        ended, seen, status = _watch(command, out, err, limits.host_mb, begun + timeout)
        stdout, stderr = _text(out), _text(err)
    reply = _reply(stdout)
    outcome, message = judge(status, reply, stderr)
    # What is seen from outside is main memory, which says nothing of a GPU's.
    seen_mb = seen if limits.device == "cpu" else None
    peak = reply.get("peak_mb", seen_mb) if reply else seen_mb
    if ended:
        outcome = ended
        message = f"the process took {seen:.0f} MB; at most {limits.host_mb:.0f} MB may be taken."
        if ended == FAILED:
            message = f"the process took longer than {timeout:.0f} s."
    elif outcome == FITS and limits.memory_mb is not None and (peak or 0) > limits.memory_mb:
        outcome = OVER_LIMIT
        message = f"the peak was {peak:.0f} MB; at most {limits.memory_mb:.0f} MB may be taken."
    baseline = reply.get("baseline_mb") if reply else None
    return Try(batch_size, outcome, peak or None, baseline, time.monotonic() - begun, message)


def _watch(
    command: Sequence[str], out: IO[bytes], err: IO[bytes], most_mb: float, deadline: float
) -> tuple[str | None, float, int]:
    """Runs a command; returns why it was ended, if so, the peak seen in MB, and its status."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    ended, peak = None, 0.0
    try:
        while True:
            try:
                return ended, peak, process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                peak = max(peak, _resident_mb(process.pid))
                if peak > most_mb:
                    ended = OVER_LIMIT
                elif time.monotonic() > deadline:
                    ended = FAILED
                if ended:
                    _end(process)
                    return ended, peak, process.returncode
    finally:
        _end(process)


def _family(pid: int) -> list[psutil.Process]:
    """Returns a process and its descendants; none where it has ended."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []


def _resident_mb(pid: int) -> float:
    """Returns the resident memory of a process and its descendants, in MB.

    What forked processes share is counted once, by their proportional shares. A process that is
    just starting another one is there twice, with the same memory whole: it is known by its size.
    """
    family, sizes = _family(pid), {}
    for process in family:
        with contextlib.suppress(psutil.Error):
            alone = len(family) == 1  # shares take the kernel longer to find out
            info = process.memory_info() if alone else process.memory_full_info()
            share = info.rss if alone else info.pss
            sizes[info.vms] = max(share, sizes.get(info.vms, 0))
    return sum(sizes.values()) / _MB


def _end(process: subprocess.Popen) -> None:
    if process.poll() is not None:
        return
    for member in _family(process.pid):
        with contextlib.suppress(psutil.Error):
            member.kill()
    process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _reply(stdout: str) -> dict[str, Any] | None:
    """Returns the last JSON object of a child's output; libraries may have written before it."""
    for line in reversed(stdout.splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "outcome" in found:
                return found
    return None


def judge(status: int, reply: dict[str, Any] | None, stderr: str) -> tuple[str, str]:
    """Tells what came of a child that was left to end by itself.

    Args:
        status: Its exit status; -n where signal n ended it.
        reply: What it printed; None where it did not come to that.
        stderr: What it wrote there.

    Returns:
        Its outcome, and the message of one that did not fit.
    """
    if status == 0 and reply is not None:
        return reply["outcome"], reply.get("message", "")
    if status == -signal.SIGKILL:
        return KILLED, "ended by SIGKILL, as the kernel does where memory runs out."
    refusal = _refusal(stderr)
    if status != 0 and refusal:
        return OUT_OF_MEMORY, refusal
    how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return FAILED, f"{how}: {lines[-1][:_SHOWN] if lines else 'nothing on stderr'}"


def _refusal(text: str) -> str | None:
    """Returns the first line in which an allocator refuses."""
    for line in text.splitlines():
        if _REFUSAL.search(line) and not _NO_REFUSAL.search(line):
            return _LOG_PREFIX.sub("", line).strip()[:_SHOWN]
    return None


def child(
    results: Path | str,
    factors: dict[str, Any],
    batch_size: int,
    memory_mb: float | None = None,
    model_file: Path | str | None = None,
    slack_mb: float = SLACK_MB,
) -> None:
    """Tries one batch size in this process, and prints what came of it as one line of JSON.

    The process sets itself up to be the first that the kernel ends, and to end with its parent.
    An allocator's refusal is an answer; any other error is raised.

    Args:
        results: The folder of all results.
        factors: Every factor of the timing but the batch size, by full name.
        batch_size: Examples in the batch; the data set's images are repeated where it has fewer.
        memory_mb: The limit. On a CPU, memory beyond it and `slack_mb` is refused by the
            operating system; on a GPU, TensorFlow's allocator has so much. None for no limit.
        model_file: The user's model file, where the model is not built in.
        slack_mb: How much more than the limit may be reserved on a CPU.
    """
    _give_way()
    # Where memory is refused, TensorFlow may crash; its last warnings then say why.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
    from batchscope import backend

    threads = backend.threads_of(factors["threads"])
    backend.start(threads, factors["device"], factors["replicas"])
    import tensorflow as tf

    on_gpu = factors["device"] == "gpu"
    if on_gpu and memory_mb:
        for gpu in tf.config.list_physical_devices("GPU"):
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory_mb)
            tf.config.set_logical_device_configuration(gpu, [limit])
    reply: dict[str, Any] = {"outcome": FITS, "baseline_mb": None, "message": ""}
    try:
        train = _prepared(results, factors, model_file)
        reply["baseline_mb"] = _peak_mb(on_gpu)
        if memory_mb and not on_gpu:
            _fence(memory_mb, slack_mb)
        train(batch_size)
    except Exception as error:
        _lift_fence()  # the answer itself takes memory
        # The text may begin with a heading; the type alone may be all that there is.
        refusal = _refusal(f"{error}\n{type(error).__name__}: {error}")
        if refusal is None:
            raise
        reply |= {"outcome": OUT_OF_MEMORY, "message": refusal}
    print(json.dumps(reply | {"peak_mb": _peak_mb(on_gpu)}), flush=True)


def _give_way() -> None:
    """Makes this process the kernel's first choice, and one that does not outlive its parent."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if sys.platform == "linux":  # an orphan would be watched by nobody
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _prepared(
    results: Path | str, factors: dict[str, Any], model_file: Path | str | None
) -> Callable[[int], None]:
    """Builds the model; returns what trains it on one batch of a size."""
    from batchscope import augmentations, datasets, loop, models, replicas

    data = datasets.load(results, factors["dataset"])
    scope = replicas.scope(factors)
    model = models.build(factors["model"], data.input_shape, data.classes, 0, model_file, scope)

    def train(batch_size: int) -> None:
        optimizer = make_optimizer(factors)
        steps = replicas.make_loop(
            factors,
            model,
            optimizer,
            *_batch(data, batch_size),
            data.scale,
            batch_size,
            augment=augmentations.layer(factors["augmentation"], 0),
        )
        order = np.arange(batch_size, dtype=np.int32)
        for _ in range(STEPS):
            steps.run(order, 0, 1, loop.Totals())

    return train


def _batch(data: Dataset, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns images and labels of one batch, with the training images repeated as needed."""
    labels = data.labels("train")
    rows = np.arange(batch_size) % len(labels)
    return data.images("train")[rows], labels[rows]


def _status_mb(key: str) -> float:
    """Returns an entry of /proc/self/status in MB; there it is in kB."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024 / _MB
    raise OSError(f"/proc/self/status: received no {key}; a Linux kernel is expected.")


def _peak_mb(on_gpu: bool) -> float:
    """Returns the most memory so far: TensorFlow's on a GPU, else what was resident."""
    if not on_gpu:
        return _status_mb("VmHWM")
    import tensorflow as tf

    devices = [device.name.rpartition("device:")[2] for device in tf.config.list_logical_devices()]
    gpus = [name for name in devices if name.startswith("GPU")]
    return max(tf.config.experimental.get_memory_info(name)["peak"] for name in gpus) / _MB


def _fence(memory_mb: float, slack_mb: float) -> None:
    """Has the operating system refuse memory beyond the limit and some slack.

    RLIMIT_DATA counts what is reserved, threads' stacks among it, so that the count starts at
    what is reserved now.
    """
    left = max(0.0, memory_mb - _status_mb("VmRSS")) + slack_mb
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = int((_status_mb("VmData") + left) * _MB)
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _lift_fence() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
