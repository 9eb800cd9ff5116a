"""Records of timings on disk -> tidy tables of a timing experiment.

Each row names the machine that it was measured on: what another machine's results hold of the
same sweep stands below it, and never in its place. Headers alone where nothing is timed. A table
by job has a row for every single timing job, another one row over all those of a configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from batchscope.analysis import (
    intervals,
    memory_line,
    run_series,
    step_cost,
    step_stairs,
    step_summary,
    timing_repeats,
)
from batchscope.catalogue import run_factors, sweep_names
from batchscope.catalogue.tables import REPEAT
from batchscope.catalogue.timing_columns import COLUMNS, DISTURBED_CORES, FIRST, QUARTILES
from batchscope.host import absence
from batchscope.store import job_files, records
from batchscope.tables import long_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, Any]
Peaks = dict[tuple[Any, ...], list[float]]

# Columns of COLUMNS["sweeps.csv"] -> what they are called in the record of a largest batch.
_LARGEST = {
    "max_batch_size": "largest",
    "max_batch_size_bound": "bound",
    "memory_limit_mb": "limit_mb",
}
# What memory per example is read from, best first: what a process holds, its allocators keep.
_PEAKS = ("tensorflow_peak_mb", "gpu_memory_peak_mb", "memory_peak_mb")
_MEMORY = (*(f"memory_mb_per_image{end}" for end in intervals.ENDS), "memory_of")


@dataclass(frozen=True)
class Timing:
    """One record of a timing; `repeat` says which of the jobs of its configuration it is of."""

    machine: str
    sweep: sweep_names.Sweep
    record: dict[str, Any]
    repeat: int

    @property
    def first(self) -> Row:
        """The first columns of its rows."""
        found = {"machine": self.machine, "sweep": self.sweep.name, REPEAT: self.repeat}
        found |= long_tables.named(self.sweep.factors)
        return {name: found[name] for name in (*FIRST, REPEAT)}


def find(results: Path | str, study: Study, experiment: str, measure: str) -> Iterator[Timing]:
    """Yields the records of a timing on every machine, in the plan's order.

    A sweep that needs what is not here, and was not timed before, has a record that says so and
    nothing else; it is on no disk.
    """
    chosen = study.experiments[experiment]
    for place in job_files.places(study, results):
        here = place.machine == study.machine
        jobs = job_files.timing_jobs(chosen, place.results, place.recorded)
        for job in [each for each in jobs if each.measure == measure]:
            record = long_tables.read_record(job.path, "status")
            if record is None and here and (lacking := absence.of(job.sweep.factors)):
                # In place of the record of a sweep that cannot be timed here.
                size = {"status": lacking.status, "blocks": [], "utilisation": None}
                sizes = [{"batch_size": each, **size} for each in job.sweep.batch_sizes]
                record = {"status": lacking.status, "sizes": sizes, "samples": {}, "tries": []}
                record |= dict.fromkeys(_LARGEST.values())
            if record is not None:
                yield Timing(place.machine, job.sweep, record, job.repeat)


def over_jobs(
    results: Path | str, study: Study, experiment: str, **by_job: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns the rows of a table by job, each over all timing jobs of its configuration."""
    [(table, rows)] = by_job.items()
    columns = COLUMNS[f"{table}.csv"]
    # A summary of all batch sizes has none.
    keys = [name for name in (*FIRST, "batch_size", "at_epoch") if name in rows]
    counts = [name for name, column in columns.items() if column.adds_up]
    found = timing_repeats.combined(rows.drop(columns=REPEAT), keys, counts)
    if "iterations_per_second" in found:
        found = found.assign(**_rates(found))
    return run_series.typed(found.reindex(columns=rows.columns.drop(REPEAT)), columns)


def _rates(rows: pandas.DataFrame) -> Row:
    """Returns the rates that follow from the times of steps; quartiles change places."""
    rates: Row = {}
    sizes = rows["batch_size"].astype(float)
    for quartile, inverse in zip(QUARTILES, ("", "_q3", "_q1"), strict=True):
        seconds = rows[f"seconds_per_step{inverse}"].astype(float)
        rates[f"iterations_per_second{quartile}"] = 1 / seconds
        rates[f"images_per_second{quartile}"] = sizes / seconds
    length = rows["tokens_per_update"].astype(float) / sizes
    return rates | {"tokens_per_second": length * rates["images_per_second"]}


def throughput(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job and batch size: medians and quartiles of its blocks."""
    rows = [
        {**timing.first, **_times(results, timing, size)}
        for timing in find(results, study, experiment, "throughput")
        for size in timing.record["sizes"]
    ]
    found = _frame("throughput_by_job", rows)
    return found.assign(**_rates(found))


def _times(results: Path | str, timing: Timing, size: dict[str, Any]) -> Row:
    """Returns a row of a batch size but for its rates."""
    if size["status"] in absence.WORDS:
        return {name: size[name] for name in ("batch_size", "status")}
    blocks, examples = size["blocks"], timing.record.get("train_examples")
    row: Row = {
        **{name: size[name] for name in ("batch_size", "status", "steps")},
        "blocks": len(blocks),
        "disturbed_blocks": sum(block["disturbed"] for block in blocks),
        "train_examples": examples,
    }
    if not blocks:
        return row
    seconds = np.array([block["seconds_per_step"] for block in blocks])
    for quartile, percent in zip(QUARTILES, (50, 25, 75), strict=True):
        row[f"seconds_per_step{quartile}"] = np.percentile(seconds, percent)
    if length := records.sequence_length(results, timing.sweep.factors["dataset"]):
        row["tokens_per_update"] = length * size["batch_size"]
    row["foreign_cores"] = float(np.median([block["foreign_cores"] for block in blocks]))
    row["seconds_per_epoch"] = examples * row["seconds_per_step"] / size["batch_size"]
    return _used(size, COLUMNS["throughput.csv"]) | row


def _used(entry: dict[str, Any], columns: Iterable[str]) -> Row:
    """Returns what the samples of a part of a record say, for a table's columns.

    A peak that the record has from elsewhere is not one of samples.
    """
    sampled = _sampled(entry)
    return {name: sampled[name] for name in columns if name in sampled and entry.get(name) is None}


def _sampled(entry: dict[str, Any]) -> Row:
    """Returns the summary of the samples of a part of a record; older records may have none.

    GPU columns are empty where the readings still include the work before.
    """
    sampled = entry.get("utilisation") or {}
    if sampled.get("gpu_settled") is not False:
        return sampled
    of_gpu = ("gpu_percent", "gpu_zero_share", "gpu_bandwidth_percent", "gpu_power_watts")
    return {name: value for name, value in sampled.items() if not name.startswith(of_gpu)}


def summaries(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job: what all its batch sizes say together."""
    timings = list(find(results, study, experiment, "throughput"))
    peaks = _peaks(timings)
    rows = [timing.first | _step_time(timing, peaks) for timing in timings]
    _add_steps(rows, timings)
    for timing in find(results, study, experiment, "max_batch_size"):
        # Memory does not depend on what drives the steps: it stands with every loop's times.
        same = [row for row in rows if _subject(row) == _subject(timing.first)]
        if not same:
            same = [{**timing.first, "status": timing.record["status"]}]
            rows += same
        for row in same:
            row.update(_largest(timing.record))
    return _frame("sweeps_by_job", rows)


def summaries_over_jobs(
    results: Path | str,
    study: Study,
    experiment: str,
    sweeps_by_job: pandas.DataFrame,
    throughput_by_job: pandas.DataFrame,
) -> pandas.DataFrame:
    """Returns one row per configuration; what is fitted is fitted to all of its jobs at once."""
    found = over_jobs(results, study, experiment, sweeps_by_job=sweeps_by_job)
    medians = dict(list(throughput_by_job.groupby(["machine", "sweep"])))
    rows = found.to_dict("records")
    for row in rows:
        if (which := (row["machine"], row["sweep"])) in medians:
            row.update(step_summary.over_jobs(row, medians[which]))
    return run_series.typed(pandas.DataFrame(rows, columns=found.columns), COLUMNS["sweeps.csv"])


def limits(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns the rows of `summaries` of the experiments beside one: what bounds a batch's size."""
    beside = study.experiments[experiment].trainings.beside
    found = [
        summaries_over_jobs(*at, summaries(*at), throughput(*at))
        for at in ((results, study, name) for name in beside)
    ]
    return pandas.concat(found, ignore_index=True) if found else _frame("sweeps", [])


def _subject(row: Row) -> list[Any]:
    others = {"sweep", *run_factors.TIMING_ONLY_FACTORS}
    return [row[name] for name in (*FIRST, REPEAT) if name not in others]


def _step_time(timing: Timing, peaks: Peaks) -> Row:
    record = timing.record
    if record["status"] in absence.WORDS:
        return {"status": record["status"]}
    timed = _timed(timing)
    row: Row = {
        "status": record["status"],
        "used_threads": record["threads"],
        "train_examples": record["train_examples"],
        "sizes": len(timed),
        "blocks": sum(len(size["blocks"]) for size in timed),
        "disturbed_blocks": sum(block["disturbed"] for size in timed for block in size["blocks"]),
        **_ceiling(timing, peaks),
    }
    if len(timed) > 1:
        row |= step_summary.of(row | timing.sweep.factors, *_seconds_per_step(timed))
        row |= _recovered_delay(timed)
    return row


def _timed(timing: Timing) -> list[dict[str, Any]]:
    """Returns what was recorded of the batch sizes that were timed."""
    return [size for size in timing.record["sizes"] if size["blocks"]]


def _seconds_per_step(
    timed: list[dict[str, Any]], name: str = "blocks"
) -> tuple[list[int], list[list[float]]]:
    """Returns the batch sizes, and for each the seconds per step of its blocks."""
    blocks = [[block["seconds_per_step"] for block in size[name]] for size in timed]
    return [size["batch_size"] for size in timed], blocks


def _add_steps(rows: list[Row], timings: list[Timing]) -> None:
    """Adds to the rows of an experiment's timings whether each rises in steps."""
    several = [(row, _timed(timing)) for row, timing in zip(rows, timings, strict=True)]
    several = [(row, timed) for row, timed in several if len(timed) >= 2]
    found = step_stairs.compare(_seconds_per_step(timed) for _, timed in several)
    for (row, _), step in zip(several, found, strict=True):
        row["step_winner"], row["step_verdict"] = step.winner, step_stairs.verdict(step)
        if step.best:
            row["step_q"], row["step_p"], row["step_p_holm"] = step.best.q, step.best.p, step.p_holm


def _recovered_delay(timed: list[dict[str, Any]]) -> Row:
    """Returns what came back of a delay, where sizes took turns with themselves without it."""
    both = [size for size in timed if size.get("blocks_without_delay")]
    if len(both) < 2:
        return {}
    sizes, delayed = _seconds_per_step(both)
    _, without = _seconds_per_step(both, "blocks_without_delay")
    recovered = step_cost.delay_recovered(sizes, without, delayed)
    return {
        "fixed_seconds_without_delay": step_cost.fixed_cost(sizes, without).fixed.value,
        **intervals.columns("recovered_delay_seconds", recovered),
        **intervals.columns("paired_delay_seconds", step_cost.delay_of_pairs(without, delayed)),
    }


def _peaks(timings: Iterable[Timing]) -> Peaks:
    """Returns the measured peaks of matrix products, by what they are of.

    A job measures its own within a second or so: what is slower than another's was disturbed.
    """
    peaks: Peaks = {}
    for timing in timings:
        if found := (timing.record.get("matmul") or {}).get("flops_per_second"):
            peaks.setdefault(_peak_of(timing), []).append(found)
    return peaks


def _peak_of(timing: Timing) -> tuple[Any, ...]:
    """Returns what a peak is of: the machine, the device, its threads and the type."""
    measured = timing.record.get("matmul") or {}
    fields = ("device", "threads", "dtype", "tensor_float_32")
    factors = timing.sweep.factors
    values = tuple(measured.get(name) for name in fields)
    return (timing.machine, factors["device"], factors["threads"], *values)


def _ceiling(timing: Timing, peaks: Peaks) -> Row:
    """Returns peak, operations and their ratio: the examples per second that the peak allows.

    A throughput over it is the model FLOPs utilisation of Chowdhery et al. 2022 (arXiv
    2204.02311, appendix B), against a measured peak.
    """
    record = timing.record
    # TensorFlow's alone, and of float32: a product of half the width has another peak.
    comparable = record["matmul"] and timing.sweep.factors["precision"] == "float32"
    measured = peaks.get(_peak_of(timing), []) if comparable else []
    peak = max(measured, default=None)
    counted = record["flops"] or {}
    left_out = ", ".join(counted.get("not_counted", ()))  # older records count all, or nothing
    flops = None if left_out else counted.get("training_products")  # of one gradient
    flops = flops and flops * run_factors.gradients_per_update(timing.sweep.factors)
    row = {
        "matmul_flops_per_second": peak,
        "matmul_flops_per_second_lowest": min(measured, default=None),
        "flops_per_image": flops,
        "flops_not_counted": left_out or None,
    }
    return row | {"ceiling_images_per_second": step_summary.ceiling(row)}


def _largest(record: dict[str, Any]) -> Row:
    fits = [entry for entry in record["tries"] if entry["outcome"] == records.FITS]
    sizes, peaks = ([entry[name] for entry in fits] for name in ("batch_size", "peak_mb"))
    memory = memory_line.memory_per_image(sizes, peaks)
    return {
        **{column: record[key] for column, key in _LARGEST.items()},
        "memory_fixed_mb": memory.fixed_mb,
        "memory_mb_per_image": memory.per_image.value,
    }


def utilisation(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job and batch size: how busy CPU and GPU were."""
    rows = []
    for timing in find(results, study, experiment, "utilisation"):
        for size in timing.record["sizes"]:
            # The kernel's own peak of memory, not that of the samples.
            values = {**_sampled(size), **size}
            others = values.get("foreign_cores")
            if others is not None:  # older records have no flag
                values.setdefault("disturbed", others > DISTURBED_CORES)
            rows.append(
                timing.first | {name: values.get(name) for name in COLUMNS["utilisation.csv"]}
            )
    return _with_memory(_frame("utilisation_by_job", rows))


def utilisation_over_jobs(
    results: Path | str, study: Study, experiment: str, **by_job: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns the rows over all jobs, with memory per example fitted to their medians."""
    return _with_memory(over_jobs(results, study, experiment, **by_job))


def _with_memory(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows of utilisation with memory per example, by the best count that resolves it."""
    rows = rows.assign(**dict.fromkeys(_MEMORY))
    keys = [name for name in ("machine", "sweep", REPEAT) if name in rows]
    for _, sweep in rows.groupby(keys):
        for column in _PEAKS:
            slope = memory_line.memory_per_image(sweep["batch_size"], sweep[column]).per_image
            if slope.low > 0:
                rows.loc[sweep.index, list(_MEMORY)] = [*slope, column]
                break
    return rows


def samples(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, sweep and sample through its consecutive trainings.

    `batch_size` is empty for samples between two trainings.
    """
    frames, own = [], list(COLUMNS["samples.csv"])
    for timing in find(results, study, experiment, "utilisation"):
        if timing.repeat == 1:
            frame = pandas.DataFrame(timing.record["samples"]).reindex(columns=own)
            # Older records have no other phases: there a lead-in counts as rest.
            phase = frame["phase"].astype(object).mask(frame["batch_size"].notna(), "training")
            frames.append(frame.assign(phase=phase, **timing.first))
    rows = pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()
    return run_series.typed(rows.reindex(columns=[*FIRST, *own]), COLUMNS["samples.csv"])


def largest(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, configuration and batch size that was tried, in order."""
    rows = [
        {
            **timing.first,
            **{name: entry.get(name) for name in COLUMNS["largest.csv"]},
            **_used(entry, COLUMNS["largest.csv"]),
        }
        for timing in find(results, study, experiment, "max_batch_size")
        if timing.repeat == 1
        for entry in timing.record["tries"]
    ]
    return _frame("largest", rows)


def profiles(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job of a profiled configuration: the shares of its time."""
    rows = [
        {
            **timing.first,
            "batch_size": timing.sweep.batch_sizes[0],
            "status": timing.record["status"],
            **{
                name: timing.record.get(f"{name}_share", timing.record.get(name))
                for name in COLUMNS["profiles.csv"]
                if name not in ("batch_size", "status")
            },
            **_used(timing.record, COLUMNS["profiles.csv"]),
        }
        for timing in find(results, study, experiment, "profile")
    ]
    return _frame("profiles_by_job", rows)


def training_times(
    results: Path | str, study: Study, experiment: str, **throughput: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns one row per row of a table of throughput and number of epochs that is asked for.

    What needs what is not here has none.
    """
    rows = []
    [(name, speeds)] = throughput.items()
    first = [column for column in (*FIRST, REPEAT, "batch_size", "status") if column in speeds]
    speeds = speeds[~speeds["status"].isin(absence.WORDS)]
    for row in speeds.to_dict("records"):
        steps = row["train_examples"] / row["batch_size"]
        epoch = {q: steps * row[f"seconds_per_step{q}"] for q in QUARTILES}
        for epochs in study.experiments[experiment].at_epochs:
            rows.append(
                {
                    **{column: row[column] for column in first},
                    **{f"seconds_per_epoch{q}": epoch[q] for q in QUARTILES if q},
                    **{"at_epoch": epochs, "train_seconds": epochs * epoch[""]},
                }
            )
    return _frame(name.replace("throughput", "training_times"), rows)


def _frame(table: str, rows: list[Row]) -> pandas.DataFrame:
    return run_series.table(rows, COLUMNS[f"{table}.csv"], FIRST)
