"""The largest batch size that fits into memory: each size is tried by a process of its own."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from batchscope import project_files
from batchscope.errors import UserError
from batchscope.host import tensorflow_start
from batchscope.store import records
from batchscope.timing import Timed, TimingJob, attempts
from batchscope.timing.attempts import FAILED, FITS, Try

# Why a search ended; or FAILED.
RESOLVED = "resolved"
MOST_FITS = "most_fits"  # the largest that may be tried
NOTHING_FITS = "nothing_fits"


class Result(NamedTuple):
    """What a search found; where it failed, the message of the last try says why."""

    largest: int  # that was seen to fit; 0 if none was
    refused: int | None  # the smallest that was seen not to fit; None if none was
    bound: str  # why the search ended
    tries: list[Try]


def search(
    fits: Callable[[int], Try], most: int, step: int = 1, resolution: float = 1 / 32
) -> Result:
    """Finds the largest batch size that fits: doubling until one does not, then bisection.

    Sizes are multiples of `step`; at least one may be tried. The bisection ends where the
    smallest size that does not fit is no further from the largest that does than the share
    `resolution` of it, or than one step. Where answers are not monotone, the result is a size that
    fits beside one that does not, and perhaps not the only such pair.
    """
    tries: list[Try] = []
    low, high, size = 0, None, step
    while True:
        tries.append(fits(size))
        if tries[-1].outcome == FAILED:
            return Result(low, high, FAILED, tries)
        if tries[-1].outcome == FITS:
            low = size
        else:
            high = size
        if high is None:
            size = min(2 * low, most) // step * step
            if size <= low:
                return Result(low, None, MOST_FITS, tries)
        elif not low:
            return Result(0, high, NOTHING_FITS, tries)
        elif high - low <= max(step, low * resolution):
            return Result(low, high, RESOLVED, tries)
        else:
            size = low + (high - low) // step // 2 * step


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Searches for the largest batch size; raises `UserError` where a try fails otherwise."""
    factors = job.factors
    limits = attempts.limits_now(factors["device"], settings["limit_mb"])
    cores = tensorflow_start.threads_of(factors["threads"])

    command = [sys.executable, str(project_files.CLI), "try_batch", "--results", str(job.results)]
    command += ["--sweep", job.subject.name]
    if limits.memory_mb is not None:
        command += ["--memory-mb", json.dumps(limits.memory_mb)]
    if job.model_file:
        command += ["--model-file", str(job.model_file)]

    def fits(size: int) -> Try:
        return attempts.attempt([*command, "--batch-size", str(size)], size, limits, cores)

    found = search(fits, settings["most"], factors["replicas"], settings["resolution"])
    if found.bound == FAILED:
        last = found.tries[-1]
        raise UserError(f"max_batch_size: batch size {last.batch_size}: {last.message}")
    details = {
        **found._asdict(),
        "threads": factors["threads"],
        "limit_mb": limits.memory_mb,
        "limits": asdict(limits),
        "tries": [asdict(entry) for entry in found.tries],
    }
    return Timed(records.FINISHED, details)
