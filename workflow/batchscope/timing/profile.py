"""A profile of training steps by TensorFlow's profiler, kept for TensorBoard.

How it is read stands in `trace`. How busy CPU and GPU are is sampled over the same steps.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope import private_interfaces
from batchscope.store import records
from batchscope.timing import Timed, TimingJob, fates
from batchscope.timing.blocks import LEAD_IN_STEPS, RunSteps, whole
from batchscope.timing.instruments import processes, samples, trace
from batchscope.timing.instruments.sampler import Sampler

# What the samples of the steps are called, without the profiler and with it.
PLAIN, PROFILED = "plain", "profiled"


def read(folder: Path) -> dict[str, Any]:
    """Returns what the time of the profile below a folder goes to; see `trace.summarise`."""
    (path,) = folder.glob("plugins/profile/*/*.xplane.pb")  # the layout of TensorBoard
    return trace.summarise(private_interfaces.profile(path.read_bytes()))


@contextlib.contextmanager
def _profiled(folder: Path | str, save: bool) -> Iterator[None]:
    """Profiles what runs inside; keeps the profile of what came to its end."""
    import tensorflow as tf

    finished = False
    tf.profiler.experimental.start(str(folder))
    try:
        yield
        finished = True
    finally:
        tf.profiler.experimental.stop(save=save and finished)


def record(
    run_steps: RunSteps,
    folder: Path | str,
    count: int,
    sampler: Sampler,
    per_step: bool = False,
    lead_in: int = 0,
) -> dict[str, float]:
    """Profiles training steps, and times them with and without the profiler.

    The steps run four times: once, unsaved, so that what is only done once is done, and then
    profiled between two runs without the profiler, so that a drift of the machine's speed does
    not pass for the profiler's own cost. Writing the profile is in none of the times. With
    `per_step`, every step is a call of `run_steps`, and a step of the trace. The untimed steps of
    the lead-in use up the batches that a pipeline has ready after a pause.
    """
    from tensorflow.profiler.experimental import Trace

    def run(phase: contextlib.AbstractContextManager[Any]) -> float:
        if lead_in:
            run_steps(lead_in)
        with phase, Trace(trace.WINDOW):
            if not per_step:
                return run_steps(count)
            seconds = 0.0
            for step in range(count):
                with Trace("train", step_num=step, _r=1):
                    seconds += run_steps(1)
            return seconds

    with _profiled(folder, save=False):
        run(contextlib.nullcontext())
    before = run(sampler.phase(PLAIN))
    with _profiled(folder, save=True):
        profiled = run(sampler.phase(PROFILED))
    plain = (before + run(sampler.phase(PLAIN))) / 2
    return {
        "steps": count,
        "steps_per_second": count / plain,
        "steps_per_second_profiled": count / profiled,
        "overhead": profiled / plain - 1,
    }


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Profiles a configuration, and keeps the trace for TensorBoard.

    It lies in the folder that is named as the record, without its suffix.
    """
    folder = Path(job.output).with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (batch_size,) = job.subject.batch_sizes
    per_step = job.factors["loop"] in ("eager", "function")
    status, found = records.FINISHED, {}
    with job.runner() as runner, Sampler(cores=runner.threads, gpu=job.gpu) as sampler:
        counted = runner.reset_peak()
        count, lead_in = (whole(each, runner.unit) for each in (settings["steps"], LEAD_IN_STEPS))
        try:
            found = record(runner.at(batch_size), folder, count, sampler, per_step, lead_in)
            # The process has had no other batch size: its peaks are this one's.
            found["memory_peak_mb"] = processes.peak_memory()
            found["tensorflow_peak_mb"] = runner.peak_mb() if counted else None
            found |= read(folder)
            found["executor_share"] = found["executor_seconds"] / found["seconds"]
        except Exception as error:
            status = fates.status(error)
    # The machine's clock ticks too slowly to measure the others of a few steps.
    found["foreign_cores"] = samples.summary(sampler.series())["foreign_cores"]
    if status == records.FINISHED:
        found["utilisation"] = sampler.summary(PLAIN)
    return Timed(status, {"threads": runner.threads, **found, **sampler.details("phase")})
