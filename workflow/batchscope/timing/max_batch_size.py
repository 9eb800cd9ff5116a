"""The largest batch that fits into memory: each size is tried in a new process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field

from batchscope.core import project_files
from batchscope.core.errors import UserError
from batchscope.study.model import Integer, Number
from batchscope.study.setting import Setting
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
    from batchscope.timing.attempts import Try
    from batchscope.timing.timing_job import TimingJob

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


def _try_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    yield from record["tries"]


ENTRY = Timing(
    version="max_batch_size-v1",
    settings=MaxBatchSizeSettings,
    batch_sizes="searched",
    tables={"largest": Table(_TRY_COLUMNS, _try_rows)},
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


class SearchResult(NamedTuple):
    """Result of a search; if it failed, the message of the last try says why."""

    largest: int  # largest batch size that was tried and fits; 0 if none fits
    bound: str  # reason for the end of the search
    tries: list[Try]


def search(
    try_size: Callable[[int], Try], max_size: int, step: int = 1, resolution: float = 1 / 32
) -> SearchResult:
    """Find the largest batch size that fits: doubling until one does not fit, then bisection.

    Sizes are multiples of `step`, and `max_size` is at least one step. The bisection ends when the
    smallest size that does not fit exceeds the largest size that fits by at most the share
    `resolution` or one step. If answers are not monotone, the result fits and the next size does
    not, but a larger size may fit.
    """
    from batchscope.timing.attempts import FAILED, FITS

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


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Search for the largest batch size; raise `UserError` if a try fails for another reason."""
    from batchscope.store import records
    from batchscope.timing import attempts

    max_mb, limit_mb = attempts.free_memory_mb(), settings["limit_mb"]
    command = [sys.executable, str(project_files.CLI), "try_batch", "--results", str(job.results)]
    command += ["--sweep", job.subject.name]
    if job.on_gpu:
        command += ["--gpu-mb", str(limit_mb)]
    else:
        max_mb = limit_mb = min(limit_mb or max_mb, max_mb)
    if job.model_file:
        command += ["--model-file", str(job.model_file)]

    def try_size(size: int) -> Try:
        return attempts.try_in_child(
            [*command, "--batch-size", str(size)], size, max_mb, job.on_gpu
        )

    result = search(try_size, settings["most"], job.factors["replicas"], settings["resolution"])
    if result.bound == attempts.FAILED:
        last = result.tries[-1]
        raise UserError(f"max_batch_size: batch size {last.batch_size}: {last.message}")
    tries = [asdict(attempt) for attempt in result.tries]
    details = {**result._asdict(), "limit_mb": limit_mb or None, "tries": tries}
    return Timed(records.FINISHED, details)
