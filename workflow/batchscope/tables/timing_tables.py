"""Timing tables: records of timings -> tables with rows for each timing job.

Each row names its machine and the timing job of its configuration. `analysis.timing_rows` joins
the rows of all jobs. The rows of the study's own machine come first.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas

from batchscope.analysis import run_series, step_cost, timing_rows
from batchscope.host import requirements
from batchscope.store import jobs, records
from batchscope.study import names, run_factors
from batchscope.study.plan import Study
from batchscope.study.specifications import REPEAT_COLUMN
from batchscope.study.table_entries import TIMING_FIRST_COLUMNS, TIMING_TABLES
from batchscope.tables import run_records
from batchscope.tables.run_records import Row
from batchscope.timing import throughput

# Column of sweeps.csv -> key of the record of a largest batch.
_LARGEST = {
    "max_batch_size": "largest",
    "max_batch_size_bound": "bound",
    "memory_limit_mb": "limit_mb",
}
# Memory does not depend on these factors, which say how steps are driven.
_STEP_FACTORS = {"sweep", *run_factors.TIMING_ONLY_FACTORS}
_MEMORY_COLUMNS = [
    name for name in (*TIMING_FIRST_COLUMNS, REPEAT_COLUMN) if name not in _STEP_FACTORS
]


class TimingRecord(NamedTuple):
    """One record of a timing, with the first columns of its rows."""

    first: Row
    sweep: names.Sweep
    record: Row
    path: Path


def timing_records(
    results: Path | str, study: Study, experiment: str, measure: str
) -> Iterator[TimingRecord]:
    """Yield the records of a timing on every machine, in the plan's order.

    A timing with a requirement that this machine lacks gets an empty record with its status.
    """
    for place in jobs.machine_results(study, results):
        for job in jobs.timing_jobs(
            study.experiments[experiment], place.results, place.recorded_name
        ):
            if job.measure != measure:
                continue
            record = run_records.read_record(job.path, "status")
            missing = place.machine == study.machine and requirements.missing(job.sweep.factors)
            if record is None and missing:
                status = {"status": missing.status}
                sizes = [{"batch_size": size, **status} for size in job.sweep.batch_sizes]
                record = {**status, "sizes": sizes, "samples": {}, "tries": []}
                record |= dict.fromkeys(_LARGEST.values())
            if record is not None:
                row = {"machine": place.machine, "sweep": job.sweep.name, REPEAT_COLUMN: job.repeat}
                row |= run_records.split_tokens(job.sweep.factors)
                first = {name: row[name] for name in (*TIMING_FIRST_COLUMNS, REPEAT_COLUMN)}
                yield TimingRecord(first, job.sweep, record, job.path)


def disturbance(blocks: list[Row]) -> Row:
    """Return how much other processes disturbed the blocks of a timing; empty without blocks."""
    if not blocks:
        return {}
    return {
        "disturbed_share": float(np.mean([block["disturbed"] for block in blocks])),
        "foreign_cores": float(np.median([block["foreign_cores"] for block in blocks])),
    }


def sweep_summaries(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Return sweeps.csv: one row per timing job, with results over all its batch sizes."""
    steps, search = TIMING_TABLES["sweeps"].measures
    rows = [t.first | _step_time(t) for t in timing_records(results, study, experiment, steps)]
    for timing in timing_records(results, study, experiment, search):
        memory_rows = [
            row for row in rows if all(row[key] == timing.first[key] for key in _MEMORY_COLUMNS)
        ]
        if not memory_rows:
            memory_rows = [{**timing.first, "status": timing.record["status"]}]
            rows += memory_rows
        tries = [entry for entry in timing.record["tries"] if entry["outcome"] == records.FITS]
        sizes, peaks = ([entry[name] for entry in tries] for name in ("batch_size", "peak_mb"))
        fixed, per_image = step_cost.memory_line(sizes, peaks)
        memory = {"memory_fixed_mb": fixed, "memory_mb_per_image": per_image.mean}
        memory |= {column: timing.record[key] for column, key in _LARGEST.items()}
        for row in memory_rows:
            row.update(memory)
    return _frame("sweeps", rows)


def _step_time(timing: TimingRecord) -> Row:
    row: Row = {"status": timing.record["status"]}
    if row["status"] in requirements.LABELS:
        return row
    timed_sizes = [size for size in timing.record["sizes"] if size["blocks"]]
    row |= throughput.block_counts([block for size in timed_sizes for block in size["blocks"]])
    if len(timed_sizes) >= 2:
        blocks = [[block["seconds_per_step"] for block in size["blocks"]] for size in timed_sizes]
        row |= step_cost.summary_columns([size["batch_size"] for size in timed_sizes], blocks)
    return row


def for_experiment(
    results: Path | str, study: Study, experiment: str
) -> dict[str, pandas.DataFrame]:
    """Return the tables of timings of an experiment by name, with a row per timing job."""
    tables = {
        name: job_rows(results, study, experiment, name)
        for name, table in TIMING_TABLES.items()
        if table.rows
    }
    epochs = study.experiments[experiment].at_epochs
    times = timing_rows.training_times(tables["throughput"], epochs)
    tables["training_times"] = _frame("training_times", times)
    return {**tables, "sweeps": sweep_summaries(results, study, experiment)}


def job_rows(results: Path | str, study: Study, experiment: str, name: str) -> pandas.DataFrame:
    """Return one table, with the rows of all records of its timings."""
    table = TIMING_TABLES[name]
    rows = []
    for measure in table.measures:
        for timing in timing_records(results, study, experiment, measure):
            if REPEAT_COLUMN in table.columns or timing.first[REPEAT_COLUMN] == 1:
                record = {**timing.record, "batch_sizes": timing.sweep.batch_sizes}
                rows += [row | timing.first for row in table.rows(record, timing.path)]
    return _frame(name, rows)


def limiting_sweeps(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Return the sweeps of the timing experiments that `beside` names, which limit batch sizes."""
    frames = [_frame("sweeps", []).drop(columns=REPEAT_COLUMN)]
    for name in study.experiments[experiment].keys.beside:
        tables = {
            "sweeps": sweep_summaries(results, study, name),
            "throughput": job_rows(results, study, name, "throughput"),
        }
        frames.append(timing_rows.table_over_jobs("sweeps", tables.__getitem__))
    rows = pandas.concat(frames[1:] or frames, ignore_index=True)
    return run_series.with_integer_columns(rows, TIMING_TABLES["sweeps"].columns)


def _frame(table: str, rows: list[Row] | pandas.DataFrame) -> pandas.DataFrame:
    columns = TIMING_TABLES[table].columns
    frame = pandas.DataFrame(rows, columns=[*TIMING_FIRST_COLUMNS, *columns])
    frame = timing_rows.with_derived_columns(table, frame)
    return run_series.table(frame, columns, TIMING_FIRST_COLUMNS)
