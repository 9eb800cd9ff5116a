import time

import numpy as np
import pytest

from batchscope import loop, models, names
from batchscope.errors import UserError
from batchscope.timing import profile


def timed(run):
    """Makes steps return the seconds that they took."""

    def run_steps(start, stop):
        begun = time.perf_counter()
        run(start, stop)
        return time.perf_counter() - begun

    return run_steps


US = 1_000_000  # picoseconds


class Space:
    """An XSpace made by hand; times in microseconds."""

    def __init__(self):
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        self.space = xplane_pb2.XSpace()

    def line(self, name, events, plane="/host:CPU", origin_ns=0):
        """Adds a thread; events are (name, start, stop) and maybe a map of stats."""
        found = next((known for known in self.space.planes if known.name == plane), None)
        found = found or self.space.planes.add(name=plane)
        line = found.lines.add(name=name, timestamp_ns=origin_ns)
        for label, start, stop, *stats in events:
            key = self._key(found.event_metadata, label)
            event = line.events.add(
                metadata_id=key, offset_ps=start * US, duration_ps=(stop - start) * US
            )
            for stat, value in (stats[0] if stats else {}).items():
                added = event.stats.add(metadata_id=self._key(found.stat_metadata, stat))
                if isinstance(value, int):
                    added.int64_value = value
                else:
                    added.ref_value = self._key(found.stat_metadata, value)
        return self

    @staticmethod
    def _key(metadata, name):
        for key, known in metadata.items():
            if known.name == name:
                return key
        key = len(metadata) + 1
        metadata[key].id = key
        metadata[key].name = name
        return key

    def summary(self):
        return profile.summarise(self.space)


def shares(summary):
    return tuple(summary[f"{name}_share"] for name in ("compute", "input", "host"))


def check_shares(summary):
    assert all(0 <= share <= 1 for share in shares(summary))
    assert sum(shares(summary)) == pytest.approx(1)
    seconds = sum(summary[f"{name}_seconds"] for name in ("compute", "input", "host"))
    assert seconds == pytest.approx(summary["seconds"])
    assert 0 <= summary["executor_seconds"] <= summary["host_seconds"] + 1e-12


# Spans


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([(5, 5)], []),
        ([(1, 3)], [(1, 3)]),
        ([(4, 6), (1, 3)], [(1, 3), (4, 6)]),
        ([(1, 3), (3, 5)], [(1, 5)]),
        ([(0, 10), (1, 2), (4, 5)], [(0, 10)]),
        ([(0, 10), (1, 2), (9, 12), (20, 21)], [(0, 12), (20, 21)]),
    ],
)
def test_union(spans, expected):
    assert profile.union(spans).tolist() == [list(span) for span in expected]
    assert profile.length(spans) == sum(stop - start for start, stop in expected)


def test_union_counts_what_is_covered():
    generator = np.random.default_rng(0)
    starts = generator.integers(0, 1000, 200)
    spans = np.stack([starts, starts + generator.integers(0, 12, 200)], axis=1)
    covered = np.zeros(1100, bool)
    for start, stop in spans:
        covered[start:stop] = True
    assert 0 < covered.sum() < 1000
    assert profile.length(spans) == covered.sum()
    inside = profile.clip(spans, 100, 300)
    assert profile.length(inside) == covered[100:300].sum()


def test_parts():
    divided = profile.parts(100, [(0, 30), (20, 40)], [(30, 60), (70, 80)], [(55, 75), (90, 95)])
    assert divided == {"compute": 40, "input": 30, "host": 30, "executor": 15}
    assert profile.parts(7, [], [], []) == {"compute": 0, "input": 0, "host": 7, "executor": 0}


# Traces made by hand


def test_graph_on_two_threads():
    space = Space()
    space.line(
        "python",
        [
            ("before", 0, 50),
            (profile.WINDOW, 100, 200),
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
    assert [(op["op"], op["count"]) for op in found["ops"]] == [
        ("Conv2D", 1),
        ("MatMul", 2),
        ("_MklNativeFusedConv2D", 1),
    ]
    assert [op["seconds"] for op in found["ops"]] == pytest.approx([30e-6, 25e-6, 10e-6])


def test_eager_calls_count_by_their_kernels():
    found = (
        Space()
        .line(
            "python",
            [
                (profile.WINDOW, 0, 100),
                ("EagerExecute", 0, 40),
                ("EagerLocalExecute: Conv2D", 5, 35),
                ("EagerKernelExecute", 10, 30),
                ("KernelAndDeviceFunc::Run", 15, 25),
                ("EagerLocalExecute: ReadVariableOp", 40, 60),
                ("KernelAndDeviceFunc::Run", 45, 55),
                ("EagerLocalExecute: __inference_f_1", 60, 100),
                ("KernelAndDeviceFunc::Run", 65, 95),
            ],
        )
        .summary()
    )
    assert shares(found) == pytest.approx((0.10, 0.0, 0.90))
    assert found["executor_seconds"] == pytest.approx(40e-6)
    assert found["ops"] == [{"op": "Conv2D", "count": 1, "seconds": pytest.approx(10e-6)}]


def test_what_runs_within_an_op_counts_once():
    found = Space().line("t", [("a:Outer", 0, 60), ("b:Inner", 10, 20), ("idle", 60, 80)]).summary()
    assert shares(found) == pytest.approx((0.75, 0.0, 0.25))
    assert [op["op"] for op in found["ops"]] == ["Outer"]


def test_python_functions_are_host_and_their_ops_compute():
    events = [
        ("f:EagerPyFunc", 0, 100),
        ("EagerLocalExecute: MatMul", 20, 50),
        ("KernelAndDeviceFunc::Run", 30, 40),
        ("EagerLocalExecute: __inference_g_7", 60, 90),
        ("KernelAndDeviceFunc::Run", 65, 85),
    ]
    assert shares(Space().line("t", events).summary()) == pytest.approx((0.1, 0.0, 0.9))


def test_input_is_what_training_waits_for():
    space = Space()
    space.line(
        "python",
        [
            (profile.WINDOW, 0, 100),
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


def test_waits_within_a_graph_are_input():
    space = Space()
    space.line("tf_Compute/1", [(profile.WINDOW, 0, 100), ("next:IteratorGetNext", 0, 10)])
    space.line("tf_data_iterator_get_next/2", [("IteratorGetNextOp::DoCompute", 5, 45)])
    assert shares(space.summary()) == pytest.approx((0.0, 0.45, 0.55))


def test_functions_of_the_pipeline_are_no_compute_on_a_shared_thread():
    space = Space()
    space.line(
        "a thread",
        [("InstantiatedCapturedFunction::RunAsync", 0, 2, {"id": -7})],
    )
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
    space.line(
        "python",
        [
            (profile.WINDOW, 0, 100),
            ("launch:Conv2D", 0, 95),  # of the host: it launches the kernel
            ("EagerLocalExecute: IteratorGetNext", 60, 90),
        ],
    )
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
    assert [(op["op"], op["count"]) for op in found["ops"]] == [
        ("Conv2D", 2),
        ("MatMul", 1),
        ("redzone_checker", 1),
    ]


def test_only_the_recorded_steps_count():
    space = Space().line("python", [(profile.WINDOW, 50, 150)])
    space.line("t", [("a:MatMul", 0, 60), ("b:MatMul", 140, 200), ("c:Conv2D", 160, 170)])
    found = space.summary()
    assert found["seconds"] == pytest.approx(100e-6)
    assert shares(found) == pytest.approx((0.2, 0.0, 0.8))
    assert [(op["op"], op["count"]) for op in found["ops"]] == [("MatMul", 2)]


def test_times_since_1970_keep_their_picoseconds():
    space = Space()
    space.line("t", [("a:MatMul", 0, 1), ("idle", 1, 2)], origin_ns=1_795_252_429_001_202_350)
    assert space.summary()["compute_seconds"] == 1e-6


def test_at_most_ten_ops_the_longest_first():
    events = [(f"x:Op{i}", 100 * i, 100 * i + 2 * i + 1) for i in range(14)]
    ops = Space().line("t", events).summary()["ops"]
    assert [op["op"] for op in ops] == [f"Op{i}" for i in range(13, 3, -1)]


def test_a_trace_without_events():
    with pytest.raises(UserError, match="without events; at least one is expected"):
        Space().line("python", []).summary()


def test_no_profile(tmp_path):
    with pytest.raises(UserError, match=r"received no .*xplane\.pb; a recorded profile"):
        profile.summary(tmp_path)


def test_the_newest_profile_is_read(tmp_path):
    for stamp, stop in (("2026_11_21_09_13_49", 10), ("2026_11_21_10_00_00", 20)):
        folder = tmp_path / "plugins" / "profile" / stamp
        folder.mkdir(parents=True)
        trace = Space().line("t", [("a:MatMul", 0, stop)]).space
        (folder / "host.xplane.pb").write_bytes(trace.SerializeToString())
    assert profile.summary(tmp_path)["seconds"] == pytest.approx(20e-6)


# Real profiles

STEPS = 12


@pytest.fixture(scope="module")
def arrays():
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (64, 16, 16, 1), dtype=np.uint8)
    return images, generator.integers(0, 10, 64)


@pytest.fixture(scope="module")
def graph(arrays, tmp_path_factory):
    """Rates and summary of the loop in the graph, batch 1."""
    folder = tmp_path_factory.mktemp("graph")
    model = models.build("small_cnn", (16, 16, 1), 10, 0)
    factors = {name: factor.birth for name, factor in names.FACTORS.items()}
    factors |= {"optimizer": "sgd", "learning_rate": 1e-6, "batch_size": 1}
    steps = loop.StepLoop(model, loop.make_optimizer(factors), *arrays, 1 / 255, 1)
    order = loop.epoch_order(0, 0, steps.examples)

    @timed
    def run_steps(start, stop):
        return steps.run(order, start, stop, loop.Totals())[2]

    rates = profile.record(run_steps, folder, 5 * STEPS)
    return folder, rates, profile.summary(folder)


@pytest.fixture(scope="module")
def eager(arrays, tmp_path_factory):
    """The same of a step in Python."""
    import keras
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("eager")
    model = models.build("small_cnn", (16, 16, 1), 10, 0)
    optimizer = keras.optimizers.SGD(1e-6)
    loss = keras.losses.SparseCategoricalCrossentropy()
    images, labels = tf.constant(arrays[0], tf.float32), tf.constant(arrays[1])

    @timed
    def run_steps(start, stop):
        for step in range(start, stop):
            with tf.GradientTape() as tape:
                batch = slice(step, step + 1)
                value = loss(labels[batch], model(images[batch], training=True))
            gradients = tape.gradient(value, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
        return float(value)

    rates = profile.record(run_steps, folder, STEPS, per_step=True)
    return folder, rates, profile.summary(folder)


@pytest.mark.parametrize("kind", ["graph", "eager"])
def test_a_real_profile(kind, request):
    folder, rates, found = request.getfixturevalue(kind)
    files = list(folder.glob("plugins/profile/*/*.xplane.pb"))
    assert len(files) == 1
    check_shares(found)
    assert found["compute_share"] > 0.01
    assert found["input_share"] == 0
    assert found["compute_thread_seconds"] > 0
    rate = rates["steps_per_second_profiled"]
    assert found["seconds"] == pytest.approx(rates["steps"] / rate, rel=0.2)
    expected = rates["steps_per_second"] / rate - 1
    assert rates["overhead"] == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["graph", "eager"])
def test_the_convolutions_are_found(kind, request):
    _, rates, found = request.getfixturevalue(kind)
    ops = {op["op"]: op for op in found["ops"]}
    backward = [op for name, op in ops.items() if "Conv2DBackpropFilter" in name]
    assert sum(op["count"] for op in backward) == 2 * rates["steps"]  # two convolutions
    forward = [op for name, op in ops.items() if name.endswith("Conv2D")]
    assert sum(op["count"] for op in forward) == 2 * rates["steps"]
    assert not set(ops) & profile.NOT_COMPUTE


def test_a_loop_in_the_graph_computes_more_of_its_time(graph, eager):
    assert graph[2]["compute_share"] > eager[2]["compute_share"]


def test_only_steps_of_their_own_are_steps_of_the_trace(graph, eager):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    counts = []
    for folder, *_ in (graph, eager):
        space = xplane_pb2.XSpace.FromString(profile.newest(folder).read_bytes())
        events = [event for line in profile.lines(space) for event in line.events]
        counts.append(sum(event.name == "train" for event in events))
    assert counts == [0, STEPS]


@pytest.mark.parametrize("place", ["python", "graph"])
def test_training_that_waits_for_a_slow_pipeline(place, tmp_path):
    import tensorflow as tf

    def slow(i):
        time.sleep(0.03)
        return tf.cast(i, tf.float32)

    def load(i):
        return tf.ensure_shape(tf.py_function(slow, [i], tf.float32), ())

    # Work of the pipeline's own: convolutions that are no part of training.
    def convolve(value):
        image = tf.fill((1, 32, 32, 8), value)
        return tf.reduce_mean(tf.nn.conv2d(image, tf.ones((3, 3, 8, 8)), 1, "SAME"))

    data = tf.data.Dataset.range(1000).map(load).map(convolve).batch(2).prefetch(1)
    weight = tf.Variable(0.0)

    def step(batch):
        matrix = tf.fill((32, 32), batch[0])
        weight.assign_sub(1e-9 * tf.reduce_sum(matrix @ matrix))

    @tf.function
    def steps(iterator, count):
        for _ in tf.range(count):
            step(next(iterator))

    @timed
    def run_steps(start, stop):
        iterator = iter(data)
        if place == "graph":
            steps(iterator, tf.constant(stop - start))
        else:
            for _ in range(start, stop):
                step(next(iterator))
        return float(weight)

    profile.record(run_steps, tmp_path, 6)
    found = profile.summary(tmp_path)
    check_shares(found)
    assert found["input_share"] > 0.5
    assert found["compute_share"] > 0
    assert found["seconds"] > 6 * 2 * 0.03
    assert not [op for op in found["ops"] if "Conv2D" in op["op"]]


def test_steps_that_fail_leave_no_profile_and_no_running_profiler(tmp_path):
    calls = []

    @timed
    def run_steps(start, stop):
        calls.append((start, stop))
        if len(calls) == 3:  # the profiled run
            raise ArithmeticError("not finite")
        time.sleep(0.001)

    with pytest.raises(ArithmeticError, match="not finite"):
        profile.record(run_steps, tmp_path, 2)
    assert not list(tmp_path.rglob("*.pb"))
    rates = profile.record(run_steps, tmp_path, 2)
    assert calls[3:] == [(0, 2)] * 4
    assert rates["steps_per_second"] < 2 / 0.001
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


def test_no_steps(tmp_path):
    with pytest.raises(ValueError, match="steps: received 0; a number of at least 1 is expected"):
        profile.record(lambda start, stop: 0.0, tmp_path, 0)
