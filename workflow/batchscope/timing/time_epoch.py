"""Seconds per epoch: median and quartiles of several blocks after a warm-up, in a job for each
seed, in turns over all configurations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from batchscope.study.measure_settings import Seconds
from batchscope.study.model import Integer
from batchscope.study.setting import Setting
from batchscope.study.specifications import (
    Column,
    Figure,
    Panel,
    PositiveColumn,
    Scale,
    Timing,
    TimingSettings,
)
from batchscope.study.timing_columns import QUARTILE_SUFFIXES
from batchscope.timing import Timed

if TYPE_CHECKING:
    from batchscope.timing.blocks import Block
    from batchscope.timing.timing_job import TimingJob

RunSteps = Callable[[int, int], float]  # start and stop of steps of an epoch -> their seconds
Piece = tuple[int, int, float]  # start and stop of steps, and their weight in the time of an epoch


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


class Epoch(NamedTuple):
    """The steps of an epoch; the last batch may be smaller than the others."""

    examples: int  # not fewer than the batch size
    batch_size: int

    @property
    def steps(self) -> int:
        return math.ceil(self.examples / self.batch_size)

    def pieces(self, count: int) -> list[Piece]:
        """Return the pieces of a block of about `count` steps.

        If epochs are short, a block has whole epochs. Otherwise it has steps of whole batches and
        the last step, which is timed separately: a step has a fixed cost, so the time of a smaller
        batch does not follow from a time per example. An epoch takes the weighted sum of the times.
        """
        whole_batches = self.examples // self.batch_size
        if count >= whole_batches:
            epochs = math.ceil(count / self.steps)
            return [(0, self.steps, 1 / epochs)] * epochs
        last = [(whole_batches, self.steps, 1.0)] if whole_batches < self.steps else []
        return [(0, count, whole_batches / count), *last]


def calibrate_block(run_steps: RunSteps, epoch: Epoch, block_seconds: float) -> list[Piece]:
    """Warm up; return the pieces of a block that takes at least `block_seconds`."""
    from batchscope.timing.blocks import calibrate

    def run(count: int) -> float:
        epochs, remainder = divmod(count, epoch.steps)
        stops = [epoch.steps] * epochs + [remainder] * (remainder > 0)
        return sum(run_steps(0, stop) for stop in stops)

    for _ in range(2):
        run_steps(epoch.steps - 1, epoch.steps)  # the calibration may not reach the last batch
    return epoch.pieces(calibrate(run, block_seconds))


def run_block(run_steps: RunSteps, pieces: list[Piece]) -> Block:
    """Run a block; return its seconds, and the seconds of an epoch that follow."""
    seconds = [run_steps(start, stop) for start, stop, _ in pieces]
    seconds_per_epoch = np.dot([weight for *_, weight in pieces], seconds)
    return {"seconds": sum(seconds), "seconds_per_epoch": float(seconds_per_epoch)}


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
    from batchscope.training import step_loop

    model, size = job.network(), job.factors["batch_size"]
    train = job.training_examples(size)
    epoch = Epoch(len(train.labels), size)
    status, blocks = records.FINISHED, []
    try:
        loop = loops.make_step_loop(job.factors, model, train, size)
        order = step_loop.epoch_order(0, 0, epoch.examples)

        def run_steps(start: int, stop: int) -> float:
            done, totals, seconds, _ = loop.run(order, start, stop, step_loop.Totals())
            if not math.isfinite(totals.loss):
                raise NonFiniteLoss(f"The loss is not finite after step {done}.")
            return seconds

        pieces = calibrate_block(run_steps, epoch, settings["block_seconds"])
        run = functools.partial(run_block, run_steps, pieces)
        blocks = [time_block(run) for _ in range(settings["blocks"])]
    except Exception as error:
        status = error_status(error)
    columns = epoch_columns(blocks, epoch.examples) if blocks else {}
    return Timed(status, {"blocks": blocks}, columns)
