"""What the time of a trace goes to: traces made by hand have known parts."""

import numpy as np
import pytest

from batchscope.errors import UserError
from batchscope.timing.instruments import trace
from handmade_trace import Space, shares


def counts(summary) -> list[tuple[str, int]]:
    return [(op["op"], op["count"]) for op in summary["ops"]]


def test_union_counts_what_is_covered():
    generator = np.random.default_rng(0)
    starts = generator.integers(0, 1000, 200)
    spans = np.stack([starts, starts + generator.integers(0, 12, 200)], axis=1)
    covered = np.zeros(1100, bool)
    for start, stop in spans:
        covered[start:stop] = True
    assert trace.length([(2, 10), (3, 4), (9, 12)], [(5, 5), (12, 13), (20, 21)]) == 12
    assert trace.length([]) == 0
    assert trace.length(spans) == covered.sum()


def test_graph_on_two_threads():
    space = Space()
    space.line(
        "python",
        [
            ("before", 0, 50),
            (trace.WINDOW, 100, 200),
            ("EagerExecute", 100, 195),
            ("EagerLocalExecute: __inference_run_35", 100, 195),
            ("KernelAndDeviceFunc::Run", 105, 190),
            ("FunctionRun", 105, 110, {"id": 1}),
        ],
    )
    # The second thread's clock starts 10 microseconds later.
    space.line(
        "tf_Compute/1",
        [
            ("ExecutorState::Process", 100, 170, {"id": 1}),
            ("while/body/conv/Conv2D:Conv2D", 100, 130),
            ("while/body/call:StatefulPartitionedCall", 130, 170),
            ("while/body/call/identity:Identity", 131, 132),
            ("while/body/_1/Relu:_MklNativeFusedConv2D", 140, 150),
        ],
    )
    space.line(
        "tf_Compute/2",
        [("loop:While", 100, 160), ("a/MatMul:MatMul", 110, 125), ("b/MatMul:MatMul", 135, 145)],
        origin_ns=10_000,
    )
    found = space.summary()
    # Compute: 100-130 and 140-150 on one thread, 120-135 and 145-155 on the other.
    assert shares(found) == pytest.approx((0.50, 0.0, 0.50))
    assert found["seconds"] == pytest.approx(100e-6)
    assert found["compute_thread_seconds"] == pytest.approx(65e-6)
    assert found["executor_seconds"] == pytest.approx(40e-6)  # 100-190, less compute
    assert found["compute_on"] == "cpu"
    assert counts(found) == [("Conv2D", 1), ("MatMul", 2), ("_MklNativeFusedConv2D", 1)]
    assert [op["seconds"] for op in found["ops"]] == pytest.approx([30e-6, 25e-6, 10e-6])


def test_eager_calls_count_by_their_kernels():
    events = [
        (trace.WINDOW, 0, 100),
        ("EagerExecute", 0, 40),
        ("EagerLocalExecute: Conv2D", 5, 35),
        ("EagerKernelExecute", 10, 30),
        ("KernelAndDeviceFunc::Run", 15, 25),
        ("EagerLocalExecute: ReadVariableOp", 40, 60),
        ("KernelAndDeviceFunc::Run", 45, 55),
        ("EagerLocalExecute: __inference_f_1", 60, 100),
        ("KernelAndDeviceFunc::Run", 65, 95),
    ]
    found = Space().line("python", events).summary()
    assert shares(found) == pytest.approx((0.10, 0.0, 0.90))
    assert found["executor_seconds"] == pytest.approx(40e-6)
    assert found["ops"] == [{"op": "Conv2D", "count": 1, "seconds": pytest.approx(10e-6)}]


def test_input_is_what_training_waits_for():
    space = Space()
    space.line(
        "python",
        [
            (trace.WINDOW, 0, 100),
            ("EagerLocalExecute: IteratorGetNext", 0, 30),
            ("KernelAndDeviceFunc::Run", 5, 30),
            ("IteratorGetNextOp::DoCompute", 6, 30),
            ("Iterator::Root", 7, 30),
            ("Iterator::Root::Prefetch", 8, 30),
        ],
    )
    space.line("tf_Compute/1", [("a:MatMul", 20, 60)])
    # The pipeline goes on while training computes, and while Python dawdles.
    space.line(
        "tf_data_iterator_resource/2",
        [("PrefetchProduce", 0, 90), ("Iterator::Root::Prefetch::MapAndBatch", 1, 89)],
    )
    space.line(
        "tf_data_private_threadpool/3",
        [("ExecutorState::Process", 0, 90, {"id": -5}), ("Conv2D:Conv2D", 0, 85)],
    )
    found = space.summary()
    assert shares(found) == pytest.approx((0.40, 0.20, 0.40))
    assert found["pipeline_seconds"] == pytest.approx(90e-6)
    assert found["executor_seconds"] == 0
    assert [op["op"] for op in found["ops"]] == ["MatMul"]


def test_functions_of_the_pipeline_are_no_compute_on_a_shared_thread():
    space = Space()
    space.line("a thread", [("InstantiatedCapturedFunction::RunAsync", 0, 2, {"id": -7})])
    space.line(
        "tf_Compute/1",
        [
            ("ExecutorState::Process", 0, 40, {"id": -7}),
            ("decode:DecodeJpeg", 0, 30),
            ("files:IteratorGetNext", 30, 40),  # the pipeline's own wait
            ("ExecutorState::Process", 40, 100, {"id": 3}),
            ("a:MatMul", 50, 80),
        ],
    )
    found = space.summary()
    assert shares(found) == pytest.approx((0.30, 0.0, 0.70))
    assert [op["op"] for op in found["ops"]] == ["MatMul"]
    assert found["executor_seconds"] == pytest.approx(30e-6)


def test_kernels_of_a_gpu():
    space = Space()
    gpu = "/device:GPU:0"
    # The host's op launches the kernel.
    host = [("launch:Conv2D", 0, 95), ("EagerLocalExecute: IteratorGetNext", 60, 90)]
    space.line("python", [(trace.WINDOW, 0, 100), *host])
    op = {"tf_op": "model/conv/Conv2D:Conv2D"}
    space.line(
        "Stream #14(Compute,MemcpyH2D)",
        [
            ("MemcpyH2D", 0, 10),
            ("volta_scudnn_128", 10, 30, op),
            ("implicit_gemm", 30, 35, op),
            ("Memset", 35, 37),
            ("redzone_checker", 60, 70),
        ],
        gpu,
    )
    space.line("Stream #15(Compute)", [("cutlass", 25, 45, {"tf_op": "d:MatMul"})], gpu)
    space.line("TensorFlow Ops", [("Conv2D", 0, 100)], gpu)
    space.line("Steps", [("1", 0, 100)], gpu)
    found = space.summary()
    # Kernels: 10-45 and 60-70; waits: 60-90.
    assert shares(found) == pytest.approx((0.45, 0.20, 0.35))
    assert found["compute_thread_seconds"] == pytest.approx(55e-6)
    assert found["compute_on"] == "gpu"
    assert counts(found) == [("Conv2D", 2), ("MatMul", 1), ("redzone_checker", 1)]


def test_only_the_recorded_steps_count_and_the_ten_longest_ops_are_named():
    space = Space().line("python", [(trace.WINDOW, 50, 1400)])
    events = [(f"x:Op{i}", 100 * i, 100 * i + 2 * i + 1) for i in range(14)]
    found = space.line("t", [*events, ("x:Early", 0, 60), ("x:Late", 1500, 1600)]).summary()
    assert found["seconds"] == pytest.approx(1350e-6)
    assert counts(found) == [(f"Op{i}", 1) for i in range(13, 4, -1)] + [("Early", 1)]
    assert found["ops"][-1]["seconds"] == pytest.approx(10e-6)


def test_a_trace_without_events():
    with pytest.raises(UserError, match="^profile: received"):
        Space().line("python", []).summary()
