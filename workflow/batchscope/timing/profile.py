"""Parts of the time of a step, by TensorFlow's profiler, with a trace for TensorBoard.

The wall time of the profiled steps has three parts, as in the step-time breakdown of
https://www.tensorflow.org/guide/profiler:

    compute    at least one operation computes
    input      no operation computes, and training waits for the next batch of a tf.data pipeline
    host       the rest: Python, dispatch, copies between devices, idle time

On a GPU, compute is the time of the kernels. On a CPU, it is a lower bound: TensorFlow traces only
the operations of a graph that its executor considers expensive. `trace` computes the shares.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from batchscope.study import specifications
from batchscope.study.model import Integer, Setting
from batchscope.study.specifications import (
    Column,
    Figure,
    IntegerColumn,
    PercentColumn,
    Table,
    Timing,
    TimingSettings,
)
from batchscope.timing import Timed, with_summary

if TYPE_CHECKING:
    from batchscope.timing.blocks import RunSteps
    from batchscope.timing.samples import Sampler, Span
    from batchscope.timing.timing_job import TimingJob


class ProfileSettings(TimingSettings):
    """Settings of `profile`."""

    steps: Annotated[Integer, Field(ge=1), Setting("st", "steps")] = 20
    """Profiled steps."""


_PROFILE_COLUMNS = {
    specifications.REPEAT_COLUMN: specifications.REPEAT_DESCRIPTION,
    "batch_size": IntegerColumn("Examples per step."),
    "status": specifications.STATUS_DESCRIPTION,
    "compute": Column("Share of the time during which an operation computes."),
    "input": Column("Share of the time during which nothing computes and training awaits data."),
    "host": Column("Remaining share of the time: Python, dispatch, copies, idle."),
    "steps": IntegerColumn("Profiled steps."),
    "steps_per_second": Column("Steps per second without the profiler."),
    "process_percent": PercentColumn(
        "Median CPU utilisation in the steps without the profiler, 100 % for all its cores.", "%"
    ),
    "gpu_percent": PercentColumn(
        "Median GPU utilisation in these steps; empty if they take less than 1 s, NVML's window.",
        "%",
    ),
}


def _profile_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the shares of the time of a profiled configuration."""
    row = {name.removesuffix("_share"): value for name, value in record.items()}
    (batch_size,) = record["batch_sizes"]
    yield with_summary({**row, "batch_size": batch_size})


ENTRY = Timing(
    version="profile-v1",
    settings=ProfileSettings,
    batch_sizes="each",
    also_writes=("",),
    tables={"profiles": Table(_PROFILE_COLUMNS, _profile_rows, keys=())},
    figures=(
        Figure(
            "profile",
            "Parts of the time of a step",
            "Machine",
            "Shares of the wall time of training steps, by TensorFlow's profiler. On a CPU, "
            "compute is a lower bound. At the right: measurements without the profiler.",
            kind="profile",
            table="profiles",
        ),
    ),
    order=5,
)


def profile_steps(
    run_steps: RunSteps, folder: Path, count: int, sampler: Sampler, per_step: bool, lead_in: int
) -> dict[str, Any]:
    """Write a trace of training steps to a folder; time the steps also without the profiler.

    With `per_step`, each step is a call of `run_steps` and a step of the trace.
    """
    from tensorflow.profiler.experimental import Profile, Trace

    from batchscope.timing.samples import summarise
    from batchscope.timing.trace import WINDOW_EVENT

    def run() -> tuple[float, Span]:
        run_steps(lead_in)  # untimed; uses up the batches that a pipeline prefetched in a pause
        start, seconds = sampler.sample(), 0.0
        with Trace(WINDOW_EVENT):
            if not per_step:
                seconds = run_steps(count)
            for step in range(count if per_step else 0):
                with Trace("train", step_num=step, _r=1):
                    seconds += run_steps(1)
        return seconds, (start, sampler.sample())

    # The first profile contains the start of the profiler.
    with tempfile.TemporaryDirectory() as discarded, Profile(discarded):
        run_steps(lead_in)
    # Plain runs surround the profiled run, so that a drift of the machine's speed cancels.
    seconds_before, span_before = run()
    with Profile(str(folder)):
        run()
    seconds_after, span_after = run()
    return {
        "steps": count,
        "steps_per_second": 2 * count / (seconds_before + seconds_after),
        "utilisation": summarise(sampler.series(), [span_before, span_after]),
    }


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Profile a configuration, and keep the trace for TensorBoard next to the record."""
    from batchscope.store import records
    from batchscope.timing import trace
    from batchscope.timing.blocks import LEAD_IN_STEPS, error_status, rounded_up
    from batchscope.timing.samples import Sampler

    folder = Path(job.output).with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (batch_size,) = job.subject.batch_sizes
    per_step = job.factors["loop"] in ("eager", "function")
    with job.runner() as runner, Sampler(cores=job.threads, gpus=job.gpus) as sampler:
        count, lead_in = (
            rounded_up(steps, runner.steps_per_call) for steps in (settings["steps"], LEAD_IN_STEPS)
        )
        try:
            run_steps = runner.steps_at_size(batch_size)
            rates = profile_steps(run_steps, folder, count, sampler, per_step, lead_in)
            return Timed(records.FINISHED, rates | trace.shares(folder))
        except Exception as error:
            return Timed(error_status(error), {})
