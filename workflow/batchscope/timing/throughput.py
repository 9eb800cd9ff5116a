"""Steps and examples per second of every batch size, in short blocks timed in turns.

A record has the times of the blocks, and `_size_rows` yields their quartiles. A new column is
described here. `analysis.timing_rows` computes the rates, sweeps.csv and training_times.csv.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batchscope.study import specifications
from batchscope.study.model import Integer, Setting
from batchscope.study.specifications import (
    REPEATS,
    Column,
    Figure,
    IntegerColumn,
    Panel,
    PositiveColumn,
    Scale,
    Seconds,
    Table,
    TextColumn,
    Timing,
    TimingSettings,
    interval_columns,
)
from batchscope.timing import Timed

if TYPE_CHECKING:
    from batchscope.timing.blocks import Block, RunSteps
    from batchscope.timing.timing_job import TimingJob


class ThroughputSettings(TimingSettings):
    """Settings of `throughput`."""

    blocks: Annotated[Integer, Field(ge=4), Setting("bl")] = 7
    """Timed blocks per batch size."""
    block_seconds: Annotated[Seconds, Field(gt=0), Setting("bsec", "s")] = 0.25
    """Minimum duration of a block."""
    iterations: Annotated[Integer, Field(ge=0), Setting("it", "steps")] = 0
    """Total steps per batch size; 0 to use block_seconds."""


def _quartile_columns(name: str, unit: str) -> dict[str, Column]:
    return {
        f"{name}_q1": PositiveColumn("Lower quartile of the blocks.", unit),
        f"{name}_q3": PositiveColumn("Upper quartile of the blocks.", unit),
    }


_THROUGHPUT_COLUMNS = {
    specifications.REPEAT_COLUMN: specifications.REPEAT_DESCRIPTION,
    "batch_size": IntegerColumn("Examples per step."),
    "status": specifications.STATUS_DESCRIPTION,
    "steps": IntegerColumn("Steps of a block."),
    "blocks": IntegerColumn("Timed blocks.", adds_up=True),
    "disturbed_blocks": specifications.DISTURBED_BLOCKS_DESCRIPTION,
    "seconds_per_step": PositiveColumn("Time per step: median of the blocks.", "s"),
    **_quartile_columns("seconds_per_step", "s"),
    "iterations_per_second": Column(
        "Steps per second: median of the blocks.", "iterations/s", label="Step rate"
    ),
    **_quartile_columns("iterations_per_second", "iterations/s"),
    "examples_per_second": Column(
        "Examples per second: median of the blocks.", "examples/s", label="Throughput"
    ),
    **_quartile_columns("examples_per_second", "examples/s"),
    "train_examples": IntegerColumn("Examples of an epoch.", "examples"),
    "seconds_per_epoch": PositiveColumn(
        "train_examples over examples_per_second, with whole batches only.", "s"
    ),
}
_SWEEP_COLUMNS = {
    specifications.REPEAT_COLUMN: specifications.REPEAT_DESCRIPTION,
    "status": specifications.STATUS_DESCRIPTION,
    "blocks": IntegerColumn("Timed blocks of all batch sizes.", adds_up=True),
    "disturbed_blocks": specifications.DISTURBED_BLOCKS_DESCRIPTION,
    "fixed_seconds": PositiveColumn(
        "Fixed cost of a step: a of the fit t = a + b * batch size.",
        "s",
        label="Fixed cost of a step",
    ),
    **interval_columns("fixed_seconds"),
    "seconds_per_image": PositiveColumn("Cost per example: b of the fit.", "s"),
    **interval_columns("seconds_per_image"),
    "half_batch": Column("Batch size a / b: half of its step is fixed cost."),
    "line_residual": Column("Relative root-mean-square residual of the fit."),
    "noise_floor": Column(
        "Factor by which repeated times of a batch size differ, without the common factor of each "
        "job. Above 1.2, half_batch, plateau, knee and still_rising are empty."
    ),
    "highest_examples_per_second": Column("Highest median throughput.", "examples/s"),
    "plateau_examples_per_second": Column(
        "Limit of the throughput: 1 / b if the line fits, else the median from half the largest "
        "size on. Empty if these sizes still rise, or if it is below 90 % of the best by more than "
        "the noise floor.",
        "examples/s",
    ),
    "knee_fitted": Column(
        "Batch size 9 a / b, where the fit reaches 90 % of 1 / b; empty outside the sizes, or if "
        "the line does not fit."
    ),
    **interval_columns(
        "knee_fitted", "Lower end of its 95 % interval: delta method for the logarithm."
    ),
    "knee_batch_size": Column(
        "Smallest batch size with 90 % of the plateau, if the upper quartiles of all larger ones "
        "reach it too.",
        label="Knee",
    ),
    "still_rising": Column("Whether 90 % of the plateau needs more than the largest batch size."),
    "max_batch_size": Column("Largest batch size that fitted into memory."),
    "max_batch_size_bound": TextColumn(
        "resolved, most_fits (the largest size to try fits) or nothing_fits."
    ),
    "memory_limit_mb": Column("Memory limit of the search.", "MB"),
    "memory_fixed_mb": Column("Memory without the batch, by a fit over all tried sizes.", "MB"),
    "memory_mb_per_image": Column("Memory per example, by the same fit.", "MB"),
}
_TRAINING_TIME_COLUMNS = {
    specifications.REPEAT_COLUMN: specifications.REPEAT_DESCRIPTION,
    "batch_size": IntegerColumn("Examples per step."),
    "status": TextColumn("finished, diverged or out_of_memory."),
    "at_epoch": IntegerColumn("Number of epochs in the experiment."),
    "train_seconds": PositiveColumn("at_epoch times the time per epoch, without validation.", "s"),
    "seconds_per_epoch_q1": PositiveColumn("Lower quartile of the time per epoch.", "s"),
    "seconds_per_epoch_q3": PositiveColumn("Upper quartile of the time per epoch.", "s"),
}


def block_counts(blocks: list[Block]) -> dict[str, int]:
    disturbed = sum(block["disturbed"] for block in blocks)
    return {"blocks": len(blocks), "disturbed_blocks": disturbed}


def _size_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the median and the quartiles of the blocks of each batch size."""
    for entry in record["sizes"]:
        row = {name: entry.get(name) for name in ("batch_size", "status", "steps")}
        row["train_examples"] = record.get("train_examples")
        if blocks := entry.get("blocks"):
            times = np.percentile([block["seconds_per_step"] for block in blocks], (50, 25, 75))
            for suffix, seconds in zip(specifications.QUARTILE_SUFFIXES, times, strict=True):
                row[f"seconds_per_step{suffix}"] = seconds
        if blocks is not None:  # None if this machine cannot time the batch size
            row |= block_counts(blocks)
        yield row


ENTRY = Timing(
    version="throughput-v4",
    settings=ThroughputSettings,
    seconds=True,
    at_epochs=True,
    tables={
        "throughput": Table(_THROUGHPUT_COLUMNS, _size_rows, keys=()),
        "sweeps": Table(
            columns=_SWEEP_COLUMNS,
            keys=(),
            measures=("throughput", "max_batch_size"),
            figures=("step_time",),
        ),
        "training_times": Table(
            _TRAINING_TIME_COLUMNS, keys=("at_epoch",), figures=("training_time",)
        ),
    },
    figures=(
        Figure(
            "throughput",
            "Throughput",
            "Time",
            "Medians and quartiles of blocks of steps, timed in turns while nothing else ran. The "
            "plateau is the limit of the throughput, the knee the batch size that reaches 90 % of "
            "it.",
            kind="sweep",
            table="throughput",
            panels=(
                Panel("iterations_per_second", "Iterations per second", "iterations/s"),
                Panel("examples_per_second", "Examples per second", "examples/s"),
            ),
            columns=(
                *("steps", "blocks", "disturbed_blocks", "noise_floor"),
                *("plateau_examples_per_second", "knee_fitted", "knee_fitted_low"),
                *("knee_fitted_high", "knee_batch_size", "still_rising"),
            ),
        ),
        Figure(
            "step_time",
            "Time per step",
            "Time",
            "Medians and quartiles of timed blocks, with the line a + b × batch size. The fixed "
            "cost a is its floor at the left. Several series: a and b with 95 % intervals.",
            kind="sweep",
            table="throughput",
            panels=(
                Panel("seconds_per_step", "Time per step", "time per step (s)", Scale.LOG),
                Panel("fixed_seconds", "Fixed cost per step", "a (s)"),
                Panel("seconds_per_image", "Cost per example", "b (s)"),
            ),
            columns=(
                *("steps", "blocks", "disturbed_blocks", "noise_floor"),
                *("fixed_seconds", "seconds_per_image", "half_batch", "line_residual"),
            ),
        ),
    ),
    order=2,
)


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Time the steps of each batch size, without validation, checkpoints and tracing."""
    from batchscope.store import records
    from batchscope.timing.blocks import calibrate, error_status, rounded_up, time_blocks

    status = dict.fromkeys(job.subject.batch_sizes, records.FINISHED)
    steps: dict[int, int] = {}  # batch size that can run -> steps of a block
    blocks_of_size: dict[int, Callable[[], Block]] = {}
    with job.runner() as runner:
        unit = runner.steps_per_call
        for size in status:
            run_steps = runner.steps_at_size(size)
            try:
                steps[size] = calibrate(run_steps, settings["block_seconds"], unit)
            except Exception as error:
                status[size] = error_status(error)
                continue
            if settings["iterations"]:
                steps[size] = rounded_up(settings["iterations"] / settings["blocks"], unit)
            blocks_of_size[size] = functools.partial(run_block, run_steps, steps[size])
        timed, errors = time_blocks(blocks_of_size, settings["blocks"], settings[REPEATS.name])
    status |= errors
    sizes = [
        {
            "batch_size": size,
            "status": status[size],
            "steps": steps.get(size),
            "blocks": timed.get(size, []),
        }
        for size in status
    ]
    job_status = records.FINISHED if timed else next(iter(status.values()))
    return Timed(job_status, {"train_examples": runner.examples, "sizes": sizes})


def run_block(run_steps: RunSteps, count: int) -> Block:
    seconds = run_steps(count)
    return {"seconds": seconds, "seconds_per_step": seconds / count}
