"""Blocks of steps that are timed in turns, alone on the machine.

Every round times a block of every batch size, in a random order of its own: what drifts or
disturbs the machine then falls on all batch sizes alike. A block is repeated if other processes
took a part of the machine meanwhile, and flagged if that does not help. Steps with a delay and the
same steps without it follow each other at once: two blocks some seconds apart would differ by more
than a small delay.
"""

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from batchscope.study.common_settings import DISTURBED_CORES
from batchscope.timing import step_errors
from batchscope.timing.instruments import processes
from batchscope.timing.instruments.sampler import Sampler

# Long enough for memory pools, caches and the processor's frequency to settle.
WARM_UP_SECONDS = 0.5
# Steps after a change of batch size that are not timed: more than a pipeline keeps ready.
LEAD_IN_STEPS = 3
MOST_REPEATS = 2

RunSteps = Callable[[int], float]  # number of steps -> the seconds that they took
Block = dict[str, Any]


class Turn(NamedTuple):
    """What takes turns: a batch size, with the sweep's delay or without it."""

    batch_size: int
    delayed: bool = True


def rounds(turns: list[Turn], blocks: int, job: int) -> Iterator[list[Turn]]:
    """Yields the turns in a new random order for every block.

    The turns of one batch size follow each other at once, in random order. What drifts during a job
    favours a size by its order: each of a configuration's jobs has another one.

    Args:
        job: Which one of these it is; its order is always the same.
    """
    draw = np.random.default_rng(job).random
    for _ in range(blocks):
        place: dict[int, float] = defaultdict(draw)
        yield sorted(turns, key=lambda turn: (place[turn.batch_size], draw()))


def whole(steps: float, unit: int) -> int:
    """Returns the least multiple of `unit` that is not below `steps`."""
    return unit * math.ceil(steps / unit)


def calibrate(run_steps: RunSteps, block_seconds: float, unit: int = 1) -> int:
    """Warms a configuration up; returns the steps, a multiple of `unit`, of a block.

    The first steps trace, allocate and fill caches: none of them is ever part of a block.
    """
    run_steps(unit)  # traces, perhaps for longer than the warm-up takes
    spent, done, steps = 0.0, 0, unit
    while spent < WARM_UP_SECONDS or done < 3:
        taken = run_steps(steps)
        spent, done = spent + taken, done + steps
        # A step of a fraction of a millisecond is called less often.
        if taken < WARM_UP_SECONDS / 8:
            steps *= 2
    steps = unit
    while (taken := run_steps(steps)) < block_seconds:
        # Straight to the goal once a call takes long enough to predict it.
        factor = 2.0 if taken < block_seconds / 8 else 1.1 * block_seconds / taken
        steps = whole(max(steps + 1, steps * factor), unit)
    return steps


def time_blocks(
    timed: Mapping[Turn, Callable[[], Block]], blocks: int, sampler: Sampler, job: int = 1
) -> tuple[dict[Turn, list[Block]], dict[Turn, str]]:
    """Times blocks in turns; the samples of a block go to its batch size, unless without a delay.

    Args:
        job: Which one of a configuration's jobs it is.

    Returns:
        Turn -> its blocks, one per round, with `foreign_cores`, `disturbed` and `repeats` beside
        their times; and the status of each turn that an error ended, which has no blocks.
    """
    found: dict[Turn, list[Block]] = {turn: [] for turn in timed}
    ended: dict[Turn, str] = {}
    for order in rounds(list(timed), blocks, job):
        for turn in order:
            if turn in ended:
                continue
            try:
                found[turn].append(_block(turn, timed[turn], sampler))
            except Exception as error:
                ended[turn] = step_errors.status(error)
                del found[turn]
    return found, ended


def _block(turn: Turn, run: Callable[[], Block], sampler: Sampler) -> Block:
    """Runs one block, again where other processes disturbed it."""
    for repeats in range(MOST_REPEATS + 1):
        before = processes.cpu_times()
        of_size = sampler.phase("batch_size", turn.batch_size)
        with of_size if turn.delayed else contextlib.nullcontext():
            times = run()
        others = processes.foreign_cores(before, processes.cpu_times())
        disturbed = others > DISTURBED_CORES
        block = {**times, "foreign_cores": others, "disturbed": disturbed, "repeats": repeats}
        if not disturbed:
            break
    return block
