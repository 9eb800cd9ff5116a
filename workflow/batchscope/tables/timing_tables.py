"""Records of timings on disk -> tidy tables of a timing experiment.

Each row names the machine that it was measured on, and the timing job of its configuration:
batchscope.analysis.timing_repeats makes one row of all jobs. What another machine's results hold
of the same sweep stands below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import run_series, step_cost, timing_repeats
from batchscope.host import absence
from batchscope.store import job_table, records
from batchscope.study import names, run_factors
from batchscope.study.common_settings import REPEAT
from batchscope.study.tables import FIRST, OF_TIMINGS
from batchscope.tables import long_tables
from batchscope.timing import throughput

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, Any]

# Columns of sweeps.csv -> what they are called in the record of a largest batch.
_LARGEST = {
    "max_batch_size": "largest",
    "max_batch_size_bound": "bound",
    "memory_limit_mb": "limit_mb",
}
_DRIVEN = {"sweep", *run_factors.TIMING_ONLY_FACTORS}  # what drives the steps
_SUBJECT = [name for name in (*FIRST, REPEAT) if name not in _DRIVEN]


class TimingRecord(NamedTuple):
    """One record of a timing, with the first columns of its rows."""

    first: Row
    sweep: names.Sweep
    record: Row
    path: Path


def find(
    results: Path | str, study: Study, experiment: str, measure: str
) -> Iterator[TimingRecord]:
    """Yields the records of a timing on every machine, in the plan's order.

    What cannot be timed here has one that is on no disk.
    """
    chosen = study.experiments[experiment]
    for place in job_table.places(study, results):
        for job in job_table.timing_jobs(chosen, place.results, place.recorded):
            if job.measure != measure:
                continue
            record = long_tables.read_record(job.path, "status")
            here = place.machine == study.machine
            if record is None and here and (lacking := absence.of(job.sweep.factors)):
                status = {"status": lacking.status}
                sizes = [{"batch_size": size, **status} for size in job.sweep.batch_sizes]
                record = {**status, "sizes": sizes, "samples": {}, "tries": []}
                record |= dict.fromkeys(_LARGEST.values())
            if record is not None:
                first = {"machine": place.machine, "sweep": job.sweep.name, REPEAT: job.repeat}
                first |= long_tables.named(job.sweep.factors)
                first = {name: first[name] for name in (*FIRST, REPEAT)}
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
    """Returns one row per timing job: what all its batch sizes say together."""
    steps, search = OF_TIMINGS["sweeps"].measures
    rows = [t.first | _step_time(t) for t in find(results, study, experiment, steps)]
    for timing in find(results, study, experiment, search):
        # Memory does not depend on what drives the steps: it stands with every loop's times.
        same = [row for row in rows if all(row[name] == timing.first[name] for name in _SUBJECT)]
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
    record = timing.record
    if record["status"] in absence.WORDS:
        return {"status": record["status"]}
    timed = [size for size in record["sizes"] if size["blocks"]]
    row: Row = {
        "status": record["status"],
        **throughput.block_counts([block for size in timed for block in size["blocks"]]),
    }
    if len(timed) < 2:
        return row
    blocks = [[block["seconds_per_step"] for block in size["blocks"]] for size in timed]
    return row | step_cost.summary([size["batch_size"] for size in timed], blocks)


def made(results: Path | str, study: Study, experiment: str) -> dict[str, pandas.DataFrame]:
    """Return the tables of timings of an experiment by name, with a row per timing job."""
    tables = {
        name: of_records(results, study, experiment, name)
        for name, table in OF_TIMINGS.items()
        if table.rows
    }
    epochs = study.experiments[experiment].at_epochs
    times = timing_repeats.training_times(tables["throughput"], epochs)
    tables["training_times"] = _frame("training_times", times)
    return {**tables, "sweeps": summaries(results, study, experiment)}


def of_records(results: Path | str, study: Study, experiment: str, name: str) -> pandas.DataFrame:
    """Return a table with the rows of all records of the timing that fills it."""
    table = OF_TIMINGS[name]
    rows = []
    for measure in table.measures:
        for timing in find(results, study, experiment, measure):
            if REPEAT in table.columns or timing.first[REPEAT] == 1:
                record = {**timing.record, "batch_sizes": timing.sweep.batch_sizes}
                rows += [row | timing.first for row in table.rows(record, timing.path)]
    return _frame(name, rows)


def limits(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns the sweeps of the experiments beside one: what bounds a batch's size."""
    found = []
    for name in study.experiments[experiment].keys.beside:
        made = {
            "sweeps": summaries(results, study, name),
            "throughput": of_records(results, study, name, "throughput"),
        }
        found.append(timing_repeats.over_jobs("sweeps", made.__getitem__))
    rows = pandas.concat(found or [_frame("sweeps", []).drop(columns=REPEAT)], ignore_index=True)
    return run_series.typed(rows, OF_TIMINGS["sweeps"].columns)


def _frame(table: str, rows: list[Row] | pandas.DataFrame) -> pandas.DataFrame:
    columns = OF_TIMINGS[table].columns
    found = timing_repeats.derived(table, pandas.DataFrame(rows, columns=[*FIRST, *columns]))
    return run_series.table(found, columns, FIRST)
