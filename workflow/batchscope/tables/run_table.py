"""runs.csv from records on disk: one row per machine and run."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.store import jobs, paths, records
from batchscope.study import batch_phases, columns, names
from batchscope.study.registry import MEASURES
from batchscope.study.specifications import Column
from batchscope.tables import long_tables, timing_tables

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

Row = dict[str, Any]
Reader = Callable[..., Row | None]
_DTYPES = {"int": "Int64", "str": "object", "bool": "bool"}  # whole numbers may be missing


def collect(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Return one row per machine and run of an experiment (see `long_tables.recorded`)."""
    planned, rows = study.experiments[experiment], []
    read = functools.cache(long_tables.read_record)  # runs share data sets and timings
    for place, run, record, status in long_tables.recorded(results, study, planned.runs):
        row = {"run": run, "study": study.name, "experiment": experiment}
        row |= {"machine": place.machine, **long_tables.named(planned.runs[run]), "status": status}
        rows.append(row | _values(place, planned, run, record, read))
    # A record of another version may have columns that are not documented.
    learned = long_tables.learned(results, study, planned)
    filled = itertools.chain(columns.of_measures(planned.measures, learned), *rows)
    frame = pandas.DataFrame(rows, columns=sorted(dict.fromkeys(filled), key=columns.position))
    kinds = {name: (columns.describe(name) or Column("")).kind for name in frame}
    return frame.astype({name: _DTYPES.get(kind, "float64") for name, kind in kinds.items()})


def _values(
    place: jobs.Place, experiment: PlannedExperiment, run: str, record: Row | None, read: Reader
) -> Row:
    """Return the columns from the files of one run."""
    results, factors = place.results, experiment.runs[run]
    dataset = read(paths.dataset_folder(results, factors["dataset"]) / "record.json", "counts")
    counts = dataset["counts"] if dataset else {}
    row: Row = {f"{split}_examples": counts.get(split) for split in paths.SPLITS}
    if record:
        row |= {name: record.get(name) for name in columns.OF_RECORD}
        losses = (epoch["train_loss"] for epoch in long_tables.history(results, run))
        row["best_train_loss"] = min(filter(math.isfinite, losses), default=math.nan)
    step_records = {"train": record}
    for measure, settings in experiment.measures.items():
        if measure not in MEASURES:
            step_records[measure] = _timed(place, experiment, factors, measure, read)
        elif not MEASURES[measure].pairs:  # pairs have a long table
            name = names.settings_name(measure, settings)
            path = paths.measure_path(results, run, measure, name)
            step_records[measure] = long_tables.read_record(path, "values")
        row |= (step_records.get(measure) or {"values": {}})["values"]
    present = {step: made for step, made in step_records.items() if made}
    versions = (records.other_version(step, made) for step, made in present.items())
    row["other_versions"] = " ".join(filter(None, versions)) or None
    length = records.sequence_length(results, factors["dataset"]) or math.nan
    row["tokens_per_update"] = length * factors["batch_size"]
    row["tokens_per_second"] = length * _number(row, "examples_per_second")
    row["train_seconds"] = _number(row, "epochs_run") * _number(row, "seconds_per_epoch")
    return row


def _timed(
    place: jobs.Place, experiment: PlannedExperiment, factors: Row, timing: str, read: Reader
) -> Row | None:
    """Return the record of a run's times, with the disturbance of its timing jobs.

    The times of a run with several batch sizes are means over its examples.
    """
    size_paths = jobs.time_paths(place, experiment, factors, timing)
    by_size = {size: read(path, "values") for size, path in size_paths.items()}
    if not all(by_size.values()):
        return None
    first = next(iter(by_size.values()))
    values = first["values"] if len(by_size) == 1 else {}
    shares = batch_phases.shares(factors)
    for name, power in {"seconds_per_epoch": 1, "examples_per_second": -1}.items():
        times = {size: record["values"].get(name) for size, record in by_size.items()}
        if len(by_size) > 1 and all(times.values()):
            values[name] = sum(share * times[size] ** power for size, share in shares.items())
            values[name] **= power
    blocks = [block for record in by_size.values() for block in record.get("blocks", ())]
    return {**first, "values": {**values, **timing_tables.disturbance(blocks)}}


def _number(row: Row, column: str) -> float:
    value = row.get(column)
    return math.nan if value is None else value
