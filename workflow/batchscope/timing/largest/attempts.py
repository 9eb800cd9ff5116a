"""One batch size, tried by a process of its own that is watched from outside.

A process that has once run out of memory is no judge of what fits: its allocators keep what they
had, and the next try would start from there. So each batch size is tried by a new child
(`attempt_child`). This process samples what it uses, and ends it above the limit, before the
machine runs out. Memory is in MB of 10^6 bytes throughout.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any

from batchscope.timing.instruments import samples
from batchscope.timing.instruments.processes import Family
from batchscope.timing.instruments.sampler import Sampler, as_lists
from batchscope.timing.largest import fates
from batchscope.timing.largest.memory_limits import Limits
from batchscope.timing.largest.search import FAILED, FITS, KILLED, OUT_OF_MEMORY, OVER_LIMIT, Try

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 1800.0


def attempt(
    command: Sequence[str],
    batch_size: int,
    limits: Limits,
    cores: int = 1,
    timeout: float = TIMEOUT_SECONDS,
) -> Try:
    """Runs one child, samples what it uses, and returns how it ended.

    Args:
        command: The command line; its process calls `attempt_child.run` with `limits.memory_mb`.
        limits: It is ended where its resident memory, with that of its own children, is above
            `host_mb`.
        timeout: Seconds after which it is ended as failed.
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
    return Try(
        batch_size,
        outcome,
        peak or None,
        reply.get("baseline_mb") if reply else None,
        time.monotonic() - begun,
        message,
        samples.summary(sampler.series()),
        as_lists(sampler),
        sampler.gpu_device,
    )


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


def _reply(stdout: str) -> dict[str, Any] | None:
    """Returns the last JSON object of a child's output; libraries may have written before it."""
    for line in reversed(stdout.splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "outcome" in found:
                return found
    return None


def judge(status: int, reply: dict[str, Any] | None, stderr: str) -> tuple[str, str]:
    """Returns the outcome of a child that ended by itself, and the message of one that did not fit.

    Args:
        status: Its exit status; -n where signal n ended it.
        reply: What it printed; None where it did not come to that.
    """
    if status == 0 and reply is not None:
        return reply["outcome"], reply.get("message", "")
    if status == -signal.SIGKILL:
        return KILLED, "ended by SIGKILL, as the kernel does where memory runs out."
    refused = fates.refusal(stderr)
    if status != 0 and refused:
        return OUT_OF_MEMORY, refused
    how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return FAILED, f"{how}: {lines[-1][: fates.SHOWN] if lines else 'nothing on stderr'}"
