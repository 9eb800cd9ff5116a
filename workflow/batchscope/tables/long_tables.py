"""Records on disk -> the long tables of an experiment: several rows per run.

Each begins with the run, its factors and its status, and is written always: its header alone
without measurements. `run_table` has the one with one row per run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import disk
from batchscope.analysis import run_series
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
from batchscope.study.registry import MEASURES, OF_SECONDS
from batchscope.study.specifications import Measure, Table

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

NAN = math.nan
FIRST = ("run", *run_factors.FACTORS, "status")
Row = dict[str, Any]
Parts = Iterator[tuple[Row, list[Row]]]  # a run's first columns, and its rows beside them
# What a trajectory has of the rows of a history.
_VALIDATED = ("epoch", *budget_kinds.ALWAYS_THERE)


def read_record(path: Path, *keys: str) -> Row | None:
    return disk.read_json(path, *keys) if path.exists() else None


def named(factors: Row) -> Row:
    """Returns factors, data set and model by their plain names beside their digests."""
    found: Row = {}
    for name, value in factors.items():
        found[name] = value
        if name in ("dataset", "model"):
            found[name], found[f"{name}_digest"] = names.split_token(str(value))
    return found


def learned(results: Path | str, study: Study, experiment: PlannedExperiment) -> tuple[str, ...]:
    """Returns the tasks of an experiment's data sets: those of `tasks.TASKS`, in order."""
    found = set()
    for name in {factors["dataset"] for factors in experiment.factors()}:
        task = records.task(results, name)
        if task is None:  # not prepared; where its labels alone know, it may have classes
            task = dataset_definitions.read(study.datasets[name]).task_of_labels()
        found.add(task or tasks.CLASSIFICATION)
    return tuple(filter(found.__contains__, tasks.TASKS))


def shown_status(record: Row) -> str:
    """Returns a run's status; one that missed its target_train_loss is compared with none."""
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
                yield place, run, record, shown_status(record)
            elif place.machine == study.machine:
                yield place, run, None, jobs.unrecorded(factors)


def history(results: Path | str, run: str) -> list[dict[str, float]]:
    """Returns the rows of a trained run's history; a field that is empty is NaN."""
    return _numbers(results, run, "history.csv", "epoch", "train_loss")


def _numbers(results: Path | str, run: str, file: str, *columns: str) -> list[dict[str, float]]:
    rows = records.RunFiles(paths.run_folder(results, run)).rows(file, *columns)
    return [{name: float(text or "nan") for name, text in row.items()} for row in rows]


def made(
    results: Path | str, study: Study, experiment: str, logged: Collection[str] = ()
) -> dict[str, pandas.DataFrame]:
    """Return every long table of an experiment by name.

    A value that a row lacks is NaN; values without a column are left out.

    Args:
        logged: Columns of logs, whose metrics tell the tasks of runs without a data set.
    """
    chosen, places = study.experiments[experiment], [*jobs.places(study, results)]
    tasks_of = learned(results, study, chosen) or tasks.of_columns(logged)
    parts = {
        "history": (columns.HISTORY, _histories(places[0], study, chosen)),
        "trajectories": (columns.TRAJECTORIES, _trajectories(places, study, chosen)),
        "at_epochs": (columns.AT_EPOCHS, _at_epochs(places, chosen)),
    }
    for entry in MEASURES.values():
        for name, table in entry.tables.items():
            parts[name] = (table.columns, _measured(results, chosen, entry, table))
    tables = {}
    for name, (named_columns, of_runs) in parts.items():
        found = [*of_runs]
        which = [at for at, (_, rows) in enumerate(found) for _ in rows]
        firsts = pandas.DataFrame([first for first, _ in found], columns=FIRST).iloc[which]
        kept = {each: named_columns[each] for each in tasks.kept(named_columns, tasks_of)}
        rows = run_series.table([row for _, rows in found for row in rows], kept)
        tables[name] = pandas.concat([firsts.reset_index(drop=True), rows], axis=1)
    return tables


def _histories(place: Place, study: Study, chosen: PlannedExperiment) -> Parts:
    """Yield one row per run and epoch."""
    clock = _clock(place, study, chosen)
    for factors, first in _runs(place.results, chosen):
        rows, seconds = history(place.results, first["run"]), clock(factors)
        of_epoch = _epoch_examples(place.results, factors)
        for row in rows:
            row["contended_seconds"] = row.get("seconds", NAN)
            row["examples"] = row["epoch"] * of_epoch
            row["seconds"] = seconds(row["examples"])
        yield first, rows


def _trajectories(places: list[Place], study: Study, chosen: PlannedExperiment) -> Parts:
    """Yield one row per machine, run and evaluation; without evaluations, the rows of its history.

    Seconds are never measured by the training itself. A timing job that ran exclusively gives the
    seconds of its examples: `time_epoch`, or else `throughput` of an experiment under `beside`.
    """
    for place in places:
        clock = _clock(place, study, chosen)
        for factors, first in _runs(place.results, chosen):
            rows, seconds = trajectory(place.results, first["run"], factors), clock(factors)
            for row in rows:
                row |= {"seconds": seconds(row["examples"]), "machine": place.machine}
            yield first, rows


def trajectory(results: Path | str, run: str, factors: Row) -> list[Row]:
    """Returns the rows of a run's trajectory; of one without `evaluate_every`, of its history."""
    if factors["evaluate_every"]:
        needed = ("examples", "updates", "epoch", "train_loss", "validation_loss", "test_loss")
        return _numbers(results, run, paths.TRAJECTORY, *needed)
    of_epoch, found = _epoch_examples(results, factors), []
    for row in history(results, run):
        same = {name: row[name] for name in _VALIDATED if name in row}
        used = {"examples": row["epoch"] * of_epoch, "updates": row.get("step", NAN)}
        found.append({**used, **same})
    return found


def _epoch_examples(results: Path | str, factors: Row) -> float:
    images = records.training_images(results, factors["dataset"])
    return NAN if images is None else images * run_factors.training_copies(factors)


def _measured(
    results: Path | str, chosen: PlannedExperiment, entry: Measure, table: Table
) -> Parts:
    """Yields the rows of a table of a measure; of a pair of runs those of the first of both."""
    if entry.name not in chosen.measures:
        return
    settings = names.settings_name(entry.name, chosen.measures[entry.name])
    for factors, first in _runs(results, chosen):
        run = first["run"]
        if not entry.pairs:
            found = {paths.measure_path(results, run, entry.name, settings): {}}
        else:
            found = {}
            for small, other in chosen.pairs[entry.name]:
                if small == run:
                    large = chosen.runs[other]
                    by = next(name for name in run_factors.FACTORS if factors[name] != large[name])
                    same = {"factor": by, "small": factors[by], "large": large[by], "other": other}
                    found[paths.pair_path(results, run, other, entry.name, settings)] = same
        for path, same in found.items():
            if record := read_record(path):
                yield first, [{**same, **row} for row in table.rows(record, path)]


def _at_epochs(places: list[Place], chosen: PlannedExperiment) -> Parts:
    """Yields what measures gave after each number of epochs that the experiment asks for."""
    asked = chosen.measures
    early = [name for name in asked if name in MEASURES and MEASURES[name].at_epochs]
    if not any(versions.ENTRIES[name].at_epochs for name in asked):
        return
    for place in places:
        for factors, first in _runs(place.results, chosen):
            timed, run = _timed(place, chosen, factors, "seconds_per_epoch"), first["run"]
            record = paths.run_folder(place.results, run) / "record.json"
            trained, rows = disk.read_json(record, "epochs_run")["epochs_run"], []
            for epoch in chosen.at_epochs:
                row = {"at_epoch": epoch, "machine": place.machine}
                row["train_seconds"] = epoch * timed if epoch <= trained else NAN
                for measure in early:
                    settings = jobs.at_epoch(measure, asked[measure], epoch)
                    path = paths.measure_path(place.results, run, measure, settings)
                    row |= (read_record(path, "values") or {"values": {}})["values"]
                rows.append(row)
            yield first, rows


def _timed(place: Place, experiment: PlannedExperiment, factors: Row, column: str) -> float:
    """Returns a column of the exclusive timing job of a training; NaN without one."""
    timing = next((name for name in experiment.measures if name in OF_SECONDS), None)
    if timing is None:
        return NAN
    record = read_record(jobs.time_path(place, experiment, factors, timing), "values")
    found = record and record["values"].get(column)
    return NAN if found is None else found


def _clock(
    place: Place, study: Study, experiment: PlannedExperiment
) -> Callable[[Row], Callable[[float], float]]:
    """Returns, of a run's factors, a function of examples used: the seconds that they take.

    They are the sum over the batch sizes of the run of examples / examples per second.
    """
    speed = _speeds(place, study, experiment)

    def clock(factors: Row) -> Callable[[float], float]:
        course = batch_phases.Course(factors, _epoch_examples(place.results, factors))
        sizes = batch_phases.batch_sizes(factors)
        speeds = {size: speed({**factors, "batch_size": size}) for size in sizes}
        return lambda used: sum(
            own / speeds[size] for size, own in course.examples_by_size(used).items()
        )

    return clock


def _speeds(place: Place, study: Study, experiment: PlannedExperiment) -> Callable[[Row], float]:
    """Returns a function of a run's factors: examples per second of its timing job.

    The n-th seed's is the n-th job of its configuration, so that seeds share no error of a time;
    where it was not timed itself, that of a sweep beside it, in steps driven as a training's are.
    """
    beside: dict[tuple[str, int], float] = {}  # timing configuration and repeat -> examples/s
    for name in experiment.keys.beside:
        for job in jobs.timing_jobs(study.experiments[name], place.results, place.recorded):
            factors, timing_only = job.sweep.factors, run_factors.TIMING_ONLY_FACTORS.values()
            as_trained = (factors.get(own.name, own.default) == own.default for own in timing_only)
            if job.measure not in OF_SECONDS or not all(as_trained):
                continue
            record = read_record(job.path, "sizes") or {"sizes": []}
            for size in filter(lambda each: each["blocks"], record["sizes"]):
                seconds = statistics.median(block["seconds_per_step"] for block in size["blocks"])
                timing = names.timing_name({**factors, "batch_size": size["batch_size"]})
                beside.setdefault((timing, job.repeat), size["batch_size"] / seconds)

    def speed(factors: Row) -> float:
        timed = _timed(place, experiment, factors, "examples_per_second")
        if math.isfinite(timed):
            return timed
        repeat = experiment.seeds.index(factors["seed"]) + 1
        return beside.get((names.timing_name(factors), repeat), NAN)

    return speed


def _runs(results: Path | str, experiment: PlannedExperiment) -> Iterator[tuple[Row, Row]]:
    """Yields the factors of every run on disk, and its first columns in the long tables."""
    for run, factors in experiment.runs.items():
        record = read_record(paths.run_folder(results, run) / "record.json", "status")
        if record is not None:
            first = {"run": run, **named(factors), "status": shown_status(record)}
            yield factors, {name: first[name] for name in FIRST}
