"""Planned study in, targets of a call of Snakemake out: the files that it should make.

A file that the report needs is also a target if it is missing; `all_targets` lists them.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from batchscope.host import requirements
from batchscope.rules import inputs
from batchscope.rules.study import RESULTS, CalledStudy
from batchscope.store import interims, paths


def all_targets(study: CalledStudy) -> list[str]:
    """Return the report, the table of the interim analysis, and all missing files that they need.

    Behind an existing report, Snakemake makes a missing file only if it is a target. A partial
    report needs no data and no records.
    """
    files = [study.headline, *inputs.all_tables(study), *inputs.claims_table(study)]
    files += [f"{study.folder}/{name}/default_targets.json" for name in study.plan.experiments]
    analyses = []
    if not study.partial:
        _check_data(study)
        for dataset in study.table.data_states():
            files += inputs.dataset_files(dataset)
        files += _missing_results(study)
        if study.plan.has_stages:
            name = study.plan.folder_name
            number = interims.current_number(RESULTS, name)
            analyses = [paths.interim_table(RESULTS, name, number).as_posix()]
    return [study.report, *analyses, *_missing_files([*files, *inputs.all_figures(study)])]


def data_targets(study: CalledStudy) -> list[str]:
    return [path for dataset in study.plan.datasets for path in inputs.dataset_files(dataset)]


def run_targets(study: CalledStudy) -> list[str]:
    """Return the records of all runs that this machine can make."""
    needs = study.plan.runs | {name: run.needs for name, run in study.plan.commands.items()}
    runs = (run for run in needs if not requirements.missing(needs[run]))
    return [f"{RESULTS}/runs/{run}/record.json" for run in runs]


def check_exists(targets: Iterable[str]) -> None:
    """Exit with an error if a target of a successful call does not exist."""
    if missing := _missing_files(targets):
        names = ", ".join(missing[:5])
        sys.exit(f"{names}: not made, though no job failed. Run the same command again.")


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
    incomplete = {dataset for dataset, is_complete in states if not is_complete}
    jobs = (state.job for state in study.table.by_record.values() if incomplete)
    used = {job.subject.split("+")[0] for job in jobs if job.path.exists()}
    records = {dataset: inputs.dataset_record(dataset) for dataset in incomplete}
    lost = [name for name in incomplete if name in used or os.path.exists(records[name])]
    if lost:
        names = ", ".join(f"{RESULTS}/data/{name}" for name in sorted(lost))
        sys.exit(
            f"{names}: incomplete data (received fewer files than were prepared). Run `snakemake "
            f"--cores 1 data{study.options}`, then this command again; nothing is trained again."
        )
