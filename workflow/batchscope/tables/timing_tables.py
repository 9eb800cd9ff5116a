"""Tables of a timing experiment from records of timings.

Each row names its machine and the timing job of its configuration; `analysis.timing_repeats` joins
the rows of all jobs. Rows of another machine follow those of this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import run_series, step_cost, timing_repeats
from batchscope.host import requirements
from batchscope.store import jobs, records
from batchscope.study import names, run_factors
from batchscope.study.common_settings import REPEAT
from batchscope.study.tables import FIRST, TIMING_TABLES
from batchscope.tables import long_tables
from batchscope.timing import throughput

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, Any]

# Column of sweeps.csv -> key of the record of a largest batch.
_LARGEST = {
    "max_batch_size": "largest",
    "max_batch_size_bound": "bound",
    "memory_limit_mb": "limit_mb",
}
# Memory does not depend on the factors that drive the steps.
_DRIVEN = {"sweep", *run_factors.TIMING_ONLY_FACTORS}
_MEMORY_COLUMNS = [name for name in (*FIRST, REPEAT) if name not in _DRIVEN]


class TimingRecord(NamedTuple):
    """One record of a timing, with the first columns of its rows."""

    first: Row
    sweep: names.Sweep
    record: Row
    path: Path


def find(
    results: Path | str, study: Study, experiment: str, measure: str
) -> Iterator[TimingRecord]:
    """Yield the records of a timing on every machine, in the plan's order.

    A timing that this machine cannot run has a record that is not on disk.
    """
    for place in jobs.places(study, results):
        for job in jobs.timing_jobs(study.experiments[experiment], place.results, place.recorded):
            if job.measure != measure:
                continue
            record = long_tables.read_record(job.path, "status")
            missing = place.machine == study.machine and requirements.missing(job.sweep.factors)
            if record is None and missing:
                status = {"status": missing.status}
                sizes = [{"batch_size": size, **status} for size in job.sweep.batch_sizes]
                record = {**status, "sizes": sizes, "samples": {}, "tries": []}
                record |= dict.fromkeys(_LARGEST.values())
            if record is not None:
                row = {"machine": place.machine, "sweep": job.sweep.name, REPEAT: job.repeat}
                row |= long_tables.named(job.sweep.factors)
                first = {name: row[name] for name in (*FIRST, REPEAT)}
                yield TimingRecord(first, job.sweep, record, job.path)


def disturbance(blocks: list[Row]) -> Row:
    """Return how much other processes disturbed the blocks of a timing; empty without blocks."""
    if not blocks:
        return {}
    return {
        "disturbed_share": float(np.mean([block["disturbed"] for block in blocks])),
        "foreign_cores": float(np.median([block["foreign_cores"] for block in blocks])),
    }


def summaries(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Return one row per timing job with results over all its batch sizes."""
    steps, search = TIMING_TABLES["sweeps"].measures
    rows = [t.first | _step_time(t) for t in find(results, study, experiment, steps)]
    for timing in find(results, study, experiment, search):
        same = [
            row for row in rows if all(row[key] == timing.first[key] for key in _MEMORY_COLUMNS)
        ]
        if not same:
            same = [{**timing.first, "status": timing.record["status"]}]
            rows += same
        fits = [entry for entry in timing.record["tries"] if entry["outcome"] == records.FITS]
        sizes, peaks = ([entry[name] for entry in fits] for name in ("batch_size", "peak_mb"))
        fixed, per_image = step_cost.memory_per_image(sizes, peaks)
        memory = {"memory_fixed_mb": fixed, "memory_mb_per_image": per_image.mean}
        memory |= {column: timing.record[key] for column, key in _LARGEST.items()}
        for row in same:
            row.update(memory)
    return _frame("sweeps", rows)


def _step_time(timing: TimingRecord) -> Row:
    row: Row = {"status": timing.record["status"]}
    if row["status"] in requirements.LABELS:
        return row
    timed = [size for size in timing.record["sizes"] if size["blocks"]]
    row |= throughput.block_counts([block for size in timed for block in size["blocks"]])
    if len(timed) >= 2:
        blocks = [[block["seconds_per_step"] for block in size["blocks"]] for size in timed]
        row |= step_cost.summary([size["batch_size"] for size in timed], blocks)
    return row


def for_experiment(
    results: Path | str, study: Study, experiment: str
) -> dict[str, pandas.DataFrame]:
    """Return the tables of timings of an experiment by name, with a row per timing job."""
    tables = {
        name: from_records(results, study, experiment, name)
        for name, table in TIMING_TABLES.items()
        if table.rows
    }
    epochs = study.experiments[experiment].at_epochs
    times = timing_repeats.training_times(tables["throughput"], epochs)
    tables["training_times"] = _frame("training_times", times)
    return {**tables, "sweeps": summaries(results, study, experiment)}


def from_records(results: Path | str, study: Study, experiment: str, name: str) -> pandas.DataFrame:
    """Return a table with the rows of all records of its timings."""
    table = TIMING_TABLES[name]
    rows = []
    for measure in table.measures:
        for timing in find(results, study, experiment, measure):
            if REPEAT in table.columns or timing.first[REPEAT] == 1:
                record = {**timing.record, "batch_sizes": timing.sweep.batch_sizes}
                rows += [row | timing.first for row in table.rows(record, timing.path)]
    return _frame(name, rows)


def limits(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Return the sweeps of the timing experiments under `beside`, which limit batch sizes."""
    frames = [_frame("sweeps", []).drop(columns=REPEAT)]
    for name in study.experiments[experiment].keys.beside:
        tables = {
            "sweeps": summaries(results, study, name),
            "throughput": from_records(results, study, name, "throughput"),
        }
        frames.append(timing_repeats.over_jobs("sweeps", tables.__getitem__))
    rows = pandas.concat(frames[1:] or frames, ignore_index=True)
    return run_series.typed(rows, TIMING_TABLES["sweeps"].columns)


def _frame(table: str, rows: list[Row] | pandas.DataFrame) -> pandas.DataFrame:
    columns = TIMING_TABLES[table].columns
    frame = timing_repeats.derived(table, pandas.DataFrame(rows, columns=[*FIRST, *columns]))
    return run_series.table(frame, columns, FIRST)
