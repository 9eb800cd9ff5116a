"""Write the texts of `plan` and `watch`: a study's missing jobs, their time, and running jobs."""

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from batchscope.core import display
from batchscope.host import requirements
from batchscope.rules import study as rules_study
from batchscope.store import jobs, paths, progress, records, status
from batchscope.store.jobs import TRAINING
from batchscope.store.status import JobRow
from batchscope.study import suggestions
from batchscope.study.plan import Study
from batchscope.study.registry import VERSIONS


def study(config_path: Path | str, scale: str, results: Path | str) -> Study:
    """Return the planned study of a file; raise a `UserError` if another file has its name."""
    planned = rules_study.plan_study(config_path, scale, results)
    folder = paths.study_folder(results, planned.folder_name)
    rules_study.check_owner(folder, planned.name, config_path)
    return planned


def text(study: Study, results: Path | str) -> str:
    """Return the text for a study; raise a `UserError` if a record is damaged."""
    table = jobs.JobTable(study, results)
    rows = status.rows(study, results, table)
    datasets = [dataset for dataset, is_complete in table.data_states().items() if not is_complete]
    lines = [f"Study {study.folder_name}", *_table(study, rows)]
    lines += [*_external_runs(study), *_commands(study, results)]
    if datasets:
        lines.append(f"Data sets to prepare: {', '.join(datasets)}.")
    lines.append(f"Missing: {status.describe_remaining(study, rows, requirements.usable_cores())}.")
    outdated = Counter((row.job.measure, row.version) for row in rows if row.version)
    for (step, version), count in outdated.items():
        lines.append(
            f"{step}: {display.count(count, 'record')} of another version ({version}; now "
            f"{VERSIONS[step]}). Snakemake makes them again, unless they were copied here."
        )
    lines += [*status.requirement_lines(table.waiting_jobs()), *_advice(study)]
    lines += [f"Warning: {warning}" for warning in study.warnings]
    for dataset in study.datasets:
        record = records.data_record(results, dataset) or {}
        lines += [f"Warning: {line}" for line in records.data_warnings(dataset, record)]
    return "\n".join(lines)


def _table(study: Study, rows: list[JobRow]) -> Iterator[str]:
    """Yield the lines of a table: runs by status, missing measures and timings by experiment."""
    groups = {
        name: [row for row in rows if name in row.experiments]
        for name, experiment in study.experiments.items()
        if not experiment.external_runs
    }
    cells = [("experiment", "runs", "missing measures and timings")]
    for name, group in {**groups, **({"all": rows} if len(groups) > 1 else {})}.items():
        runs = Counter(requirements.label(row.status) for row in group if row.job.noun == TRAINING)
        missing = (row.job for row in group if row.status == records.MISSING)
        other_jobs = Counter(job.measure for job in missing if job.noun != TRAINING)
        cells.append((name, *map(_counts_text, (runs, other_jobs))))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if groups:
        yield ""
        yield from (f"{name:{widths[0]}}  {runs:{widths[1]}}  {jobs}" for name, runs, jobs in cells)
        yield ""


def _counts_text(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "none"


def _external_runs(study: Study) -> Iterator[str]:
    for name, experiment in study.experiments.items():
        if runs := experiment.external_runs:
            trainings = display.count(runs.rows["run"].nunique(), "external training")
            rows = display.count(len(runs.rows), "row")
            yield f"{name}: {trainings} in {rows} of {runs.path} ({runs.table.read_as})."


def _commands(study: Study, results: Path | str) -> Iterator[str]:
    """Yield the command line of the first run of each experiment with a command."""
    for name, experiment in study.experiments.items():
        for run, first in list(experiment.commands.items())[:1]:
            command = first.command
            folder = os.path.abspath(paths.run_folder(results, run) / paths.COMMAND_FOLDER)
            gpus = display.count(command.gpus, "GPU") if command.gpus else "no GPU"
            shared = "next to other jobs, so its seconds are unknown (without alone: true)"
            yield f"{name}, first run: {shlex.join(first.resolved(folder)[0])}"
            yield (
                f"  in {command.folder}, with {display.count(command.threads, 'thread')} and "
                f"{gpus}, {'alone on the machine' if command.alone else shared}."
            )


def _advice(study: Study) -> list[str]:
    """Return the keys to change for complete advice, one line per experiment."""
    lines = []
    for name, experiment in study.experiments.items():
        needs = [(need.key, {None: need.value}) for need in suggestions.planned_needs(experiment)]
        if changed := suggestions.changes(study, name, needs):
            lines.append(f"  {name}: {'; '.join(suggestions.lines(changed))}")
    return ["For solid advice on batch sizes, change:", *lines] if lines else []


def watch_text(results: Path | str) -> str:
    """Return the text about the study that ran last, if any, and the running jobs.

    Raises:
        UserError: If a record is damaged.
    """
    lines = []
    if last := rules_study.last_config(results):
        study, cores = rules_study.plan_study(*last, results), requirements.usable_cores()
        remaining = status.describe_remaining(study, status.rows(study, results), cores)
        lines = [f"Study {study.folder_name}, missing: {remaining}."]
    running = progress.running_jobs(results)
    running.sort(key=lambda job: (job.step != "train", job.step, job.name))
    lines += [job.line for job in running] or ["No training, measure or timing runs now."]
    return "\n".join(lines)
