"""What is left of a study, as a cluster accounts for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from batchscope import wording
from batchscope.store import bundles
from batchscope.store.status import Overview
from batchscope.study import plan


@dataclass(frozen=True)
class Cost:
    """Hours and jobs; where the time of some is unknown, at least so many hours."""

    jobs: int
    core_hours: float
    gpu_hours: float
    node_hours: float  # of nodes that timings, and commands that are alone, have to themselves
    disk_bytes: float
    untimed: int  # jobs whose time is unknown

    @property
    def line(self) -> str:
        """The cost, for people."""
        parts = [f"{self.core_hours:.1f} core-hours"]
        parts += [f"{self.gpu_hours:.1f} GPU hours"] if self.gpu_hours else []
        parts += [f"{self.node_hours:.1f} hours of a whole node"] if self.node_hours else []
        least = "at least " if self.untimed else "about "
        unknown = f" ({self.untimed} of unknown time)" if self.untimed else ""
        jobs, disk = wording.count(self.jobs, "job"), wording.size(self.disk_bytes, 2)
        return f"Submitted: {least}{wording.listed(parts)} in {jobs}{unknown}, {disk} of disk."


def cost(study: plan.Study, results: Path | str, left: Overview) -> Cost:
    """Returns what a cluster is asked for: bundles, and runs that commands make."""
    seconds: list[float | None] = []
    core = gpu = node = 0.0
    for bundle in bundles.planned(study, results, left):
        seconds.append(bundle.seconds)
        taken = bundle.seconds or 0.0
        core += 0.0 if bundle.alone else taken * max(1, bundle.threads)
        node += taken if bundle.alone else 0.0
        gpu += taken * bundle.gpus
    for job, taken in left.jobs:
        if run := study.commands.get(job.subject):
            seconds.append(taken)
            command = run.command  # alone its seconds are of the machine, else of one core
            core += 0.0 if command.alone else taken or 0.0
            node += (taken or 0.0) if command.alone else 0.0
            gpu += (taken or 0.0) / (1 if command.alone else command.threads) * command.gpus
    return Cost(
        jobs=len(seconds),
        core_hours=core / 3600,
        gpu_hours=gpu / 3600,
        node_hours=node / 3600,
        disk_bytes=left.disk_bytes,
        untimed=seconds.count(None),
    )
