"""Utilisation of CPU and GPU, and memory, sampled while one batch size after another trains."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batchscope.study import common_settings
from batchscope.study.common_settings import Seconds
from batchscope.study.setting import Setting
from batchscope.study.specifications import (
    Column,
    Figure,
    IntegerColumn,
    Panel,
    PercentColumn,
    Scale,
    Table,
    TextColumn,
    Timing,
    TimingSettings,
    interval,
)
from batchscope.timing import Timed, with_summary

if TYPE_CHECKING:
    from batchscope.timing.loops import Runner
    from batchscope.timing.samples import Sampler
    from batchscope.timing.timing_job import TimingJob


class UtilisationSettings(TimingSettings):
    """Settings of `utilisation`."""

    seconds: Annotated[Seconds, Field(gt=0), Setting("sec", "s")] = 5.0
    """Training time per batch size."""
    pause_seconds: Annotated[Seconds, Field(ge=0), Setting("pau", "s")] = 1.0
    """Rest before each training."""
    interval: Annotated[Seconds, Field(gt=0), Setting("int", "s")] = 0.1
    """Time between samples."""


_UTILISATION = {
    common_settings.REPEAT: common_settings.WHICH,
    "batch_size": IntegerColumn("Examples per step."),
    "status": common_settings.STATUS,
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
        "Share of the time with a running kernel: median over time.",
        "%",
        label="GPU utilisation",
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
        "Peak memory in use on the GPU, by all processes. TensorFlow frees none, so it never falls "
        "with the batch size.",
        "MB",
    ),
    "joules_per_epoch": Column("Energy of the GPU for the examples of an epoch.", "J"),
    "memory_mb_per_image": Column(
        "Memory per example: slope of the peaks that exceed the lowest by 4 MB, equal in all rows; "
        "empty if not resolved.",
        "MB",
        label="Memory per example",
    ),
    **interval("memory_mb_per_image", "Lower end of its 95 % interval, over batch sizes."),
    "memory_of": TextColumn(
        "Column of these peaks: the first of tensorflow_peak_mb, gpu_memory_peak_mb and "
        "memory_peak_mb that resolves it."
    ),
}
_SAMPLES = {
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


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    yield from map(with_summary, record["sizes"])


def _sample_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the samples through the consecutive trainings of a job."""
    columns = {name: record["samples"][name] for name in _SAMPLES if name in record["samples"]}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        yield row if row["batch_size"] is None else {**row, "phase": "training"}


ENTRY = Timing(
    version="utilisation-v2",
    settings=UtilisationSettings,
    tables={
        "utilisation": Table(_UTILISATION, _rows, keys=()),
        "samples": Table(_SAMPLES, _sample_rows),
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
                *common_settings.UTILISATION,
                Panel(
                    "gpu_bandwidth_percent",
                    "GPU memory traffic",
                    "time with traffic (%)",
                    Scale.ZERO,
                ),
                *common_settings.MEMORY,
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

# Phases of samples: a training that counts, the steps before it, and a repeated training.
TRAINING, LEAD_IN, REPEATED = "batch_size", "lead_in", "repeated"
# Duration of a call: the time between two calls is a small share.
CALL_SECONDS = 0.5


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Train at every batch size in ascending order, with a rest before each.

    A training is repeated if other processes took a part of the machine meanwhile, and flagged if
    that does not help.
    """
    from batchscope.store import records
    from batchscope.timing.samples import Sampler

    with job.runner() as runner:
        sizes = [_prepared(runner, size) for size in sorted(job.subject.batch_sizes)]
        trained = [size for size in sizes if size["status"] == records.FINISHED]
        with Sampler(settings["interval"], job.threads, job.on_gpu) as sampler:
            for size in trained:
                size |= train(runner, sampler, size["batch_size"], size["steps_per_call"], settings)
            time.sleep(settings["pause_seconds"])
    for size in trained:
        size["utilisation"] = summary = sampler.summary((TRAINING, size["batch_size"]))
        if (joules := summary["gpu_energy_joules"]) is not None:
            examples = size["steps"] * size["batch_size"]
            size["joules_per_epoch"] = joules * runner.examples / examples
    details = {"sizes": sizes, "samples": series(sampler), "gpu_device": sampler.gpu_device}
    return Timed((trained or sizes)[0]["status"], details)


def _prepared(runner: Runner, size: int) -> dict[str, Any]:
    """Warm up with a batch size; return status, steps of a call and peaks.

    Allocators keep their memory. The batch sizes therefore run in ascending order: a smaller one
    would otherwise show the peak of a larger one.
    """
    from batchscope.store import records
    from batchscope.timing import processes
    from batchscope.timing.blocks import calibrate, error_status

    entry = {"batch_size": size, "utilisation": None, "status": records.FINISHED}
    resident, counted = processes.reset_peak_memory(), runner.reset_peak()
    try:
        count = calibrate(runner.at(size), CALL_SECONDS, runner.unit)
    except Exception as error:
        return entry | {"status": error_status(error)}
    return entry | {
        "steps_per_call": count,
        "memory_peak_mb": processes.peak_memory() if resident else None,
        "tensorflow_peak_mb": runner.peak_mb() if counted else None,
    }


def train(
    runner: Runner, sampler: Sampler, batch_size: int, steps: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Rest, then train for some seconds, again if others disturbed; return steps and seconds."""
    from batchscope.timing.blocks import MAX_REPEATS

    label = TRAINING, batch_size
    with sampler.phase((LEAD_IN, batch_size)):  # the change of batch size
        runner.run(batch_size, runner.unit)
    for repeats in range(MAX_REPEATS + 1):
        if repeats:
            sampler.phases[-1] = (REPEATED, batch_size)
        time.sleep(settings["pause_seconds"])
        total_seconds, total_steps = 0.0, 0
        with sampler.phase(label):
            while total_seconds < settings["seconds"]:
                total_seconds += runner.run(batch_size, steps)
                total_steps += steps
        foreign_cores = sampler.summary(label)["foreign_cores"] or 0.0
        disturbed = foreign_cores > common_settings.DISTURBED_CORES
        if not disturbed:
            break
    return {
        "steps": total_steps,
        "seconds": total_seconds,
        "disturbed": disturbed,
        "repeats": repeats,
    }


def series(sampler: Sampler) -> dict[str, list[Any]]:
    """Return the samples for the record: a rounded list for each column with a finite value."""
    columns = sampler.series()
    labels = [
        sampler.phases[index] if index >= 0 else (None, None) for index in columns.pop("phase")
    ]
    return {
        "batch_size": [size if phase == TRAINING else None for phase, size in labels],
        "seconds": columns.pop("seconds").round(3).tolist(),
        "phase": [phase for phase, _ in labels],
        **{
            name: [float(f"{value:.4g}") for value in values]
            for name, values in columns.items()
            if np.isfinite(values).any()
        },
    }
