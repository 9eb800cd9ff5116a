"""The state of a study while it runs: its jobs, the remaining work and the best run so far."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscope import disk, wording
from batchscope.errors import UserError
from batchscope.store import paths, progress, records, status
from batchscope.store.job_table import MEASURE, TIMING, TRAINING, Job
from batchscope.study import plan


@dataclass(frozen=True)
class Snapshot:
    """The state of a study at one moment."""

    study: str
    cores: int
    jobs_left: list[Job]
    seconds_left: float
    is_least: bool  # because some of these jobs take an unknown time
    best: Mapping[str, tuple[float, dict[str, Any]]]  # experiment -> validation loss, factors
    running: list[progress.Running]


def snapshot(study: plan.Study, results: Path | str, cores: int) -> Snapshot:
    """Return the present state of a study; raise `UserError` if a record is damaged."""
    overview = status.overview(study, results)
    jobs, seconds = [job for job, _ in overview.jobs], overview.wall_seconds(cores)
    is_least = bool(overview.untimed(TRAINING, MEASURE, TIMING))
    best = {}
    for name, experiment in study.experiments.items():
        runs = {run: command.factors for run, command in experiment.commands.items()}
        runs |= experiment.runs
        losses = {run: _lowest_loss(paths.run_folder(results, run)) for run in runs}
        if finished := [run for run in runs if losses[run] is not None]:
            run = min(finished, key=losses.__getitem__)
            best[name] = losses[run], runs[run]
    running = progress.running_jobs(results)
    return Snapshot(study.folder_name, cores, jobs, seconds, is_least, best, running)


def _lowest_loss(folder: Path) -> float | None:
    """Return the lowest validation loss of a finished run, or None."""
    with contextlib.suppress(UserError):  # the run has no record yet
        record = disk.read_json(paths.run_record(folder), "status")
        if record["status"] != records.FINISHED:
            return None
        if "command" not in record:
            return record["best_validation_loss"]
        rows = disk.read_rows(folder / paths.TRAJECTORY)
        losses = [float(row["validation_loss"]) for row in rows if row.get("validation_loss")]
        return min(losses, default=None)
    return None


def text(now: Snapshot) -> str:
    left = "no training, measure or timing is left"
    if now.jobs_left:
        time = f"{'at least' if now.is_least else 'about'} {wording.duration(now.seconds_left)}"
        cores = wording.count(now.cores, "core")
        left = f"{status.waiting(now.jobs_left)} left, {time} on {cores}"
    lines = [f"Study {now.study}: {left}."]
    for experiment, (loss, factors) in now.best.items():
        at = f"batch size {factors['batch_size']}"
        if "learning_rate" in factors:  # a command may have none
            at += f", learning rate {wording.shortest(factors['learning_rate'])}"
        loss = wording.cell(loss)
        lines.append(f"Best of {experiment} so far: validation loss {loss} at {at}.")
    return "\n".join([*lines, running_text(now.running)])


def running_text(running: Iterable[progress.Running]) -> str:
    """Return the running jobs as lines, trainings first."""
    ordered = sorted(running, key=lambda job: (job.step != "train", job.step, job.name))
    return "\n".join([job.line for job in ordered] or ["No training, measure or timing runs now."])
