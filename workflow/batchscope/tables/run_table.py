"""Records on disk -> runs.csv, one row per run; `long_tables` has the tables with more.

Figures, statistics and report read tables and never the records behind them.
"""

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

Factors = dict[str, Any]
Reader = Callable[..., dict[str, Any] | None]
_DTYPES = {"int": "Int64", "str": "object", "bool": "bool"}  # whole numbers may be missing


def collect(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Return one row per machine and run of an experiment (see `long_tables.recorded`)."""
    chosen, rows = study.experiments[experiment], []
    read = functools.cache(long_tables.read_record)  # runs share data sets and timings
    for place, run, record, status in long_tables.recorded(results, study, chosen.runs):
        factors = chosen.runs[run]
        row = {"run": run, "study": study.name, "experiment": experiment}
        row |= {"machine": place.machine, **long_tables.named(factors), "status": status}
        rows.append(row | _values(place, chosen, run, record, read))
    # A record of another version may have columns that are not documented.
    learned = long_tables.learned(results, study, chosen)
    found = itertools.chain(columns.of_measures(chosen.measures, learned), *rows)
    frame = pandas.DataFrame(rows, columns=sorted(dict.fromkeys(found), key=columns.position))
    kinds = {name: (columns.describe(name) or Column("")).kind for name in frame}
    return frame.astype({name: _DTYPES.get(kind, "float64") for name, kind in kinds.items()})


def _values(
    place: jobs.Place,
    experiment: PlannedExperiment,
    run: str,
    record: dict[str, Any] | None,
    read: Reader,
) -> dict[str, Any]:
    """Return the columns that the files of one run give."""
    results, factors = place.results, experiment.runs[run]
    dataset = read(paths.dataset_folder(results, factors["dataset"]) / "record.json", "counts")
    counts = dataset["counts"] if dataset else {}
    row: dict[str, Any] = {f"{split}_examples": counts.get(split) for split in paths.SPLITS}
    if record:
        row |= {name: record.get(name) for name in columns.OF_RECORD}
        losses = (epoch["train_loss"] for epoch in long_tables.history(results, run))
        row["best_train_loss"] = min(filter(math.isfinite, losses), default=math.nan)
    made = {"train": record}
    for measure, settings in experiment.measures.items():
        if measure not in MEASURES:
            found = _timed(place, experiment, factors, measure, read)
        elif MEASURES[measure].pairs:
            continue  # a long table of its own
        else:
            name = names.settings_name(measure, settings)
            path = paths.measure_path(results, run, measure, name)
            found = long_tables.read_record(path, "values")
        row |= found["values"] if found else {}
        made[measure] = found
    others = (records.other_version(step, found) for step, found in made.items() if found)
    row["other_versions"] = " ".join(filter(None, others)) or None
    length = records.sequence_length(results, factors["dataset"]) or math.nan
    row["tokens_per_update"] = length * factors["batch_size"]
    row["tokens_per_second"] = length * _known(row, "examples_per_second")
    row["train_seconds"] = _known(row, "epochs_run") * _known(row, "seconds_per_epoch")
    return row


def _timed(
    place: jobs.Place,
    experiment: PlannedExperiment,
    factors: Factors,
    timing: str,
    read: Reader,
) -> dict[str, Any] | None:
    """Return the record of a run's times, with the disturbance of its timing jobs.

    The times of a run with several batch sizes are means over its examples.
    """
    by_size = {
        size: read(path, "values")
        for size, path in jobs.time_paths(place, experiment, factors, timing).items()
    }
    first, *others = by_size.values()
    if not all(by_size.values()):
        return None
    values, shares = {} if others else first["values"], batch_phases.shares(factors)
    for name, power in (("seconds_per_epoch", 1), ("examples_per_second", -1)) if others else ():
        known = {size: record["values"].get(name) for size, record in by_size.items()}
        if all(known.values()):
            mean = sum(share * known[size] ** power for size, share in shares.items())
            values[name] = mean**power
    blocks = [block for record in by_size.values() for block in record.get("blocks", ())]
    return {**first, "values": {**values, **timing_tables.disturbance(blocks)}}


def _known(row: dict[str, Any], column: str) -> float:
    value = row.get(column)
    return math.nan if value is None else value
