"""How busy CPU and GPU are through consecutive trainings, one per batch size."""

from __future__ import annotations

import time
from typing import Any

from batchscope.catalogue.tables import DISTURBED_CORES
from batchscope.frameworks import Runner
from batchscope.store import records
from batchscope.timing import Timed, TimingJob, fates, steps
from batchscope.timing.blocks import MOST_REPEATS, calibrate
from batchscope.timing.instruments.peak_memory import MEGABYTE, peak_memory, reset_peak_memory
from batchscope.timing.instruments.sampler import Sampler, as_lists
from batchscope.timing.instruments.samples import summary

# What the samples of a training that counts are called, and those of what surrounds it.
TRAINING, LEAD_IN, REPEATED = "batch_size", "lead_in", "repeated"
# One call trains for about so long, so that what is between two calls is a small share.
CALL_SECONDS = 0.5


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Trains at every batch size in ascending order, with a rest before each.

    A training is repeated if other processes took a part of the machine meanwhile, and flagged if
    that does not help.
    """
    with steps.open_runner(job) as runner:
        prepared = {size: _prepared(runner, size) for size in sorted(job.subject.batch_sizes)}
        with Sampler(settings["interval"], runner.threads, job.gpu) as sampler:
            trained = {
                size: train(runner, sampler, size, found["steps_per_call"], settings)
                for size, found in prepared.items()
                if found["status"] == records.FINISHED
            }
            time.sleep(settings["pause_seconds"])
    series = sampler.series()
    phases = {size: index for index, (name, size) in enumerate(sampler.phases) if name == TRAINING}
    sizes = []
    for size, found in prepared.items():
        used = summary(series, phases[size]) if size in trained else None
        entry = {"batch_size": size, "utilisation": used, **found, **trained.get(size, {})}
        if used and used["gpu_energy_joules"] is not None:
            joules, images = used["gpu_energy_joules"], entry["steps"] * size
            entry["joules_per_epoch"] = joules_per_epoch(joules, images, runner.examples)
        sizes.append(entry)
    details = {
        "device": job.factors["device"],
        "threads": runner.threads,
        "train_examples": runner.examples,
        "sizes": sizes,
        "samples": as_lists(sampler, TRAINING),
        "gpu_device": sampler.gpu_device,
    }
    return Timed(records.FINISHED if trained else sizes[0]["status"], details)


def joules_per_epoch(joules: float, images: int, examples: int) -> float:
    """Returns the energy of an epoch, J, from that of training on so many images."""
    return joules * examples / images


def _prepared(runner: Runner, size: int) -> dict[str, Any]:
    """Warms a batch size up; returns status, steps of a call and peaks.

    Allocators keep what they once had, so that the peak of a batch size is its own only while no
    larger one has run.
    """
    resident, counted = reset_peak_memory(), runner.reset_peak()
    try:
        count = calibrate(runner.at(size), CALL_SECONDS, runner.unit)
    except Exception as error:
        return {"status": fates.status(error)}
    peak = runner.peak_bytes() if counted else None
    return {
        "status": records.FINISHED,
        "steps_per_call": count,
        "memory_peak_mb": peak_memory() if resident else None,
        "tensorflow_peak_mb": None if peak is None else peak / MEGABYTE,
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
        others = summary(sampler.series(), phase)["foreign_cores"]
        disturbed = others is not None and others > DISTURBED_CORES
        if not disturbed:
            break
        if repeats < MOST_REPEATS:
            sampler.rename(phase, REPEATED, (batch_size, repeats))
    return {"steps": done, "seconds": spent, "disturbed": disturbed, "repeats": repeats}
