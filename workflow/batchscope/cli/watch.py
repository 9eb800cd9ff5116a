"""Write the text of `watch`: a study's missing jobs, its best runs, and the running jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.rules.study import plan_study
from batchscope.store import owners, paths, progress, records, status
from batchscope.study.plan import Study


def last_study(results: Path | str) -> Study | None:
    """Return the study that ran last; None before the first run."""
    last = owners.last_config(results)
    return plan_study(*last, results) if last else None


def text(study: Study | None, results: Path | str, cores: int) -> str:
    """Return the text about a study, if any, and the running jobs.

    Raises:
        UserError: If a record is damaged.
    """
    lines = []
    if study:
        left = status.describe_remaining(study, status.rows(study, results), cores)
        lines = [f"Study {study.folder_name}, missing: {left}.", *_best_runs(study, results)]
    running = progress.running_jobs(results)
    running.sort(key=lambda job: (job.step != "train", job.step, job.name))
    lines += [job.line for job in running] or ["No training, measure or timing runs now."]
    return "\n".join(lines)


def _best_runs(study: Study, results: Path | str) -> Iterator[str]:
    """Yield the finished run with the lowest validation loss of each experiment."""
    for name, experiment in study.experiments.items():
        commands = {name: run.factors for name, run in experiment.commands.items()}
        runs = experiment.runs | commands
        losses = {run: _lowest_loss(paths.run_folder(results, run)) for run in runs}
        if finished := [run for run in runs if losses[run] is not None]:
            best = min(finished, key=losses.__getitem__)
            place = f"batch size {runs[best]['batch_size']}"
            if "learning_rate" in runs[best]:  # A command may have no learning rate.
                place += f", learning rate {display.shortest(runs[best]['learning_rate'])}"
            yield f"Best run of {name}: validation loss {display.cell(losses[best])} at {place}."


def _lowest_loss(folder: Path) -> float | None:
    """Return the lowest validation loss of a finished run, or None."""
    with contextlib.suppress(UserError):  # The run may have no record yet.
        files = records.RunFiles(folder)
        if files.record["status"] == records.FINISHED and "command" not in files.record:
            return files.record["best_validation_loss"]
        if files.record["status"] == records.FINISHED:
            rows = files.rows(paths.TRAJECTORY)
            losses = [float(row["validation_loss"]) for row in rows if row.get("validation_loss")]
            return min(losses, default=None)
    return None
