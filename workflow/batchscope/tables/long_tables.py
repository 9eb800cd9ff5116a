"""Records on disk -> the long tables of an experiment: several rows per run.

Each table begins with the run, its factors and its status, and is written always: its header
alone without measurements. `tables` has the table with one row per run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import damage, disk
from batchscope.catalogue import columns, measure_settings, run_factors, run_names
from batchscope.catalogue.measures import MEASURES
from batchscope.store import job_files, records

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

FIRST = ("run", *run_factors.FACTORS, "status")
# The rate of an epoch beside the factor that it follows from.
_EPOCH_NAMES = {"learning_rate": "epoch_learning_rate", "seconds": "contended_seconds"}
_HISTORY = tuple(_EPOCH_NAMES.get(name, name) for name in records.HISTORY_COLUMNS)
_LAYERS = ("position", "layer", "distance", "relative")
_UPDATES = ("low", "high", "count", "share")
_ALIGNMENT = ("place", "epoch", "examples", "norm", "ratio", "independent")
_LINES = ("other", "factor", "small", "large", "alpha", "split", "loss", "accuracy")
_LANDSCAPES = ("kind", "index", "a", "b", "loss")
_AT_EPOCH_MEASURES = {name: entry for name, entry in MEASURES.items() if entry.at_epochs}
_EARLY = tuple(
    name
    for entry in _AT_EPOCH_MEASURES.values()
    for name, column in entry.columns.items()
    if column.at_epochs
)
AT_EPOCHS = ("machine", "at_epoch", *_EARLY, "train_seconds")
_WHOLE = ("epoch", "step", "position", "count", "examples", "index", "at_epoch")

Block = dict[str, Sequence[Any]]
NAN = float("nan")


def read_record(path: Path, *keys: str) -> dict[str, Any] | None:
    """Returns a record that has these keys, or None where there is none."""
    return disk.read_json(path, *keys) if path.exists() else None


def factors(run: str) -> dict[str, Any]:
    """Returns a run's factors, data set and model by their plain names beside their digests."""
    found: dict[str, Any] = {}
    for name, value in run_names.parse_run(run).items():
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

    def blocks() -> Iterator[tuple[dict[str, Any], Block]]:
        for first in _runs(results, study.experiments[experiment]):
            rows = history(results, first["run"])
            # A run of an earlier version may lack the newest columns.
            columns = [[row.get(name, NAN) for row in rows] for name in records.HISTORY_COLUMNS]
            yield first, dict(zip(_HISTORY, columns, strict=True))

    return _table(_HISTORY, blocks())


def trajectories(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, run and evaluation inside its training, or at its end.

    A run without `evaluate_every` has those of its history, at the epochs' ends. Seconds are never
    what a training measured of itself: those of its examples in a timing job that had the machine
    to itself.
    """
    chosen = study.experiments[experiment]

    def blocks() -> Iterator[tuple[dict[str, Any], Block]]:
        for place in job_files.places(study, results):
            speeds: dict[str, float] = {}  # timing configuration -> images per second
            for first in _runs(place.results, chosen):
                run = first["run"]
                timing = run_names.timing_name(run_names.parse_run(run))
                if timing not in speeds:
                    speeds[timing] = _timed(place, timing, chosen, "images_per_second")
                rows = trajectory(place.results, run)
                found = {
                    name: [row.get(name, NAN) for row in rows] for name in columns.TRAJECTORIES
                }
                found["machine"] = [place.machine] * len(rows)
                found["seconds"] = [row["examples"] / speeds[timing] for row in rows]
                yield first, found

    whole = [name for name, column in columns.TRAJECTORIES.items() if column.kind == "int"]
    return _table(tuple(columns.TRAJECTORIES), blocks(), whole)


def trajectory(results: Path | str, run: str) -> list[dict[str, float]]:
    """Returns the rows of a run's trajectory; of one without `evaluate_every` from its history.

    Raises:
        UserError: If what they are read from is missing or damaged.
    """
    parsed = run_names.parse_run(run)
    if parsed["evaluate_every"]:
        return _evaluations(records.run_folder(results, run))
    images = records.training_images(results, str(parsed["dataset"]))
    copies = run_factors.training_copies(parsed)
    return [
        {
            "examples": NAN if images is None else row["epoch"] * images * copies,
            "updates": row.get("step", NAN),
            "epoch": row["epoch"],
            **{name: row.get(name, NAN) for name in ("validation_loss", "validation_accuracy")},
        }
        for row in history(results, run)
    ]


def _evaluations(folder: Path) -> list[dict[str, float]]:
    """Returns the rows that a training wrote of its evaluations."""
    path, record = folder / "trajectory.csv", records.run_record(folder)
    rows = disk.read_rows(path, *records.TRAJECTORY_COLUMNS, delete=record)
    told = disk.read_json(record, "status", "steps_run")
    with damage.reading(path, f"rows up to the {told['steps_run']} updates in its record", record):
        found = [{name: float(text) for name, text in row.items()} for row in rows]
        # A training that did not finish has no row at its end.
        if told["status"] == records.FINISHED and found[-1]["updates"] != told["steps_run"]:
            raise ValueError(f"{len(rows)} rows")
        return found


def layers(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per run and layer: its distance from the initial weights."""

    def block(record: dict[str, Any], _: Path) -> Iterator[Block]:
        found = record.get("layers", {})
        yield {
            "position": range(len(found)),
            "layer": list(found),
            **{
                name: [values[name] for values in found.values()]
                for name in ("distance", "relative")
            },
        }

    return _measured(results, study.experiments[experiment], "weight_distance", _LAYERS, block)


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
            columns = (edges[:-1], edges[1:], counts, shares)
            yield dict(zip(_UPDATES, columns, strict=True))

    return _measured(results, study.experiments[experiment], "displacement", _UPDATES, block)


def alignment(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per run, place in its training and number of examples in a batch.

    `norm` is that of their mean gradient, `ratio` its share of the mean norm of single ones,
    and `independent` what `ratio` were on average with a random sign for every gradient.
    """

    def block(record: dict[str, Any], _: Path) -> Iterator[Block]:
        for place in record.get("places") or ():
            count = len(place["batch_sizes"])
            columns = (place["batch_sizes"], *(place[name] for name in _ALIGNMENT[3:]))
            yield {
                "place": [place["place"]] * count,
                "epoch": [place["epoch"]] * count,
                **dict(zip(_ALIGNMENT[2:], columns, strict=True)),
            }

    chosen = study.experiments[experiment]
    return _measured(results, chosen, "gradient_alignment", _ALIGNMENT, block)


def lines(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per pair of runs, position on the line between them, and split.

    The run is the small one, at position 0; `other` is the large one, at 1. They differ in
    `factor`, by its values `small` and `large`.
    """
    return _table(_LINES, _line_blocks(results, study.experiments[experiment]))


def _line_blocks(
    results: Path | str, experiment: Experiment
) -> Iterator[tuple[dict[str, Any], Block]]:
    settings = experiment.trainings.measures.get("line")
    if settings is None:
        return
    name = measure_settings.settings_name("line", settings)
    others: dict[str, list[str]] = {}
    for small, large in experiment.trainings.pairs["line"]:
        others.setdefault(small, []).append(large)
    for first in _runs(results, experiment):
        for other in others.get(first["run"], ()):
            path = records.pair_path(results, first["run"], other, "line", name)
            record = read_record(path) or {}
            alphas = record.get("alphas") or ()
            for split in records.SPLITS if alphas else ():
                values = {**_difference(first["run"], other), "split": split}
                yield (
                    first,
                    {
                        **{column: [value] * len(alphas) for column, value in values.items()},
                        "alpha": alphas,
                        "loss": record[f"{split}_loss"],
                        "accuracy": record[f"{split}_accuracy"],
                    },
                )


def _difference(small: str, large: str) -> dict[str, Any]:
    """Returns how two runs differ: the other's name, the factor and both its values."""
    one, two = run_names.parse_run(small), run_names.parse_run(large)
    factor = next(name for name in run_factors.FACTORS if one[name] != two[name])
    return {"other": large, "factor": factor, "small": one[factor], "large": two[factor]}


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
                "kind": [kind] * loss.size,
                "index": [int(index)] * loss.size,
                "a": axis.tolist() * len(other),
                "b": [float(b) for b in other for _ in axis],
                "loss": loss.ravel().tolist(),
            }

    return _measured(results, study.experiments[experiment], "landscape", _LANDSCAPES, block)


def at_epochs(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, run and number of epochs that the experiment asks for.

    What measures gave is of the weights after that epoch, dropout off; `train_seconds` is
    at_epoch * seconds_per_epoch, validation apart. What a training that stopped earlier never
    reached is empty.
    """
    chosen = study.experiments[experiment]
    return _table(AT_EPOCHS, _at_epochs(results, study, chosen))


def _at_epochs(
    results: Path | str, study: Study, chosen: Experiment
) -> Iterator[tuple[dict[str, Any], Block]]:
    if not any(measure_settings.ENTRIES[name].at_epochs for name in chosen.trainings.measures):
        return
    epochs = list(chosen.at_epochs)
    for place in job_files.places(study, results):
        timed: dict[str, float] = {}  # timing configuration -> seconds per epoch
        for first in _runs(place.results, chosen):
            run = first["run"]
            timing = run_names.timing_name(run_names.parse_run(run))
            if timing not in timed:
                timed[timing] = _timed(place, timing, chosen, "seconds_per_epoch")
            measured = [_measured_early(place.results, run, epoch, chosen) for epoch in epochs]
            path = records.run_folder(place.results, run) / "record.json"
            record = disk.read_json(path, "epochs_run")
            yield (
                first,
                {
                    "machine": [place.machine] * len(epochs),
                    "at_epoch": epochs,
                    **{name: [found.get(name, NAN) for found in measured] for name in _EARLY},
                    "train_seconds": [
                        epoch * timed[timing] if epoch <= record["epochs_run"] else NAN
                        for epoch in epochs
                    ],
                },
            )


def _measured_early(
    results: Path | str, run: str, epoch: int, experiment: Experiment
) -> dict[str, float]:
    """Returns what was measured of the weights after an epoch, which may be nothing."""
    values: dict[str, float | None] = {}
    for measure in _AT_EPOCH_MEASURES.keys() & experiment.trainings.measures.keys():
        settings = job_files.at_epoch(measure, experiment.trainings.measures[measure], epoch)
        path = records.measure_path(results, run, measure, settings)
        values |= (read_record(path, "values") or {"values": {}})["values"]
    return {name: value for name, value in values.items() if value is not None}


def _timed(place: job_files.Place, timing: str, experiment: Experiment, column: str) -> float:
    """Returns a column of the exclusive timing job of a configuration; NaN without one."""
    if "time_epoch" not in experiment.trainings.measures:
        return NAN
    settings = measure_settings.settings_name(
        "time_epoch", experiment.trainings.measures["time_epoch"]
    )
    path = records.timing_path(place.results, place.recorded, timing, settings, "time_epoch")
    record = read_record(path, "values")
    found = record and record["values"].get(column)
    return NAN if found is None else found


TABLES: dict[str, Callable[[Path | str, Study, str], pandas.DataFrame]] = {
    "history.csv": histories,
    "trajectories.csv": trajectories,
    "layers.csv": layers,
    "updates.csv": updates,
    "alignment.csv": alignment,
    "lines.csv": lines,
    "landscapes.csv": landscapes,
    "at_epochs.csv": at_epochs,
}


def write(
    results: Path | str, study: Study, experiment: str, folder: Path | str
) -> dict[str, pandas.DataFrame]:
    """Writes every long table of an experiment, each atomically; returns them by name."""
    found = {name: table(results, study, experiment) for name, table in TABLES.items()}
    for name, table in found.items():
        write_table(table, Path(folder) / name)
    return found


def write_table(frame: pandas.DataFrame, path: Path) -> None:
    """Writes a table as CSV, atomically."""
    with disk.atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")


def _runs(results: Path | str, experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yields the first columns of the long tables for every run on disk."""
    for run in experiment.trainings.runs:
        record = read_record(records.run_folder(results, run) / "record.json", "status")
        if record is not None:
            found = factors(run)
            known = {name: found[name] for name in run_factors.FACTORS}
            yield {"run": run, **known, "status": shown_status(record)}


def shown_status(record: dict[str, Any]) -> str:
    """Returns a run's status as the tables show it.

    Runs with a target_train_loss are to be compared there. One that never reached it is no part
    of that comparison, and figures and statistics take finished runs only.
    """
    finished = record["status"] == records.FINISHED
    missed = finished and record.get("reached_target") is False
    return records.OFF_TARGET if missed else record["status"]


def _measured(
    results: Path | str,
    experiment: Experiment,
    measure: str,
    columns: tuple[str, ...],
    block: Callable[[dict[str, Any], Path], Iterator[Block]],
) -> pandas.DataFrame:
    """Returns the table of what `block` finds in a measure's record and its path, by run."""

    def blocks() -> Iterator[tuple[dict[str, Any], Block]]:
        settings = experiment.trainings.measures.get(measure)
        if settings is None:
            return
        name = measure_settings.settings_name(measure, settings)
        for first in _runs(results, experiment):
            path = records.measure_path(results, first["run"], measure, name)
            record = read_record(path)
            for found in block(record, path) if record else ():
                yield first, found

    return _table(columns, blocks())


def _table(
    columns: tuple[str, ...],
    blocks: Iterator[tuple[dict[str, Any], Block]],
    whole: Sequence[str] = _WHOLE,
) -> pandas.DataFrame:
    """Returns blocks of equally long columns, each below its run's first columns.

    Args:
        columns: The others, in order.
        blocks: A run's first columns, and a block of its others.
        whole: Columns of whole numbers, which may be missing.
    """
    found: dict[str, list[Any]] = {name: [] for name in (*FIRST, *columns)}
    for first, block in blocks:
        count = len(block[columns[0]])
        for name, value in first.items():
            found[name] += [value] * count
        for name in columns:
            found[name] += block[name]
    frame = pandas.DataFrame(found)
    return frame.astype({name: "Int64" for name in columns if name in whole})
