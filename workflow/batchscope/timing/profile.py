"""Parts of the time of a step, by TensorFlow's profiler, with a trace for TensorBoard.

The wall time of the profiled steps has three parts:

    compute    at least one operation computes
    input      no operation computes, and training waits for the next batch of a tf.data pipeline
    host       the rest: Python, dispatch, copies between devices, idle time

On a GPU, compute is the time of the kernels. On a CPU, it is a lower bound: TensorFlow traces only
the operations of a graph that its executor considers expensive. The parts follow the step-time
breakdown of https://www.tensorflow.org/guide/profiler. `read_trace` computes them.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from batchscope.core.errors import UserError
from batchscope.study import timing_columns
from batchscope.study.model import Integer
from batchscope.study.setting import Setting
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
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XLine, XPlane

    from batchscope.timing.blocks import RunSteps
    from batchscope.timing.samples import Sampler
    from batchscope.timing.timing_job import TimingJob


class ProfileSettings(TimingSettings):
    """Settings of `profile`."""

    steps: Annotated[Integer, Field(ge=1), Setting("st", "steps")] = 20
    """Profiled steps."""


_PROFILE_COLUMNS = {
    timing_columns.REPEAT_COLUMN: timing_columns.REPEAT_DESCRIPTION,
    "batch_size": IntegerColumn("Examples per step."),
    "status": timing_columns.STATUS_DESCRIPTION,
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
    shares = {f"{name}_share": name for name in ("compute", "input", "host")}
    row = {shares.get(name, name): value for name, value in record.items()}
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

PLAIN_PHASE = "plain"  # phase of the sampler: steps without the profiler
WINDOW_EVENT = "batchscope_steps"  # name of the event around the profiled steps

WAIT_OPERATION = re.compile(
    r"IteratorGetNext(AsOptional|Sync)?|MakeIterator|MultiDeviceIteratorGetNextFromShard"
)
# These operations run other operations or Python, control loops, or pass tensors on.
NON_COMPUTE_OPERATION = re.compile(
    r"(Stateless)?(Case|If|While)|For|(Stateful)?PartitionedCall|RemoteCall|SymbolicGradient"
    r"|(Eager)?PyFunc(Stateless)?|Enter|Exit|LoopCond|Merge|NextIteration|NoOp|Switch"
    r"|AnonymousIteratorV3|DeleteIterator|Optional(From|Get|Has)Value|(_Eager)?Const|Placeholder"
    r"|VarHandleOp|ReadVariableOp|IdentityN?|StopGradient|ExpandDims|Reshape|ShapeN?|Squeeze"
    r"|_Arg|_Retval|_(Host)?(Recv|Send)"
)
OPERATION_EVENT = re.compile(r"[^:]+:(_?[A-Z][\w>]*)")
EAGER_OPERATION_EVENT = re.compile(r"EagerLocalExecute: (_?[A-Z][\w>]*)")
KERNEL_EVENT = re.compile(r"KernelAndDevice\w+::Run")
WAIT_EVENT = re.compile(r"IteratorGetNext\w*::DoCompute")
PIPELINE_FUNCTION_EVENT = "InstantiatedCapturedFunction::"
PIPELINE_EVENT = re.compile(rf"Iterator::|MakeIterator::|{PIPELINE_FUNCTION_EVENT}|\w+Produce$")
GPU_COPY = re.compile(r"Memcpy|Memset")


class Event(NamedTuple):
    """Event of a thread or of a GPU's stream."""

    name: str
    start: int  # picoseconds
    stop: int  # picoseconds
    run: int | None = None  # number of the executor's run


def read_trace(folder: Path) -> dict[str, float]:
    """Return the wall time of the profiled steps in seconds, and the shares of its parts."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (path,) = folder.glob("plugins/profile/*/*.xplane.pb")  # the layout of TensorBoard
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    threads, kernels = [], []
    for plane in space.planes:
        for line in plane.lines:
            if plane.name == "/host:CPU":
                threads.append((line.name, list(_events(plane, line))))
            # The other lines of a GPU repeat its kernels by operation and by scope.
            elif plane.name.startswith("/device:GPU:") and line.name.startswith("Stream"):
                kernels += _events(plane, line)
    host_events = [event for _, events in threads for event in events]
    window = next((event for event in host_events if event.name == WINDOW_EVENT), None)
    if window is None:
        raise UserError("profile: the trace lacks the profiled steps. Is another profiler running?")
    # Training and pipeline share a thread pool; the run's number distinguishes their functions.
    functions = [event for event in host_events if event.name.startswith(PIPELINE_FUNCTION_EVENT)]
    pipeline_runs = {event.run for event in functions} - {None}
    activities = [pair for thread in threads for pair in _activities(*thread, pipeline_runs)]
    waits = [event for event, is_wait in activities if is_wait]
    compute = [event for event, is_wait in activities if not is_wait]
    if kernels:
        compute = [event for event in kernels if not GPU_COPY.match(event.name)]
    total = window.stop - window.start
    computing, busy = covered_time(compute, window), covered_time(compute + waits, window)
    return {
        "seconds": total / 1e12,
        "compute_share": computing / total,
        "input_share": (busy - computing) / total,
        "host_share": (total - busy) / total,
    }


def _events(plane: XPlane, line: XLine) -> Iterator[Event]:
    for event in line.events:
        start = line.timestamp_ns * 1000 + event.offset_ps
        runs = [
            getattr(stat, stat.WhichOneof("value"))
            for stat in event.stats
            if plane.stat_metadata[stat.metadata_id].name == "id"
        ]
        name = plane.event_metadata[event.metadata_id].name
        yield Event(name, start, start + event.duration_ps, *runs)


def _activities(
    thread: str, events: list[Event], pipeline_runs: set[int]
) -> Iterator[tuple[Event, bool]]:
    """Yield the events of a thread that compute or wait, and whether they wait.

    `pipeline_runs` are the executor's runs for functions of the input pipeline.
    """
    is_pipeline = thread.startswith("tf_data_")
    # Enclosing events: stop, eager operation, and whether training waits or the pipeline works.
    stack: list[tuple[float, str | None, bool]] = [(math.inf, None, False)]
    for event in sorted(events, key=lambda event: (event.start, -event.stop)):
        while stack[-1][0] <= event.start:
            stack.pop()
        _, eager_operation, in_pipeline = stack[-1]
        if eager := EAGER_OPERATION_EVENT.fullmatch(event.name):
            eager_operation = eager[1]
        match = OPERATION_EVENT.fullmatch(event.name)
        operation = eager_operation if KERNEL_EVENT.fullmatch(event.name) else match and match[1]
        waits = WAIT_OPERATION.fullmatch(operation or (eager and eager[1]) or "")
        is_wait = bool(waits or WAIT_EVENT.fullmatch(event.name))
        is_compute = operation and not (is_pipeline or NON_COMPUTE_OPERATION.fullmatch(operation))
        if (is_wait or is_compute) and not in_pipeline:
            yield event, is_wait
        runs_pipeline = is_pipeline or event.run in pipeline_runs
        is_executor = event.name == "ExecutorState::Process"
        if is_executor and runs_pipeline or PIPELINE_EVENT.match(event.name):
            in_pipeline = True
        stack.append((event.stop, eager_operation, in_pipeline or is_wait))


def covered_time(events: list[Event], window: Event) -> int:
    """Return the time of a window during which at least one event runs."""
    # Picoseconds since 1970 overflow 64 bits, so the spans are relative to the window.
    spans = sorted((event.start - window.start, event.stop - window.start) for event in events)
    starts, stops = np.array(spans, np.int64).reshape(-1, 2).clip(0, window.stop - window.start).T
    # An event adds the time after the last stop of all earlier events.
    last_stops = np.maximum.accumulate(np.append(starts[:1], stops))[:-1]
    return int((stops - np.maximum(starts, last_stops)).clip(0).sum())


def profile_steps(
    run_steps: RunSteps, folder: Path, count: int, sampler: Sampler, per_step: bool, lead_in: int
) -> dict[str, float]:
    """Write a trace of training steps to a folder; time the steps also without the profiler.

    With `per_step`, each step is a call of `run_steps` and a step of the trace. The untimed steps
    of the lead-in use up the batches that a pipeline prefetched in a pause.
    """
    from tensorflow.profiler.experimental import Profile, Trace

    def run() -> float:
        with Trace(WINDOW_EVENT):
            if not per_step:
                return run_steps(count)
            seconds = 0.0
            for step in range(count):
                with Trace("train", step_num=step, _r=1):
                    seconds += run_steps(1)
            return seconds

    def run_plain() -> float:
        run_steps(lead_in)
        with sampler.phase(PLAIN_PHASE):
            return run()

    # The first profile contains the start of the profiler.
    with tempfile.TemporaryDirectory() as discarded, Profile(discarded):
        run_steps(lead_in)
    # Plain runs surround the profiled run, so that a drift of the machine's speed cancels.
    before = run_plain()
    with Profile(str(folder)):
        run_steps(lead_in)
        run()
    return {"steps": count, "steps_per_second": 2 * count / (before + run_plain())}


def measure(job: TimingJob, settings: dict[str, Any]) -> Timed:
    """Profile a configuration, and keep the trace for TensorBoard next to the record."""
    from batchscope.store import records
    from batchscope.timing.blocks import LEAD_IN_STEPS, error_status, rounded_up
    from batchscope.timing.samples import Sampler

    folder = Path(job.output).with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (batch_size,) = job.subject.batch_sizes
    per_step = job.factors["loop"] in ("eager", "function")
    with job.runner() as runner, Sampler(cores=job.threads, gpu=job.on_gpu) as sampler:
        count, lead_in = (
            rounded_up(n, runner.steps_per_call) for n in (settings["steps"], LEAD_IN_STEPS)
        )
        try:
            run_steps = runner.steps_at_size(batch_size)
            rates = profile_steps(run_steps, folder, count, sampler, per_step, lead_in)
            utilisation = {"utilisation": sampler.summary(PLAIN_PHASE)}
            return Timed(records.FINISHED, {**rates, **read_trace(folder), **utilisation})
        except Exception as error:
            return Timed(error_status(error), {})
