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
from batchscope.catalogue import run_factors, sweep_names
from batchscope.catalogue.shared import QUARTILES, REPEAT
from batchscope.catalogue.tables import FIRST, OF_TIMINGS
from batchscope.host import absence
from batchscope.store import job_files, records
from batchscope.tables import long_tables

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
_OF_GPU = ("gpu_percent", "gpu_zero_share", "gpu_bandwidth_percent")


class Timing(NamedTuple):
    """One record of a timing, with the first columns of its rows."""

    first: Row
    sweep: sweep_names.Sweep
    record: Row


def find(results: Path | str, study: Study, experiment: str, measure: str) -> Iterator[Timing]:
    """Yields the records of a timing on every machine, in the plan's order.

    What cannot be timed here has one that is on no disk.
    """
    chosen = study.experiments[experiment]
    for place in job_files.places(study, results):
        for job in job_files.timing_jobs(chosen, place.results, place.recorded):
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
                yield Timing(first, job.sweep, record)


def throughput(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job and batch size: medians and quartiles of its blocks."""
    rows = []
    for timing in find(results, study, experiment, "throughput"):
        for size in timing.record["sizes"]:
            row = {name: size.get(name) for name in ("batch_size", "status", "steps")}
            row["train_examples"] = timing.record.get("train_examples")
            if blocks := size.get("blocks"):
                times = np.percentile([each["seconds_per_step"] for each in blocks], (50, 25, 75))
                for end, seconds in zip(QUARTILES, times, strict=True):
                    row[f"seconds_per_step{end}"] = seconds
            if blocks is not None:  # of what is not here there are none
                row |= _counts(blocks)
            rows.append(timing.first | row)
    return _frame("throughput", rows)


def disturbance(blocks: list[Row]) -> Row:
    """Return how much other processes disturbed the blocks of a timing; empty without blocks."""
    if not blocks:
        return {}
    return {
        "disturbed_share": float(np.mean([block["disturbed"] for block in blocks])),
        "foreign_cores": float(np.median([block["foreign_cores"] for block in blocks])),
    }


def _counts(blocks: list[Row]) -> Row:
    disturbed = sum(block["disturbed"] for block in blocks)
    return {"blocks": len(blocks), "disturbed_blocks": disturbed}


def _with_samples(entry: Row) -> Row:
    """Returns a part of a record with the summary of its samples, where it has nothing else.

    GPU columns are empty where the readings still include the work before.
    """
    sampled = entry.get("utilisation") or {}
    settled = sampled.get("gpu_settled") is not False
    sampled = {
        name: each for name, each in sampled.items() if settled or not name.startswith(_OF_GPU)
    }
    return sampled | {name: each for name, each in entry.items() if each is not None}


def summaries(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job: what all its batch sizes say together."""
    timings = find(results, study, experiment, "throughput")
    rows = [timing.first | _step_time(timing) for timing in timings]
    for timing in find(results, study, experiment, "max_batch_size"):
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


def _step_time(timing: Timing) -> Row:
    record = timing.record
    if record["status"] in absence.WORDS:
        return {"status": record["status"]}
    timed = [size for size in record["sizes"] if size["blocks"]]
    row: Row = {
        "status": record["status"],
        **_counts([block for size in timed for block in size["blocks"]]),
    }
    if len(timed) < 2:
        return row
    blocks = [[block["seconds_per_step"] for block in size["blocks"]] for size in timed]
    return row | step_cost.summary([size["batch_size"] for size in timed], blocks)


def made(results: Path | str, study: Study, experiment: str) -> dict[str, pandas.DataFrame]:
    """Returns the tables of timings of an experiment by name, with a row per timing job."""
    at = (results, study, experiment)
    speeds = throughput(*at)
    return {
        "throughput": speeds,
        "sweeps": summaries(*at),
        "utilisation": utilisation(*at),
        "profiles": profiles(*at),
        "samples": samples(*at),
        "largest": largest(*at),
        "training_times": training_times(*at, throughput=speeds),
    }


def limits(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns the sweeps of the experiments beside one: what bounds a batch's size."""
    found = []
    for name in study.experiments[experiment].trainings.beside:
        made = {
            "sweeps": summaries(results, study, name),
            "throughput": throughput(results, study, name),
        }
        found.append(timing_repeats.over_jobs("sweeps", made.__getitem__))
    rows = pandas.concat(found or [_frame("sweeps", []).drop(columns=REPEAT)], ignore_index=True)
    return run_series.typed(rows, OF_TIMINGS["sweeps"].columns)


def utilisation(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job and batch size: how busy CPU and GPU were."""
    rows = []
    for timing in find(results, study, experiment, "utilisation"):
        for size in timing.record["sizes"]:
            rows.append(_with_samples(size) | timing.first)
    return _frame("utilisation", rows)


def samples(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per sweep and sample through the consecutive trainings of its first job."""
    frames = [_frame("samples", [])]
    for timing in find(results, study, experiment, "utilisation"):
        if timing.first[REPEAT] == 1:
            frame = pandas.DataFrame(
                timing.record["samples"], columns=OF_TIMINGS["samples"].columns
            )
            phase = frame["phase"].astype(object).mask(frame["batch_size"].notna(), "training")
            frames.append(frame.assign(phase=phase, **timing.first))
    return _frame("samples", pandas.concat(frames, ignore_index=True))


def largest(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, configuration and batch size that was tried, in order."""
    rows = [
        entry | timing.first
        for timing in find(results, study, experiment, "max_batch_size")
        if timing.first[REPEAT] == 1
        for entry in timing.record["tries"]
    ]
    return _frame("largest", rows)


def profiles(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job of a profiled configuration: the shares of its time."""
    shares = {f"{name}_share": name for name in ("compute", "input", "host")}
    rows = []
    for timing in find(results, study, experiment, "profile"):
        row = {shares.get(name, name): each for name, each in timing.record.items()}
        (row["batch_size"],) = timing.sweep.batch_sizes
        rows.append(_with_samples(row) | timing.first)
    return _frame("profiles", rows)


def training_times(
    results: Path | str, study: Study, experiment: str, throughput: pandas.DataFrame
) -> pandas.DataFrame:
    epochs = study.experiments[experiment].at_epochs
    return _frame("training_times", timing_repeats.training_times(throughput, epochs))


def _frame(table: str, rows: list[Row] | pandas.DataFrame) -> pandas.DataFrame:
    columns = OF_TIMINGS[table].columns
    found = timing_repeats.derived(table, pandas.DataFrame(rows, columns=[*FIRST, *columns]))
    return run_series.table(found, columns, FIRST)
