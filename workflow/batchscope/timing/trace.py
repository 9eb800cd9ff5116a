"""Trace of TensorFlow's profiler in, shares of compute, input and host in the steps' time out.

The threads of the host have nested events. An event computes if it is a kernel of an operation, and
waits if it fetches the next batch. Operations of the input pipeline itself do not count, whether
they run in its threads, in shared ones, or in the thread that waits.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from batchscope.core.errors import UserError

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
    """Event of a thread or of a GPU's stream; times are in picoseconds."""

    name: str
    start: int
    stop: int
    run: int | None = None  # number of the executor's run


def shares(folder: Path) -> dict[str, float]:
    """Return the wall time of the profiled steps in seconds, and the shares of its parts."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (path,) = folder.glob("plugins/profile/*/*.xplane.pb")  # the layout of TensorBoard
    threads: list[tuple[str, list[Event]]] = []
    kernels: list[Event] = []
    for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
        for line in plane.lines:
            events = []
            for event in line.events:
                name, stats = plane.event_metadata[event.metadata_id].name, plane.stat_metadata
                ids = [stat for stat in event.stats if stats[stat.metadata_id].name == "id"]
                runs = [getattr(stat, stat.WhichOneof("value")) for stat in ids]
                start = line.timestamp_ns * 1000 + event.offset_ps
                events.append(Event(name, start, start + event.duration_ps, *runs))
            if plane.name == "/host:CPU":
                threads.append((line.name, events))
            # The other lines of a GPU repeat its kernels by operation and by scope.
            elif plane.name.startswith("/device:GPU:") and line.name.startswith("Stream"):
                kernels += events
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
        if (is_executor and runs_pipeline) or PIPELINE_EVENT.match(event.name):
            in_pipeline = True
        stack.append((event.stop, eager_operation, in_pipeline or is_wait))


def covered_time(events: list[Event], window: Event) -> int:
    """Return the time of a window during which at least one event runs."""
    covered, last_stop = 0, window.start
    for event in sorted(events, key=lambda event: event.start):
        start, stop = max(event.start, last_stop), min(event.stop, window.stop)
        if start < stop:
            covered, last_stop = covered + stop - start, stop
    return covered
