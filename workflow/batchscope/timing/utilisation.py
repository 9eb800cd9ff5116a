"""Utilisation of CPU and GPU, and memory, sampled while one batch size after another trains.

A column of utilisation.csv is declared in `_UTILISATION_COLUMNS`. Its value is a key of an entry of
`sizes` in the record (`measure`) or of the entry's summary of samples (`samples.summarise`).
`analysis/timing_rows.py` adds the columns that need several batch sizes or jobs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batchscope.study import specifications
from batchscope.study.model import Setting
from batchscope.study.specifications import (
    Column,
    Figure,
    IntegerColumn,
    Panel,
    PercentColumn,
    Scale,
    Seconds,
    Table,
    TextColumn,
    Timing,
    TimingSettings,
    interval_columns,
)
from batchscope.timing import Timed, with_summary

if TYPE_CHECKING:
    from batchscope.timing.blocks import Block
    from batchscope.timing.loops import Runner
    from batchscope.timing.samples import Sampler, Series, Span
    from batchscope.timing.timing_job import TimingJob


class UtilisationSettings(TimingSettings):
    """Settings of `utilisation`."""

    seconds: Annotated[Seconds, Field(gt=0), Setting("sec", "s")] = 5.0
    """Training time per batch size."""
    pause_seconds: Annotated[Seconds, Field(ge=0), Setting("pau", "s")] = 1.0
    """Rest before each training."""
    interval: Annotated[Seconds, Field(gt=0), Setting("int", "s")] = 0.1
    """Time between samples."""


_UTILISATION_COLUMNS = {
    specifications.REPEAT_COLUMN: specifications.REPEAT_DESCRIPTION,
    "batch_size": IntegerColumn("Examples per step."),
    "status": specifications.STATUS_DESCRIPTION,
    "steps": IntegerColumn("Steps of the training."),
    "seconds": Column("Time of these steps.", "s"),
    "process_percent": PercentColumn(
        "CPU utilisation of the process, 100 % for all its cores: median over time.",
        "%",
        label="CPU utilisation",
    ),
    "process_percent_q1": PercentColumn("Lower quartile.", "%"),
    "process_percent_q3": PercentColumn("Upper quartile.", "%"),
    "process_zero_share": Column(
        "Share of the time without CPU use by the process.",
        "share",
        label="Share of the time without work on the CPU",
    ),
    "disturbed": Column(
        "Whether other processes used more than 0.2 cores on average, even after two repeats."
    ),
    "memory_peak_mb": Column("Peak resident memory of the process.", "MB", label="Peak memory"),
    "tensorflow_peak_mb": Column(
        "Peak memory of TensorFlow's tensors on the device. On a CPU, those below 256 KiB do not "
        "count; empty if none is larger.",
        "MB",
    ),
    "gpu_percent": PercentColumn(
        "Share of the time with a running kernel: median over time.", "%", label="GPU utilisation"
    ),
    "gpu_percent_q1": PercentColumn("Lower quartile.", "%"),
    "gpu_percent_q3": PercentColumn("Upper quartile.", "%"),
    "gpu_zero_share": Column("Share of the time at 0 %.", "share"),
    "gpu_bandwidth_percent": PercentColumn(
        "Share of the time with reads or writes of GPU memory: median.",
        "%",
        label="Share of the time with reads or writes of GPU memory",
    ),
    "gpu_memory_peak_mb": Column(
        "Peak memory in use on a GPU, by all processes. TensorFlow frees none, so it never falls "
        "with the batch size.",
        "MB",
    ),
    "joules_per_epoch": Column("Energy of all GPUs for the examples of an epoch.", "J"),
    "memory_mb_per_image": Column(
        "Memory per example: slope of the peaks that exceed the lowest by 4 MB, equal in all rows; "
        "empty if not resolved.",
        "MB",
        label="Memory per example",
    ),
    **interval_columns("memory_mb_per_image", "Lower end of its 95 % interval, over batch sizes."),
    "memory_of": TextColumn(
        "Column of these peaks: the first of tensorflow_peak_mb, gpu_memory_peak_mb and "
        "memory_peak_mb that resolves it."
    ),
}
_SAMPLE_COLUMNS = {
    "batch_size": IntegerColumn("Batch size of the training; empty between trainings."),
    "phase": TextColumn(
        "training; lead_in, the first steps after a change of batch size; repeated, a disturbed "
        "training that was run again; empty while resting."
    ),
    "seconds": Column("Time since the start.", "s"),
    "process_percent": PercentColumn(
        "CPU utilisation of the process since the previous sample, 100 % for all its cores.", "%"
    ),
    "machine_percent": PercentColumn("CPU utilisation of the machine since then.", "%"),
    "memory_mb": Column("Resident memory of the process.", "MB"),
    "gpu_percent": PercentColumn("GPU utilisation.", "%"),
    "gpu_memory_mb": Column("Memory in use on the GPU.", "MB"),
}


def _sample_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the samples through the consecutive trainings of a job."""
    samples = record["samples"]
    columns = {name: samples[name] for name in _SAMPLE_COLUMNS if name in samples}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        yield row if row["batch_size"] is None else {**row, "phase": "training"}


ENTRY = Timing(
    version="utilisation-v2",
    settings=UtilisationSettings,
    tables={
        "utilisation": Table(
            _UTILISATION_COLUMNS, lambda record, path: map(with_summary, record["sizes"]), keys=()
        ),
        "samples": Table(_SAMPLE_COLUMNS, _sample_rows),
    },
    figures=(
        Figure(
            "utilisation",
            "Utilisation and memory",
            "Machine",
            "Utilisation and peak memory while training at each batch size: medians and quartiles "
            "of the samples. 100 % of the CPU means all cores of the process.",
            kind="sweep",
            table="utilisation",
            panels=(
                *specifications.UTILISATION_PANELS,
                Panel(
                    "gpu_bandwidth_percent",
                    "GPU memory traffic",
                    "time with traffic (%)",
                    Scale.ZERO,
                ),
                *specifications.MEMORY_PANELS,
                Panel("tensorflow_peak_mb", "Memory of tensors", "peak (MB)"),
                Panel("process_zero_share", "CPU at zero", "share of time (%)", Scale.PERCENT),
                Panel("gpu_zero_share", "GPU at zero", "share of time (%)", Scale.PERCENT),
                Panel("joules_per_epoch", "Energy per epoch", "GPU energy (J)"),
            ),
            columns=(
                *("disturbed", "memory_mb_per_image", "memory_mb_per_image_low"),
                *("memory_mb_per_image_high", "memory_of"),
            ),
        ),
        Figure(
            "utilisation_over_time",
            "Utilisation over time",
            "Machine",
            "Samples during the consecutive trainings of one job (shaded), with a rest before "
            "each. A sample represents the time since the previous one.",
            kind="profile",
            table="samples",
        ),
    ),
    order=3,
)

# Phases in the record: a training that counts (the table calls it training), the steps before it,
# and a disturbed training that was repeated.
TRAINING_PHASE, LEAD_IN_PHASE, REPEATED_PHASE = "batch_size", "lead_in", "repeated"
CALL_SECONDS = 0.5  # duration of a call; the time between two calls is then negligible


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Train at every batch size in ascending order, with a rest before each.

    If other processes used a part of the machine during a training, it is repeated; if the repeats
    are disturbed too, it is flagged.
    """
    from batchscope.store import records
    from batchscope.timing.samples import Sampler, summarise

    spans: dict[int, list[Span]] = {}  # of each batch size, the last one counts
    with job.runner() as runner:
        batch_sizes = sorted(job.subject.batch_sizes)
        entries = [_calibrate_and_measure_memory(runner, size) for size in batch_sizes]
        trained = [entry for entry in entries if entry["status"] == records.FINISHED]
        with Sampler(settings["interval"], job.threads, job.gpus) as sampler:
            for entry in trained:
                size, steps = entry["batch_size"], entry["steps_per_call"]
                block, spans[size] = train(runner, sampler, size, steps, settings)
                entry |= block
            time.sleep(settings["pause_seconds"])
    series = sampler.series()
    for entry in trained:
        size = entry["batch_size"]
        entry["utilisation"] = summary = summarise(series, spans[size][-1:])
        if (joules := summary["gpu_energy_joules"]) is not None:
            entry["joules_per_epoch"] = joules * runner.examples / (entry["steps"] * size)
    samples = sample_lists(series, spans)
    details = {"sizes": entries, "samples": samples, "gpu_device": sampler.gpu_device}
    return Timed((trained or entries)[0]["status"], details)


def _calibrate_and_measure_memory(runner: Runner, batch_size: int) -> dict[str, Any]:
    """Warm up with a batch size; return its entry with status, steps of a call and memory peaks.

    Allocators keep their memory. The batch sizes therefore run in ascending order: otherwise the
    peak of a smaller batch size would be the peak of a larger one.
    """
    from batchscope.store import records
    from batchscope.timing import blocks, samples

    entry = {"batch_size": batch_size, "utilisation": None, "status": records.FINISHED}
    has_resident_peak, has_tensor_peak = samples.reset_peak_memory(), runner.reset_peak()
    try:
        run_steps = runner.steps_at_size(batch_size)
        entry["steps_per_call"] = blocks.calibrate(run_steps, CALL_SECONDS, runner.steps_per_call)
    except Exception as error:
        return entry | {"status": blocks.error_status(error)}
    return entry | {
        "memory_peak_mb": samples.peak_memory() if has_resident_peak else None,
        "tensorflow_peak_mb": runner.peak_mb() if has_tensor_peak else None,
    }


def train(
    runner: Runner, sampler: Sampler, batch_size: int, steps: int, settings: dict[str, Any]
) -> tuple[Block, list[Span]]:
    """Rest and train for some seconds, again if others disturb.

    Returns:
        The last training as a block, and the spans of lead-in and trainings.
    """
    from batchscope.timing.blocks import time_block

    start = sampler.sample()
    runner.run(batch_size, runner.steps_per_call)  # first steps after the change of batch size
    spans = [(start, sampler.sample())]

    def run_block() -> Block:
        start, block = sampler.sample(), {"steps": 0, "seconds": 0.0}
        while block["seconds"] < settings["seconds"]:
            block["seconds"] += runner.run(batch_size, steps)
            block["steps"] += steps
        spans.append((start, sampler.sample()))
        return block

    return time_block(run_block, settings["pause_seconds"]), spans


def sample_lists(series: Series, spans: dict[int, list[Span]]) -> dict[str, list[Any]]:
    """Return the samples for the record: column with a finite value -> list of rounded values."""
    from batchscope.timing.samples import in_span

    sizes, phases = np.full((2, len(series["seconds"])), None)
    for batch_size, (lead_in, *repeated, training) in spans.items():
        phases[in_span(series, lead_in)] = LEAD_IN_PHASE
        for span in repeated:
            phases[in_span(series, span)] = REPEATED_PHASE
        phases[in_span(series, training)] = TRAINING_PHASE
        sizes[in_span(series, training)] = batch_size
    lists = {"batch_size": sizes.tolist(), "phase": phases.tolist()}
    lists["seconds"] = series["seconds"].round(3).tolist()
    for name, values in series.items():
        if name not in lists and np.isfinite(values).any():
            lists[name] = [float(f"{value:.4g}") for value in values]
    return lists
