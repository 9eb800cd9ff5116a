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

import math
import re
from collections import Counter, defaultdict
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
_COPY = re.compile(r"Memcpy|Memset")


class Event(NamedTuple):
    """What one thread or stream did: its name, and when, in picoseconds."""

    name: str
    start: int
    stop: int
    run: int | None = None  # number of the executor's run that it belongs to
    op: str | None = None  # op of the graph that launched a kernel


class Line(NamedTuple):
    """The events of a thread or of a GPU's stream."""

    on_host: bool
    name: str
    events: list[Event]


# A part (compute, input, pipeline or executor), the type of a compute op, start and stop.
Span = tuple[str, str, int, int]


def length(*spans: Spans) -> int:
    """Returns the length of the union of spans (start, stop), in their own unit."""
    array = np.concatenate([np.asarray(each, np.int64).reshape(-1, 2) for each in spans])
    array = array[np.argsort(array[:, 0], kind="stable")]
    covered = np.maximum.accumulate(np.append(array[:1, 0], array[:, 1]))[:-1]
    return int((array[:, 1] - np.maximum(array[:, 0], covered)).clip(0).sum())


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
    return [
        Line(plane.name == _HOST, line.name, _events(plane, line))
        for plane in space.planes
        for line in plane.lines
        if plane.name == _HOST
        # A GPU's other lines repeat its kernels by op and by scope.
        or (plane.name.startswith("/device:GPU:") and line.name.startswith("Stream"))
    ]


def _events(plane: XPlane, line: XLine) -> list[Event]:
    names = {key: metadata.name for key, metadata in plane.event_metadata.items()}
    stats = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
    events = []
    for event in line.events:
        run = op = None
        for stat in event.stats:
            name = stats[stat.metadata_id]
            if name == "id":
                run = getattr(stat, stat.WhichOneof("value"))
            elif name == "tf_op":
                op = stat.str_value or stats.get(stat.ref_value)
        start = line.timestamp_ns * 1000 + event.offset_ps
        events.append(Event(names[event.metadata_id], start, start + event.duration_ps, run, op))
    return events


class _Open(NamedTuple):
    """An event that has not ended yet, with what holds for everything within it."""

    stop: float = math.inf
    eager_op: str | None = None
    pipeline: bool = False
    compute: bool = False


def _spans(line: Line, pipeline_runs: set[int | None]) -> list[Span]:
    """Returns the spans of a thread of the host."""
    found, own, opened = [], line.name.startswith("tf_data_"), [_Open()]
    for event in sorted(line.events, key=lambda event: (event.start, -event.stop)):
        name, start, stop, run, _ = event
        while opened[-1].stop <= start:
            opened.pop()
        outer = opened[-1]
        named, eager = _OP.fullmatch(name), _EAGER.fullmatch(name)
        op, eager_op = named and named[1], eager[1] if eager else outer.eager_op
        waits = _WAIT.fullmatch(name) or (op or (eager and eager_op)) in INPUT_OPS
        runs_graph, kernel = name == "ExecutorState::Process", _KERNEL.fullmatch(name)
        stage = _STAGE.match(name) or (runs_graph and (own or run in pipeline_runs))
        if kernel:
            op = outer.eager_op
        compute = op is not None and op not in NOT_COMPUTE
        if compute and not (own or outer.pipeline or outer.compute):
            found.append(("compute", op, start, stop))
        if waits and not outer.pipeline:
            found.append(("input", "", start, stop))
        if stage:
            found.append(("pipeline", "", start, stop))
        if (runs_graph or kernel) and not (own or stage or outer.pipeline):
            found.append(("executor", "", start, stop))
        inner = outer.pipeline or bool(waits or stage)
        opened.append(_Open(stop, eager_op, inner, outer.compute or compute))
    return found


def activity(found: Iterable[Line]) -> list[Span]:
    """Returns what computes, waits for data, works in the pipeline, and runs graphs or ops."""
    host, kernels = [], []
    for line in found:
        if line.on_host:
            host.append(line)
        else:
            kernels += line.events
    # Threads that training shares with the pipeline are distinguished by the executor's run.
    events = (event for line in host for event in line.events)
    runs = {event.run for event in events if event.name.startswith(_CAPTURED)} - {None}
    spans = [span for line in host for span in _spans(line, runs)]
    if kernels:
        spans = [span for span in spans if span[0] != "compute"]
    for event in kernels:
        if not _COPY.match(event.name):
            named = _OP.fullmatch(event.op or "")
            op = named[1] if named else event.name
            spans.append(("compute", op, event.start, event.stop))
    return spans


def summarise(space: XSpace) -> dict[str, Any]:
    """Returns what the wall time of the recorded steps goes to: shares and seconds of its parts.

    compute_thread_seconds adds compute up over threads or streams. ops are the types of compute
    ops with the most seconds; a kernel of a GPU whose op is unknown stands under its own name.
    Raises `UserError` if no event took any time.
    """
    found = lines(space)
    events = [event for line in found for event in line.events if event.stop > event.start]
    events = [event for event in events if event.name == WINDOW] or events
    if not events:
        raise UserError("profile: received a trace without events; at least one is expected.")
    first, last = min(event.start for event in events), max(event.stop for event in events)
    within: dict[str, list[tuple[int, int]]] = defaultdict(list)  # part -> its spans
    counts, times = Counter(), Counter()
    for part, op, start, stop in activity(found):
        start, stop = max(start, first), min(stop, last)
        if start < stop:
            # Picoseconds since 1970 overflow 64 bits.
            within[part].append((start - first, stop - first))
            if part == "compute":
                counts[op] += 1
                times[op] += stop - start
    total = last - first
    divided = parts(total, within["compute"], within["input"], within["executor"])
    top = sorted(times, key=lambda op: (-times[op], op))[:TOP]
    on_gpu = any(line.events and not line.on_host for line in found)
    return {
        "seconds": total / 1e12,
        **{f"{name}_share": divided[name] / total for name in ("compute", "input", "host")},
        **{f"{name}_seconds": value / 1e12 for name, value in divided.items()},
        "compute_thread_seconds": times.total() / 1e12,
        "pipeline_seconds": length(within["pipeline"]) / 1e12,
        "compute_on": "gpu" if on_gpu else "cpu",
        "ops": [{"op": op, "count": counts[op], "seconds": times[op] / 1e12} for op in top],
    }
