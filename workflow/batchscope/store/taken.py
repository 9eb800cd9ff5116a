"""What a study took, from its records and from what was noted of its jobs: cores, GPUs, disk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscope.catalogue import run_factors
from batchscope.store import estimates, paths
from batchscope.store.job_files import MEASURE, TIMING, Job
from batchscope.store.states import Table


@dataclass(frozen=True)
class Taken:
    """What the trainings, measures and timings took that exist here."""

    training: float = 0.0  # core-seconds, whatever ran beside them
    measures: float = 0.0  # likewise, as far as they were noted
    timings: float = 0.0  # seconds that they had the machine to themselves, as far as noted
    cores: int = 0  # of the machine, for these; 0 where no record states them
    gpu: float = 0.0  # seconds of a GPU, of all of them, as far as known
    run_bytes: int = 0  # of the runs' files, each once
    unknown: tuple[Job, ...] = ()  # trainings too; nobody noted their time


def find(
    table: Table,
    trained: dict[str, dict[str, Any]],
    timed: Iterable[dict[str, Any]] = (),
) -> Taken:
    """Returns what a study took.

    A measure's or timing's time is the mean of those of its kind in this folder, which other
    studies share; all that was made elsewhere, or before times were noted, is unknown.

    Args:
        trained: Run -> record of its training, where there is one.
        timed: Records of the timings on this machine.
    """
    study, results, unknown = table.study, table.results, []
    training = gpu = 0.0
    for run, record in trained.items():
        seconds, factors = record.get("contended_seconds"), study.runs.get(run, record)
        if isinstance(seconds, int | float):
            training += seconds * factors["threads"]
            gpu += seconds * run_factors.gpus(factors)
        else:
            unknown.append(table.every[paths.run_record(paths.run_folder(results, run))].job)
    noted, others = estimates.noted(results), Counter[str]()
    for job in table.here():
        seconds = noted.get(job.kind)
        if not job.path.exists():
            continue
        if seconds is None:
            unknown.append(job)
            continue
        others[job.noun] += seconds
        factors = job.sweep.factors if job.sweep else study.runs[job.runs[0]]
        # A measure reads one GPU, whichever number its run was trained on.
        used = run_factors.gpus(factors) if job.noun == TIMING else factors["device"] == "gpu"
        gpu += seconds * used
    machines = (record.get("machine") for record in (*trained.values(), *timed))
    cores = [each.get("usable_cores") for each in machines if isinstance(each, dict)]
    return Taken(
        training=training,
        measures=float(others[MEASURE]),
        timings=float(others[TIMING]),
        cores=max((count for count in cores if isinstance(count, int)), default=0),
        gpu=gpu,
        run_bytes=_bytes(paths.run_folder(results, run) for run in (*study.runs, *study.commands)),
        unknown=tuple(unknown),
    )


def _bytes(folders: Iterable[Path]) -> int:
    """Returns the bytes of all files in folders; one of several names counts once."""
    sizes: dict[tuple[int, int], int] = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                found = os.lstat(os.path.join(place, name))
                sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())
