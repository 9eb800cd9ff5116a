"""The section of runs and jobs without a result, and the Snakemake command that makes them."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.core import project_files
from batchscope.host import requirements
from batchscope.report.report_inputs import ReportInputs
from batchscope.report.runs_table import rows_by_run
from batchscope.store import paths, records
from batchscope.store.jobs import TRAINING

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Key = tuple[str, str, str]
Entries = Iterator[tuple[Key, tuple[str, str]]]
_LOCAL = "--cores 8"  # as in the commands of the README
_MAX_LETTERS = 400  # letters that are quoted of the last line of a log
STATUSES = (  # in the order of the page
    *(records.FINISHED, *records.FAILED, records.OFF_TARGET, records.MISSING),
    *requirements.LABELS,
)


def build(study: Study, inputs: ReportInputs) -> dict[str, Any]:
    """Return groups of runs and jobs without a result, and the command that makes them.

    The kind of a group is `run` (by status), `measure` (missing results), `version` (records of
    another version of the step) or `absent` (by missing requirement). An entry has a name and a
    message.
    """
    entries: dict[Key, list[tuple[str, str]]] = {}
    parts = (_runs(study, inputs), _measures(inputs), _versions(inputs), _requirements(inputs))
    for key, entry in itertools.chain(*parts):
        entries.setdefault(key, []).append(entry)
    groups = [
        {"kind": kind, "name": name, "title": title, "entries": group}
        for (kind, name, title), group in entries.items()
    ]
    return {"groups": groups, "command": snakemake_command(study, inputs.config_name)}


def _runs(study: Study, inputs: ReportInputs) -> Entries:
    # Runs that wait for a requirement are listed by `_requirements`.
    waiting = {
        run for jobs in inputs.states.waiting_jobs().values() for job in jobs for run in job.runs
    }
    rows = rows_by_run(inputs.rows)
    order = dict.fromkeys((*STATUSES, *(row["status"] for row in rows.values())))
    for status in [*order][1:]:
        for run, row in rows.items():
            if row["status"] != status or (status in requirements.LABELS and row["run"] in waiting):
                continue
            message = row.get("message", "")
            if run in (*study.runs, *study.commands) and run not in inputs.runs:
                message = _log_of_run(study, inputs.states.results, run) or message
            if status == records.DIVERGED and row.get("epochs_run"):
                message = f"{message} (epochs_run {row['epochs_run']})".strip()
            yield ("run", status, ""), (run, message)


def _log_of_run(study: Study, results: Path, run: str) -> str:
    """Return the end of the log of a run without a record, or of its data."""
    candidates = [paths.run_record(paths.run_folder(results, run))]
    if run in study.runs:
        data = paths.dataset_record(results, study.runs[run]["dataset"])
        candidates += [] if data.exists() else [data]
    return _last_line(results, *candidates)


def _measures(inputs: ReportInputs) -> Entries:
    """Yield missing measures of finished runs, and missing timings, with the end of their logs."""
    missing: dict[str, dict[str, str]] = {}
    machines = (None, inputs.states.study.machine)
    for name, results in inputs.experiments.items():
        rows = [row for row in results.rows if row["status"] == records.FINISHED]
        finished = {row["run"] for row in rows if row.get("machine") in machines}
        for state in inputs.states.experiments[name]:
            job = state.job
            if job.noun != TRAINING and state.is_missing and finished.issuperset(job.runs):
                line = _last_line(inputs.states.results, job.path)
                missing.setdefault(job.measure, {})[job.subject] = line
    for measure, jobs in missing.items():
        yield from ((("measure", measure, ""), job) for job in jobs.items())


def _versions(inputs: ReportInputs) -> Entries:
    for path, (step, version) in inputs.states.other_versions().items():
        subject = inputs.states.by_record[path].job.subject
        yield ("version", step, version), (subject, "")


def _requirements(inputs: ReportInputs) -> Entries:
    for requirement, jobs in inputs.states.waiting_jobs().items():
        key = ("absent", requirement.status, requirement.title)
        yield from ((key, (job.subject, job.measure)) for job in jobs)


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
