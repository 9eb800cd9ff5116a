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

from batchscope.analysis import run_series
from batchscope.catalogue import columns, measure_settings, sweep_names
from batchscope.catalogue.entries import Column
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.tables import TABLES
from batchscope.store import job_files, records
from batchscope.tables import csv_tables, long_tables, own_runs
from batchscope.tables.long_tables import Factors

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

RUNS = "runs.csv"

# Columns of published.csv; a factor is empty where the document's series is not named by it.
_SERIES_FACTORS = tuple(
    name for name in sweep_names.EVERY_FACTOR if name not in ("batch_size", "seed")
)
PUBLISHED_COLUMNS: dict[str, str] = {
    "figure": "Figure that shows the number.",
    "document": "What the document calls its counterpart.",
    "series": "The factors below in words; empty where none names the series.",
    **dict.fromkeys(_SERIES_FACTORS, "Factor that names the series, or empty."),
    "batch_size": "Batch size in the document.",
    "column": "What the number is of.",
    "value": "The number, as published.",
}


def collect(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine and run of an experiment, in the plan's order.

    Whatever is not on disk is NaN (or empty), and a run without a record has the status
    `missing`, or that of what is not here; of another machine only the runs that its results hold
    have a row.
    """
    chosen = study.experiments[experiment]
    if chosen.own.path:
        return own_runs.runs(study, chosen)
    rows = []
    for place in job_files.places(study, results):
        reader = _Reader(place, chosen)
        for run, factors in chosen.trainings.runs.items():
            row = {"run": run, "study": study.name, "experiment": experiment}
            row |= {"machine": place.machine, **long_tables.named(factors)}
            row |= reader.run(run, factors)
            if row["status"] == records.MISSING:
                if place.machine != study.machine:
                    continue
                row["status"] = job_files.unrecorded(factors)
            rows.append(row)
    # A record of another version may have columns that are not documented.
    found = itertools.chain(columns.of_measures(chosen.trainings.measures), *rows)
    frame = pandas.DataFrame(rows, columns=sorted(dict.fromkeys(found), key=columns.position))
    return frame.astype({name: _dtype(name) for name in frame.columns})


def _dtype(column: str) -> str:
    kind = (columns.describe(column) or Column("")).kind
    if kind == "int":
        return "Int64"  # whole numbers that may be missing
    return {"str": "object", "bool": "bool"}.get(kind, "float64")


class _Reader:
    """Reads the records of an experiment on one machine, each shared file once."""

    def __init__(self, place: job_files.Place, experiment: Experiment) -> None:
        self.place, self.results = place, place.results
        self.experiment, self.measures = experiment, experiment.trainings.measures
        self._once = functools.cache(long_tables.read_record)

    def run(self, run: str, factors: Factors) -> dict[str, Any]:
        """Returns the columns that the files of one run give."""
        path = records.run_folder(self.results, run) / "record.json"
        record = long_tables.read_record(path, "status")
        row: dict[str, Any] = {"status": records.MISSING, **self._examples(factors["dataset"])}
        if record is not None:
            row["status"] = long_tables.shown_status(record)
            row |= {name: record.get(name) for name in columns.OF_RECORD}
            losses = (epoch["train_loss"] for epoch in long_tables.history(self.results, run))
            row["best_train_loss"] = min(filter(math.isfinite, losses), default=math.nan)
        for measure in self.measures:
            row |= self._measure(run, factors, measure)
        row["train_seconds"] = _product(row.get("epochs_run"), row.get("seconds_per_epoch"))
        length = records.sequence_length(self.results, factors["dataset"])
        row["tokens_per_update"] = length and length * factors["batch_size"]
        row["tokens_per_second"] = _product(length, row.get("images_per_second"))
        return row

    def _measure(self, run: str, factors: Factors, measure: str) -> dict[str, Any]:
        if measure not in MEASURES:
            path = job_files.time_path(self.place, self.experiment, factors, measure)
            record = self._once(path, "values")
        elif MEASURES[measure].pairs:
            return {}  # a long table of its own
        else:
            name = measure_settings.settings_name(measure, self.measures[measure])
            path = records.measure_path(self.results, run, measure, name)
            record = long_tables.read_record(path, "values")
        return record["values"] if record else {}

    def _examples(self, dataset: str) -> dict[str, Any]:
        path = records.dataset_folder(self.results, dataset) / "record.json"
        counts = (self._once(path, "counts") or {"counts": {}})["counts"]
        return {f"{split}_examples": counts.get(split) for split in records.SPLITS}


def _product(count: float | None, each: float | None) -> float:
    return math.nan if count is None or each is None else count * each


def published(_: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per number of a document that stands beside a figure of an experiment."""
    chosen = study.experiments[experiment]
    rows = []
    for figure, found in chosen.numbers.items():
        document = " ".join(chosen.published[figure]["figure"].split())
        for series in found:
            named = long_tables.named(series.factors)
            factors = {name: named.get(name) for name in _SERIES_FACTORS}
            known = {name: value for name, value in factors.items() if value is not None}
            first = {"figure": figure, "document": document, "series": run_series.describe(known)}
            for column, numbers in series.columns.items():
                for size, value in zip(series.batch_sizes, numbers, strict=True):
                    last = {"batch_size": size, "column": column, "value": value}
                    rows.append({**first, **factors, **last})
    # Values as they are: a column with gaps would turn whole numbers into fractions.
    return pandas.DataFrame(rows, columns=list(PUBLISHED_COLUMNS), dtype=object)


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
