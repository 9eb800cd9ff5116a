"""What diverged, fell short or is missing, and the commands that mend and repeat it.

The words stand in gaps.html.j2 and repeat.html.j2.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from batchscope import project_files
from batchscope.catalogue import own_columns
from batchscope.catalogue.timings import OF_SWEEPS
from batchscope.host import absence
from batchscope.report.content import Inputs
from batchscope.report.runs_table import distinct
from batchscope.store import records

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Gap = dict[str, Any]
_HERE = "--cores 8"  # as in the README's commands
STATUSES = (  # in the order of the page
    records.FINISHED,
    *(records.DIVERGED, records.OUT_OF_MEMORY, records.OFF_TARGET, records.MISSING),
    *absence.WORDS,
)


def find(study: Study, inputs: Inputs) -> list[Gap]:
    """Returns runs or jobs that share a fate other than finished: by status, then by measure.

    The kind of each is `run`, `elsewhere` (a run made elsewhere), `measure`, `timing` or `absent`
    (what waits for what is not here), its name the status or the measure; of `version`
    (records that another version made) the step. Its entries are run or
    job, and a message; `command` mends it.
    """
    command = snakemake(study, inputs.config_name)
    by_status: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    waiting = {run for jobs in inputs.absent.values() for job in jobs for run in job.runs}
    for run, row in distinct(inputs.rows).items():
        listed_below = row["status"] in absence.WORDS and row["run"] in waiting
        if row["status"] != records.FINISHED and not listed_below:
            message = inputs.missing_runs.get(run) or row.get("message", "")
            if row["status"] == records.DIVERGED and row.get("epochs_run"):
                message = f"{message} (epochs_run {row['epochs_run']})".strip()
            made = row.get("machine") == own_columns.ELSEWHERE
            by_status.setdefault((row["status"], made), []).append((run, message))
    order = {status: place for place, status in enumerate(STATUSES)}
    gaps = []
    for status, made in sorted(by_status, key=lambda each: (order.get(each[0], 9), each[1])):
        kind, mend = "elsewhere" if made else "run", status == records.MISSING and not made
        gaps.append(_gap(kind, status, by_status[status, made], command if mend else ""))
    for measure, runs in inputs.missing_measures.items():
        kind, noun = ("timing", "timing") if measure in OF_SWEEPS else ("measure", "run")
        gaps.append(_gap(kind, measure, [*runs.items()], command, noun))
    for (step, version), jobs in inputs.other_versions.items():
        items = [(job.subject, "") for job in jobs]
        gaps.append(_gap("version", step, items, "", "record") | {"title": version})
    for lacking, jobs in inputs.absent.items():
        mend = f"{lacking.command} && {command}" if lacking.command else command
        items = [(job.subject, job.measure) for job in jobs]
        nouns = {job.noun for job in jobs}
        noun = nouns.pop() if len(nouns) == 1 else "job"
        gaps.append(_gap("absent", lacking.status, items, mend, noun) | {"title": lacking.title})
    return gaps


def _gap(
    kind: str, name: str, entries: list[tuple[str, str]], command: str, noun: str = "run"
) -> Gap:
    return {"kind": kind, "name": name, "entries": entries, "command": command, "noun": noun}


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
    plan = "python workflow/run.py plan"
    if config_name != project_files.DEFAULT_CONFIG:
        plan += f" {shlex.quote(config_name)}"
    found = {
        "plan": plan,
        "study": snakemake(study, config_name),
        "slurm": snakemake(study, config_name, how="--profile slurm"),
    }
    if study.runs:
        target = f"results/runs/{next(iter(study.runs))}/record.json"
        found["run"] = snakemake(study, config_name, target)
    return found
