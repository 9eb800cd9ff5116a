"""Planned study in, paths out: targets of a call of Snakemake, inputs of rules, files of measures.

A file that the report needs is also a target if it is missing; `all_targets` lists them. The other
functions return the inputs and the commands of rules.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

from batchscope.core import project_files
from batchscope.core.errors import unexpected
from batchscope.host import requirements
from batchscope.rules.study import RESULTS, CalledStudy
from batchscope.store import interims, jobs, paths
from batchscope.study import names, plan, table_entries
from batchscope.study.registry import ENTRIES
from batchscope.study.specifications import Measure, Timing

# Cheap rules run again if their code changes. Costly rules have versions instead.
TABLE_CODE = project_files.code_files("tables")
FIGURE_CODE = project_files.code_files("figures")
REPORT_CODE = [*project_files.code_files("report"), *project_files.templates()]

TABLES = [f"{RESULTS}/studies/{{study}}/{{experiment}}/{name}" for name in table_entries.FILES]


def all_targets(study: CalledStudy) -> list[str]:
    """Return the report, the table of the interim analysis, and all missing files that they need.

    Behind an existing report, Snakemake makes a missing file only if it is a target. A partial
    report needs no data and no records.
    """
    files = [study.headline, *all_tables(study), *claims_table(study)]
    files += [f"{study.folder}/{name}/default_targets.json" for name in study.plan.experiments]
    analyses = []
    if not study.partial:
        _check_data(study)
        for dataset in study.table.data_states():
            files += dataset_files(dataset)
        files += _missing_results(study)
        if study.plan.has_stages:
            name = study.plan.folder_name
            number = interims.current_number(RESULTS, name)
            analyses = [paths.interim_table(RESULTS, name, number).as_posix()]
    return [study.report, *analyses, *_missing_files([*files, *all_figures(study)])]


def data_targets(study: CalledStudy) -> list[str]:
    return [path for dataset in study.plan.datasets for path in dataset_files(dataset)]


def run_targets(study: CalledStudy) -> list[str]:
    needs = study.plan.runs | {name: run.needs for name, run in study.plan.commands.items()}
    runs = (run for run in needs if not requirements.missing(needs[run]))
    return [f"{RESULTS}/runs/{run}/record.json" for run in runs]


def check_exists(targets: Iterable[str]) -> None:
    if missing := _missing_files(targets):
        listed = ", ".join(missing[:5])
        sys.exit(f"{listed}: not made, though no job failed. Run the same command again.")


def _missing_files(files: Iterable[str]) -> list[str]:
    return [path for path in dict.fromkeys(files) if not os.path.exists(path)]


def _missing_results(study: CalledStudy) -> Iterator[str]:
    """Yield a missing file of each job that Snakemake would not make without a target.

    If `complete.txt` of an experiment is missing, it is the target and Snakemake finds the missing
    records behind it. Otherwise the first call would have thousands of targets.
    """
    for name, states in study.table.experiments.items():
        complete = f"{study.folder}/{name}/complete.txt"
        has_completed = os.path.exists(complete)
        if not has_completed:
            yield complete
        for state in states:
            if state.is_missing and (has_completed or state.job.path.exists()):
                files = (path.as_posix() for path in study.table.files(state.job))
                yield from _missing_files(files)[:1]


def _check_data(study: CalledStudy) -> None:
    """Exit if a data set lost files after results were made from it.

    Snakemake would otherwise make these results again, or skip other missing files.
    """
    states = study.table.data_states().items()
    incomplete = [dataset for dataset, is_complete in states if not is_complete]
    states_of_jobs = study.table.by_record.items() if incomplete else ()
    subjects = [state.job.subject for path, state in states_of_jobs if path.exists()]
    used = {subject.split("+")[0] for subject in subjects}
    lost = [name for name in incomplete if name in used or os.path.exists(dataset_record(name))]
    if lost:
        folders = ", ".join(f"{RESULTS}/data/{name}" for name in sorted(lost))
        sys.exit(
            f"{folders}: incomplete data (received fewer files than were prepared). Run `snakemake "
            f"--cores 1 data{study.options}`, then this command again; nothing is trained again."
        )


def checked_path(path: str) -> str:
    """Return a path for a rule; exit if Snakemake would read it as wildcards or flags."""
    if set("{}<>").intersection(path):
        sys.exit(str(unexpected(path, "a path with a brace or a bracket", "one without")))
    return path


def environment_file(folder: str) -> str:
    return f"{folder}/envs/batchscope.yaml".replace("{", "{{").replace("}", "}}")


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

    def value_of_job(wildcards: Any) -> Any:
        subjects = (getattr(wildcards, name, None) for name in ("run", "timing", "sweep"))
        return value_of(next(subject for subject in subjects if subject))

    return value_of_job


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
    for name in planned.keys.beside:
        yield from _complete_table_sources(study, name)
    # Results of other machines are inputs only if they exist, because they are never made here.
    for other in study.plan.machines.values():
        trainings = (jobs.training_job(other.results, run) for run in planned.runs)
        for job in (*trainings, *jobs.measure_jobs(planned, other.results, other.machine)):
            if job.path.exists():
                yield checked_path(job.path.as_posix())
    for state in study.table.experiments[experiment]:
        if not state.missing_requirement:
            # A run's record is written last: it stands for all files of the run.
            is_run = state.job.noun == jobs.TRAINING
            for path in [state.job.path] if is_run else study.table.files(state.job):
                yield path.as_posix()


def configuration_parts(study: CalledStudy, experiment: str) -> str:
    """Return the parts of the configuration that an experiment's tables depend on, as JSON.

    A change of these parts makes the tables again, but no training.
    """
    planned = study.plan.experiments[experiment]
    keys = planned.keys
    tests = [claim.test for claim in study.plan.claims if claim.test.experiment == experiment]
    # Claims on trends give their directions; all claims keep learning rates in a race.
    tests = [test for test in tests if planned.race or test.trend_experiment]
    parts: dict[str, Any] = {
        "claims": [test.model_dump(mode="json") for test in tests],
        "at_epochs": planned.at_epochs,
        "machine": study.plan.machine,
        "machines": {name: dict(other) for name, other in study.plan.machines.items()},
        "margins": keys.margins,
        "budgets": keys.budgets,
        "seeds_planned": keys.seeds_planned,
        "beside": keys.beside,
        "analyses": planned.analyses,
        "published": {
            figure: [body.figure, *map(asdict, body.numbers)]
            for figure, body in keys.published.items()
        },
        "metrics": keys.metrics,
    }
    if planned.external_runs:  # A file with other content may have an older date.
        parts["runs"] = [planned.external_runs.table.sha256, keys.runs.model_dump(mode="json")]
    if planned.race:  # Rates that another experiment needs never leave it.
        others = plan.runs_of_others(study.plan.experiments, experiment)
        parts["protected"] = sorted(others & {*planned.first_runs})
    left_out = [state for state in study.table.experiments[experiment] if state.missing_requirement]
    if left_out:  # A result that is copied here later changes rows.
        existing = (state.job.path for state in left_out if state.job.path.exists())
        parts["left_out"] = {
            "why": sorted({state.missing_requirement.status for state in left_out}),
            "there": sorted(path.as_posix() for path in existing),
        }
    return json.dumps(parts, sort_keys=True)


def all_tables(study: CalledStudy) -> list[str]:
    return [
        f"{study.folder}/{experiment}/{name}"
        for experiment in study.plan.experiments
        for name in table_entries.FILES
    ]


def all_figures(study: CalledStudy) -> list[str]:
    return [f"{study.folder}/{experiment}/figures" for experiment in study.plan.experiments]


def claims_table(study: CalledStudy) -> list[str]:
    return [f"{study.folder}/claims.csv"] if study.plan.claims else []


def tables_behind_claims(study: CalledStudy) -> list[str]:
    tested = {(claim.test.experiment, claim.test.table) for claim in study.plan.claims}
    return [f"{study.folder}/{experiment}/{table}.csv" for experiment, table in sorted(tested)]


def logs_of_missing_results(study: CalledStudy) -> list[str]:
    if not study.partial:
        return []
    return sorted(log.as_posix() for log in study.table.missing_logs() if log.exists())
