"""Long tables: records on disk -> tables with several rows per run.

These are histories, trajectories, results at epochs, and the tables that measures declare. Each
row begins with the run, its factors and its status. A table without rows has only its header.
`run_table` has the table with one row per run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.analysis import run_series
from batchscope.core import disk
from batchscope.store import jobs, paths, records
from batchscope.store.jobs import MachineResults
from batchscope.study import (
    batch_phases,
    budget_kinds,
    columns,
    dataset_definitions,
    names,
    run_factors,
    tasks,
)
from batchscope.study.registry import ENTRIES, MEASURES, SECONDS_TIMINGS
from batchscope.study.specifications import Measure, Table

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

NAN = math.nan
FIRST_COLUMNS = ("run", *run_factors.FACTORS, "status")
Row = dict[str, Any]
RunRows = Iterator[tuple[Row, list[Row]]]  # pairs of a run's first columns and its other columns
# Trajectories and histories share these columns.
_EVALUATION_COLUMNS = ("epoch", *budget_kinds.ALWAYS_EVALUATED)


def read_record(path: Path, *keys: str) -> Row | None:
    return disk.read_json(path, *keys) if path.exists() else None


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


def _status(record: Row) -> str:
    """Return the status of a run: `off_target` if it missed its target_train_loss."""
    missed = record["status"] == records.FINISHED and record.get("reached_target") is False
    return records.OFF_TARGET if missed else record["status"]


def run_records(
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
            record = read_record(paths.run_record(paths.run_folder(place.results, run)), "status")
            if record is not None:
                yield place, run, record, _status(record)
            elif place.machine == study.machine:
                yield place, run, None, jobs.status_without_record(factors)


def history(results: Path | str, run: str) -> list[dict[str, float]]:
    return _numbers(results, run, "history.csv", "epoch", "train_loss")


def _numbers(results: Path | str, run: str, file: str, *columns: str) -> list[dict[str, float]]:
    """Return the rows of a file of a run, with NaN for an empty field."""
    rows = records.RunFiles(paths.run_folder(results, run)).rows(file, *columns)
    return [{name: float(text or "nan") for name, text in row.items()} for row in rows]


def for_experiment(
    results: Path | str, study: Study, experiment: str, logged: Collection[str] = ()
) -> dict[str, pandas.DataFrame]:
    """Return every long table of an experiment by name.

    A missing value is NaN. Values without a column are left out.

    Args:
        logged: Columns of logs. Their metrics tell the tasks of runs without a data set.
    """
    planned, places = study.experiments[experiment], [*jobs.machine_results(study, results)]
    experiment_tasks = dataset_tasks(results, study, planned) or tasks.from_columns(logged)
    parts = {
        "history": (columns.HISTORY, _histories(places[0], study, planned)),
        "trajectories": (columns.TRAJECTORIES, _trajectories(places, study, planned)),
        "at_epochs": (columns.AT_EPOCHS, _at_epochs(places, planned)),
    }
    for entry in MEASURES.values():
        for name, table in entry.tables.items():
            parts[name] = (table.columns, _measure_rows(results, planned, entry, table))
    tables = {}
    for name, (described, pairs) in parts.items():
        first_rows, rows = [], []
        for first, run_rows in pairs:
            first_rows += [first] * len(run_rows)
            rows += run_rows
        names_of_tasks = tasks.columns_of_tasks(described, experiment_tasks)
        table = run_series.table(rows, {key: described[key] for key in names_of_tasks})
        first_table = pandas.DataFrame(first_rows, columns=FIRST_COLUMNS)
        tables[name] = pandas.concat((first_table, table), axis=1)
    return tables


def _runs(results: Path | str, experiment: PlannedExperiment) -> Iterator[tuple[Row, Row, Row]]:
    """Yield the factors, record and first columns of every run with a record."""
    for run, factors in experiment.runs.items():
        record = read_record(paths.run_folder(results, run) / "record.json", "status")
        if record is not None:
            first = {"run": run, **split_tokens(factors), "status": _status(record)}
            yield factors, record, {name: first[name] for name in FIRST_COLUMNS}


def _histories(place: MachineResults, study: Study, planned: PlannedExperiment) -> RunRows:
    """Yield one row per run and epoch."""
    clock = _clock(place, study, planned)
    for factors, _, first in _runs(place.results, planned):
        rows, seconds = history(place.results, first["run"]), clock(factors)
        epoch_examples = _epoch_examples(place.results, factors)
        for row in rows:
            row["contended_seconds"] = row.get("seconds", NAN)
            row["examples"] = row["epoch"] * epoch_examples
            row["seconds"] = seconds(row["examples"])
        yield first, rows


def _trajectories(
    places: list[MachineResults], study: Study, planned: PlannedExperiment
) -> RunRows:
    """Yield one row per machine, run and evaluation, or per epoch of a run without evaluations.

    Other processes may disturb a training, so its seconds come from a timing job that ran
    exclusively: `time_epoch`, or else `throughput` of an experiment that `beside` names.
    """
    for place in places:
        clock = _clock(place, study, planned)
        for factors, _, first in _runs(place.results, planned):
            rows, seconds = _trajectory_rows(place.results, first["run"], factors), clock(factors)
            for row in rows:
                row |= {"seconds": seconds(row["examples"]), "machine": place.machine}
            yield first, rows


def _trajectory_rows(results: Path | str, run: str, factors: Row) -> list[Row]:
    """Return the rows of a run's trajectory, or of its history without `evaluate_every`."""
    if factors["evaluate_every"]:
        needed = ("examples", "updates", "epoch", "train_loss", "validation_loss", "test_loss")
        return _numbers(results, run, paths.TRAJECTORY, *needed)
    epoch_examples = _epoch_examples(results, factors)
    return [
        {"examples": row["epoch"] * epoch_examples, "updates": row.get("step", NAN)}
        | {name: row[name] for name in _EVALUATION_COLUMNS if name in row}
        for row in history(results, run)
    ]


def _epoch_examples(results: Path | str, factors: Row) -> float:
    examples = records.training_size(results, factors["dataset"])
    return NAN if examples is None else examples * run_factors.training_copies(factors)


def _measure_rows(
    results: Path | str, planned: PlannedExperiment, entry: Measure, table: Table
) -> RunRows:
    """Yield the rows of a table of a measure. A pair of runs is named by its first run."""
    if entry.name not in planned.measures:
        return
    settings = names.settings_name(entry.name, planned.measures[entry.name])
    for factors, _, first in _runs(results, planned):
        run, pairs = first["run"], planned.pairs.get(entry.name, ())
        record_paths = {paths.measure_path(results, run, entry.name, settings): {}}
        if entry.pairs:
            record_paths = {}
            for other in (other for small, other in pairs if small == run):
                large = planned.runs[other]
                factor = next(name for name in run_factors.FACTORS if factors[name] != large[name])
                pair = {"factor": factor, "small": factors[factor], "large": large[factor]}
                pair["other"] = other
                record_paths[paths.pair_path(results, run, other, entry.name, settings)] = pair
        for path, pair in record_paths.items():
            if record := read_record(path):
                yield first, [{**pair, **row} for row in table.rows(record, path)]


def _at_epochs(places: list[MachineResults], planned: PlannedExperiment) -> RunRows:
    """Yield the results of measures after each of an experiment's `at_epochs`."""
    entries = [name for name in planned.measures if ENTRIES[name].at_epochs]
    if not entries:
        return
    for place in places:
        for factors, record, first in _runs(place.results, planned):
            seconds, rows = _timing_value(place, planned, factors, "seconds_per_epoch"), []
            for epoch in planned.at_epochs:
                row = {"at_epoch": epoch, "machine": place.machine}
                row["train_seconds"] = epoch * seconds if epoch <= record["epochs_run"] else NAN
                for measure in filter(MEASURES.__contains__, entries):
                    settings = jobs.settings_at_epoch(measure, planned.measures[measure], epoch)
                    path = paths.measure_path(place.results, first["run"], measure, settings)
                    row |= (read_record(path, "values") or {"values": {}})["values"]
                rows.append(row)
            yield first, rows


def _timing_value(
    place: MachineResults, experiment: PlannedExperiment, factors: Row, column: str
) -> float:
    """Return a column of the exclusive timing job of a training; NaN without one."""
    timing = next((name for name in experiment.measures if name in SECONDS_TIMINGS), None)
    if timing is None:
        return NAN
    record = read_record(jobs.time_path(place, experiment, factors, timing), "values")
    value = record and record["values"].get(column)
    return NAN if value is None else value


def _clock(
    place: MachineResults, study: Study, experiment: PlannedExperiment
) -> Callable[[Row], Callable[[float], float]]:
    """Return a function from the factors of a run to a function from examples to seconds.

    The seconds are the sum of examples / examples per second over the batch sizes of the run.
    """
    throughput = _throughput(place, study, experiment)

    def speed(factors: Row) -> float:
        timing_value = _timing_value(place, experiment, factors, "examples_per_second")
        if math.isfinite(timing_value):
            return timing_value
        # The n-th seed has the n-th job, so that the errors of seeds are independent.
        repeat = experiment.seeds.index(factors["seed"]) + 1
        return throughput.get((names.timing_name(factors), repeat), NAN)

    def clock(factors: Row) -> Callable[[float], float]:
        course = batch_phases.Course(factors, _epoch_examples(place.results, factors))
        sizes = batch_phases.batch_sizes(factors)
        speeds = {size: speed({**factors, "batch_size": size}) for size in sizes}
        return lambda total: sum(
            examples / speeds[size] for size, examples in course.examples_by_size(total).items()
        )

    return clock


def _throughput(
    place: MachineResults, study: Study, experiment: PlannedExperiment
) -> dict[tuple[str, int], float]:
    """Return timing configuration and repeat -> examples per second, of the experiments `beside`.

    Only timings with the loop and the input pipeline of a training count.
    """
    defaults = {name: item.default for name, item in run_factors.TIMING_ONLY_FACTORS.items()}
    throughput: dict[tuple[str, int], float] = {}
    for name in experiment.keys.beside:
        for job in jobs.timing_jobs(study.experiments[name], place.results, place.recorded_name):
            factors = job.sweep.factors
            if job.measure not in SECONDS_TIMINGS or factors | defaults != defaults | factors:
                continue
            record = read_record(job.path, "sizes") or {"sizes": []}
            for size in filter(lambda size: size["blocks"], record["sizes"]):
                seconds = statistics.median(block["seconds_per_step"] for block in size["blocks"])
                timing = names.timing_name({**factors, "batch_size": size["batch_size"]})
                throughput.setdefault((timing, job.repeat), size["batch_size"] / seconds)
    return throughput
