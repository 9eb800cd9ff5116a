"""How busy CPU and GPU are through consecutive trainings, one per batch size."""

from __future__ import annotations

import time
from typing import Any

from batchscope.catalogue.timing_columns import DISTURBED_CORES
from batchscope.store import records
from batchscope.timing import Timed, TimingJob
from batchscope.timing.instruments.peak_memory import peak_memory, reset_peak_memory
from batchscope.timing.instruments.sampler import Sampler, as_lists
from batchscope.timing.instruments.samples import summary
from batchscope.timing.largest import fates
from batchscope.timing.steps.subjects import Subject, open_subject
from batchscope.timing.throughput import MOST_REPEATS, calibrate

# What the samples of a training that counts are called, and those of what surrounds it.
TRAINING, LEAD_IN, REPEATED = "batch_size", "lead_in", "repeated"
# One call trains for about so long, so that what is between two calls is a small share.
CALL_SECONDS = 0.5


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Trains at every batch size in ascending order, with a rest before each.

    A training during which other processes took a part of the machine is repeated, and flagged
    where that helps not.
    """
    with open_subject(job) as subject:
        prepared = _prepare(subject)
        with subject.sampler(settings["interval"]) as sampler:
            trained = {
                size: _train(subject, sampler, size, found["steps_per_call"], settings)
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
            entry["joules_per_epoch"] = joules_per_epoch(joules, images, subject.examples)
        sizes.append(entry)
    details = {
        "device": job.factors["device"],
        "threads": subject.threads,
        "train_examples": subject.examples,
        "sizes": sizes,
        "samples": as_lists(sampler, TRAINING),
        "gpu_device": sampler.gpu_device,
    }
    return Timed(records.FINISHED if trained else sizes[0]["status"], details)


def joules_per_epoch(joules: float, images: int, examples: int) -> float:
    """Returns the energy of an epoch, J, from that of training on so many images."""
    return joules * examples / images


def _prepare(subject: Subject) -> dict[int, dict[str, Any]]:
    """Warms every batch size up, in ascending order; returns steps of a call, status and peaks.

    Allocators keep what they once had, so that the peak of a batch size is its own only while no
    larger one has run.
    """
    found: dict[int, dict[str, Any]] = {}
    for size in sorted(subject.sweep.batch_sizes):
        resident, counted = reset_peak_memory(), subject.reset_peak()
        try:
            steps = calibrate(subject.runner(size), CALL_SECONDS, subject.unit)
        except tuple(subject.fates) as error:
            found[size] = {"status": fates.word(error, subject.fates)}
            continue
        found[size] = {
            "status": records.FINISHED,
            "steps_per_call": steps,
            "memory_peak_mb": peak_memory() if resident else None,
            "tensorflow_peak_mb": subject.peak_mb() if counted else None,
        }
    return found


def _train(
    subject: Subject, sampler: Sampler, batch_size: int, steps: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Rests, then trains for some seconds, again where others disturbed; returns what was done."""
    with sampler.phase(LEAD_IN, batch_size):  # the change of batch size, neither training nor rest
        run_steps = subject.runner(batch_size)
        run_steps(subject.unit)
    for repeats in range(MOST_REPEATS + 1):
        time.sleep(settings["pause_seconds"])
        spent, done = 0.0, 0
        with sampler.phase(TRAINING, batch_size) as phase:
            while spent < settings["seconds"]:
                spent += run_steps(steps)
                done += steps
        others = summary(sampler.series(), phase)["foreign_cores"]
        disturbed = others is not None and others > DISTURBED_CORES
        if not disturbed:
            break
        if repeats < MOST_REPEATS:
            sampler.rename(phase, REPEATED, (batch_size, repeats))
    return {"steps": done, "seconds": spent, "disturbed": disturbed, "repeats": repeats}
