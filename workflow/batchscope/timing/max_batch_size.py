"""The largest batch size that fits into memory, every try sampled: the search as a timing."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from batchscope import project_files
from batchscope.errors import UserError
from batchscope.host import tensorflow_start
from batchscope.store import records
from batchscope.timing import Timed, TimingJob
from batchscope.timing.largest import attempts, memory_limits, search


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Searches for the largest batch size; every try is in the record.

    Raises:
        UserError: If a try failed for another reason than memory.
    """
    factors = job.factors
    device, replicas = factors["device"], factors["replicas"]
    limits = memory_limits.now(device, settings["limit_mb"])
    cores = tensorflow_start.threads_of(factors["threads"])

    command = [sys.executable, str(project_files.CLI), "try_batch", "--results", str(job.results)]
    command += ["--sweep", job.subject.name]
    if limits.memory_mb is not None:
        command += ["--memory-mb", json.dumps(limits.memory_mb)]
    if job.model_file:
        command += ["--model-file", str(job.model_file)]

    def fits(size: int) -> search.Try:
        return attempts.attempt([*command, "--batch-size", str(size)], size, limits, cores)

    found = search.search(fits, replicas, settings["most"], replicas, settings["resolution"])
    if found.stopped == search.FAILED:
        last = found.tries[-1]
        raise UserError(f"max_batch_size: batch size {last.batch_size}: {last.message}")
    details = {
        "device": device,
        "threads": factors["threads"],
        "largest": found.largest,
        "refused": found.refused,
        "bound": found.stopped,
        "limit_mb": limits.memory_mb,
        "limits": asdict(limits),
        "tries": [asdict(entry) for entry in found.tries],
    }
    return Timed(records.FINISHED, details)
