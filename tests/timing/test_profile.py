"""Profiles of real steps and of a handmade trace: shares, records and failures."""

from unittest.mock import Mock

import numpy as np
import pytest

import measured_run
from batchscope.core.errors import UserError
from batchscope.datasets import Examples, prepared
from batchscope.study import names
from batchscope.timing import loops, profile, trace
from batchscope.timing.samples import Sampler
from batchscope.timing.timing_job import TimingJob
from batchscope.training import models
from costs import first

STEPS = 12
FACTORS = measured_run.timing_factors(optimizer="sgd")
PARTS = ("compute_share", "input_share", "host_share")


def record(run_steps, folder, count, per_step=False, lead_in=3):
    with Sampler() as sampler:
        return profile.profile_steps(run_steps, folder, count, sampler, per_step, lead_in)


def approximate(summary):
    assert sum(summary[part] for part in PARTS) == pytest.approx(1)
    return pytest.approx(tuple(summary[part] for part in PARTS))


def space(folder, **threads):
    """Write a trace of threads of the host, and of lines of a GPU whose names begin with "gpu".

    Events are (name, start, stop) in microseconds, some with the number of the executor's run.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    written = xplane_pb2.XSpace()
    host, gpu = (written.planes.add(name=name) for name in ("/host:CPU", "/device:GPU:0"))
    for plane in (host, gpu):
        plane.stat_metadata[1].name = "id"
    for thread, events in threads.items():
        plane, name = (gpu, thread[4:]) if thread.startswith("gpu_") else (host, thread)
        # A clock that begins later: event times are relative to that of their line.
        line = plane.lines.add(name=name, timestamp_ns=5000)
        for label, start, stop, *run in events:
            key = len(plane.event_metadata) + 1
            plane.event_metadata[key].name = label
            event = line.events.add(metadata_id=key, duration_ps=(stop - start) * 1_000_000)
            event.offset_ps = (start - 5) * 1_000_000
            if run:
                event.stats.add(metadata_id=1, int64_value=run[0])
    path = folder / "plugins" / "profile" / "now" / "host.xplane.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(written.SerializeToString())
    return folder


WINDOW = (trace.WINDOW_EVENT, 100, 200)


def test_operations_of_graphs_and_eager_kernels_compute(tmp_path):
    graph = [
        ("ExecutorState::Process", 90, 150),
        ("conv/Conv2D:Conv2D", 90, 110),  # from 100 on
        ("call:StatefulPartitionedCall", 110, 150),
        ("_1/Relu:_FusedConv2D", 120, 130),
        ("_2/Relu:Relu", 195, 210),  # until 200
    ]
    eager = [
        WINDOW,
        ("EagerLocalExecute: Conv2D", 125, 145),
        ("KernelAndDeviceFunc::Run", 125, 140),
        ("EagerLocalExecute: ReadVariableOp", 150, 160),
        ("KernelAndDeviceFunc::Run", 150, 160),
        ("EagerLocalExecute: __inference_f_1", 160, 200),
        ("KernelAndDeviceFunc::Run", 165, 195),
    ]
    result = trace.shares(space(tmp_path, python=eager, tf_Compute=graph))
    assert result["seconds"] == pytest.approx(100e-6)
    assert approximate(result) == (0.35, 0, 0.65)  # 120 to 140, too


def test_input_is_the_wait_of_training_and_no_work_of_the_pipeline(tmp_path):
    python = [
        WINDOW,
        ("Iterator::Root", 105, 130),  # the wait runs the pipeline itself
        ("files:IteratorGetNext", 106, 129),
        ("EagerLocalExecute: IteratorGetNext", 140, 160),
        ("KernelAndDeviceFunc::Run", 141, 160),
    ]
    shared = [
        ("InstantiatedCapturedFunction::RunAsync", 100, 101, 7),
        ("ExecutorState::Process", 101, 139, 7),
        ("decode:DecodeJpeg", 102, 138),
        ("ExecutorState::Process", 150, 180, 3),
        ("a:MatMul", 155, 180),
    ]
    private = [("Conv2D:Conv2D", 100, 199)]
    lines = {"python": python, "tf_Compute": shared, "tf_data_private_threadpool": private}
    assert approximate(trace.shares(space(tmp_path, **lines))) == (0.25, 0.15, 0.6)


def test_kernels_of_a_gpu_replace_the_operations_that_launch_them(tmp_path):
    result = trace.shares(
        space(
            tmp_path,
            python=[WINDOW, ("launch:Conv2D", 100, 195), ("x:IteratorGetNext", 160, 190)],
            gpu_Stream_14=[("MemcpyH2D", 100, 110), ("gemm", 110, 135), ("Memset", 135, 137)],
            gpu_Stream_15=[("cutlass", 125, 145), ("redzone", 160, 170)],
            gpu_Steps=[("1", 100, 200)],
        )
    )
    assert approximate(result) == (0.45, 0.2, 0.35)


def test_a_trace_without_the_steps_is_an_error(tmp_path):
    with pytest.raises(UserError, match="^profile: "):
        trace.shares(space(tmp_path, python=[("x:MatMul", 0, 9)]))


@pytest.mark.parametrize("kind", first(["graph", "eager"]))
def test_a_real_profile(kind, tmp_path):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (64, 16, 16, 1), dtype=np.uint8)
    examples = Examples(images, generator.integers(0, 10, 64), 1 / 255)
    model = models.build("small_cnn", prepared.ModelInput((16, 16, 1), 10), 0)
    runner = loops.make_runner({**FACTORS, "loop": kind}, model, examples)
    rates = record(runner.steps_at_size(1), tmp_path, STEPS, kind == "eager")
    result = trace.shares(tmp_path)
    assert approximate(result) == tuple(result[part] for part in PARTS)
    assert result["compute_share"] > 0.01 and (kind == "eager") == (result["input_share"] > 0)
    assert rates["steps"] == STEPS and rates["steps_per_second"] > 0
    assert rates["utilisation"]["process_percent"] > 0


def test_steps_that_fail_leave_no_running_profiler(tmp_path):
    calls = []

    def run_steps(count):
        calls.append(count)
        if len(calls) == 5:  # the profiled run, after its lead-in
            raise ArithmeticError("not finite")
        return 9.0 if len(calls) == 10 else 0.25 * count  # the profiler slows its run down

    with pytest.raises(ArithmeticError, match="not finite"):
        record(run_steps, tmp_path / "failed", 2, lead_in=3)
    rates = record(run_steps, tmp_path / "finished", 2, lead_in=3)
    assert calls[5:] == [3, *[3, 2] * 3]
    assert rates["steps_per_second"] == 4
    assert len(list((tmp_path / "finished").rglob("*.xplane.pb"))) == 1


def test_a_profile_that_runs_out_of_memory(results, tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "shares", Mock(side_effect=MemoryError("16")))
    sweep = names.parse_sweep(f"{measured_run.DATASET}+small_cnn+bs=16+opt=sgd+dev=cpu+th=1")
    job = TimingJob(results, sweep, None, tmp_path / "st=3.json")
    timing = profile.measure(job, {"steps": 3})
    assert (timing.status, timing.details) == ("out_of_memory", {})
