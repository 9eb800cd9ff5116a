"""Seconds per epoch of a training configuration, alone on the machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope.catalogue import incompatible_factors
from batchscope.store import records
from batchscope.timing import Timed, TimingJob
from batchscope.timing.instruments import samples
from batchscope.timing.instruments.sampler import Sampler, as_lists
from batchscope.timing.largest import fates

if TYPE_CHECKING:
    import keras

    from batchscope.datasets import Examples

# Long enough for memory pools, caches and the processor's frequency to settle.
WARM_UP_SECONDS = 0.5
# Small enough that no model diverges within a timing: a step's time does not depend on it.
LEARNING_RATE = 1e-6

RunSteps = Callable[[int, int], float]  # the steps [start, stop) -> the seconds they took


def examples_in(pieces: list[tuple[int, int]], batch_size: int, examples: int) -> int:
    """Returns the examples that the steps of a block train on; an epoch's last is smaller."""
    return sum(min(stop * batch_size, examples) - start * batch_size for start, stop in pieces)


def time_blocks(
    run_steps: RunSteps, examples: int, batch_size: int, blocks: int, block_seconds: float
) -> list[dict[str, float]]:
    """Times blocks of at least `block_seconds`, each of which gives the time of an epoch.

    A step has a fixed cost, so that no time per example gives what the last, smaller batch of an
    epoch takes. A block is whole epochs where these are short; of a longer epoch it is steps of
    whole batches and the last step, timed apart and added up with the numbers that an epoch has.

    Args:
        examples: Examples in an epoch, at least `batch_size`.

    Returns:
        Per block: steps, examples, seconds and seconds_per_epoch.
    """
    steps, whole = math.ceil(examples / batch_size), examples // batch_size
    count, epochs = 1, 1  # a call has a cost of its own: a single step says little about many
    spent = sum(run_steps(*piece) for piece in 2 * [(0, 1), (steps - 1, steps)])
    while True:  # all that is run on the way to a block is warm-up too
        stop = steps if count == whole else count
        taken = sum(run_steps(0, stop) for _ in range(epochs))
        spent += taken
        growth = min(2.0, 1.1 * block_seconds / taken)
        if taken < block_seconds and count < whole:
            count = min(math.ceil(growth * count), whole)
        elif taken < block_seconds:
            epochs = math.ceil(growth * epochs)
        elif spent >= WARM_UP_SECONDS:
            break
    if count == whole:
        pieces, weights = [(0, steps)] * epochs, [1 / epochs] * epochs
    else:
        pieces, weights = [(0, count)], [whole / count]
        if whole < steps:
            pieces, weights = [*pieces, (whole, steps)], [*weights, 1.0]
    timed = []
    for _ in range(blocks):
        seconds = [run_steps(*piece) for piece in pieces]
        timed.append(
            {
                "steps": sum(stop - start for start, stop in pieces),
                "examples": examples_in(pieces, batch_size, examples),
                "seconds": sum(seconds),
                "seconds_per_epoch": float(np.dot(weights, seconds)),
            }
        )
    return timed


def summary(blocks: list[dict[str, float]], examples: int) -> dict[str, float]:
    """Returns the median and the quartiles of the blocks, and examples per second."""
    seconds = [block["seconds_per_epoch"] for block in blocks]
    low, median, high = np.percentile(seconds, [25, 50, 75])
    return {
        "seconds_per_epoch": float(median),
        "seconds_per_epoch_q1": float(low),
        "seconds_per_epoch_q3": float(high),
        "images_per_second": float(examples / median),
    }


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Times a configuration's epochs.

    Validation, checkpoints and tracing are no part of it. The details name the devices that
    the batches are divided among, and say where they are parts of one CPU.

    Raises:
        UserError: If the data are missing, or are fewer than a batch.
    """
    from batchscope.training import augmentations, replicas

    factors = job.factors
    model = job.network()
    given = augmentations.extended(factors["augmentation"], job.data.examples("train"))
    examples = len(given.labels)
    incompatible_factors.check_batch_size(factors, factors["batch_size"], examples)
    blocks, values, status = [], {}, records.FINISHED
    gpu = 0 if factors["device"] == "gpu" else None
    sampler = Sampler(cores=factors["threads"], gpu=gpu)
    try:
        with sampler, sampler.phase("batch_size", factors["batch_size"]):
            blocks = _blocks(factors, settings, given, model)
        values = summary(blocks, examples)
    except tuple(kinds := fates.known()) as error:
        status = fates.word(error, kinds)
    details = {
        "steps_per_epoch": math.ceil(examples / factors["batch_size"]),
        "blocks": blocks,
        "utilisation": samples.summary(sampler.series(), 0),
        "samples": as_lists(sampler),
        "gpu_device": sampler.gpu_device,
        "threads": factors["threads"],
        "device": factors["device"],
        **replicas.describe(factors),
    }
    return Timed(status, details, values)


def _blocks(
    factors: dict[str, Any],
    settings: dict[str, Any],
    data: Examples,
    model: keras.Model,
) -> list[dict[str, float]]:
    from batchscope.timing.steps import parts
    from batchscope.training import replicas, step_loop

    optimizer = parts.make_optimizer(factors)
    batches = parts.make_batches(factors, factors["batch_size"])
    steps = replicas.make_loop(factors, model, optimizer, data, batches)
    steps.compile()
    order = step_loop.epoch_order(0, 0, steps.examples)

    def run_steps(start: int, stop: int) -> float:
        done, totals, seconds, _ = steps.run(order, start, stop, step_loop.Totals())
        if not math.isfinite(totals.loss):
            raise fates.NotFinite(f"The loss is not finite after step {done}.")
        return seconds

    blocks = settings["blocks"], settings["block_seconds"]
    return time_blocks(run_steps, steps.examples, factors["batch_size"], *blocks)
