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
from batchscope.tables import own_runs

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

NAN = math.nan
FIRST = ("run", *run_factors.FACTORS, "status")
Single = str | int | float | None
Row = dict[str, Any]
Block = dict[str, Any]  # column -> a value for each row, or a single one for all of them
Blocks = Iterator[tuple[Row, Block]]  # beside the first columns of their run
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
    """Returns a run's status; one that missed its target_train_loss is compared with none."""
    missed = record["status"] == records.FINISHED and record.get("reached_target") is False
    return records.OFF_TARGET if missed else record["status"]


def history(results: Path | str, run: str) -> list[dict[str, float]]:
    """Returns the rows of a trained run's history; a field that is empty is NaN."""
    folder = records.run_folder(results, run)
    path, record = folder / "history.csv", records.run_record(folder)
    rows = disk.read_rows(path, "epoch", "train_loss", delete=record)
    epochs = disk.read_json(record, "epochs_run")["epochs_run"]
    with damage.reading(path, f"a row for each of the {epochs} epochs in its record", record):
        if len(rows) != epochs:
            raise ValueError(f"{len(rows)} rows")
        return [{name: float(text) if text else NAN for name, text in row.items()} for row in rows]


def table(name: str) -> Callable[[Callable[..., Blocks]], Maker]:
    """Makes a table's maker of a function of results, study and experiment that yields blocks."""
    own = TABLES[name].columns

    def decorate(blocks: Callable[..., Blocks]) -> Maker:
        @functools.wraps(blocks)
        def make(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
            found: dict[str, list[Any]] = {column: [] for column in (*FIRST, *own)}
            for first, block in blocks(results, study, study.experiments[experiment]):
                values = first | {name: block[name] for name in own}
                count = next(len(each) for each in values.values() if not isinstance(each, Single))
                for column, each in values.items():
                    found[column] += [each] * count if isinstance(each, Single) else each
            return run_series.typed(pandas.DataFrame(found), own)

        return make

    return decorate


@table("history")
def histories(results: Path | str, study: Study, chosen: Experiment) -> Blocks:
    """Yields each run's epochs; the rate of a schedule is in `epoch_learning_rate`."""
    speed = _speeds(next(job_files.places(study, results)), study, chosen)
    for factors, first in _runs(results, chosen):
        rows = history(results, first["run"])
        # A run of an earlier version may lack the newest columns.
        block = _block(rows, records.HISTORY_COLUMNS)
        block = {_RENAMED.get(name, name): values for name, values in block.items()}
        yield first, block | _seconds(_examples(results, factors, rows), speed(factors))


def trajectories(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, run and evaluation; without these, of its history."""
    chosen = study.experiments[experiment]
    if chosen.own.path:
        return own_runs.trajectories(chosen, FIRST)
    return _trajectories(results, study, experiment)


@table("trajectories")
def _trajectories(results: Path | str, study: Study, chosen: Experiment) -> Blocks:
    """Yields each run's evaluations.

    Seconds are never what a training measured of itself: those of its examples in a timing job that
    had the machine to itself, `time_epoch`'s or else `throughput`'s of an experiment beside it.
    """
    for place in job_files.places(study, results):
        speed = _speeds(place, study, chosen)
        for factors, first in _runs(place.results, chosen):
            rows = trajectory(place.results, first["run"], factors)
            block = {**_block(rows, columns.TRAJECTORIES), "machine": place.machine}
            yield first, block | _seconds(block["examples"], speed(factors))


def trajectory(results: Path | str, run: str, factors: Row) -> list[dict[str, float]]:
    """Returns the rows of a run's trajectory; of one without `evaluate_every`, of its history."""
    if factors["evaluate_every"]:
        return _evaluations(records.run_folder(results, run))
    rows = history(results, run)
    same = ("epoch", "validation_loss", "validation_accuracy")
    return [
        {
            "examples": count,
            "updates": row.get("step", NAN),
            **{name: row.get(name, NAN) for name in same},
        }
        for row, count in zip(rows, _examples(results, factors, rows), strict=True)
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


def measured(
    results: Path | str, chosen: Experiment, table: str
) -> Iterator[tuple[Row, Row, Path]]:
    """Yields the first columns of each run, and the record of a table's measure with its path."""
    measure = next(name for name, entry in MEASURES.items() if table in entry.tables)
    if measure in chosen.trainings.measures:
        settings = measure_settings.settings_name(measure, chosen.trainings.measures[measure])
        for _, first in _runs(results, chosen):
            path = records.measure_path(results, first["run"], measure, settings)
            if record := read_record(path):
                yield first, record, path


@table("layers")
def layers(results: Path | str, _: Study, chosen: Experiment) -> Blocks:
    """Yields each layer's distance from its initial weights."""
    for first, record, _ in measured(results, chosen, "layers"):
        found = record.get("layers", {})
        values = _block(found.values(), ("distance", "relative"))
        yield first, {"position": range(len(found)), "layer": list(found), **values}


@table("updates")
def updates(results: Path | str, _: Study, chosen: Experiment) -> Blocks:
    """Yields the bins of a histogram of update norms, with shares of all the run's updates."""
    for first, record, _ in measured(results, chosen, "updates"):
        histogram = record.get("histogram")
        if histogram and histogram["counts"]:
            edges, counts = histogram["edges"], histogram["counts"]
            shares = [count / record["values"]["updates"] for count in counts]
            yield first, {"low": edges[:-1], "high": edges[1:], "count": counts, "share": shares}


@table("alignment")
def alignment(results: Path | str, _: Study, chosen: Experiment) -> Blocks:
    """Yields the alignment of gradients at each place, by number of examples in a batch."""
    same = ("place", "epoch", "norm", "ratio", "independent")
    for first, record, _ in measured(results, chosen, "alignment"):
        for place in record.get("places") or ():
            values = {name: place[name] for name in same}
            yield first, {"examples": place["batch_sizes"], **values}


@table("landscapes")
def landscapes(results: Path | str, _: Study, chosen: Experiment) -> Blocks:
    """Yields the points of surfaces and lines; the second direction is that of the rows."""
    for first, record, path in measured(results, chosen, "landscapes"):
        if record.get("status") != records.FINISHED:
            continue
        members = disk.read_arrays(path.with_suffix(".npz"), "axis")
        axis = members.pop("axis")
        for member, loss in members.items():
            kind, _, index = member.partition(":")
            if kind in ("surface", "line"):
                b, a = np.meshgrid(axis if kind == "surface" else [0.0], axis, indexing="ij")
                points = {"a": a, "b": b, "loss": loss}
                points = {name: values.ravel().tolist() for name, values in points.items()}
                yield first, {"kind": kind, "index": int(index), **points}


@table("lines")
def lines(results: Path | str, _: Study, chosen: Experiment) -> Blocks:
    """Yields the losses on the line from the small run, at 0, to the large one, `other`, at 1."""
    found = chosen.trainings
    if "line" not in found.measures:
        return
    settings = measure_settings.settings_name("line", found.measures["line"])
    for factors, first in _runs(results, chosen):
        for other in (large for small, large in found.pairs["line"] if small == first["run"]):
            path = records.pair_path(results, first["run"], other, "line", settings)
            record, to = read_record(path) or {}, found.runs[other]
            differ = next(name for name in run_factors.FACTORS if factors[name] != to[name])
            same = {"factor": differ, "small": factors[differ], "large": to[differ], "other": other}
            for split in records.SPLITS if record.get("alphas") else ():
                of = {"loss": record[f"{split}_loss"], "accuracy": record[f"{split}_accuracy"]}
                yield first, {**same, "split": split, "alpha": record["alphas"], **of}


@table("at_epochs")
def at_epochs(results: Path | str, study: Study, chosen: Experiment) -> Blocks:
    """Yields what measures gave after each number of epochs that the experiment asks for."""
    if not any(measure_settings.ENTRIES[name].at_epochs for name in chosen.trainings.measures):
        return
    for place in job_files.places(study, results):
        for factors, first in _runs(place.results, chosen):
            timed = _timed(place, chosen, factors, "seconds_per_epoch")
            record = records.run_folder(place.results, first["run"]) / "record.json"
            trained = disk.read_json(record, "epochs_run")["epochs_run"]
            rows = [
                _measured_early(place.results, first["run"], epoch, chosen)
                | {"at_epoch": epoch, "train_seconds": epoch * timed if epoch <= trained else NAN}
                for epoch in chosen.at_epochs
            ]
            yield first, {**_block(rows, columns.AT_EPOCHS), "machine": place.machine}


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
