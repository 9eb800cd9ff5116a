"""Prepare, start and end a call of Snakemake: environment, groups, checks, lines at its end.

`workflow/rules/common.smk` calls these functions.
"""

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from batchscope.core import disk, project_files
from batchscope.core.errors import UserError
from batchscope.host import interruption, memory_limits, requirements
from batchscope.rules import study as rules_study
from batchscope.rules.study import RESULTS, CalledStudy
from batchscope.store import interims, jobs, paths, status

# Resource of Snakemake -> environment variable of SLURM with its amount.
_SLURM_VARIABLES = {"_cores": "SLURM_CPUS_PER_TASK", "gpu": "SLURM_GPUS_ON_NODE"}


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


def run_group_by_one_process(
    workflow: Any, groups: list[str], before_first_job: Callable[[], None]
) -> None:
    """Let Snakemake run all members of a group by one process, within the job's resources.

    The executor of a cluster starts one Snakemake on the node, without `--group-components` and
    `--keep-going`. By default, that Snakemake would start another Snakemake for each connected
    component of the group, on all cores of the node.

    Args:
        workflow: Snakemake's workflow, before it is executed.
        groups: Names of the groups.
        before_first_job: Called by the process that runs the members.
    """
    for resource, variable in _SLURM_VARIABLES.items():
        if (count := os.environ.get(variable, "")).isdecimal():
            workflow.register_resource(resource, int(count))
    workflow.register_resource("mem_mb", int(memory_limits.limit_mb()))
    execute = workflow.execute

    def execute_all(executor_plugin: Any, **settings: Any) -> None:
        workflow.group_settings.group_components = dict.fromkeys(groups, sys.maxsize)
        workflow.execution_settings.keep_going = True
        # srun starts that process by a shell. Without a trap, SIGTERM would end the shell, and
        # SLURM would kill the trainings while they write their checkpoints.
        workflow.remote_execution_settings.precommand = "trap : TERM"
        if executor_plugin.common_settings.local_exec:
            before_first_job()
        execute(executor_plugin=executor_plugin, **settings)

    workflow.execute = execute_all


def handle_sigterm_in_a_thread(scheduler_class: Any) -> None:
    """Let SIGTERM stop Snakemake after its running jobs, whenever the signal arrives.

    Snakemake's own handler waits for a lock of the scheduler. In the main thread, which may hold
    that lock already, it would wait for ever. The start of a daemon thread waits for no lock.
    """
    exit_gracefully = scheduler_class.exit_gracefully

    def start_thread(*arguments: Any) -> None:
        threading.Thread(target=exit_gracefully, args=arguments, daemon=True).start()

    scheduler_class.exit_gracefully = start_thread


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
    try:
        delete_leftovers(RESULTS)
        rules_study.note_owner(study.folder, study.plan.name, study.config_path)
        # Notes are no part of commands, because a changed command would make every run again. The
        # epochs that measures read, the study's place and the needs of a run change no result.
        jobs.note_epochs(study.table)
        for state in study.table.by_record.values():
            run = study.plan.commands.get(state.job.subject)
            if run and not state.is_complete:
                disk.write_json(state.job.path.with_name(paths.COMMAND_NOTE), run.model_dump())
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}.")
    table = study.table
    if study.partial or not (table.incomplete_user_data() or table.user_models_of_missing_jobs()):
        return
    arguments = ["check", "--config", study.config_path, "--scale", study.scale]
    if subprocess.run([sys.executable, str(project_files.CLI), *arguments]).returncode:
        sys.exit(1)


def delete_leftovers(results: Path | str) -> None:
    """Delete what killed processes left below the results, which no job reads.

    These are temporary files and folders, and a checkpoint next to the record of its run.
    """
    for name, folders, files in os.walk(results):
        folder = Path(name)
        if paths.COMMAND_FOLDER in folders and paths.COMMAND_NOTE in files:
            folders.remove(paths.COMMAND_FOLDER)  # It holds the user's files.
        with contextlib.suppress(FileNotFoundError):  # The process may still delete its files.
            for path in map(folder.joinpath, (*folders, *files)):
                if disk.is_abandoned(path):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            if paths.RECORD in files:
                ended = (folder / paths.RECORD).stat().st_mtime
                for path in (folder / paths.CHECKPOINT, folder / memory_limits.KILL_NOTE):
                    if path.name in files and path.stat().st_mtime <= ended:
                        path.unlink()


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
        number, analysed = interims.last(RESULTS, name)
        if not number:
            return "No interim analysis yet: run the same command again."
        experiments = dict.fromkeys(row.experiment for row in analysed if row.seeds)
        if not experiments:
            return f"Nothing is open after interim analysis {number}."
        planned = rules_study.plan_study(study.config_path, study.scale)
        rows = status.rows(planned, RESULTS)
    except UserError as error:
        return str(error)
    left = status.describe_remaining(planned, rows, requirements.usable_cores())
    return (
        f"Open after interim analysis {number}: {', '.join(experiments)}. The next stage has "
        f"{left}: run the same command again."
    )
