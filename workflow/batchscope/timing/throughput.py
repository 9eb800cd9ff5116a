"""Steps and examples per second over batch sizes, timed in turns."""

from __future__ import annotations

import functools
from typing import Any

from batchscope.catalogue.sweep_names import Sweep
from batchscope.frameworks import Runner
from batchscope.store import records
from batchscope.timing import Timed, TimingJob, fates, steps
from batchscope.timing.blocks import Block, RunSteps, Turn, calibrate, time_blocks, whole
from batchscope.timing.instruments.sampler import Sampler, as_lists
from batchscope.timing.instruments.samples import summary


def turns(sweep: Sweep) -> list[Turn]:
    """Returns what a sweep times in turns: with a delay, the steps without it as well."""
    without = [False] if sweep.factors["delay_seconds"] else []
    return [Turn(size, delayed) for delayed in (True, *without) for size in sweep.batch_sizes]


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Times a sweep's batch sizes.

    Validation, checkpoints and tracing are no part of it. TensorFlow measures the ceiling in the
    same process: the peak of a matrix product, and the model's operations per example.
    """
    with steps.open_runner(job) as runner, Sampler(cores=runner.threads, gpu=job.gpu) as sampler:
        ceiling, flops = runner.ceiling(), runner.flops()
        counts, status = _prepared(runner, job.subject, settings)
        timed = {
            turn: functools.partial(block, runner.at(*turn), count)
            for turn, count in counts.items()
        }
        found, ended = time_blocks(timed, settings["blocks"], sampler)
    status |= ended
    series = sampler.series()
    phases = {size: index for index, (_, size) in enumerate(sampler.phases)}
    sizes = []
    for size in job.subject.batch_sizes:
        turn, without = Turn(size), Turn(size, delayed=False)
        entry = {
            "batch_size": size,
            "status": status[turn],
            "steps": counts.get(turn),
            "blocks": found.get(turn, []),
            "utilisation": summary(series, phases[size]) if turn in found else None,
        }
        if without in status:
            entry["blocks_without_delay"] = found.get(without, [])
        sizes.append(entry)
    details = {
        "device": job.factors["device"],
        "threads": runner.threads,
        "train_examples": runner.examples,
        "sizes": sizes,
        "matmul": ceiling,
        "flops": flops,
        "samples": as_lists(sampler),
        "gpu_device": sampler.gpu_device,
    }
    finished = any(entry["blocks"] for entry in sizes)
    return Timed(records.FINISHED if finished else next(iter(status.values())), details)


def block(run_steps: RunSteps, count: int) -> Block:
    """Returns the times of a block of steps."""
    seconds = run_steps(count)
    return {"seconds": seconds, "seconds_per_step": seconds / count}


def _prepared(
    runner: Runner, sweep: Sweep, settings: dict[str, Any]
) -> tuple[dict[Turn, int], dict[Turn, str]]:
    """Warms all turns up; returns the steps of a block of those that can run, and all statuses."""
    counts: dict[Turn, int] = {}
    status: dict[Turn, str] = {}
    for turn in turns(sweep):
        try:
            counts[turn] = calibrate(runner.at(*turn), settings["block_seconds"], runner.unit)
            status[turn] = records.FINISHED
        except Exception as error:
            status[turn] = fates.status(error)
    if settings["iterations"]:
        asked = whole(settings["iterations"] / settings["blocks"], runner.unit)
        counts = dict.fromkeys(counts, asked)
    return counts, status
