"""The long tables of an experiment, with several rows per run, from records on disk.

Each table begins with the run, its factors and its status. It is always written, without
measurements only with its header. `run_table` has one row per run.
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
from batchscope.store.jobs import Place
from batchscope.study import (
    batch_phases,
    budget_kinds,
    columns,
    dataset_definitions,
    names,
    run_factors,
    tasks,
    versions,
)
from batchscope.study.registry import MEASURES, SECONDS_TIMINGS
from batchscope.study.specifications import Measure, Table

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

NAN = math.nan
FIRST = ("run", *run_factors.FACTORS, "status")
Row = dict[str, Any]
Parts = Iterator[tuple[Row, list[Row]]]  # the first columns of a run, and its rows without them
# Columns of trajectories that histories have too.
_VALIDATED = ("epoch", *budget_kinds.ALWAYS_THERE)


def read_record(path: Path, *keys: str) -> Row | None:
    return disk.read_json(path, *keys) if path.exists() else None


def named(factors: Row) -> Row:
    """Return factors with the plain names and the digests of data set and model."""
    row: Row = {}
    for name, value in factors.items():
        row[name] = value
        if name in ("dataset", "model"):
            row[name], row[f"{name}_digest"] = names.split_token(str(value))
    return row


def learned(results: Path | str, study: Study, experiment: PlannedExperiment) -> tuple[str, ...]:
    """Return the tasks of an experiment's data sets, in the order of `tasks.TASKS`."""
    learned_tasks = set()
    for name in {factors["dataset"] for factors in experiment.factors()}:
        task = records.task(results, name)
        if task is None:  # not prepared; if only its labels know, it may have classes
            task = dataset_definitions.read(study.datasets[name]).task_of_labels()
        learned_tasks.add(task or tasks.CLASSIFICATION)
    return tuple(task for task in tasks.TASKS if task in learned_tasks)


def _status(record: Row) -> str:
    """Return the status of a run; `off_target` if it missed its target_train_loss."""
    missed = record["status"] == records.FINISHED and record.get("reached_target") is False
    return records.OFF_TARGET if missed else record["status"]


def recorded(
    results: Path | str, study: Study, runs: Mapping[str, Row]
) -> Iterator[tuple[Place, str, Row | None, str]]:
    """Yield the place, name, record and status of runs on every machine, in the plan's order.

    A run without a record has the status `missing`, or names its missing requirement. For another
    machine, only the runs in its results are yielded.

    Args:
        runs: Name -> factors that the run requires of the machine.
    """
    for place in jobs.places(study, results):
        for run, factors in runs.items():
            record = read_record(paths.run_record(paths.run_folder(place.results, run)), "status")
            if record is not None:
                yield place, run, record, _status(record)
            elif place.machine == study.machine:
                yield place, run, None, jobs.unrecorded(factors)


def history(results: Path | str, run: str) -> list[dict[str, float]]:
    """Return the rows of a trained run's history, with NaN for an empty field."""
    return _numbers(results, run, "history.csv", "epoch", "train_loss")


def _numbers(results: Path | str, run: str, file: str, *columns: str) -> list[dict[str, float]]:
    rows = records.RunFiles(paths.run_folder(results, run)).rows(file, *columns)
    return [{name: float(text or "nan") for name, text in row.items()} for row in rows]


def for_experiment(
    results: Path | str, study: Study, experiment: str, logged: Collection[str] = ()
) -> dict[str, pandas.DataFrame]:
    """Return every long table of an experiment by name.

    A value that a row lacks is NaN; values without a column are left out.

    Args:
        logged: Columns of logs; their metrics tell the tasks of runs without a data set.
    """
    planned, places = study.experiments[experiment], [*jobs.places(study, results)]
    experiment_tasks = learned(results, study, planned) or tasks.from_columns(logged)
    parts = {
        "history": (columns.HISTORY, _histories(places[0], study, planned)),
        "trajectories": (columns.TRAJECTORIES, _trajectories(places, study, planned)),
        "at_epochs": (columns.AT_EPOCHS, _at_epochs(places, planned)),
    }
    for entry in MEASURES.values():
        for name, table in entry.tables.items():
            parts[name] = (table.columns, _measured(results, planned, entry, table))
    tables = {}
    for name, (described, of_runs) in parts.items():
        firsts, rows = [], []
        for first, run_rows in of_runs:
            firsts += [first] * len(run_rows)
            rows += run_rows
        described = {
            key: described[key] for key in tasks.columns_of_tasks(described, experiment_tasks)
        }
        halves = (pandas.DataFrame(firsts, columns=FIRST), run_series.table(rows, described))
        tables[name] = pandas.concat(halves, axis=1)
    return tables


def _runs(results: Path | str, experiment: PlannedExperiment) -> Iterator[tuple[Row, Row, Row]]:
    """Yield the factors, record and first columns of every run with a record."""
    for run, factors in experiment.runs.items():
        record = read_record(paths.run_folder(results, run) / "record.json", "status")
        if record is not None:
            first = {"run": run, **named(factors), "status": _status(record)}
            yield factors, record, {name: first[name] for name in FIRST}


def _histories(place: Place, study: Study, planned: PlannedExperiment) -> Parts:
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


def _trajectories(places: list[Place], study: Study, planned: PlannedExperiment) -> Parts:
    """Yield one row per machine, run and evaluation; without evaluations, the rows of its history.

    Seconds are never measured by the training itself. A timing job that ran exclusively gives the
    seconds of its examples: `time_epoch`, or else `throughput` of an experiment under `beside`.
    """
    for place in places:
        clock = _clock(place, study, planned)
        for factors, _, first in _runs(place.results, planned):
            rows, seconds = _trajectory(place.results, first["run"], factors), clock(factors)
            for row in rows:
                row |= {"seconds": seconds(row["examples"]), "machine": place.machine}
            yield first, rows


def _trajectory(results: Path | str, run: str, factors: Row) -> list[Row]:
    """Return the rows of a run's trajectory, or of its history without `evaluate_every`."""
    if factors["evaluate_every"]:
        needed = ("examples", "updates", "epoch", "train_loss", "validation_loss", "test_loss")
        return _numbers(results, run, paths.TRAJECTORY, *needed)
    epoch_examples, rows = _epoch_examples(results, factors), []
    for row in history(results, run):
        validated = {name: row[name] for name in _VALIDATED if name in row}
        used = {"examples": row["epoch"] * epoch_examples, "updates": row.get("step", NAN)}
        rows.append({**used, **validated})
    return rows


def _epoch_examples(results: Path | str, factors: Row) -> float:
    images = records.training_images(results, factors["dataset"])
    return NAN if images is None else images * run_factors.training_copies(factors)


def _measured(
    results: Path | str, planned: PlannedExperiment, entry: Measure, table: Table
) -> Parts:
    """Yield the rows of a table of a measure. A pair has the first columns of its first run."""
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
                by = next(name for name in run_factors.FACTORS if factors[name] != large[name])
                pair = {"factor": by, "small": factors[by], "large": large[by], "other": other}
                record_paths[paths.pair_path(results, run, other, entry.name, settings)] = pair
        for path, pair in record_paths.items():
            if record := read_record(path):
                yield first, [{**pair, **row} for row in table.rows(record, path)]


def _at_epochs(places: list[Place], planned: PlannedExperiment) -> Parts:
    """Yield the results of measures after each of an experiment's `at_epochs`."""
    measures = planned.measures
    if not any(versions.ENTRIES[name].at_epochs for name in measures):
        return
    early = [name for name in measures if name in MEASURES and MEASURES[name].at_epochs]
    for place in places:
        for factors, record, first in _runs(place.results, planned):
            timed, rows = _timed(place, planned, factors, "seconds_per_epoch"), []
            for epoch in planned.at_epochs:
                row = {"at_epoch": epoch, "machine": place.machine}
                row["train_seconds"] = epoch * timed if epoch <= record["epochs_run"] else NAN
                for measure in early:
                    settings = jobs.at_epoch(measure, measures[measure], epoch)
                    path = paths.measure_path(place.results, first["run"], measure, settings)
                    row |= (read_record(path, "values") or {"values": {}})["values"]
                rows.append(row)
            yield first, rows


def _timed(place: Place, experiment: PlannedExperiment, factors: Row, column: str) -> float:
    """Return a column of the exclusive timing job of a training; NaN without one."""
    timing = next((name for name in experiment.measures if name in SECONDS_TIMINGS), None)
    if timing is None:
        return NAN
    record = read_record(jobs.time_path(place, experiment, factors, timing), "values")
    value = record and record["values"].get(column)
    return NAN if value is None else value


def _clock(
    place: Place, study: Study, experiment: PlannedExperiment
) -> Callable[[Row], Callable[[float], float]]:
    """Return a function from factors to a function from used examples to their seconds.

    They are the sum over the batch sizes of the run of examples / examples per second.
    """
    throughput = _throughput(place, study, experiment)

    def speed(factors: Row) -> float:
        timed = _timed(place, experiment, factors, "examples_per_second")
        if math.isfinite(timed):
            return timed
        # The n-th seed has the n-th job, so that seeds share no error of a time.
        repeat = experiment.seeds.index(factors["seed"]) + 1
        return throughput.get((names.timing_name(factors), repeat), NAN)

    def clock(factors: Row) -> Callable[[float], float]:
        course = batch_phases.Course(factors, _epoch_examples(place.results, factors))
        sizes = batch_phases.batch_sizes(factors)
        speeds = {size: speed({**factors, "batch_size": size}) for size in sizes}
        return lambda used: sum(
            examples / speeds[size] for size, examples in course.examples_by_size(used).items()
        )

    return clock


def _throughput(
    place: Place, study: Study, experiment: PlannedExperiment
) -> dict[tuple[str, int], float]:
    """Return the examples per second by timing configuration and repeat, from `beside`.

    Only steps that are driven as in a training count.
    """
    defaults = {name: item.default for name, item in run_factors.TIMING_ONLY_FACTORS.items()}
    throughput: dict[tuple[str, int], float] = {}
    for name in experiment.keys.beside:
        for job in jobs.timing_jobs(study.experiments[name], place.results, place.recorded):
            factors = job.sweep.factors
            if job.measure not in SECONDS_TIMINGS or {**defaults, **factors} != {
                **factors,
                **defaults,
            }:
                continue
            record = read_record(job.path, "sizes") or {"sizes": []}
            for size in record["sizes"]:
                if size["blocks"]:
                    times = [block["seconds_per_step"] for block in size["blocks"]]
                    timing = names.timing_name({**factors, "batch_size": size["batch_size"]})
                    examples_per_second = size["batch_size"] / statistics.median(times)
                    throughput.setdefault((timing, job.repeat), examples_per_second)
    return throughput
