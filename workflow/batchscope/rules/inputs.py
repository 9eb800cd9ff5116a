"""Planned study in, paths out: the inputs of rules, and the files and commands of measures.

A new function returns the inputs of a rule, as text; `targets` decides which files are made.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from batchscope.core import project_files
from batchscope.core.errors import unexpected
from batchscope.rules.study import RESULTS, CalledStudy
from batchscope.store import jobs, paths
from batchscope.study import names, tables
from batchscope.study.registry import ENTRIES
from batchscope.study.specifications import Measure, Timing

# Cheap rules run again if their code changes. Costly rules have versions instead.
TABLE_CODE = project_files.code_files("tables")
FIGURE_CODE = project_files.code_files("figures")
REPORT_CODE = [*project_files.code_files("report"), *project_files.templates()]

TABLES = [f"{RESULTS}/studies/{{study}}/{{experiment}}/{name}" for name in tables.FILES]


def checked_path(path: str) -> str:
    """Return a path for a rule; exit if Snakemake would read it as wildcards or flags."""
    if set("{}<>").intersection(path):
        sys.exit(str(unexpected(path, "a path with a brace or a bracket", "one without")))
    return path


def environment_file(folder: str) -> str:
    return f"{folder}/envs/batchscope.yaml".replace("{", "{{").replace("}", "}}")


def job_subject(wildcards: Any) -> str:
    """Return the name of the run, timing configuration or sweep that a job is about."""
    values = (getattr(wildcards, name, None) for name in ("run", "timing", "sweep"))
    return next(value for value in values if value)


def value_of_each_job(study: CalledStudy, value_of: Callable[[str], Any]) -> Any:
    """Return `value_of` each job's subject, as a function of wildcards for Snakemake.

    If all jobs have the same value, return this value instead. Snakemake calls a function several
    times per job, which slows the dry-run of a large study.
    """
    subjects = [*study.plan.runs]
    for experiment in study.plan.experiments.values():
        subjects += [job.subject for job in jobs.timing_jobs(experiment, RESULTS, "")]
    values = [value_of(name) for name in subjects]
    if values and all(value == values[0] for value in values):
        return values[0]
    return lambda wildcards: value_of(job_subject(wildcards))


def dataset_record(name: str) -> str:
    """Return the record of the data set of a run, a timing configuration or a sweep."""
    return paths.dataset_record(RESULTS, name.split("+")[0]).as_posix()


def dataset_files(name: str) -> list[str]:
    folder = paths.dataset_folder(RESULTS, name)
    return [(folder / file).as_posix() for file in (paths.RECORD, *paths.ARRAYS)]


def model_file(study: CalledStudy, name: str) -> list[str]:
    """Return a list with the user's model file of a job; it is empty for a built-in model."""
    path = study.plan.models.get(name.split("+")[1])
    return [checked_path(path)] if path else []


def records_of_runs(entry: Measure) -> list[str]:
    return [f"{RESULTS}/runs/{{{name}}}/record.json" for name in entry.subjects]


def snapshot_input(study: CalledStudy, entry: Measure) -> dict[str, Any]:
    """Return the input `snapshots` of a measure: a path, a function of wildcards, or nothing."""
    if entry.middle:
        return {"snapshots": f"{RESULTS}/runs/{{run}}/epochs/middle.npz"}
    experiments = study.plan.experiments.values()
    measured = [experiment for experiment in experiments if entry.name in experiment.measures]
    if not any(
        experiment.at_epochs or experiment.measures[entry.name].get("epoch")
        for experiment in measured
    ):
        return {}  # Snakemake would call a function for every job.

    def snapshots_of_job(wildcards: Any) -> list[str]:
        horizon = names.parse_run(wildcards.run)["epochs"]
        epoch = jobs.epoch_read(entry.name, wildcards.settings, horizon)
        return [] if epoch is None else [f"{RESULTS}/runs/{wildcards.run}/epochs/{epoch}.npz"]

    return {"snapshots": snapshots_of_job}


def record_path(entry: Measure | Timing) -> str:
    """Return the record of a measure or a timing, with wildcards."""
    if isinstance(entry, Timing):
        machine, timed = (f"{{{name}}}" for name in entry.subjects)
        path = paths.timing_path(RESULTS, machine, timed, "{settings}", entry.name)
    elif entry.pairs:
        path = paths.pair_path(RESULTS, "{run}", "{other}", entry.name, "{settings}")
    else:
        path = paths.measure_path(RESULTS, "{run}", entry.name, "{settings}")
    return path.as_posix()


def result_files(entry: Measure | Timing) -> list[str]:
    """Return the files of a measure or a timing, its record first."""
    record = record_path(entry)
    return [record, *(record.removesuffix(".json") + suffix for suffix in entry.also_writes)]


def log_file(entry: Measure | Timing) -> str:
    return paths.log_path(RESULTS, record_path(entry)).as_posix()


def step_command(step: str) -> str:
    """Return the command of a measure or a timing. A changed command makes all results again."""
    entry = ENTRIES[step]
    options = [f"--{option} {{wildcards.{option}:q}}" for option in (*entry.subjects, "settings")]
    options += ["--model-file {input.model:q}"] if isinstance(entry, Timing) or entry.data else []
    options.append("--output {output.record:q} > {log:q} 2>&1")
    return " ".join(["python workflow/run.py", entry.name, *options])


def table_sources(study: CalledStudy, experiment: str) -> list[str]:
    """Return the inputs of an experiment's tables: records, logs, and files of other experiments.

    A partial report has only existing files, and the configuration, whose missing runs are rows.
    """
    files = list(dict.fromkeys(_complete_table_sources(study, experiment)))
    if study.partial:
        return [checked_path(study.config_path), *filter(os.path.exists, files)]
    return files


def _complete_table_sources(study: CalledStudy, experiment: str) -> Iterator[str]:
    """Yield the inputs of an experiment's tables if nothing that can be made is missing."""
    planned = study.plan.experiments[experiment]
    if planned.external_runs:
        yield from map(checked_path, planned.external_runs.table.files)
    for other in planned.keys.beside:
        yield from _complete_table_sources(study, other)
    # Results of other machines are inputs only if they exist, because they are never made here.
    for folder, machine in study.plan.machines.values():
        trainings = (jobs.training_job(folder, run) for run in planned.runs)
        for job in (*trainings, *jobs.measure_jobs(planned, folder, machine)):
            if job.path.exists():
                yield checked_path(job.path.as_posix())
    suffixes = {name: entry.also_writes for name, entry in ENTRIES.items()}
    for state in study.table.experiments[experiment]:
        if not state.missing_requirement:
            yield state.job.path.as_posix()
            for suffix in suffixes.get(state.job.measure, ()):
                yield state.job.path.with_suffix(suffix).as_posix()


def configuration_parts(study: CalledStudy, experiment: str) -> str:
    """Return the parts of the configuration that an experiment's tables depend on, as JSON.

    A change of these parts makes the tables again, but no training.
    """
    planned = study.plan.experiments[experiment]
    keys = planned.keys
    parts: dict[str, Any] = {
        "at_epochs": planned.at_epochs,
        "machines": study.plan.machines,
        "margins": keys.margins,
        "budgets": keys.budgets,
        "seeds_planned": keys.seeds_planned,
        "beside": keys.beside,
        "analyses": planned.analyses,
    }
    if planned.numbers:
        parts["published"] = {
            figure: [keys.published[figure].figure, *map(asdict, series)]
            for figure, series in planned.numbers.items()
        }
    if keys.metrics:
        parts["metrics"] = keys.metrics
    if planned.external_runs:  # A file with other content may have an older date.
        parts["runs"] = planned.external_runs.table.sha256
    left_out = [state for state in study.table.experiments[experiment] if state.missing_requirement]
    requirements = (state.missing_requirement for state in left_out)
    if left_out:  # A result that is copied here later changes rows.
        existing = (state.job.path for state in left_out if state.job.path.exists())
        parts["left_out"] = {
            "why": sorted({requirement.status for requirement in requirements}),
            "there": sorted(path.as_posix() for path in existing),
        }
    return json.dumps(parts, sort_keys=True)


def all_tables(study: CalledStudy) -> list[str]:
    return [
        f"{study.folder}/{experiment}/{name}"
        for experiment in study.plan.experiments
        for name in tables.FILES
    ]


def all_figures(study: CalledStudy) -> list[str]:
    return [f"{study.folder}/{experiment}/figures" for experiment in study.plan.experiments]


def claims_table(study: CalledStudy) -> list[str]:
    return [f"{study.folder}/claims.csv"] if study.plan.claims else []


def tables_behind_claims(study: CalledStudy) -> list[str]:
    tested = {(claim.test.experiment, claim.test.table) for claim in study.plan.claims}
    return [f"{study.folder}/{experiment}/{table}.csv" for experiment, table in sorted(tested)]


def logs_of_missing_results(study: CalledStudy) -> list[str]:
    """Return the existing logs that a partial report quotes."""
    if not study.partial:
        return []
    return sorted(log.as_posix() for log in study.table.missing_logs() if log.exists())
