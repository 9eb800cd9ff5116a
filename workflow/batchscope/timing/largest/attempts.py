"""One batch size, tried by a process of its own that is watched from outside.

A process that has once run out of memory is no judge of what fits: its allocators keep what they
had. So each batch size is tried by a new child (`attempt_child`). This process samples it, and
ends it above the limit, before the machine runs out. Memory is in MB of 10^6 bytes throughout.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import psutil

from batchscope.host import control_groups
from batchscope.store import records
from batchscope.timing import fates
from batchscope.timing.instruments import samples
from batchscope.timing.instruments.processes import MEGABYTE, Family
from batchscope.timing.instruments.sampler import Sampler, as_lists

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 1800.0
FREE_SHARE = 0.9  # of the free memory: the rest is for what else goes on

# Outcomes of a try. Of all but the first and the last it is only known that the size did not fit.
FITS = records.FITS
OUT_OF_MEMORY = records.OUT_OF_MEMORY  # an allocator's refusal
OVER_LIMIT = "over_limit"  # more was taken than the limit allows
KILLED = "killed"  # by SIGKILL, as the kernel does where memory runs out
FAILED = "failed"  # any other error: it says nothing about memory


@dataclass(frozen=True)
class Limits:
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
        """The limit of resident memory, above which a child is ended."""
        asked = self.asked_mb if self.device == "cpu" else 0.0
        return min(asked or self.free_mb, self.free_mb)


def limits_now(device: str, asked_mb: float) -> Limits:
    """Returns the limits that hold on this machine now, never above 90 % of the free memory.

    A limit above that would leave the decision to the kernel, which ends other processes too.
    """
    return Limits(device, float(asked_mb), FREE_SHARE * free_mb())


def free_mb() -> float:
    """Returns the memory that this process and its children can still have, in MB.

    The least of what the machine has available and what every control group above this process
    leaves, as under SLURM or in a container.
    """
    left = [group.left() for group in control_groups.own()]
    free = [psutil.virtual_memory().available, *(most for most in left if most is not None)]
    return min(free) / MEGABYTE


@dataclass(frozen=True)
class Try:
    """What came of one batch size; times and samples include the start of the process."""

    batch_size: int
    outcome: str
    peak_mb: float | None = None  # of a child that was ended a lower bound; None if none was seen
    baseline_mb: float | None = None  # the same before the batch was there
    seconds: float = 0.0
    message: str = ""  # why the size did not fit
    utilisation: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, list[Any]] = field(default_factory=dict)
    gpu_device: dict[str, str] | None = None


def attempt(
    command: Sequence[str],
    batch_size: int,
    limits: Limits,
    cores: int = 1,
    timeout: float = TIMEOUT_SECONDS,
) -> Try:
    """Runs one child, samples what it uses, and returns how it ended.

    Its process calls `attempt_child.run` with `limits.memory_mb`. It is ended where its resident
    memory, with that of its own children, is above `limits.host_mb`.
    """
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        # Whatever goes wrong here, no child is left behind.
        try:
            family = Family(process.pid)
            sampler = Sampler(None, cores, 0 if limits.device == "gpu" else None, family)
            ended, seen = _watch(process, family, sampler, limits.host_mb, begun + timeout)
        finally:
            process.kill()
            status = process.wait()
        reply, stderr = _reply(_text(out)), _text(err)
    # What is seen from outside is main memory, which says nothing of a GPU's.
    peak = reply.get("peak_mb", seen if limits.device == "cpu" else None)
    if ended == OVER_LIMIT:
        outcome, message = OVER_LIMIT, _over("the process took", seen, limits.host_mb)
    elif ended:
        outcome, message = ended, f"the process took longer than {timeout:.0f} s."
    else:
        outcome, message = judge(status, reply, stderr)
    if outcome == FITS and limits.memory_mb is not None and (peak or 0) > limits.memory_mb:
        outcome, message = OVER_LIMIT, _over("the peak was", peak, limits.memory_mb)
    return Try(
        batch_size,
        outcome,
        peak or None,
        reply.get("baseline_mb"),
        time.monotonic() - begun,
        message,
        samples.summary(sampler.series()),
        as_lists(sampler),
        sampler.gpu_device,
    )


def _over(what: str, taken: float, most: float) -> str:
    return f"{what} {taken:.0f} MB; at most {most:.0f} MB may be taken."


def _watch(
    process: subprocess.Popen, family: Family, sampler: Sampler, most_mb: float, deadline: float
) -> tuple[str | None, float]:
    """Samples a process until it ends; returns why it was ended, if so, and the peak seen in MB."""
    peak, ended = 0.0, None
    try:
        with sampler:
            while not ended:
                try:
                    process.wait(POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    peak = max(peak, sampler.sample()["memory_mb"])  # never what is unknown
                if peak > most_mb:
                    ended = OVER_LIMIT
                elif time.monotonic() > deadline:
                    ended = FAILED
                if ended:
                    family.end()  # at once, before the last sample is taken
    finally:
        family.end()
    return ended, peak


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _reply(stdout: str) -> dict[str, Any]:
    """Returns the last JSON object of a child's output, else an empty one.

    Libraries may have written before it.
    """
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
    refused = fates.refusal(stderr)
    if status != 0 and refused:
        return OUT_OF_MEMORY, refused
    how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return FAILED, f"{how}: {lines[-1][: fates.SHOWN] if lines else 'nothing on stderr'}"
