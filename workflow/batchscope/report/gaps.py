"""What diverged, fell short or is missing, and the commands that mend and repeat it.

The words stand in gaps.html.j2 and repeat.html.j2.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope import project_files
from batchscope.host import requirements
from batchscope.report.content import Inputs
from batchscope.report.runs_table import distinct
from batchscope.store import paths, records
from batchscope.store.jobs import TRAINING
from batchscope.study.registry import OF_SWEEPS

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Gap = dict[str, Any]
_HERE = "--cores 8"  # as in the README's commands
_LAST_LINE = 400  # most characters that are quoted of a log's last line
STATUSES = (  # in the order of the page
    records.FINISHED,
    *(*records.FAILED, records.OFF_TARGET, records.MISSING),
    *requirements.LABELS,
)


def find(study: Study, inputs: Inputs) -> list[Gap]:
    """Returns runs or jobs that share a fate other than finished: by status, then by measure.

    The kind of each is `run`, `measure`, `timing`, `version` (records that another version of a
    step made) or `absent` (what waits for what is not here); its name is the status, the measure or
    the step. Its entries are run or job, and a message; `command` mends it.
    """
    command = snakemake(study, inputs.config_name)
    gaps = [*_of_runs(study, inputs, command)]
    for measure, entries in _missing(inputs).items():
        kind, noun = ("timing", "timing") if measure in OF_SWEEPS else ("measure", "run")
        gaps.append(_gap(kind, measure, [*entries.items()], command, noun))
    versions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for path, made in inputs.states.other_versions().items():
        versions.setdefault(made, []).append((inputs.states.every[path].job.subject, ""))
    for (step, version), entries in versions.items():
        gaps.append(_gap("version", step, entries, "", "record") | {"title": version})
    for lacking, jobs in inputs.states.absent().items():
        entries, nouns = [(job.subject, job.measure) for job in jobs], {job.noun for job in jobs}
        gap = _gap(
            "absent", lacking.status, entries, command, nouns.pop() if len(nouns) < 2 else "job"
        )
        gaps.append(gap | {"title": lacking.title})
    return gaps


def _gap(
    kind: str, name: str, entries: list[tuple[str, str]], command: str, noun: str = "run"
) -> Gap:
    return {"kind": kind, "name": name, "entries": entries, "command": command, "noun": noun}


def _of_runs(study: Study, inputs: Inputs, command: str) -> Iterator[Gap]:
    by_status: dict[str, list[tuple[str, str]]] = {}
    waiting = {run for jobs in inputs.states.absent().values() for job in jobs for run in job.runs}
    for run, row in distinct(inputs.rows).items():
        listed_below = row["status"] in requirements.LABELS and row["run"] in waiting
        if row["status"] == records.FINISHED or listed_below:
            continue
        message = row.get("message", "")
        if run in (*study.runs, *study.commands) and run not in inputs.runs:
            message = _said_of_run(study, inputs.states.results, run) or message
        if row["status"] == records.DIVERGED and row.get("epochs_run"):
            message = f"{message} (epochs_run {row['epochs_run']})".strip()
        by_status.setdefault(row["status"], []).append((run, message))
    order = {status: place for place, status in enumerate(STATUSES)}
    for status in sorted(by_status, key=lambda status: order.get(status, 9)):
        mend = command if status == records.MISSING else ""
        yield _gap("run", status, by_status[status], mend)


def _said_of_run(study: Study, results: Path, run: str) -> str:
    """Returns what the log of a run without a record says, or that of its data."""
    wanted = [paths.run_record(paths.run_folder(results, run))]
    if run in study.runs:
        data = paths.dataset_record(results, study.runs[run]["dataset"])
        wanted += [] if data.exists() else [data]
    return _last_words(results, *wanted)


def _missing(inputs: Inputs) -> dict[str, dict[str, str]]:
    """Returns measure -> finished run without its record, or sweep -> what the job's log says.

    The first run of a pair stands for both. What waits for what is not here is not among them.
    """
    missing: dict[str, dict[str, str]] = {}
    for name, found in inputs.experiments.items():
        here = (None, inputs.states.study.machine)
        own = [row for row in found.rows if row.get("machine") in here]
        finished = {row["run"] for row in own if row["status"] == records.FINISHED}
        for state in inputs.states.experiments[name]:
            job = state.job
            if job.noun != TRAINING and state.missing and finished.issuperset(job.runs):
                said = _last_words(inputs.states.results, job.path)
                missing.setdefault(job.measure, {})[job.subject] = said
    return missing


def _last_words(results: Path, *records_of_jobs: Path) -> str:
    """Returns the last line and the path of the jobs' first log; nothing where none has begun."""
    for log in (paths.log_path(results, record) for record in records_of_jobs):
        if log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            last = next(filter(None, map(str.strip, reversed(lines))), "nothing")
            return f"{last[:_LAST_LINE]} ({log.relative_to(results.parent).as_posix()})"
    return ""


def snakemake(study: Study, config_name: str, target: str = "", how: str = _HERE) -> str:
    """Returns the command that runs a study, or one file of it; `how` says where it runs."""
    parts = ["snakemake", target, how]
    if config_name != project_files.DEFAULT_CONFIG:
        parts.append(f"--configfile {shlex.quote(config_name)}")
    if study.reduced:
        parts.append("--config scale=reduced")
    return " ".join(part for part in parts if part)


def commands(study: Study, config_name: str) -> dict[str, str]:
    """Returns the commands that repeat a study: plan, study, slurm and, of a training, run."""
    default = config_name == project_files.DEFAULT_CONFIG
    found = {
        "plan": "python workflow/run.py plan" + ("" if default else f" {shlex.quote(config_name)}"),
        "study": snakemake(study, config_name),
        "slurm": snakemake(study, config_name, how="--profile slurm"),
    }
    for run in [*study.runs, *study.commands][:1]:
        found["run"] = snakemake(study, config_name, f"results/runs/{run}/record.json")
    return found
