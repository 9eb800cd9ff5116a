"""Records on disk -> tidy tables: one row per run; `long_tables` has those with more.

Figures, statistics and report read these tables and never the records behind them.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.catalogue import columns, factor_words, measure_settings, sweep_names
from batchscope.catalogue.entries import Column
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.tables import TABLES
from batchscope.store import job_files, records, states
from batchscope.tables import csv_tables, long_tables, own_runs, published_beside

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

RUNS = "runs.csv"
Factors = dict[str, Any]
Reader = Callable[..., dict[str, Any] | None]

# What may name a document's series, in published.csv.
_SERIES_FACTORS = [name for name in sweep_names.EVERY_FACTOR if name not in ("batch_size", "seed")]
PUBLISHED_COLUMNS = [
    *("figure", "document", "series"),
    *(*_SERIES_FACTORS, "batch_size", "column", "value"),
    *published_beside.COLUMNS,
]


def collect(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine and run of an experiment, in the plan's order.

    A run without a record has the status `missing`, or that of what is not here; of another machine
    only the runs that its results hold have a row.
    """
    chosen = study.experiments[experiment]
    if chosen.own.path:
        return own_runs.runs(study, chosen)
    rows = []
    for place in job_files.places(study, results):
        read = functools.cache(long_tables.read_record)  # what runs share
        for run, factors in chosen.trainings.runs.items():
            row = {"run": run, "study": study.name, "experiment": experiment}
            row |= {"machine": place.machine, **long_tables.named(factors)}
            row |= _values(place, chosen, run, factors, read)
            if row["status"] == records.MISSING:
                if place.machine != study.machine:
                    continue
                row["status"] = states.unrecorded(factors)
            rows.append(row)
    # A record of another version may have columns that are not documented.
    found = itertools.chain(columns.of_measures(chosen.trainings.measures), *rows)
    frame = pandas.DataFrame(rows, columns=sorted(dict.fromkeys(found), key=columns.position))
    return frame.astype({name: _dtype(name) for name in frame.columns})


def _dtype(column: str) -> str:
    kind = (columns.describe(column) or Column("")).kind
    # Whole numbers may be missing.
    return {"int": "Int64", "str": "object", "bool": "bool"}.get(kind, "float64")


def _values(
    place: job_files.Place, experiment: Experiment, run: str, factors: Factors, read: Reader
) -> dict[str, Any]:
    """Returns the columns that the files of one run give."""
    results = place.results
    record = long_tables.read_record(records.run_folder(results, run) / "record.json", "status")
    dataset = read(records.dataset_folder(results, factors["dataset"]) / "record.json", "counts")
    counts = dataset["counts"] if dataset else {}
    row: dict[str, Any] = {f"{split}_examples": counts.get(split) for split in records.SPLITS}
    row["status"] = long_tables.shown_status(record) if record else records.MISSING
    if record:
        row |= {name: record.get(name) for name in columns.OF_RECORD}
        losses = (epoch["train_loss"] for epoch in long_tables.history(results, run))
        row["best_train_loss"] = min(filter(math.isfinite, losses), default=math.nan)
    made = {"train": record}
    for measure, settings in experiment.trainings.measures.items():
        if measure not in MEASURES:
            found = read(job_files.time_path(place, experiment, factors, measure), "values")
        elif MEASURES[measure].pairs:
            continue  # a long table of its own
        else:
            name = measure_settings.settings_name(measure, settings)
            path = records.measure_path(results, run, measure, name)
            found = long_tables.read_record(path, "values")
        row |= found["values"] if found else {}
        made[measure] = found
    others = (records.other_version(step, found) for step, found in made.items() if found)
    row["other_versions"] = " ".join(filter(None, others)) or None
    length = records.sequence_length(results, factors["dataset"]) or math.nan
    row["tokens_per_update"] = length * factors["batch_size"]
    row["tokens_per_second"] = length * _known(row, "images_per_second")
    row["train_seconds"] = _known(row, "epochs_run") * _known(row, "seconds_per_epoch")
    return row


def _known(row: dict[str, Any], column: str) -> float:
    value = row.get(column)
    return math.nan if value is None else value


def published(
    _: Path | str, study: Study, experiment: str, **tables: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns one row per number of a document, with ours of the tables of the experiment."""
    chosen = study.experiments[experiment]
    rows = []
    for figure, found in chosen.numbers.items():
        document = " ".join(chosen.published[figure]["figure"].split())
        for series in found:
            named = long_tables.named(series.factors)
            known = {name: named[name] for name in _SERIES_FACTORS if named.get(name) is not None}
            first = {"figure": figure, "document": document, "series": factor_words.describe(known)}
            for column, numbers in series.columns.items():
                for size, value in zip(series.batch_sizes, numbers, strict=True):
                    row = {**first, **known, "batch_size": size, "column": column, "value": value}
                    rows.append({**row, **published_beside.of(row, known, tables)})
    # Values as they are: a column with gaps would turn whole numbers into fractions.
    return pandas.DataFrame(rows, columns=PUBLISHED_COLUMNS, dtype=object)


def maker(name: str) -> Callable[..., pandas.DataFrame]:
    """Returns the function that makes a table, as its entry names it."""
    module, _, function = TABLES[name].rows.partition(".")
    return getattr(importlib.import_module(f"batchscope.tables.{module}"), function)


def write(results: Path | str, study: Study, experiment: str, folder: Path | str) -> None:
    """Writes all tables of an experiment, each atomically; some are made together with others."""
    made: dict[str, pandas.DataFrame] = {}
    for name, entry in TABLES.items():
        if name not in made:
            of_others = {table: made[table] for table in entry.reads}
            found = maker(name)(results, study, experiment, **of_others)
            made |= found if isinstance(found, dict) else {name: found}
        csv_tables.write(made[name], Path(folder) / f"{name}.csv")
