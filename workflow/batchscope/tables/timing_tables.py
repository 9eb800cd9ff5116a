"""Records of timings on disk -> tidy tables of a timing experiment.

Each row names the machine that it was measured on: what another machine's results hold of the
same sweep stands below it. A table by job has a row for every single timing job, and `over_jobs`
makes of it the one that has a row for all those of a configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import intervals, run_series, step_cost, timing_repeats
from batchscope.catalogue import run_factors, sweep_names
from batchscope.catalogue.tables import REPEAT
from batchscope.catalogue.timing_columns import COLUMNS, DISTURBED_CORES, FIRST, QUARTILES
from batchscope.host import absence
from batchscope.store import job_files, records
from batchscope.tables import long_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, Any]

# Columns of COLUMNS["sweeps.csv"] -> what they are called in the record of a largest batch.
_LARGEST = {
    "max_batch_size": "largest",
    "max_batch_size_bound": "bound",
    "memory_limit_mb": "limit_mb",
}
# What memory per example is read from, best first: what a process holds, its allocators keep.
_PEAKS = ("tensorflow_peak_mb", "gpu_memory_peak_mb", "memory_peak_mb")
_MEMORY = (*(f"memory_mb_per_image{end}" for end in intervals.ENDS), "memory_of")
# What the peak of a matrix product is of, in a record.
_PEAK_OF = ("device", "threads", "dtype", "tensor_float_32")
_DRIVEN = {"sweep", *run_factors.TIMING_ONLY_FACTORS}  # what drives the steps
_SUBJECT = [name for name in (*FIRST, REPEAT) if name not in _DRIVEN]
_OF_GPU = ("gpu_percent", "gpu_zero_share", "gpu_bandwidth_percent", "gpu_power_watts")


class Timing(NamedTuple):
    """One record of a timing, with the first columns of its rows."""

    first: Row
    sweep: sweep_names.Sweep
    record: Row


def find(results: Path | str, study: Study, experiment: str, measure: str) -> Iterator[Timing]:
    """Yields the records of a timing on every machine, in the plan's order."""
    chosen = study.experiments[experiment]
    for place in job_files.places(study, results):
        for job in job_files.timing_jobs(chosen, place.results, place.recorded):
            if job.measure != measure:
                continue
            record = long_tables.read_record(job.path, "status")
            if record is None and place.machine == study.machine:
                record = _absent(job.sweep)
            if record is not None:
                first = {"machine": place.machine, "sweep": job.sweep.name, REPEAT: job.repeat}
                first |= long_tables.named(job.sweep.factors)
                first = {name: first[name] for name in (*FIRST, REPEAT)}
                yield Timing(first, job.sweep, record)


def _absent(sweep: sweep_names.Sweep) -> Row | None:
    """Returns what stands for the record of a sweep that cannot be timed here; it is on no disk."""
    if not (lacking := absence.of(sweep.factors)):
        return None
    sizes = [{"batch_size": size, "status": lacking.status} for size in sweep.batch_sizes]
    record = {"status": lacking.status, "sizes": sizes, "samples": {}, "tries": []}
    return record | dict.fromkeys(_LARGEST.values())


def over_jobs(
    results: Path | str, study: Study, experiment: str, **by_job: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns the rows of the first table by job, each over all timing jobs of its configuration.

    What follows from other columns, or from fits over batch sizes, is made anew.
    """
    (table, rows), *beside = by_job.items()
    # A summary of all batch sizes has none.
    keys = [name for name in (*FIRST, "batch_size") if name in rows]
    counted = [name for name, column in COLUMNS[f"{table}.csv"].items() if column.adds_up]
    found = timing_repeats.combined(rows.drop(columns=REPEAT), keys, counted)
    if table in _ANEW:
        found = _ANEW[table](found, *dict(beside).values())
    return _frame(table.removesuffix("_by_job"), found)


def throughput(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job and batch size: medians and quartiles of its blocks."""
    rows = []
    for timing in find(results, study, experiment, "throughput"):
        length = records.sequence_length(results, timing.sweep.factors["dataset"])
        for size in timing.record["sizes"]:
            row = {name: size.get(name) for name in ("batch_size", "status", "steps")}
            row["train_examples"] = timing.record.get("train_examples")
            if blocks := size.get("blocks"):
                row["tokens_per_update"] = length and length * size["batch_size"]
                row = _with_samples(size) | row | _times(blocks)
            if blocks is not None:  # of what is not here there are none
                row |= _counts(blocks)
            rows.append(timing.first | row)
    return _with_rates(_frame("throughput_by_job", rows))


def _times(blocks: list[Row]) -> Row:
    seconds = np.percentile([block["seconds_per_step"] for block in blocks], (50, 25, 75))
    found = {f"seconds_per_step{end}": each for end, each in zip(QUARTILES, seconds, strict=True)}
    return found | {"foreign_cores": np.median([block["foreign_cores"] for block in blocks])}


def _counts(blocks: list[Row]) -> Row:
    disturbed = sum(block["disturbed"] for block in blocks)
    return {"blocks": len(blocks), "disturbed_blocks": disturbed}


def _with_rates(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows with the rates that follow from the times of steps; quartiles change places."""
    sizes, rates = rows["batch_size"].astype(float), {}
    for quartile, inverse in zip(QUARTILES, ("", "_q3", "_q1"), strict=True):
        seconds = rows[f"seconds_per_step{inverse}"].astype(float)
        rates[f"iterations_per_second{quartile}"] = 1 / seconds
        rates[f"images_per_second{quartile}"] = sizes / seconds
    length = rows["tokens_per_update"].astype(float) / sizes
    rates["tokens_per_second"] = length * rates["images_per_second"]
    rates["seconds_per_epoch"] = rows["train_examples"].astype(float) / rates["images_per_second"]
    return rows.assign(**rates)


def _with_samples(entry: Row) -> Row:
    """Returns a part of a record with the summary of its samples, where it has nothing else.

    GPU columns are empty where the readings still include the work before.
    """
    sampled = entry.get("utilisation") or {}  # older records may have none
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
        memory = {"memory_fixed_mb": fixed, "memory_mb_per_image": per_image.value}
        memory |= {column: timing.record[key] for column, key in _LARGEST.items()}
        for row in same:
            row.update(memory)
    found = pandas.DataFrame(rows, columns=[*FIRST, *COLUMNS["sweeps_by_job.csv"], "peak_of"])
    return _frame("sweeps_by_job", _with_ceiling(_with_peaks(found)))


def _step_time(timing: Timing) -> Row:
    record = timing.record
    if record["status"] in absence.WORDS:
        return {"status": record["status"]}
    timed = [size for size in record["sizes"] if size["blocks"]]
    # TensorFlow's peak and operations alone; older records count all operations, or nothing.
    measured, counted = record["matmul"] or {}, record["flops"] or {}
    left_out = ", ".join(counted.get("not_counted", ()))
    flops = None if left_out else counted.get("training_products")  # of one gradient
    row: Row = {
        "status": record["status"],
        "used_threads": record["threads"],
        "train_examples": record["train_examples"],
        "sizes": len(timed),
        **_counts([block for size in timed for block in size["blocks"]]),
        "matmul_flops_per_second": measured.get("flops_per_second"),
        "peak_of": str([measured.get(name) for name in _PEAK_OF]),
        "flops_per_image": flops and flops * run_factors.gradients_per_update(timing.first),
        "flops_not_counted": left_out or None,
    }
    if len(timed) < 2:
        return row
    blocks = [[block["seconds_per_step"] for block in size["blocks"]] for size in timed]
    return row | step_cost.summary([size["batch_size"] for size in timed], blocks)


def _with_peaks(sweeps: pandas.DataFrame) -> pandas.DataFrame:
    """Returns summaries with the peaks of matrix products of their machine, threads and type.

    A job measures its own within a second or so: what is slower than another's was disturbed.
    """
    own = sweeps["matmul_flops_per_second"].astype(float)
    alike = own.groupby([sweeps[name] for name in ("machine", "device", "threads", "peak_of")])
    # Of float32 alone: a product of half the width has another peak.
    usable = own.notna() & sweeps["precision"].eq("float32")
    highest, lowest = (alike.transform(end).where(usable) for end in ("max", "min"))
    return sweeps.assign(matmul_flops_per_second=highest, matmul_flops_per_second_lowest=lowest)


def _with_ceiling(sweeps: pandas.DataFrame) -> pandas.DataFrame:
    """Returns summaries with the examples per second that the peak allows, over the operations.

    A throughput over it is the model FLOPs utilisation of Chowdhery et al. 2022 (arXiv
    2204.02311, appendix B), against a measured peak, which is of one GPU.
    """
    ceiling = sweeps["matmul_flops_per_second"] / sweeps["flops_per_image"].astype(float)
    ceiling = ceiling.mask(sweeps["noise_floor"] > step_cost.MOST_NOISE)
    share = sweeps["highest_images_per_second"] / ceiling
    share = share.mask(sweeps["device"].eq("gpu") & (sweeps["replicas"] > 1))
    return sweeps.assign(ceiling_images_per_second=ceiling, share_of_ceiling=share)


def _with_fits(sweeps: pandas.DataFrame, speeds: pandas.DataFrame) -> pandas.DataFrame:
    """Returns summaries over jobs with the fits to the medians of all of them.

    Of two jobs or more; a size that not every one of them timed is in no line.
    """
    medians = speeds.pivot(
        index=["machine", "sweep", "batch_size"], columns=REPEAT, values="seconds_per_step"
    )
    rows = sweeps.to_dict("records")
    for row in rows:
        if (which := (row["machine"], row["sweep"])) in medians.index.droplevel(2):
            table = medians.loc[which].dropna(axis=1, thresh=2).dropna()
            if min(table.shape) > 1:
                row |= step_cost.summary(table.index.to_numpy(), table.to_numpy(float), True)
    return _with_ceiling(pandas.DataFrame(rows, columns=sweeps.columns))


def limits(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns the sweeps of the experiments beside one: what bounds a batch's size."""
    found = [
        over_jobs(*at, sweeps_by_job=summaries(*at), throughput_by_job=throughput(*at))
        for name in study.experiments[experiment].trainings.beside
        for at in [(results, study, name)]
    ]
    return pandas.concat(found, ignore_index=True) if found else _frame("sweeps", [])


def utilisation(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job and batch size: how busy CPU and GPU were."""
    rows = []
    for timing in find(results, study, experiment, "utilisation"):
        for size in timing.record["sizes"]:
            row = _with_samples(size) | timing.first
            if (others := row.get("foreign_cores")) is not None:  # older records have no flag
                row.setdefault("disturbed", others > DISTURBED_CORES)
            rows.append(row)
    return _with_memory(_frame("utilisation_by_job", rows))


def _with_memory(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows of utilisation with memory per example, by the best count that resolves it."""
    rows = rows.assign(**dict.fromkeys(_MEMORY))
    keys = [name for name in ("machine", "sweep", REPEAT) if name in rows]
    for _, sweep in rows.groupby(keys):
        for column in _PEAKS:
            _, slope = step_cost.memory_per_image(sweep["batch_size"], sweep[column])
            if slope.low > 0:
                rows.loc[sweep.index, list(_MEMORY)] = [*slope, column]
                break
    return rows


# Table by job -> what adds to its rows over jobs what is not combined from theirs.
_ANEW = {
    "throughput_by_job": _with_rates,
    "sweeps_by_job": _with_fits,
    "utilisation_by_job": _with_memory,
}


def samples(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per sweep and sample through the consecutive trainings of its first job."""
    frames = [_frame("samples", [])]
    for timing in find(results, study, experiment, "utilisation"):
        if timing.first[REPEAT] == 1:
            frame = pandas.DataFrame(timing.record["samples"], columns=COLUMNS["samples.csv"])
            # Older records have no other phases: there a lead-in counts as rest.
            phase = frame["phase"].astype(object).mask(frame["batch_size"].notna(), "training")
            frames.append(frame.assign(phase=phase, **timing.first))
    return _frame("samples", pandas.concat(frames, ignore_index=True))


def largest(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine, configuration and batch size that was tried, in order."""
    rows = [
        _with_samples(entry) | timing.first
        for timing in find(results, study, experiment, "max_batch_size")
        if timing.first[REPEAT] == 1
        for entry in timing.record["tries"]
    ]
    return _frame("largest", rows)


def profiles(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per timing job of a profiled configuration: the shares of its time."""
    rows = []
    for timing in find(results, study, experiment, "profile"):
        shares = {f"{name}_share": name for name in ("compute", "input", "host", "executor")}
        row = {shares.get(name, name): each for name, each in timing.record.items()}
        row["batch_size"] = timing.sweep.batch_sizes[0]
        rows.append(_with_samples(row) | timing.first)
    return _frame("profiles_by_job", rows)


def training_times(
    results: Path | str, study: Study, experiment: str, **throughput: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns one row per row of a table of throughput and number of epochs that is asked for."""
    [(name, speeds)] = throughput.items()
    speeds = speeds[~speeds["status"].isin(absence.WORDS)]
    steps = speeds["train_examples"].astype(float) / speeds["batch_size"].astype(float)
    times = {f"seconds_per_epoch{q}": steps * speeds[f"seconds_per_step{q}"] for q in QUARTILES}
    epochs = pandas.DataFrame({"at_epoch": study.experiments[experiment].at_epochs})
    rows = speeds.assign(**times).merge(epochs, how="cross")
    rows["train_seconds"] = rows["at_epoch"] * rows["seconds_per_epoch"]
    return _frame(name.replace("throughput", "training_times"), rows)


def _frame(table: str, rows: list[Row] | pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows with the columns of a table, in order."""
    return run_series.table(rows, COLUMNS[f"{table}.csv"], FIRST)
