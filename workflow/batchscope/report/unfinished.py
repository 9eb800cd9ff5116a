"""The section of runs and jobs without a result, and the Snakemake command that makes them."""

import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

from batchscope.core import project_files
from batchscope.host import requirements
from batchscope.report.report_inputs import ReportInputs
from batchscope.report.runs_table import rows_by_run
from batchscope.store import paths, records
from batchscope.store.jobs import TRAINING
from batchscope.study.plan import Study

_LOCAL = "--cores 8"  # as in the commands of the README
_MAX_LETTERS = 400  # letters that are quoted of the last line of a log
STATUSES = (  # in the order of the page
    *(records.FINISHED, *records.FAILED, records.OFF_TARGET, records.MISSING),
    *requirements.LABELS,
)


def build(inputs: ReportInputs) -> dict[str, Any]:
    """Return groups of runs and jobs without a result, and the command that makes them.

    The kind of a group is `run` (by status), `measure` (missing results), `version` (records of
    another version of the step) or `absent` (by missing requirement). An entry has a name and a
    message.
    """
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    waiting = inputs.states.waiting_jobs()  # by requirement; their runs are listed there only
    waiting_runs = {run for jobs in waiting.values() for job in jobs for run in job.runs}
    rows = rows_by_run(inputs.rows)
    order = dict.fromkeys((*STATUSES, *(row["status"] for row in rows.values())))
    for status in [*order][1:]:
        for run, row in rows.items():
            is_waiting = status in requirements.LABELS and row["run"] in waiting_runs
            if row["status"] == status and not is_waiting:
                groups["run", status, ""].append((run, _message(inputs, run, row)))
    for (measure, subject), line in _missing_measures(inputs).items():
        groups["measure", measure, ""].append((subject, line))
    for path, (step, version) in inputs.states.other_versions().items():
        groups["version", step, version].append((inputs.states.by_record[path].job.subject, ""))
    for requirement, jobs in waiting.items():
        key = ("absent", requirement.status, requirement.title)
        groups[key] += [(job.subject, job.measure) for job in jobs]
    return {
        "groups": [
            {"kind": kind, "name": name, "title": title, "entries": entries}
            for (kind, name, title), entries in groups.items()
        ],
        "command": snakemake_command(inputs.study, inputs.config_name),
    }


def _message(inputs: ReportInputs, run: str, row: dict[str, str]) -> str:
    """Return the message of a run, or the end of its log, or of the log of its data."""
    study, results, message = inputs.study, inputs.states.results, row.get("message", "")
    if run in (*study.runs, *study.commands) and run not in inputs.runs:
        candidates = [paths.run_record(paths.run_folder(results, run))]
        if run in study.runs:
            data = paths.dataset_record(results, study.runs[run]["dataset"])
            candidates += [] if data.exists() else [data]
        message = _last_line(results, *candidates) or message
    if row["status"] == records.DIVERGED and row.get("epochs_run"):
        message = f"{message} (epochs_run {row['epochs_run']})".strip()
    return message


def _missing_measures(inputs: ReportInputs) -> dict[tuple[str, str], str]:
    """Return (measure, subject) -> end of the log, of finished runs' measures and of timings."""
    machines, missing = (None, inputs.study.machine), {}
    for name, results in inputs.experiments.items():
        rows = [row for row in results.rows if row["status"] == records.FINISHED]
        finished = {row["run"] for row in rows if row.get("machine") in machines}
        for state in inputs.states.experiments[name]:
            job = state.job
            if job.noun != TRAINING and state.is_missing and finished.issuperset(job.runs):
                line = _last_line(inputs.states.results, job.path)
                missing[job.measure, job.subject] = line
    return missing


def _last_line(results: Path, *records_of_jobs: Path) -> str:
    """Return the last line and the path of the first log that exists."""
    for log in (paths.log_path(results, record) for record in records_of_jobs):
        if log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            last = next(filter(None, map(str.strip, reversed(lines))), "nothing")
            return f"{last[:_MAX_LETTERS]} ({log.relative_to(results.parent).as_posix()})"
    return ""


def snakemake_command(
    study: Study, config_name: str, target: str = "", options: str = _LOCAL
) -> str:
    """Return the command that runs a study, or one file of it, with options."""
    default = config_name == project_files.DEFAULT_CONFIG
    config = "" if default else f"--configfile {shlex.quote(config_name)}"
    scale = "--config scale=reduced" if study.reduced else ""
    return " ".join(filter(None, ["snakemake", target, options, config, scale]))
