"""How busy CPU and GPU are through consecutive trainings, one per batch size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from batchscope.catalogue.tables import DISTURBED_CORES
from batchscope.store import records
from batchscope.timing import Timed, TimingJob, fates
from batchscope.timing.blocks import MOST_REPEATS, calibrate
from batchscope.timing.instruments import processes
from batchscope.timing.instruments.sampler import Sampler

if TYPE_CHECKING:
    from batchscope.timing.loops import Runner

# What the samples of a training that counts are called, and those of what surrounds it.
TRAINING, LEAD_IN, REPEATED = "batch_size", "lead_in", "repeated"
# One call trains for about so long, so that what is between two calls is a small share.
CALL_SECONDS = 0.5


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Trains at every batch size in ascending order, with a rest before each.

    A training is repeated if other processes took a part of the machine meanwhile, and flagged if
    that does not help.
    """
    with job.runner() as runner:
        sizes = [_prepared(runner, size) for size in sorted(job.subject.batch_sizes)]
        trained = [size for size in sizes if size["status"] == records.FINISHED]
        with Sampler(settings["interval"], runner.threads, job.gpu) as sampler:
            for size in trained:
                size |= train(runner, sampler, size["batch_size"], size["steps_per_call"], settings)
            time.sleep(settings["pause_seconds"])
    for size in trained:
        size["utilisation"] = used = sampler.summary(TRAINING, size["batch_size"])
        if used["gpu_energy_joules"] is not None:
            images = size["steps"] * size["batch_size"]
            size["joules_per_epoch"] = used["gpu_energy_joules"] * runner.examples / images
    details = {
        "threads": runner.threads,
        "train_examples": runner.examples,
        "sizes": sizes,
        **sampler.details(TRAINING),
    }
    return Timed((trained or sizes)[0]["status"], details)


def _prepared(runner: Runner, size: int) -> dict[str, Any]:
    """Warms a batch size up; returns status, steps of a call and peaks.

    Allocators keep what they once had, so that the peak of a batch size is its own only while no
    larger one has run.
    """
    found = {"batch_size": size, "utilisation": None, "status": records.FINISHED}
    resident, counted = processes.reset_peak_memory(), runner.reset_peak()
    try:
        count = calibrate(runner.at(size), CALL_SECONDS, runner.unit)
    except Exception as error:
        return found | {"status": fates.status(error)}
    return found | {
        "steps_per_call": count,
        "memory_peak_mb": processes.peak_memory() if resident else None,
        "tensorflow_peak_mb": runner.peak_mb() if counted else None,
    }


def train(
    runner: Runner, sampler: Sampler, batch_size: int, steps: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Rests, then trains for some seconds, again where others disturbed; returns what was done."""
    with sampler.phase(LEAD_IN, batch_size):  # the change of batch size, neither training nor rest
        runner.run(batch_size, runner.unit)
    for repeats in range(MOST_REPEATS + 1):
        time.sleep(settings["pause_seconds"])
        spent, done = 0.0, 0
        with sampler.phase(TRAINING, batch_size) as phase:
            while spent < settings["seconds"]:
                spent += runner.run(batch_size, steps)
                done += steps
        others = sampler.summary(TRAINING, batch_size)["foreign_cores"]
        disturbed = others is not None and others > DISTURBED_CORES
        if not disturbed:
            break
        if repeats < MOST_REPEATS:
            sampler.phases[phase] = (REPEATED, (batch_size, repeats))
    return {"steps": done, "seconds": spent, "disturbed": disturbed, "repeats": repeats}
