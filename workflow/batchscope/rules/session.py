"""Start and end a call of Snakemake: checks and notes before the first job, lines at its end."""

import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Collection
from itertools import chain
from pathlib import Path

from batchscope.core import disk, project_files
from batchscope.core.errors import UserError
from batchscope.host import interruption, memory_limits, requirements
from batchscope.rules.study import RESULTS, CalledStudy
from batchscope.store import interims, jobs, leftovers, owners, paths, status


def prepare_environment(gpus: bool, scheduled: bool = False) -> None:
    """Let jobs find the Python that runs Snakemake, even if its venv is not activated.

    A rule's conda environment still comes first.

    Args:
        gpus: Whether jobs may find a GPU that this machine lacks.
        scheduled: Whether a scheduler started this process: another attempt may have more memory.
    """
    if scheduled:
        os.environ[memory_limits.SCHEDULED_VARIABLE] = "true"
    # A job on a cluster's node keeps the value of the process that submitted it.
    if gpus:
        os.environ[requirements.REMOTE_GPUS_VARIABLE] = "true"
    folder = os.path.dirname(sys.executable)
    path = os.environ.get("PATH", "")
    if path.partition(os.pathsep)[0] != folder:
        os.environ["PATH"] = f"{folder}{os.pathsep}{path}"


def is_shown(record: logging.LogRecord) -> bool:
    """Return whether a line of Snakemake's log is shown.

    Errors after Ctrl-C are hidden. So is a warning about snapshots that existed before their job,
    because a training may have written them.
    """
    if record.levelno >= logging.ERROR and interruption.is_interrupted():
        return False
    return "rule snapshot were not present when the DAG was created" not in record.getMessage()


def start(study: CalledStudy) -> None:
    """Check user data and models, and leave notes for the jobs; exit if a check fails."""
    leftovers.delete_leftovers(RESULTS)
    owners.note_owner(study.folder, study.plan.name, study.config_path)
    # Notes are no part of commands, because a changed command would make every run again. The
    # epochs that measures read, the study's place and the needs of a run change no result.
    jobs.note_epochs(study.table)
    for state in study.table.by_record.values():
        run = study.plan.commands.get(state.job.subject)
        if run and not state.is_complete:
            disk.write_json(state.job.path.with_name(paths.COMMAND_NOTE), run.note())
    table = study.table
    if study.partial or not (table.incomplete_user_data() or table.user_models_of_missing_jobs()):
        return
    arguments = ["check", "--config", study.config_path, "--scale", study.scale]
    if subprocess.run([sys.executable, str(project_files.CLI), *arguments]).returncode:
        sys.exit(1)


def closing_lines(study: CalledStudy, targets: Collection[str]) -> list[str]:
    """Return the line about the report, and the line about the open stage of a study.

    Args:
        targets: Targets of the call. Without the report among them, there are no lines.
    """
    if study.report not in targets:
        return []
    headline = Path(study.headline).read_text(encoding="utf-8").strip()
    lines = [f"{study.report}: {headline}"]
    if study.plan.has_stages and not study.partial:
        lines.append(open_stage_line(study))
    return lines


def open_stage_line(study: CalledStudy) -> str:
    """Say which experiments are open, and how many runs the next stage has."""
    name = study.plan.folder_name
    try:
        number = interims.count(RESULTS, name)
        if not number:
            return "No interim analysis yet: run the same command again."
        if not interims.is_open(RESULTS, name):
            return f"Nothing is open after interim analysis {number}."
        analysed = interims.rows(RESULTS, name, number)
        experiments = dict.fromkeys(row["experiment"] for row in analysed if row["seeds"])
        planned = study.plan_again().plan
        rows = status.rows(planned, RESULTS)
    except UserError as error:
        return str(error)
    left = status.describe_remaining(planned, rows, requirements.usable_cores())
    return (
        f"Open after interim analysis {number}: {', '.join(experiments)}. The next stage has "
        f"{left}: run the same command again."
    )


def future_dates_hint(study: CalledStudy) -> str:
    """Return the message about inputs dated in the future, which stop Snakemake's jobs."""
    external = (experiment.external_runs for experiment in study.plan.experiments.values())
    logs = chain.from_iterable(runs.table.files for runs in external if runs)
    models = filter(None, study.plan.models.values())
    code = os.path.relpath(project_files.WORKFLOW)
    return fix_future_dates([RESULTS, code, *sorted({study.config_path, *models, *logs})])


def fix_future_dates(roots: list[str]) -> str:
    """Return the message about files dated in the future at or below paths; empty if none is."""
    paths = chain.from_iterable((root, *sorted(root.rglob("*"))) for root in map(Path, roots))
    latest = time.time() + 1
    future = (path for path in paths if path.is_file() and path.stat().st_mtime > latest)
    if not (first := next(future, None)):
        return ""
    touch = f"find {shlex.join(roots)} -type f -newermt now -exec touch {{}} +"
    return f"{first}: received a date in the future; set the clock, or date all such files: {touch}"
