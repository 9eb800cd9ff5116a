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
from batchscope.errors import UserError
from batchscope.frameworks import LEAD_IN_STEPS
from batchscope.store import records
from batchscope.timing import Timed, TimingJob, fates, steps
from batchscope.timing.blocks import RunSteps, whole
from batchscope.timing.instruments import samples, trace
from batchscope.timing.instruments.peak_memory import MEGABYTE, peak_memory
from batchscope.timing.instruments.sampler import Sampler, as_lists

# What the samples of the steps are called, without the profiler and with it.
PLAIN, PROFILED = "plain", "profiled"


def newest(folder: Path | str) -> Path:
    """Returns the newest trace below a folder in TensorBoard's layout.

    Raises:
        UserError: If there is none.
    """
    # The folders are named by their time, to the second.
    found = sorted(Path(folder).glob("plugins/profile/*/*.xplane.pb"))
    if not found:
        raise UserError(
            f"{folder}: received no plugins/profile/*/*.xplane.pb; a recorded profile is expected."
        )
    return found[-1]


def read(folder: Path | str) -> dict[str, Any]:
    """Returns what the time of the newest profile below a folder goes to; see `trace.summarise`.

    Raises:
        UserError: If there is no profile, or no event of it took any time.
    """
    return trace.summarise(private_interfaces.profile(newest(folder).read_bytes()))


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


def _traced(run_steps: RunSteps, count: int, per_step: bool) -> float:
    """Runs steps inside the window of a trace; returns their seconds."""
    import tensorflow as tf

    with tf.profiler.experimental.Trace(trace.WINDOW):
        if not per_step:
            return run_steps(count)
        seconds = 0.0
        for step in range(count):
            with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
                seconds += run_steps(1)
        return seconds


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
    not pass for the profiler's own cost. Writing the profile is in none of the times. A call of
    Keras's `fit` does more before and after its steps; that is in the trace, as host, and in no
    speed.

    A trace grows by some tens of events per step of a graph, and by a thousand per eager step
    (20 kB); a hundred steps or so are enough.

    Args:
        run_steps: Waits for the end of so many steps; returns their seconds.
        folder: Gets plugins/profile/<time>/<host>.xplane.pb, as TensorBoard expects it.
        count: Steps, at least 1.
        sampler: Gets the phases `PLAIN` and `PROFILED`.
        per_step: Whether to call `run_steps` for every step by itself, as a step of the trace;
            a loop in the graph takes all of them in one call, and has no steps in the trace.
        lead_in: Untimed steps before: a pipeline has batches ready after a pause.

    Returns:
        steps; steps_per_second without the profiler, and steps_per_second_profiled; overhead:
        the time that the profiler adds, as a share of the time without it.
    """

    def run(name: str) -> float:
        if lead_in:
            run_steps(lead_in)
        with sampler.phase(name):
            return _traced(run_steps, count, per_step)

    with _profiled(folder, save=False):
        if lead_in:
            run_steps(lead_in)
        _traced(run_steps, count, per_step)
    before = run(PLAIN)
    with _profiled(folder, save=True):
        profiled = run(PROFILED)
    plain = (before + run(PLAIN)) / 2
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
    with steps.open_runner(job) as runner, Sampler(cores=runner.threads, gpu=job.gpu) as sampler:
        counted = runner.reset_peak()
        count, lead_in = (whole(each, runner.unit) for each in (settings["steps"], LEAD_IN_STEPS))
        try:
            run_steps = runner.at(batch_size)
            found = record(run_steps, folder, count, sampler, per_step, lead_in)
            # The process has had no other batch size: its peaks are this one's.
            peak = runner.peak_bytes() if counted else None
            found["memory_peak_mb"] = peak_memory()
            found["tensorflow_peak_mb"] = None if peak is None else peak / MEGABYTE
            found |= read(folder)
            found["executor_share"] = found["executor_seconds"] / found["seconds"]
        except Exception as error:
            status = fates.status(error)
    series, plain = sampler.series(), (PLAIN, None)
    # The machine's clock ticks too slowly to measure the others of a few steps.
    found["foreign_cores"] = samples.summary(series)["foreign_cores"]
    if status == records.FINISHED:
        found["utilisation"] = samples.summary(series, sampler.phases.index(plain))
    details = {
        "device": job.factors["device"],
        "threads": runner.threads,
        **found,
        "samples": as_lists(sampler, "phase"),
        "gpu_device": sampler.gpu_device,
    }
    return Timed(status, details)
