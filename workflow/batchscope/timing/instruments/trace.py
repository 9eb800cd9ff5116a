"""What the time of training steps goes to, from a trace of TensorFlow's profiler.

The wall time is divided into three parts that add up to it::

    compute    at least one compute op runs
    input      no compute op runs, and training waits for the next batch of a tf.data pipeline
    host       neither: Python, dispatch, copies between devices, idle

The names of the events on the threads of the plane "/host:CPU" decide:

- Compute is an op of a graph, "name:OpType", and the kernel's run of an eager op
  ("KernelAndDeviceFunc::Run" within "EagerLocalExecute: OpType"), with all that runs within it.
  Ops that only call, steer, wait or hand on (`NOT_COMPUTE`) are not.
- Input is the wait of training itself (`INPUT_OPS`). The stages and functions of the pipeline are
  neither input nor compute: a pipeline that is ahead of training costs it nothing. Their time is
  in `pipeline_seconds`.
- With a GPU in the trace, compute is the kernels on the streams of "/device:GPU:n"; copies and
  memory fills are not compute.

Within a graph, TensorFlow records the ops that its executor takes for expensive; the others count
as host, in `executor_seconds`: the true share of compute lies between compute and compute +
executor. A loop over a data set inside a function becomes one op of the pipeline (ReduceDataset),
with the training in it. Code that XLA compiled for a CPU names no op types.

The parts follow the step-time breakdown of https://www.tensorflow.org/guide/profiler.
"""

from __future__ import annotations

import functools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batchscope.errors import UserError

if TYPE_CHECKING:
    from batchscope.private_interfaces import XLine, XPlane, XSpace

Spans = Sequence[tuple[int, int]] | np.ndarray

# The event around all recorded steps: starting and stopping the profiler is no part of training.
WINDOW = "batchscope_steps"
TOP = 10

# fmt: off
INPUT_OPS = frozenset({
    "IteratorGetNext", "IteratorGetNextAsOptional", "IteratorGetNextSync", "MakeIterator",
    "MultiDeviceIteratorGetNextFromShard",
})
# They run other ops, which leave events of their own, or Python.
CALLS = frozenset({
    "Case", "EagerPyFunc", "For", "If", "PartitionedCall", "PyFunc", "PyFuncStateless",
    "RemoteCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf", "StatelessWhile",
    "SymbolicGradient", "While",
})
# What loops and branches of a graph are lowered to.
STEERING = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "NoOp", "Switch"})
# They hand tensors on, or change no more than a shape; some wait for others.
HANDING_ON = frozenset({
    "AnonymousIteratorV3", "Const", "DeleteIterator", "ExpandDims", "Identity", "IdentityN",
    "OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "Placeholder",
    "ReadVariableOp", "Reshape", "Shape", "ShapeN", "Squeeze", "StopGradient", "VarHandleOp",
    "_Arg", "_EagerConst", "_HostRecv", "_HostSend", "_Recv", "_Retval", "_Send",
})
# fmt: on
NOT_COMPUTE = CALLS | STEERING | HANDING_ON | INPUT_OPS

_OP = re.compile(r"[^:]+:(_?[A-Z][\w>]*)")
_EAGER = re.compile(r"EagerLocalExecute: (_?[A-Z][\w>]*)")
_KERNEL = re.compile(r"KernelAndDevice\w+::Run")
_WAIT = re.compile(r"IteratorGetNext\w*::DoCompute")
_HOST = "/host:CPU"
_CAPTURED = "InstantiatedCapturedFunction::"
_STAGE = re.compile(rf"Iterator::|MakeIterator::|{_CAPTURED}|\w+Produce$")
_EXECUTOR = "ExecutorState::Process"
_COPY = re.compile(r"Memcpy|Memset")


class Event(NamedTuple):
    """What one thread or stream did: its name, and when, in picoseconds."""

    name: str
    start: int
    stop: int
    step: int | None = None  # number of the executor's run that it belongs to
    op: str | None = None  # op of the graph that launched a kernel


class Line(NamedTuple):
    """The events of a thread or of a GPU's stream."""

    on_host: bool
    name: str
    events: list[Event]


class Activity(NamedTuple):
    """When what ran: spans (start, stop) in picoseconds; compute with the type of its op."""

    compute: list[tuple[str, int, int]]
    waits: list[tuple[int, int]]
    pipeline: list[tuple[int, int]]
    executor: list[tuple[int, int]]


def length(*spans: Spans) -> int:
    """Returns the length of the union of spans (start, stop), in their own unit."""
    array = np.concatenate([np.asarray(each, np.int64).reshape(-1, 2) for each in spans])
    array = array[np.argsort(array[:, 0], kind="stable")]
    covered = np.maximum.accumulate(np.append(array[:1, 0], array[:, 1]))[:-1]
    return int((array[:, 1] - np.maximum(array[:, 0], covered)).clip(0).sum())


def clip(spans: Spans, start: int, stop: int) -> np.ndarray:
    """Returns the parts of spans that lie within [start, stop], int64 of shape (n, 2)."""
    return np.clip(np.asarray(spans, dtype=np.int64).reshape(-1, 2), start, stop)


def parts(total: int, compute: Spans, waits: Spans, executor: Spans) -> dict[str, int]:
    """Divides a time, within which all spans lie, into compute, input and host.

    `executor` is the part of host in which an executor runs a graph or an eager op.
    """
    busy, computing = length(compute, waits), length(compute)
    return {
        "compute": computing,
        "input": busy - computing,
        "host": total - busy,
        "executor": length(compute, waits, executor) - busy,
    }


def lines(space: XSpace) -> list[Line]:
    """Returns the threads of the host and the streams of the GPUs of a trace."""
    found = [
        (plane, line)
        for plane in space.planes
        for line in plane.lines
        if plane.name == _HOST
        # A GPU's other lines repeat its kernels by op and by scope.
        or (plane.name.startswith("/device:GPU:") and line.name.startswith("Stream"))
    ]
    # Picoseconds since 1970 overflow 64 bits.
    origin = min((line.timestamp_ns for _, line in found), default=0)
    return [
        Line(plane.name == _HOST, line.name, _events(plane, line, line.timestamp_ns - origin))
        for plane, line in found
    ]


def _events(plane: XPlane, line: XLine, origin_ns: int) -> list[Event]:
    names = {key: metadata.name for key, metadata in plane.event_metadata.items()}
    stats = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
    events = []
    for event in line.events:
        step = op = None
        for stat in event.stats:
            name = stats[stat.metadata_id]
            if name == "id":
                step = getattr(stat, stat.WhichOneof("value"))
            elif name == "tf_op":
                op = stat.str_value or stats.get(stat.ref_value)
        start = origin_ns * 1000 + event.offset_ps
        events.append(Event(names[event.metadata_id], start, start + event.duration_ps, step, op))
    return events


def activity(found: Iterable[Line]) -> Activity:
    """Sorts the events of a trace into compute, waits for data, the pipeline and executors."""
    host, streams = [], []
    for line in found:
        (host if line.on_host else streams).append(line)
    result = Activity([], [], [], [])
    # Threads that training shares with the pipeline are distinguished by the executor's run.
    events = (event for line in host for event in line.events)
    runs = {event.step for event in events if event.name.startswith(_CAPTURED)} - {None}
    for line in host:
        _add_thread(result, line, runs)
    kernels = [event for line in streams for event in line.events]
    if kernels:
        result.compute.clear()
    for event in kernels:
        if not _COPY.match(event.name):
            match = _OP.fullmatch(event.op or "")
            result.compute.append((match[1] if match else event.name, event.start, event.stop))
    return result


class _Kind(NamedTuple):
    """What the name of an event says it is."""

    op: str | None  # type of an op of a graph
    eager_op: str | None  # type of an eager op, which runs by a kernel within the event
    kernel: bool
    executor: bool
    wait: bool
    stage: bool  # of a pipeline


@functools.cache
def _kind(name: str) -> _Kind:
    op, eager = _OP.fullmatch(name), _EAGER.fullmatch(name)
    op_type, eager_type = op and op[1], eager and eager[1]
    waits = bool(_WAIT.fullmatch(name)) or (op_type or eager_type) in INPUT_OPS
    kernel, executor = bool(_KERNEL.fullmatch(name)), name == _EXECUTOR
    return _Kind(op_type, eager_type, kernel, executor, waits, bool(_STAGE.match(name)))


class _Open(NamedTuple):
    """An event that has not ended yet, with what holds for everything within it."""

    stop: float = math.inf
    eager_op: str | None = None
    pipeline: bool = False
    compute: bool = False


def _add_thread(result: Activity, line: Line, pipeline_runs: set[int | None]) -> None:
    own = line.name.startswith("tf_data_")
    opened = [_Open()]
    for event in sorted(line.events, key=lambda event: (event.start, -event.stop)):
        while opened[-1].stop <= event.start:
            opened.pop()
        kind, outer, span = _kind(event.name), opened[-1], (event.start, event.stop)
        stage = kind.stage or (kind.executor and (own or event.step in pipeline_runs))
        op = outer.eager_op if kind.kernel else kind.op
        compute = op is not None and op not in NOT_COMPUTE
        if compute and not (own or outer.pipeline or outer.compute):
            result.compute.append((op, *span))
        if kind.wait and not outer.pipeline:
            result.waits.append(span)
        if stage:
            result.pipeline.append(span)
        if (kind.executor or kind.kernel) and not (own or stage or outer.pipeline):
            result.executor.append(span)
        inner = outer.pipeline or kind.wait or stage
        eager_op = kind.eager_op or outer.eager_op
        opened.append(_Open(event.stop, eager_op, inner, outer.compute or compute))


def window(found: Iterable[Line]) -> tuple[int, int]:
    """Returns start and stop of the event `WINDOW`, or of all, in picoseconds.

    Raises:
        UserError: If no event of the trace took any time.
    """
    events = [event for line in found for event in line.events if event.stop > event.start]
    chosen = [event for event in events if event.name == WINDOW] or events
    if not chosen:
        raise UserError("profile: received a trace without events; at least one is expected.")
    return min(event.start for event in chosen), max(event.stop for event in chosen)


def summarise(space: XSpace) -> dict[str, Any]:
    """Returns what the wall time of the recorded steps goes to: shares and seconds of its parts.

    compute_thread_seconds adds compute up over threads or streams. ops are the types of compute
    ops with the most seconds; a kernel of a GPU whose op is unknown stands under its own name.
    Raises `UserError` if no event took any time.
    """
    found = lines(space)
    start, stop = window(found)
    seen = activity(found)
    compute, waits, pipeline, executor = (
        clip(spans, start, stop) for spans in ([span for _, *span in seen.compute], *seen[1:])
    )
    total = stop - start
    divided = parts(total, compute, waits, executor)
    counts: dict[str, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)
    for (op, *_), (begun, ended) in zip(seen.compute, compute.tolist(), strict=True):
        if ended > begun:
            counts[op] += 1
            times[op] += ended - begun
    top = sorted(times, key=lambda op: (-times[op], op))[:TOP]
    on_gpu = any(line.events and not line.on_host for line in found)
    return {
        "seconds": total / 1e12,
        **{f"{name}_share": divided[name] / total for name in ("compute", "input", "host")},
        **{f"{name}_seconds": value / 1e12 for name, value in divided.items()},
        "compute_thread_seconds": sum(times.values()) / 1e12,
        "pipeline_seconds": length(pipeline) / 1e12,
        "compute_on": "gpu" if on_gpu else "cpu",
        "ops": [{"op": op, "count": counts[op], "seconds": times[op] / 1e12} for op in top],
    }
