"""Records on disk -> the long tables of an experiment: several rows per run.

Each begins with the run, its factors and its status, and is written always: its header alone
without measurements. `run_table` has the table with one row per run, and writes all.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from batchscope import damage, disk
from batchscope.analysis import run_series
from batchscope.catalogue import columns, measure_settings, run_factors, run_names
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.tables import TABLES
from batchscope.catalogue.timings import OF_SECONDS
from batchscope.store import job_files, records
from batchscope.store.job_files import Place
from batchscope.tables import own_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

NAN = math.nan
FIRST = ("run", *run_factors.FACTORS, "status")
Single = str | int | float | None
Row = dict[str, Any]
Block = dict[str, Any]  # column -> a value for each row, or a single one for all of them
Maker = Callable[[Path | str, "Study", str], pandas.DataFrame]
# What the table calls a column of a run's history otherwise: its own names have another meaning.
_RENAMED = {"learning_rate": "epoch_learning_rate", "seconds": "contended_seconds"}


def read_record(path: Path, *keys: str) -> Row | None:
    """Returns a record that has these keys, or None where there is none."""
    return disk.read_json(path, *keys) if path.exists() else None


def named(factors: Row) -> Row:
    """Returns factors, data set and model by their plain names beside their digests."""
    found: Row = {}
    for name, value in factors.items():
        if name in ("dataset", "model"):
            found[name], found[f"{name}_digest"] = run_names.split_token(str(value))
        else:
            found[name] = value
    return found


def shown_status(record: Row) -> str:
    """Returns a run's status as the tables show it.

    One that never reached its target_train_loss is no part of a comparison there, and figures and
    statistics take finished runs only.
    """
    finished = record["status"] == records.FINISHED
    missed = finished and record.get("reached_target") is False
    return records.OFF_TARGET if missed else record["status"]


def history(results: Path | str, run: str) -> list[dict[str, float]]:
    """Returns the rows of a trained run's history; a field that is empty is NaN.

    Raises:
        UserError: If it is missing or damaged, or has not the epochs of the run's record.
    """
    folder = records.run_folder(results, run)
    path, record = folder / "history.csv", records.run_record(folder)
    rows = disk.read_rows(path, "epoch", "train_loss", delete=record)
    epochs = disk.read_json(record, "epochs_run")["epochs_run"]
    with damage.reading(path, f"a row for each of the {epochs} epochs in its record", record):
        if len(rows) != epochs:
            raise ValueError(f"{len(rows)} rows")
        return [{name: float(text) if text else NAN for name, text in row.items()} for row in rows]


def histories(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per run and epoch; the rate of a schedule is in `epoch_learning_rate`."""
    chosen = study.experiments[experiment]
    speed = _speeds(next(job_files.places(study, results)), study, chosen)

    def blocks() -> Iterator[tuple[Row, Block]]:
        for factors, first in _runs(results, chosen):
            rows = history(results, first["run"])
            # A run of an earlier version may lack the newest columns.
            block = _block(rows, records.HISTORY_COLUMNS)
            block = {_RENAMED.get(name, name): values for name, values in block.items()}
            yield first, block | _seconds(_examples(results, factors, rows), speed(factors))

    return _table("history", blocks())


def trajectories(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, run and evaluation inside its training, or at its end.

    A run without `evaluate_every` has those of its history, at the epochs' ends. Seconds are never
    what a training measured of itself: those of its examples in a timing job that had the machine
    to itself, `time_epoch`'s or else `throughput`'s of an experiment beside it.
    """
    chosen = study.experiments[experiment]
    if chosen.own.path:
        return own_tables.trajectories(chosen, FIRST)

    def blocks() -> Iterator[tuple[Row, Block]]:
        for place in job_files.places(study, results):
            speed = _speeds(place, study, chosen)
            for factors, first in _runs(place.results, chosen):
                block = _block(
                    trajectory(place.results, first["run"], factors), columns.TRAJECTORIES
                )
                block |= _seconds(block["examples"], speed(factors))
                yield first, {**block, "machine": place.machine}

    return _table("trajectories", blocks())


def trajectory(results: Path | str, run: str, factors: Row) -> list[dict[str, float]]:
    """Returns the rows of a run's trajectory; of one without `evaluate_every`, of its history."""
    if factors["evaluate_every"]:
        return _evaluations(records.run_folder(results, run))
    rows = history(results, run)
    examples = _examples(results, factors, rows)
    return [
        {**row, "examples": count, "updates": row.get("step", NAN), "train_loss": NAN}
        for row, count in zip(rows, examples, strict=True)
    ]


def _examples(results: Path | str, factors: Row, rows: list[dict[str, float]]) -> list[float]:
    """Returns the examples that a run used by the end of each epoch of its history."""
    images = records.training_images(results, factors["dataset"])
    copies = run_factors.training_copies(factors)
    return [NAN if images is None else row["epoch"] * images * copies for row in rows]


def _seconds(examples: list[float], per_second: float) -> Block:
    return {"examples": examples, "seconds": [count / per_second for count in examples]}


def _evaluations(folder: Path) -> list[dict[str, float]]:
    """Returns the rows that a training wrote of its evaluations."""
    path, record = folder / "trajectory.csv", records.run_record(folder)
    rows = disk.read_rows(path, *records.TRAJECTORY_COLUMNS, delete=record)
    saved = disk.read_json(record, "status", "steps_run")
    with damage.reading(path, f"rows up to the {saved['steps_run']} updates in its record", record):
        found = [{name: float(text) for name, text in row.items()} for row in rows]
        # A training that did not finish has no row at its end.
        if saved["status"] == records.FINISHED and found[-1]["updates"] != saved["steps_run"]:
            raise ValueError(f"{len(rows)} rows")
        return found


def _of_measure(block: Callable[[Row, Path], Iterator[Block]]) -> Maker:
    """Makes of a function of a measure's record, and its path, the maker of the table so named."""

    @functools.wraps(block)
    def make(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
        return of_measure(results, study, experiment, block.__name__, block)

    return make


def of_measure(
    results: Path | str,
    study: Study,
    experiment: str,
    table: str,
    block: Callable[[Row, Path], Iterator[Block]],
) -> pandas.DataFrame:
    """Returns a table of a measure: what `block` finds in its record and its path, by run."""
    measure = next(name for name, entry in MEASURES.items() if table in entry.tables)
    chosen = study.experiments[experiment]

    def blocks() -> Iterator[tuple[Row, Block]]:
        if measure not in chosen.trainings.measures:
            return
        settings = measure_settings.settings_name(measure, chosen.trainings.measures[measure])
        for _, first in _runs(results, chosen):
            path = records.measure_path(results, first["run"], measure, settings)
            if record := read_record(path):
                yield from ((first, found) for found in block(record, path))

    return _table(table, blocks())


@_of_measure
def layers(record: Row, _: Path) -> Iterator[Block]:
    """Yields the distance of each layer from its initial weights."""
    found = record.get("layers", {})
    values = _block(found.values(), ("distance", "relative"))
    yield {"position": range(len(found)), "layer": list(found), **values}


@_of_measure
def updates(record: Row, _: Path) -> Iterator[Block]:
    """Yields the bins of the histogram of update norms, with shares of all the run's updates."""
    histogram = record.get("histogram")
    if histogram and histogram["counts"]:
        edges, counts = histogram["edges"], histogram["counts"]
        shares = [count / record["values"]["updates"] for count in counts]
        yield {"low": edges[:-1], "high": edges[1:], "count": counts, "share": shares}


@_of_measure
def alignment(record: Row, _: Path) -> Iterator[Block]:
    """Yields the alignment of gradients at a place, by number of examples in a batch."""
    for place in record.get("places") or ():
        same = ("place", "epoch", "norm", "ratio", "independent")
        yield {"examples": place["batch_sizes"], **{name: place[name] for name in same}}


@_of_measure
def landscapes(record: Row, path: Path) -> Iterator[Block]:
    """Yields the points of surfaces and lines; the second direction is that of the rows."""
    if record.get("status") != records.FINISHED:
        return
    members = disk.read_arrays(path.with_suffix(".npz"), "axis")
    axis = members.pop("axis")
    for member, loss in members.items():
        kind, _, index = member.partition(":")
        if kind in ("surface", "line"):
            b, a = np.meshgrid(axis if kind == "surface" else [0.0], axis, indexing="ij")
            points = {"a": a, "b": b, "loss": loss}
            points = {name: values.ravel().tolist() for name, values in points.items()}
            yield {"kind": kind, "index": int(index), **points}


def lines(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per pair of runs, position on the line between them, and split.

    The run is the small one, at position 0; `other` is the large one, at 1. They differ in
    `factor`, by its values `small` and `large`.
    """
    chosen = study.experiments[experiment]

    def blocks() -> Iterator[tuple[Row, Block]]:
        if "line" not in chosen.trainings.measures:
            return
        name = measure_settings.settings_name("line", chosen.trainings.measures["line"])
        for factors, first in _runs(results, chosen):
            others = (
                large for small, large in chosen.trainings.pairs["line"] if small == first["run"]
            )
            for other in others:
                path = records.pair_path(results, first["run"], other, "line", name)
                record = read_record(path) or {}
                between = chosen.trainings.runs[other]
                differ = next(
                    name for name in run_factors.FACTORS if factors[name] != between[name]
                )
                same = {"factor": differ, "small": factors[differ], "large": between[differ]}
                for split in records.SPLITS if record.get("alphas") else ():
                    of = {"loss": record[f"{split}_loss"], "accuracy": record[f"{split}_accuracy"]}
                    block = {"other": other, "split": split, "alpha": record["alphas"]}
                    yield first, {**block, **same, **of}

    return _table("lines", blocks())


def at_epochs(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, run and number of epochs that the experiment asks for.

    What measures gave is of the weights after that epoch, dropout off; what a training that stopped
    earlier never reached is empty.
    """
    chosen = study.experiments[experiment]
    measured = any(measure_settings.ENTRIES[name].at_epochs for name in chosen.trainings.measures)

    def blocks() -> Iterator[tuple[Row, Block]]:
        for place in job_files.places(study, results) if measured else ():
            for factors, first in _runs(place.results, chosen):
                timed = _timed(place, chosen, factors, "seconds_per_epoch")
                record = records.run_folder(place.results, first["run"]) / "record.json"
                trained = disk.read_json(record, "epochs_run")["epochs_run"]
                rows = [
                    _measured_early(place.results, first["run"], epoch, chosen)
                    | {
                        "at_epoch": epoch,
                        "train_seconds": epoch * timed if epoch <= trained else NAN,
                    }
                    for epoch in chosen.at_epochs
                ]
                yield first, {**_block(rows, columns.AT_EPOCHS), "machine": place.machine}

    return _table("at_epochs", blocks())


def _measured_early(results: Path | str, run: str, epoch: int, experiment: Experiment) -> Row:
    """Returns what was measured of the weights after an epoch, which may be nothing."""
    values: Row = {}
    for measure, wanted in experiment.trainings.measures.items():
        if measure in MEASURES and MEASURES[measure].at_epochs:
            settings = job_files.at_epoch(measure, wanted, epoch)
            record = read_record(records.measure_path(results, run, measure, settings), "values")
            values |= record["values"] if record else {}
    return {name: value for name, value in values.items() if value is not None}


def _timed(place: Place, experiment: Experiment, factors: Row, column: str) -> float:
    """Returns a column of the exclusive timing job of a training; NaN without one."""
    timing = next((name for name in experiment.trainings.measures if name in OF_SECONDS), None)
    if timing is None:
        return NAN
    record = read_record(job_files.time_path(place, experiment, factors, timing), "values")
    found = record and record["values"].get(column)
    return NAN if found is None else found


def _speeds(place: Place, study: Study, experiment: Experiment) -> Callable[[Row], float]:
    """Returns a function of a run's factors: examples per second of its timing job.

    The n-th seed's is the n-th job of its configuration, so that seeds share no error of a time;
    where it was not timed itself, that of an experiment of times beside it.
    """
    found: dict[tuple[str, int], float] = {}  # timing configuration and seed -> examples per second
    beside = _speeds_beside(place, study, experiment)

    def speed(factors: Row) -> float:
        repeat = experiment.trainings.seeds.index(factors["seed"]) + 1
        job = (run_names.timing_name(factors), repeat)
        if job not in found:
            timed = _timed(place, experiment, factors, "images_per_second")
            found[job] = timed if math.isfinite(timed) else beside.get(job, NAN)
        return found[job]

    return speed


def _speeds_beside(
    place: Place, study: Study, experiment: Experiment
) -> dict[tuple[str, int], float]:
    """Returns the same of the sweeps beside one whose steps are driven as a training's are."""
    found, timing_only = {}, run_factors.TIMING_ONLY_FACTORS.values()
    for name in experiment.trainings.beside:
        for job in job_files.timing_jobs(study.experiments[name], place.results, place.recorded):
            factors = job.sweep.factors
            as_trained = (factors.get(own.name, own.birth) == own.birth for own in timing_only)
            if job.measure not in OF_SECONDS or not all(as_trained):
                continue
            record = read_record(job.path, "sizes") or {"sizes": []}
            for size in filter(lambda each: each["blocks"], record["sizes"]):
                seconds = statistics.median(block["seconds_per_step"] for block in size["blocks"])
                timing = run_names.timing_name({**factors, "batch_size": size["batch_size"]})
                found.setdefault((timing, job.repeat), size["batch_size"] / seconds)
    return found


def _runs(results: Path | str, experiment: Experiment) -> Iterator[tuple[Row, Row]]:
    """Yields the factors of every run on disk, and its first columns in the long tables."""
    for run, factors in experiment.trainings.runs.items():
        record = read_record(records.run_folder(results, run) / "record.json", "status")
        if record is not None:
            first = {"run": run, **named(factors), "status": shown_status(record)}
            yield factors, {name: first[name] for name in FIRST}


def _block(rows: Iterable[Row], names: Iterable[str]) -> Block:
    """Returns columns of rows, NaN where a row has none."""
    return {name: [row.get(name, NAN) for row in rows] for name in names}


def _table(name: str, blocks: Iterator[tuple[Row, Block]]) -> pandas.DataFrame:
    """Returns the blocks of a table of the catalogue, each beside its run's first columns."""
    own = TABLES[name].columns
    found: dict[str, list[Any]] = {column: [] for column in (*FIRST, *own)}
    for first, block in blocks:
        block = {name: block[name] for name in own}
        count = next(len(value) for value in block.values() if not isinstance(value, Single))
        for column, value in {**first, **block}.items():
            found[column] += [value] * count if isinstance(value, Single) else value
    return run_series.typed(pandas.DataFrame(found), own)
