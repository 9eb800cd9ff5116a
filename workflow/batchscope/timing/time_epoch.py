"""Seconds per epoch: median and quartiles of several blocks after a warm-up, in a job for each
seed, in turns over all configurations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batchscope.study.model import Integer, Setting
from batchscope.study.specifications import (
    QUARTILE_SUFFIXES,
    Column,
    Figure,
    Panel,
    PositiveColumn,
    Scale,
    Seconds,
    Timing,
    TimingSettings,
)
from batchscope.timing import Timed

if TYPE_CHECKING:
    from batchscope.timing.blocks import Block
    from batchscope.timing.timing_job import TimingJob


class TimeEpochSettings(TimingSettings):
    """Settings of `time_epoch`."""

    blocks: Annotated[Integer, Field(ge=3), Setting("bl")] = 7
    """Timed blocks."""
    block_seconds: Annotated[Seconds, Field(gt=0), Setting("bsec", "s")] = 0.25
    """Minimum duration of a block."""


ENTRY = Timing(
    version="time_epoch-v2",
    settings=TimeEpochSettings,
    columns={
        "seconds_per_epoch": PositiveColumn(
            "Time per epoch without validation: median of a timing job that ran exclusively.",
            unit="s",
            label="Time per epoch",
            direction="falls",  # Chang and Pathak 2020
        ),
        "seconds_per_epoch_q1": PositiveColumn("Lower quartile of its blocks.", unit="s"),
        "seconds_per_epoch_q3": PositiveColumn("Upper quartile of its blocks.", unit="s"),
        "examples_per_second": Column(
            "Training examples per second in the timing job; for a command that runs exclusively, "
            "between its first and last logged evaluation with seconds.",
            unit="examples/s",
        ),
    },
    trains=True,
    seconds=True,
    forked=True,
    at_epochs=True,
    figures=(
        Figure(
            "time",
            "Time",
            "Time",
            "Time per epoch in a timing job that ran exclusively, epochs until the training "
            "stopped, and their product. Hollow, with an arrow: a lower bound, because the "
            "training did not stop early.",
            panels=(
                Panel("seconds_per_epoch", "Time per epoch", "time per epoch (s)", Scale.ZERO),
                Panel(
                    "epochs_run",
                    "Epochs until it stopped",
                    "epochs",
                    Scale.ZERO,
                    unless="epochs",
                    bounds=True,
                ),
                Panel(
                    "train_seconds",
                    "Total training time",
                    "total time (s)",
                    Scale.ZERO,
                    unless="seconds_per_epoch",
                    bounds=True,
                ),
            ),
            columns=("epochs", "patience", "target_train_loss"),
        ),
    ),
    memory_mb=2000,
    order=1,
)


def calibrated_block(
    run_steps: Callable[[int, int], float], examples: int, batch_size: int, block_seconds: float
) -> Callable[[], Block]:
    """Warm up; return the function that runs one block of at least `block_seconds`.

    If epochs are short, a block has whole epochs. Otherwise it has steps of whole batches and the
    last step, which is timed separately: a step has a fixed cost, so the time of a smaller batch
    does not follow from a time per example. The seconds of an epoch are the weighted sum of the
    times of these pieces.

    Args:
        run_steps: Start and stop of steps of an epoch -> their seconds.
        examples: Examples of an epoch, at least one batch. The last batch may be smaller.
    """
    from batchscope.timing.blocks import calibrate

    steps, whole_batches = math.ceil(examples / batch_size), examples // batch_size

    def run(count: int) -> float:
        epochs, remainder = divmod(count, steps)
        stops = [steps] * epochs + [remainder] * (remainder > 0)
        return sum(run_steps(0, stop) for stop in stops)

    for _ in range(2):
        run_steps(steps - 1, steps)  # the calibration may not reach the last batch
    count = calibrate(run, block_seconds)
    if count >= whole_batches:
        epochs = math.ceil(count / steps)
        pieces = [(0, steps, 1 / epochs)] * epochs
    else:
        last = [(whole_batches, steps, 1.0)] if whole_batches < steps else []
        pieces = [(0, count, whole_batches / count), *last]

    def run_block() -> Block:
        seconds = [run_steps(start, stop) for start, stop, _ in pieces]
        seconds_per_epoch = np.dot([weight for *_, weight in pieces], seconds)
        return {"seconds": sum(seconds), "seconds_per_epoch": float(seconds_per_epoch)}

    return run_block


def epoch_columns(blocks: list[Block], examples: int) -> dict[str, float]:
    """Return the columns of the timing: median and quartiles of blocks, and examples per second."""
    seconds = np.percentile([block["seconds_per_epoch"] for block in blocks], [50, 25, 75])
    columns = (f"seconds_per_epoch{suffix}" for suffix in QUARTILE_SUFFIXES)
    times = dict(zip(columns, seconds.tolist(), strict=True))
    return times | {"examples_per_second": examples / times["seconds_per_epoch"]}


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Time epochs of a configuration as a training runs them: in the graph, on all replicas.

    Raises:
        UserError: If the data are missing or have fewer examples than a batch.
    """
    from batchscope.store import records
    from batchscope.timing import loops
    from batchscope.timing.blocks import NonFiniteLoss, error_status, time_block
    from batchscope.training.step_loop import Totals, epoch_order

    model, size = job.network(), job.factors["batch_size"]
    train = job.training_examples(size)
    examples = len(train.labels)
    try:
        loop = loops.make_step_loop(job.factors, model, train, size)
        order = epoch_order(0, 0, examples)

        def run_steps(start: int, stop: int) -> float:
            done, totals, seconds, _ = loop.run(order, start, stop, Totals())
            if not math.isfinite(totals.loss):
                raise NonFiniteLoss(f"The loss is not finite after step {done}.")
            return seconds

        run_block = calibrated_block(run_steps, examples, size, settings["block_seconds"])
        blocks = [time_block(run_block) for _ in range(settings["blocks"])]
    except Exception as error:
        return Timed(error_status(error), {"blocks": []})
    return Timed(records.FINISHED, {"blocks": blocks}, epoch_columns(blocks, examples))
