"""Functions that run steps in, times of blocks of steps out: several batch sizes in turns.

Every round times one block of every batch size in a new random order, so that drift and
disturbances of the machine affect all batch sizes equally. If other processes used a part of the
machine during a block, it is repeated; if the repeats are disturbed too, it is flagged.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from batchscope.host.memory_limits import error_refusal
from batchscope.store import records
from batchscope.study.specifications import MAX_FOREIGN_CORES
from batchscope.timing import samples

# Memory pools, caches and the processor's frequency settle within this time.
WARM_UP_SECONDS = 0.5
# Steps that are not timed after a change of batch size: more than the batches of a full pipeline.
LEAD_IN_STEPS = 3
MAX_REPEATS = 2  # A machine that stays disturbed must not lengthen a job without end.

RunSteps = Callable[[int], float]  # number of steps -> their seconds
Block = dict[str, Any]  # numbers of one block by name


class NonFiniteLoss(ArithmeticError):
    """The loss is not finite, so the steps cannot be timed."""


def error_status(error: Exception) -> str:
    """Return the status of a batch size after its steps raised an error.

    Raises:
        Exception: The error itself, if the batch size is not its cause.
    """
    if isinstance(error, NonFiniteLoss):
        return records.DIVERGED
    if error_refusal(error) is None:
        raise error
    return records.OUT_OF_MEMORY


def rounded_up(steps: float, unit: int) -> int:
    return unit * math.ceil(steps / unit)


def calibrate(run_steps: RunSteps, block_seconds: float, unit: int = 1) -> int:
    """Warm up a configuration; return the steps of a block, a multiple of `unit`.

    The first steps trace, allocate and fill caches, so no block contains them.
    """
    run_steps(unit)  # tracing may take longer than the whole warm-up
    total_seconds, total_steps, steps = 0.0, 0, unit
    while total_seconds < WARM_UP_SECONDS or total_steps < 3:
        seconds = run_steps(steps)
        total_seconds, total_steps = total_seconds + seconds, total_steps + steps
        # Short steps run in calls of more steps.
        if seconds < WARM_UP_SECONDS / 8:
            steps *= 2
    steps = unit
    while (seconds := run_steps(steps)) < block_seconds:
        # A call that is long enough predicts the number of steps.
        factor = 2.0 if seconds < block_seconds / 8 else 1.1 * block_seconds / seconds
        steps = rounded_up(max(steps + 1, steps * factor), unit)
    return steps


def time_blocks(
    run_block: Mapping[int, Callable[[], Block]], blocks: int, job: int = 1
) -> tuple[dict[int, list[Block]], dict[int, str]]:
    """Time blocks of batch sizes in turns.

    Args:
        run_block: Batch size -> function that runs one block.
        job: Number of the job within its configuration. A drift during a job favours some positions
            in the order of turns, so the order differs between jobs.

    Returns:
        The blocks of each batch size, one per round, and the status of each batch size that failed,
        which has no blocks.
    """
    block_lists: dict[int, list[Block]] = {size: [] for size in run_block}
    errors: dict[int, str] = {}
    random = np.random.default_rng(job)
    for _ in range(blocks):
        for size in random.permutation(list(run_block)).tolist():
            if size in errors:
                continue
            try:
                block_lists[size].append(time_block(run_block[size]))
            except Exception as error:
                errors[size] = error_status(error)
                del block_lists[size]
    return block_lists, errors


def time_block(run: Callable[[], Block], pause_seconds: float = 0.0) -> Block:
    """Run one block after a pause, and repeat both if other processes disturbed the block.

    Returns:
        The times of the block, with `foreign_cores`, `disturbed` and `repeats`.
    """
    for repeats in range(MAX_REPEATS + 1):
        time.sleep(pause_seconds)
        start_times = samples.cpu_times()
        block = run()
        foreign_cores = samples.foreign_cores(start_times, samples.cpu_times())
        disturbed = foreign_cores > MAX_FOREIGN_CORES
        block |= {"foreign_cores": foreign_cores, "disturbed": disturbed, "repeats": repeats}
        if not disturbed:
            break
    return block
