"""The state of a study while it runs: its jobs, the remaining work and the best run so far."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from batchscope import disk, wording
from batchscope.errors import UserError
from batchscope.store import paths, progress, records, status
from batchscope.store.job_files import MEASURE, TIMING, TRAINING, Job
from batchscope.study import plan


@dataclass(frozen=True)
class Best:
    """The finished run with the lowest validation loss of an experiment."""

    validation_loss: float
    batch_size: int
    learning_rate: float | None  # None of a command without this factor


@dataclass(frozen=True)
class Snapshot:
    """The state of a study at one moment."""

    study: str
    cores: int
    jobs_left: list[Job]
    seconds_left: float
    is_least: bool  # whether there are jobs whose seconds are unknown
    best: Mapping[str, Best]  # by experiment
    running: list[progress.Running]


def snapshot(study: plan.Study, results: Path | str, cores: int) -> Snapshot:
    """Return the present state of a study; raise `UserError` if a record is damaged."""
    overview = status.overview(study, results)
    best = {name: _best(one, Path(results)) for name, one in study.experiments.items()}
    return Snapshot(
        study.folder_name,
        cores,
        [job for job, _ in overview.jobs],
        overview.wall_seconds(cores),
        bool(overview.untimed(TRAINING, MEASURE, TIMING)),
        {name: run for name, run in best.items() if run},
        progress.running_jobs(results),
    )


def _best(experiment: plan.Experiment, results: Path) -> Best | None:
    factors = {name: run.factors for name, run in experiment.commands.items()}
    factors |= experiment.trainings.runs
    losses = {name: _lowest_loss(paths.run_folder(results, name)) for name in factors}
    losses = {name: loss for name, loss in losses.items() if loss is not None}
    if not losses:
        return None
    best = min(losses, key=losses.__getitem__)
    rate = factors[best].get("learning_rate")
    return Best(losses[best], factors[best]["batch_size"], rate)


def _lowest_loss(folder: Path) -> float | None:
    """Return the lowest validation loss of a finished run, or None."""
    with contextlib.suppress(UserError):  # it has no record yet
        record = disk.read_json(paths.run_record(folder), "status")
        if record["status"] == records.FINISHED and "command" not in record:
            return record["best_validation_loss"]
        if record["status"] == records.FINISHED:
            rows = disk.read_rows(folder / paths.TRAJECTORY)
            losses = [float(row["validation_loss"]) for row in rows if row.get("validation_loss")]
            return min(losses, default=None)
    return None


def text(now: Snapshot) -> str:
    """Return a snapshot as lines."""
    left = "no training, measure or timing is left"
    if now.jobs_left:
        least, time = "at least" if now.is_least else "about", wording.duration(now.seconds_left)
        left = f"{status.waiting(now.jobs_left)} left, {least} {time}"
        left += f" on {wording.count(now.cores, 'core')}"
    lines = [f"Study {now.study}: {left}."]
    for experiment, best in now.best.items():
        rate = best.learning_rate
        at = f"batch size {best.batch_size}"
        at += f", learning rate {wording.shortest(rate)}" if rate is not None else ""
        loss = wording.cell(best.validation_loss)
        lines.append(f"Best of {experiment} so far: validation loss {loss} at {at}.")
    return "\n".join([*lines, running_text(now.running)])


def running_text(running: list[progress.Running]) -> str:
    ordered = sorted(running, key=lambda job: (job.step != "train", job.step, job.name))
    return "\n".join([job.line for job in ordered] or ["No training, measure or timing runs now."])
