"""Steps and examples per second over batch sizes, timed in turns, alone on the machine.

Short blocks of every batch size are timed round after round, each round in a random order of
its own: what drifts or disturbs the machine then falls on all batch sizes alike. A block during
which other processes took a part of the machine is repeated, and flagged where that helps not.
Steps with a delay and the same steps without it follow each other at once, in random order: two
jobs, or two blocks some seconds apart, would differ by more than a small delay.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from batchscope.catalogue.sweep_names import Sweep
from batchscope.catalogue.timing_columns import DISTURBED_CORES
from batchscope.store import records
from batchscope.timing import Timed, TimingJob
from batchscope.timing.instruments.clocks import cpu_times, foreign_cores
from batchscope.timing.instruments.sampler import Sampler, as_lists
from batchscope.timing.instruments.samples import summary
from batchscope.timing.largest import fates
from batchscope.timing.steps.subjects import Subject, open_subject

# Long enough for memory pools, caches and the processor's frequency to settle.
WARM_UP_SECONDS = 0.5
MOST_REPEATS = 2
ORDER_SEED = 0

RunSteps = Callable[[int], float]  # so many steps -> the seconds that they took


class Turn(NamedTuple):
    """What is timed in turns: a batch size, with the sweep's delay or without it."""

    batch_size: int
    delayed: bool = True


def turns(sweep: Sweep) -> list[Turn]:
    """Returns what a sweep times in turns."""
    without = [False] if sweep.factors["delay_seconds"] else []
    return [Turn(size, delayed) for delayed in (True, *without) for size in sweep.batch_sizes]


def rounds(timed: Iterable[Turn], blocks: int) -> Iterator[list[Turn]]:
    """Yields the turns in a new random order for every block, from a fixed generator.

    Those of one batch size follow each other at once, in random order.
    """
    generator = np.random.default_rng(ORDER_SEED)
    groups: dict[int, list[Turn]] = defaultdict(list)
    for turn in timed:
        groups[turn.batch_size].append(turn)
    given = list(groups.values())
    for _ in range(blocks):
        yield [
            given[place][index]
            for place in generator.permutation(len(given))
            for index in generator.permutation(len(given[place]))
        ]


def calibrate(run_steps: RunSteps, block_seconds: float, unit: int = 1) -> int:
    """Warms a configuration up; returns the steps that take at least `block_seconds`.

    The first steps trace, allocate and fill caches: none of them is ever part of a block.

    Args:
        unit: Steps of one call into the graph: a block has a multiple of them.
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


def whole(steps: float, unit: int) -> int:
    """Returns the least multiple of `unit` that is not below `steps`."""
    return unit * math.ceil(steps / unit)


def time_blocks(
    run_steps: dict[Turn, RunSteps],
    steps: dict[Turn, int],
    blocks: int,
    foreign: Callable[[], Callable[[], float]] | None = None,
    around: Callable[[Turn], Any] | None = None,
    results: dict[type[BaseException], str] | None = None,
    status: dict[Turn, str] | None = None,
) -> dict[Turn, list[dict[str, Any]]]:
    """Times blocks of steps of every batch size in turns.

    Args:
        steps: Turn -> steps of a block.
        foreign: Starts a clock; what it returns gives the cores that other processes took since.
        around: Called with the turn; what it returns surrounds the block.
        results: Errors that end a turn and not the others, each with its status word.
        status: Gets the status of the turns that ended so; their blocks are dropped.

    Returns:
        Turn -> its blocks in order, one per round, each with `seconds` and `seconds_per_step`,
        `foreign_cores`, `disturbed` and `repeats`.
    """
    found: dict[Turn, list[dict[str, Any]]] = {turn: [] for turn in run_steps}
    results, status = results or {}, {} if status is None else status
    for order in rounds(run_steps, blocks):
        for turn in order:
            if turn not in found:
                continue
            given = run_steps[turn], steps[turn], foreign, around
            try:
                found[turn].append(_block(turn, *given))
            except tuple(results) as error:
                status[turn] = fates.word(error, results)
                del found[turn]
    return found


def _block(
    turn: Turn,
    run_steps: RunSteps,
    steps: int,
    foreign: Callable[[], Callable[[], float]] | None,
    around: Callable[[Turn], Any] | None,
) -> dict[str, Any]:
    """Times one block of steps, again where other processes disturbed it."""
    for repeats in range(MOST_REPEATS + 1):
        clock = foreign() if foreign else None
        with around(turn) if around else contextlib.nullcontext():
            seconds = run_steps(steps)
        others = clock() if clock else 0.0
        block = {
            "seconds": seconds,
            "seconds_per_step": seconds / steps,
            "foreign_cores": others,
            "disturbed": others > DISTURBED_CORES,
            "repeats": repeats,
        }
        if not block["disturbed"]:
            break
    return block


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Times a sweep's batch sizes.

    Validation, checkpoints and tracing are no part of it. The ceiling is measured in the same
    process, where that is TensorFlow's: the peak of a matrix product, and the operations that
    the model takes per example. A sweep with a delay has the blocks without it as well.
    """
    with open_subject(job) as subject, subject.sampler() as sampler:
        ceiling, counted = subject.ceiling(), subject.counted()
        runners, steps, status = _prepare(subject, settings)
        found = time_blocks(
            runners,
            steps,
            settings["blocks"],
            _others,
            functools.partial(_phase, sampler),
            subject.fates,
            status,
        )
    series = sampler.series()
    phases = {size: index for index, (_, size) in enumerate(sampler.phases)}
    sizes = []
    for size in job.subject.batch_sizes:
        turn, without = Turn(size), Turn(size, delayed=False)
        entry = {
            "batch_size": size,
            "status": status[turn],
            "steps": steps.get(turn),
            "blocks": found.get(turn, []),
            "utilisation": summary(series, phases[size]) if turn in found else None,
        }
        if without in status:
            entry["blocks_without_delay"] = found.get(without, [])
        sizes.append(entry)
    details = {
        "device": job.factors["device"],
        "threads": subject.threads,
        "train_examples": subject.examples,
        "sizes": sizes,
        "matmul": ceiling,
        "flops": counted,
        "samples": as_lists(sampler),
        "gpu_device": sampler.gpu_device,
    }
    finished = any(entry["blocks"] for entry in sizes)
    return Timed(records.FINISHED if finished else next(iter(status.values())), details)


def _phase(sampler: Sampler, turn: Turn) -> contextlib.AbstractContextManager[Any]:
    """Gives the samples of a block to its batch size; those without the delay to none."""
    if turn.delayed:
        return sampler.phase("batch_size", turn.batch_size)
    return contextlib.nullcontext()


def _others() -> Callable[[], float]:
    before = cpu_times()
    return lambda: foreign_cores(before, cpu_times())


def _prepare(
    subject: Subject, settings: dict[str, Any]
) -> tuple[dict[Turn, RunSteps], dict[Turn, int], dict[Turn, str]]:
    """Returns runner, steps of a block and status of every turn; warms all of them up."""
    runners: dict[Turn, RunSteps] = {}
    steps: dict[Turn, int] = {}
    status: dict[Turn, str] = {}
    for turn in turns(subject.sweep):
        try:
            run = subject.runner(*turn)
            steps[turn] = calibrate(run, settings["block_seconds"], subject.unit)
            runners[turn], status[turn] = run, records.FINISHED
        except tuple(subject.fates) as error:
            status[turn] = fates.word(error, subject.fates)
    if settings["iterations"]:
        steps = dict.fromkeys(
            steps, whole(settings["iterations"] / settings["blocks"], subject.unit)
        )
    return runners, steps, status
