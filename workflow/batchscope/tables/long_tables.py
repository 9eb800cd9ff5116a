"""Records on disk -> the long tables of an experiment: several rows per run.

Each table begins with the run, its factors and its status, and is written always: its header
alone without measurements. `run_table` has the table with one row per run, and writes all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import damage, disk
from batchscope.analysis import run_series
from batchscope.catalogue import columns, measure_settings, run_factors, run_names
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.tables import TABLES
from batchscope.catalogue.timings import OF_SECONDS
from batchscope.store import job_files, records
from batchscope.tables import own_runs

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

NAN = math.nan
FIRST = ("run", *run_factors.FACTORS, "status")
Single = str | int | float | None
Factors = dict[str, Any]
Block = dict[str, Any]  # column -> a value for each row, or a single one for all of them
Blocks = Iterator[tuple[dict[str, Any], Block]]  # beside the first columns of their run
# What the table calls a column of a run's history otherwise: its own names have another meaning.
_RENAMED = {"learning_rate": "epoch_learning_rate", "seconds": "contended_seconds"}


def read_record(path: Path, *keys: str) -> dict[str, Any] | None:
    """Returns a record that has these keys, or None where there is none."""
    return disk.read_json(path, *keys) if path.exists() else None


def named(factors: Factors) -> dict[str, Any]:
    """Returns factors, data set and model by their plain names beside their digests."""
    found: dict[str, Any] = {}
    for name, value in factors.items():
        if name in ("dataset", "model"):
            found[name], found[f"{name}_digest"] = run_names.split_token(str(value))
        else:
            found[name] = value
    return found


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
    """Returns one row per run and epoch: the history's columns.

    A rate's schedule is in `epoch_learning_rate`; `learning_rate` is the factor.
    """
    chosen = study.experiments[experiment]
    own = next(job_files.places(study, results))

    def blocks() -> Blocks:
        speed = _speeds(own, study, chosen)
        for factors, first in _runs(results, chosen):
            rows = history(results, first["run"])
            # A run of an earlier version may lack the newest columns.
            found = _block(rows, records.HISTORY_COLUMNS)
            examples, per_second = _examples(results, factors, rows), speed(factors)
            seconds = [count / per_second for count in examples]
            found = {_RENAMED.get(name, name): values for name, values in found.items()}
            yield first, {**found, "examples": examples, "seconds": seconds}

    return _table("history", blocks())


def trajectories(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, run and evaluation inside its training, or at its end.

    A run without `evaluate_every` has those of its history, at the epochs' ends. Seconds are never
    what a training measured of itself: those of its examples in a timing job that had the machine
    to itself, `time_epoch`'s or else `throughput`'s of an experiment beside it: the n-th seed's
    are of the n-th job of its configuration, and empty where there are fewer jobs.
    """
    chosen = study.experiments[experiment]
    if chosen.own.path:
        return own_runs.trajectories(chosen, FIRST)

    def blocks() -> Blocks:
        for place in job_files.places(study, results):
            speed = _speeds(place, study, chosen)
            for factors, first in _runs(place.results, chosen):
                rows = trajectory(place.results, first["run"], factors)
                per_second = speed(factors)
                seconds = [row["examples"] / per_second for row in rows]
                found = _block(rows, columns.TRAJECTORIES)
                yield first, {**found, "machine": place.machine, "seconds": seconds}

    return _table("trajectories", blocks())


def trajectory(results: Path | str, run: str, factors: Factors) -> list[dict[str, float]]:
    """Returns the rows of a run's trajectory; of one without `evaluate_every`, of its history.

    Raises:
        UserError: If what they are read from is missing or damaged.
    """
    if factors["evaluate_every"]:
        return _evaluations(records.run_folder(results, run))
    rows = history(results, run)
    return [
        {
            "examples": examples,
            "updates": row.get("step", NAN),
            "epoch": row["epoch"],
            **{name: row.get(name, NAN) for name in ("validation_loss", "validation_accuracy")},
        }
        for row, examples in zip(rows, _examples(results, factors, rows), strict=True)
    ]


def _examples(results: Path | str, factors: Factors, rows: list[dict[str, float]]) -> list[float]:
    """Returns the examples that a run used by the end of each epoch of its history."""
    images = records.training_images(results, factors["dataset"])
    copies = run_factors.training_copies(factors)
    return [NAN if images is None else row["epoch"] * images * copies for row in rows]


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


def layers(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per run and layer: its distance from the initial weights."""

    def block(record: dict[str, Any], _: Path) -> Iterator[Block]:
        found = record.get("layers", {})
        values = _block(found.values(), ("distance", "relative"))
        yield {"position": range(len(found)), "layer": list(found), **values}

    return of_measure(results, study, experiment, "layers", block)


def updates(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per run and bin of its histogram of update norms.

    A bin reaches from `low` to `high`; `share` is that of all the run's updates.
    """

    def block(record: dict[str, Any], _: Path) -> Iterator[Block]:
        histogram = record.get("histogram")
        if histogram and histogram["counts"]:
            edges, counts = histogram["edges"], histogram["counts"]
            total = record["values"]["updates"]
            shares = [count / total for count in counts]
            yield {"low": edges[:-1], "high": edges[1:], "count": counts, "share": shares}

    return of_measure(results, study, experiment, "updates", block)


def alignment(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per run, place in its training and number of examples in a batch.

    `norm` is that of their mean gradient, `ratio` its share of the mean norm of single ones,
    and `independent` what `ratio` were on average with a random sign for every gradient.
    """

    def block(record: dict[str, Any], _: Path) -> Iterator[Block]:
        for place in record.get("places") or ():
            same = ("place", "epoch", "norm", "ratio", "independent")
            yield {"examples": place["batch_sizes"], **{name: place[name] for name in same}}

    return of_measure(results, study, experiment, "alignment", block)


def lines(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per pair of runs, position on the line between them, and split.

    The run is the small one, at position 0; `other` is the large one, at 1. They differ in
    `factor`, by its values `small` and `large`.
    """
    chosen = study.experiments[experiment]

    def blocks() -> Blocks:
        settings = chosen.trainings.measures.get("line")
        if settings is None:
            return
        name = measure_settings.settings_name("line", settings)
        others: dict[str, list[str]] = {}
        for small, large in chosen.trainings.pairs["line"]:
            others.setdefault(small, []).append(large)
        by_run = chosen.trainings.runs
        for factors, first in _runs(results, chosen):
            for other in others.get(first["run"], ()):
                path = records.pair_path(results, first["run"], other, "line", name)
                record = read_record(path) or {}
                for split in records.SPLITS if record.get("alphas") else ():
                    of = {"loss": record[f"{split}_loss"], "accuracy": record[f"{split}_accuracy"]}
                    same = {"other": other, "split": split, **_difference(factors, by_run[other])}
                    yield first, {**same, "alpha": record["alphas"], **of}

    return _table("lines", blocks())


def _difference(small: Factors, large: Factors) -> dict[str, Any]:
    """Returns how two runs differ: the factor and both its values."""
    factor = next(name for name in run_factors.FACTORS if small[name] != large[name])
    return {"factor": factor, "small": small[factor], "large": large[factor]}


def landscapes(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per run and point of its surfaces and lines: positions a and b, and loss.

    `kind` is `surface` or `line` and `index` counts those; b is 0 on a line.
    """

    def block(record: dict[str, Any], path: Path) -> Iterator[Block]:
        if record.get("status") != records.FINISHED:
            return
        members = disk.read_arrays(path.with_suffix(".npz"), "axis")
        axis = members.pop("axis")
        for member, loss in members.items():
            kind, _, index = member.partition(":")
            if kind not in ("surface", "line"):
                continue
            other = axis if kind == "surface" else [0.0]
            # The second direction is that of the rows.
            yield {
                "kind": kind,
                "index": int(index),
                "a": axis.tolist() * len(other),
                "b": [float(b) for b in other for _ in axis],
                "loss": loss.ravel().tolist(),
            }

    return of_measure(results, study, experiment, "landscapes", block)


def at_epochs(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, run and number of epochs that the experiment asks for.

    What measures gave is of the weights after that epoch, dropout off; `train_seconds` is
    at_epoch * seconds_per_epoch, validation apart. What a training that stopped earlier never
    reached is empty.
    """
    chosen = study.experiments[experiment]
    measured = any(measure_settings.ENTRIES[name].at_epochs for name in chosen.trainings.measures)

    def blocks() -> Blocks:
        for place in job_files.places(study, results) if measured else ():
            for factors, first in _runs(place.results, chosen):
                run = first["run"]
                timed = _timed(place, chosen, factors, "seconds_per_epoch")
                path = records.run_folder(place.results, run) / "record.json"
                trained = disk.read_json(path, "epochs_run")["epochs_run"]
                rows = [
                    {
                        "at_epoch": epoch,
                        **_measured_early(place.results, run, epoch, chosen),
                        "train_seconds": epoch * timed if epoch <= trained else NAN,
                    }
                    for epoch in chosen.at_epochs
                ]
                yield first, {**_block(rows, columns.AT_EPOCHS), "machine": place.machine}

    return _table("at_epochs", blocks())


def _measured_early(
    results: Path | str, run: str, epoch: int, experiment: Experiment
) -> dict[str, float]:
    """Returns what was measured of the weights after an epoch, which may be nothing."""
    values: dict[str, float | None] = {}
    for measure, wanted in experiment.trainings.measures.items():
        if measure in MEASURES and MEASURES[measure].at_epochs:
            settings = job_files.at_epoch(measure, wanted, epoch)
            path = records.measure_path(results, run, measure, settings)
            values |= (read_record(path, "values") or {"values": {}})["values"]
    return {name: value for name, value in values.items() if value is not None}


def _timed(place: job_files.Place, experiment: Experiment, factors: Factors, column: str) -> float:
    """Returns a column of the exclusive timing job of a training; NaN without one."""
    timing = next((name for name in experiment.trainings.measures if name in OF_SECONDS), None)
    if timing is None:
        return NAN
    record = read_record(job_files.time_path(place, experiment, factors, timing), "values")
    found = record and record["values"].get(column)
    return NAN if found is None else found


def _speeds(
    place: job_files.Place, study: Study, experiment: Experiment
) -> Callable[[Factors], float]:
    """Returns a function of a run's factors: examples per second of its timing job.

    The n-th seed's is the n-th job of its configuration, so that seeds share no error of a time.
    """
    found: dict[tuple[str, int], float] = {}  # timing configuration and seed -> examples per second
    beside = _speeds_beside(place, study, experiment)

    def speed(factors: Factors) -> float:
        timing, seed = run_names.timing_name(factors), factors["seed"]
        if (timing, seed) not in found:
            timed = _timed(place, experiment, factors, "images_per_second")
            repeat = experiment.trainings.seeds.index(seed) + 1
            known = math.isfinite(timed)
            found[timing, seed] = timed if known else beside.get((timing, repeat), NAN)
        return found[timing, seed]

    return speed


def _speeds_beside(
    place: job_files.Place, study: Study, experiment: Experiment
) -> dict[tuple[str, int], float]:
    """Returns the examples per second of the experiments of times beside one.

    Of a sweep whose steps are driven as a training's are: the median of its blocks, by timing
    configuration and number of the job.
    """
    found, timing_only = {}, run_factors.TIMING_ONLY_FACTORS.values()
    for name in experiment.trainings.beside:
        for job in job_files.timing_jobs(study.experiments[name], place.results, place.recorded):
            factors = job.sweep.factors
            as_trained = (factors.get(own.name, own.birth) == own.birth for own in timing_only)
            if job.measure not in OF_SECONDS or not all(as_trained):
                continue
            record = read_record(job.path, "sizes") or {"sizes": []}
            for size in record["sizes"]:
                seconds = [block["seconds_per_step"] for block in size["blocks"]]
                if seconds:
                    timing = run_names.timing_name({**factors, "batch_size": size["batch_size"]})
                    speed = size["batch_size"] / statistics.median(seconds)
                    found.setdefault((timing, job.repeat), speed)
    return found


def _runs(results: Path | str, experiment: Experiment) -> Iterator[tuple[Factors, dict[str, Any]]]:
    """Yields the factors of every run on disk, and its first columns in the long tables."""
    for run, factors in experiment.trainings.runs.items():
        record = read_record(records.run_folder(results, run) / "record.json", "status")
        if record is not None:
            found = named(factors)
            known = {name: found[name] for name in run_factors.FACTORS}
            yield factors, {"run": run, **known, "status": shown_status(record)}


def shown_status(record: dict[str, Any]) -> str:
    """Returns a run's status as the tables show it.

    Runs with a target_train_loss are to be compared there. One that never reached it is no part
    of that comparison, and figures and statistics take finished runs only.
    """
    finished = record["status"] == records.FINISHED
    missed = finished and record.get("reached_target") is False
    return records.OFF_TARGET if missed else record["status"]


def of_measure(
    results: Path | str,
    study: Study,
    experiment: str,
    table: str,
    block: Callable[[dict[str, Any], Path], Iterator[Block]],
) -> pandas.DataFrame:
    """Returns a table of a measure: what `block` finds in its record and its path, by run."""
    measure = next(name for name, entry in MEASURES.items() if table in entry.tables)
    chosen = study.experiments[experiment]

    def blocks() -> Blocks:
        settings = chosen.trainings.measures.get(measure)
        if settings is None:
            return
        name = measure_settings.settings_name(measure, settings)
        for _, first in _runs(results, chosen):
            path = records.measure_path(results, first["run"], measure, name)
            record = read_record(path)
            for found in block(record, path) if record else ():
                yield first, found

    return _table(table, blocks())


def _block(rows: Iterable[dict[str, Any]], names: Iterable[str]) -> Block:
    """Returns columns of rows, NaN where a row has none."""
    return {name: [row.get(name, NAN) for row in rows] for name in names}


def _table(name: str, blocks: Blocks) -> pandas.DataFrame:
    """Returns the blocks of a table of the catalogue, each beside its run's first columns."""
    own = TABLES[name].columns
    found: dict[str, list[Any]] = {column: [] for column in (*FIRST, *own)}
    for first, block in blocks:
        block = {name: block[name] for name in own}
        count = next(len(value) for value in block.values() if not isinstance(value, Single))
        for column, value in {**first, **block}.items():
            found[column] += [value] * count if isinstance(value, Single) else value
    return run_series.typed(pandas.DataFrame(found), own)
