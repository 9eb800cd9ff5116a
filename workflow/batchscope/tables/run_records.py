"""Run folders in, records and numbers of runs out, for every module that fills tables.

A new file of runs is read by a function here if several tables have its values.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from batchscope.core import disk
from batchscope.store import jobs, paths, records
from batchscope.store.jobs import MachineResults
from batchscope.study import dataset_definitions, names, tasks
from batchscope.study.plan import PlannedExperiment, Study

Row = dict[str, Any]


def read_all(
    results: Path | str, study: Study, runs: Mapping[str, Row]
) -> Iterator[tuple[MachineResults, str, Row | None, str]]:
    """Yield the place, name, record and status of runs on every machine, in the plan's order.

    A run without a record has the status `missing`, or names its missing requirement. For another
    machine, only the runs in its results are yielded.

    Args:
        runs: Name -> factors that the run requires of the machine.
    """
    for place in jobs.machine_results(study, results):
        for run, factors in runs.items():
            if record := read_record(run_record(place.results, run), "status"):
                yield place, run, record, status(record)
            elif place.machine == study.machine:
                yield place, run, None, jobs.status_without_record(factors)


def run_record(results: Path | str, run: str) -> Path:
    return paths.run_record(paths.run_folder(results, run))


def read_record(path: Path, *keys: str) -> Row | None:
    return disk.read_json(path, *keys) if path.exists() else None


def status(record: Row) -> str:
    """Return the status of a run: `off_target` if it missed its target_train_loss."""
    missed = record["status"] == records.FINISHED and record.get("reached_target") is False
    return records.OFF_TARGET if missed else record["status"]


def read_history(results: Path | str, run: str) -> list[dict[str, float]]:
    return read_numbers(results, run, "history.csv", "epoch", "train_loss")


def read_numbers(results: Path | str, run: str, file: str, *columns: str) -> list[dict[str, float]]:
    """Return the rows of a file of a run, with NaN for an empty field."""
    rows = records.RunFiles(paths.run_folder(results, run)).rows(file, *columns)
    return [{name: float(text or "nan") for name, text in row.items()} for row in rows]


def split_tokens(factors: Row) -> Row:
    """Return factors, with the tokens of data set and model split into name and digest."""
    row: Row = {}
    for name, value in factors.items():
        row[name] = value
        if name in ("dataset", "model"):
            row[name], row[f"{name}_digest"] = names.split_token(str(value))
    return row


def dataset_tasks(
    results: Path | str, study: Study, experiment: PlannedExperiment
) -> tuple[str, ...]:
    """Return the tasks of an experiment's data sets, in the order of `tasks.TASKS`."""
    learned_tasks = set()
    for name in {factors["dataset"] for factors in experiment.factors()}:
        task = records.dataset_task(results, name)
        if task is None:  # The data are not prepared, and their labels may be classes.
            task = dataset_definitions.read(study.datasets[name]).task_of_labels()
        learned_tasks.add(task or tasks.CLASSIFICATION)
    return tuple(task for task in tasks.TASKS if task in learned_tasks)
