"""Steps and examples per second over batch sizes, timed in turns."""

import functools
from typing import Any

from batchscope.catalogue.entries import REPEATS
from batchscope.catalogue.names import Sweep
from batchscope.store import records
from batchscope.timing import Timed, TimingJob, fates
from batchscope.timing.blocks import Block, RunSteps, Turn, calibrate, time_blocks, whole
from batchscope.timing.instruments.sampler import Sampler


def turns(sweep: Sweep) -> list[Turn]:
    without = [False] if sweep.factors["delay_seconds"] else []
    return [Turn(size, delayed) for delayed in (True, *without) for size in sweep.batch_sizes]


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Time the batch sizes of a sweep, without validation, checkpoints and tracing."""
    counts: dict[Turn, int] = {}  # steps of a block of each turn that can run
    status = dict.fromkeys(turns(job.subject), records.FINISHED)
    with job.runner() as runner, Sampler(cores=runner.threads, gpu=job.gpu) as sampler:
        for turn in status:
            try:
                counts[turn] = calibrate(runner.at(*turn), settings["block_seconds"], runner.unit)
            except Exception as error:
                status[turn] = fates.status(error)
        if settings["iterations"]:
            asked = whole(settings["iterations"] / settings["blocks"], runner.unit)
            counts = dict.fromkeys(counts, asked)
        timed = {
            turn: functools.partial(block, runner.at(*turn), count)
            for turn, count in counts.items()
        }
        turn_of = settings[REPEATS.name]
        found, ended = time_blocks(timed, settings["blocks"], sampler, turn_of)
    status |= ended
    sizes = []
    for size in job.subject.batch_sizes:
        turn, without = Turn(size), Turn(size, delayed=False)
        entry = {
            "batch_size": size,
            "status": status[turn],
            "steps": counts.get(turn),
            "blocks": found.get(turn, []),
            "utilisation": sampler.summary("batch_size", size) if turn in found else None,
        }
        if without in status:
            entry["blocks_without_delay"] = found.get(without, [])
        sizes.append(entry)
    details = {
        "threads": runner.threads,
        "train_examples": runner.examples,
        "sizes": sizes,
        **sampler.details(),
    }
    finished = any(entry["blocks"] for entry in sizes)
    return Timed(records.FINISHED if finished else next(iter(status.values())), details)


def block(run_steps: RunSteps, count: int) -> Block:
    seconds = run_steps(count)
    return {"seconds": seconds, "seconds_per_step": seconds / count}
