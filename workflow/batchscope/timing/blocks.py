"""Blocks of steps that are timed in turns, exclusively on the machine.

Every round times a block of every batch size in a new random order, so that drift and disturbances
of the machine affect all batch sizes equally. A block is repeated if other processes took a part of
the machine meanwhile, and flagged if the repeats are disturbed too. Steps with a delay and the same
steps without it follow each other at once: two blocks some seconds apart would differ by more than
a small delay.
"""

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from batchscope.host.allocation_errors import refusal_of
from batchscope.store import records
from batchscope.study.common_settings import DISTURBED_CORES
from batchscope.timing.instruments import processes
from batchscope.timing.instruments.sampler import Sampler

# Long enough for memory pools, caches and the processor's frequency to settle.
WARM_UP_SECONDS = 0.5
# Steps after a change of batch size that are not timed: more than a pipeline keeps ready.
LEAD_IN_STEPS = 3
MOST_REPEATS = 2

RunSteps = Callable[[int], float]  # number of steps -> their seconds
Block = dict[str, Any]


class NonFiniteLoss(ArithmeticError):
    """The loss is not finite, so the steps cannot be timed."""


class Turn(NamedTuple):
    """A batch size that takes turns with others, with or without the sweep's delay."""

    batch_size: int
    delayed: bool = True


def error_status(error: Exception) -> str:
    """Return the status of a batch size after an error of its steps.

    Raises:
        Exception: The error itself, if it does not come from the batch size.
    """
    if isinstance(error, NonFiniteLoss):
        return records.DIVERGED
    if refusal_of(error) is None:
        raise error
    return records.OUT_OF_MEMORY


def rounds(turns: list[Turn], blocks: int, job: int) -> Iterator[list[Turn]]:
    """Yield the turns in a new random order for every block.

    The turns of one batch size follow each other at once, in random order. A drift during a job
    favours some positions in the order, so the order differs between the jobs of a configuration.

    Args:
        job: Number of the job, the seed of the order.
    """
    draw = np.random.default_rng(job).random
    for _ in range(blocks):
        place: dict[int, float] = defaultdict(draw)
        yield sorted(turns, key=lambda turn: (place[turn.batch_size], draw()))


def rounded_up(steps: float, unit: int) -> int:
    return unit * math.ceil(steps / unit)


def calibrate(run_steps: RunSteps, block_seconds: float, unit: int = 1) -> int:
    """Warm up a configuration; return the steps of a block, a multiple of `unit`.

    The first steps trace, allocate and fill caches, so they are never part of a block.
    """
    run_steps(unit)  # tracing may take longer than the whole warm-up
    total_seconds, total_steps, steps = 0.0, 0, unit
    while total_seconds < WARM_UP_SECONDS or total_steps < 3:
        seconds = run_steps(steps)
        total_seconds, total_steps = total_seconds + seconds, total_steps + steps
        # Short steps run in larger calls.
        if seconds < WARM_UP_SECONDS / 8:
            steps *= 2
    steps = unit
    while (seconds := run_steps(steps)) < block_seconds:
        # A call that is long enough predicts the number of steps.
        factor = 2.0 if seconds < block_seconds / 8 else 1.1 * block_seconds / seconds
        steps = rounded_up(max(steps + 1, steps * factor), unit)
    return steps


def time_blocks(
    timed: Mapping[Turn, Callable[[], Block]], blocks: int, sampler: Sampler, job: int = 1
) -> tuple[dict[Turn, list[Block]], dict[Turn, str]]:
    """Time blocks in turns. Samples count for the batch size, except those without the delay.

    Args:
        job: Number of the job within its configuration.

    Returns:
        The blocks of each turn, one per round, with `foreign_cores`, `disturbed`, `repeats` and
        their times; and the status of each turn that failed, which has no blocks.
    """
    block_lists: dict[Turn, list[Block]] = {turn: [] for turn in timed}
    errors: dict[Turn, str] = {}
    for order in rounds(list(timed), blocks, job):
        for turn in order:
            if turn in errors:
                continue
            try:
                block_lists[turn].append(_block(turn, timed[turn], sampler))
            except Exception as error:
                errors[turn] = error_status(error)
                del block_lists[turn]
    return block_lists, errors


def _block(turn: Turn, run: Callable[[], Block], sampler: Sampler) -> Block:
    """Run one block, and repeat it if other processes disturbed it."""
    for repeats in range(MOST_REPEATS + 1):
        before = processes.cpu_times()
        of_size = sampler.phase("batch_size", turn.batch_size)
        with of_size if turn.delayed else contextlib.nullcontext():
            times = run()
        foreign_cores = processes.foreign_cores(before, processes.cpu_times())
        disturbed = foreign_cores > DISTURBED_CORES
        block = {
            **times,
            "foreign_cores": foreign_cores,
            "disturbed": disturbed,
            "repeats": repeats,
        }
        if not disturbed:
            break
    return block
