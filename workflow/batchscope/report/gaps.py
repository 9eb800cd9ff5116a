"""What diverged, fell short or is missing, what would mend it, and how to repeat it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from batchscope import project_files, wording
from batchscope.catalogue import own_columns
from batchscope.catalogue.timings import OF_SWEEPS
from batchscope.host import absence
from batchscope.report.content import Inputs
from batchscope.report.runs_table import distinct
from batchscope.store import records

if TYPE_CHECKING:
    from batchscope.study.plan import Study

_HERE = "--cores 8"  # as in the README's commands
_MENDING = {
    records.DIVERGED: (
        "The loss became NaN or infinite, and the training ended there. This is a result: it "
        "stays in the tables and figures and is not tried again. A lower learning_rate, or "
        "another learning_rate_scaling, may avoid it; either is a new run."
    ),
    records.OUT_OF_MEMORY: (
        "The device refused the memory that a step takes, or the kernel killed the training for "
        "memory. This is a result: it records a limit of this machine and is not tried again. A "
        "smaller batch_size or a smaller model fits, or a device with more memory: there, delete "
        "the run's folder and run again."
    ),
    records.OFF_TARGET: (
        "The training ended before its loss came down to target_train_loss. Runs are to be "
        "compared at that loss, so this one is in no mean and in no answer; its values stay in "
        "the table of runs. More epochs, more patience or a higher target make new runs."
    ),
    records.MISSING: (
        "Not run yet, or the job failed or was killed: then the last line of its log stands "
        "here. A training that was killed goes on from its last checkpoint. This command runs what "
        "is missing:"
    ),
}
STATUSES = (records.FINISHED, *_MENDING, *absence.WORDS)  # in the order of the page
_ELSEWHERE = {
    records.DIVERGED: (
        "Their last row has no finite loss (or their file says so). This is a result: they stay in "
        "the tables and figures, and in no mean."
    ),
    records.OFF_TARGET: (
        "Their row has no number of updates: they never reached their target, and count as "
        "infinity where times to it are compared."
    ),
}
_AS_STATED = "Their file says so: they stay in the tables and figures, and in no mean."
_MISSING_MEASURE = (
    "These runs finished, but this measure of them was not made yet, or its job failed: then the "
    "last line of its log stands here. This command makes what is missing:"
)
_MISSING_TIMING = (
    "These timings were not made yet, or their job failed: then the last line of its log stands "
    "here. This command makes what is missing:"
)
_LEFT_OUT = {
    absence.NOT_INSTALLED: (
        "This framework has no environment on this machine, so these timings were left out; "
        "nothing failed, and nothing is stored of them. This command installs it and makes what is "
        "missing:"
    ),
    absence.NO_GPU: (
        "This machine shows no NVIDIA GPU, so these were left out; nothing failed, and nothing is "
        "stored of them. On a machine with a GPU, its driver and tensorflow[and-cuda], this "
        "command makes what is missing; on a cluster --profile slurm in place of --cores does:"
    ),
    absence.NO_CORES: (
        "These ask for more threads than this machine has cores, so they were left out; nothing "
        "failed, and nothing is stored of them. On a machine with as many cores this command makes "
        "what is missing; on a cluster --profile slurm in place of --cores does:"
    ),
}


class Gap(NamedTuple):
    """Runs that share a fate other than finished, and what would mend it."""

    title: str
    text: str
    entries: list[tuple[str, str]]  # run and message
    command: str = ""
    noun: str = "run"

    @property
    def summary(self) -> str:
        """How many runs, or timings."""
        return wording.count(len(self.entries), self.noun)


def find(study: Study, inputs: Inputs) -> list[Gap]:
    """Returns the gaps of a study: by status, by measure, then by what is not here."""
    command = snakemake(study, inputs.config_name)
    by_status: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    waiting = {run for jobs in inputs.missing.absent.values() for job in jobs for run in job.runs}
    for run, row in distinct(inputs.rows).items():
        listed_below = row["status"] in absence.WORDS and row["run"] in waiting
        if row["status"] != records.FINISHED and not listed_below:
            message = inputs.missing.runs.get(run) or _message(row)
            made = row.get("machine") == own_columns.ELSEWHERE
            by_status.setdefault((row["status"], made), []).append((run, message))
    order = {status: place for place, status in enumerate(STATUSES)}
    gaps = []
    for status, made in sorted(by_status, key=lambda each: (order.get(each[0], 9), each[1])):
        word = absence.word(status)
        text = _MENDING.get(status, "The run's record says why.")
        mend = command if status == records.MISSING else ""
        if made:
            word, text, mend = f"{word}, made elsewhere", _ELSEWHERE.get(status, _AS_STATED), ""
        gaps.append(Gap(wording.capital(word), text, by_status[status, made], mend))
    for measure, runs in inputs.missing.measures.items():
        items = list(runs.items())
        timed = measure in OF_SWEEPS
        text, noun = (_MISSING_TIMING, "timing") if timed else (_MISSING_MEASURE, "run")
        gaps.append(Gap(f"Missing: {measure}", text, items, command, noun))
    for lacking, jobs in inputs.missing.absent.items():
        mend = f"{lacking.command} && {command}" if lacking.command else command
        items = [(job.subject, job.measure) for job in jobs]
        nouns = {job.noun for job in jobs}
        noun = nouns.pop() if len(nouns) == 1 else "job"
        gaps.append(Gap(lacking.title, _LEFT_OUT[lacking.status], items, mend, noun))
    return gaps


def _message(row: dict[str, str]) -> str:
    message = row.get("message", "")
    if row["status"] != records.DIVERGED or not row.get("epochs_run"):
        return message
    return f"{message} (epochs_run {row['epochs_run']})".strip()


def snakemake(study: Study, config_name: str, target: str = "", how: str = _HERE) -> str:
    """Returns the command that runs a study, or one file of it; `how` says where it runs."""
    parts = ["snakemake", target, how]
    if config_name != project_files.DEFAULT_CONFIG:
        parts.append(f"--configfile {shlex.quote(config_name)}")
    if study.reduced:
        parts.append("--config scale=reduced")
    return " ".join(part for part in parts if part)


def commands(study: Study, config_name: str) -> list[tuple[str, str]]:
    """Returns pairs of words and the command that they announce."""
    plan = "python workflow/run.py plan"
    if config_name != project_files.DEFAULT_CONFIG:
        plan += f" {shlex.quote(config_name)}"
    found = [
        ("What would run, how long it takes and the disk that it needs:", plan),
        ("The whole study, up to this page:", snakemake(study, config_name)),
        ("On a SLURM cluster:", snakemake(study, config_name, how="--profile slurm")),
    ]
    if study.runs:
        target = f"results/runs/{next(iter(study.runs))}/record.json"
        found.append(("One training alone, here the first:", snakemake(study, config_name, target)))
    return found
