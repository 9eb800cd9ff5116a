"""The five loops make the same updates over the same batches, and a delay is that of every step."""

import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import measured_run
from batchscope.host import tensorflow_start
from batchscope.study import run_factors
from costs import first

tensorflow_start.set_backend_and_log_level()

import keras
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.timing import loops
from batchscope.timing.blocks import LEAD_IN_STEPS, NonFiniteLoss
from batchscope.training import step_loop

SCALE = 1 / 16
LOOPS = run_factors.TIMING_ONLY_FACTORS["loop"].choices
PIPELINES = ("dataset", *run_factors.TIMING_ONLY_FACTORS["input_pipeline"].choices[1:])
FACTORS = measured_run.timing_factors(optimizer="sgd", replicas=1)


def digits(count: int, classes: int = 3) -> Examples:
    random = np.random.default_rng(5)
    images = random.integers(0, 17, (count, 8, 8, 1), np.uint8)
    return Examples(images, random.integers(0, classes, count), SCALE)


def linear(classes: int = 3):
    """Return a network of one layer with a penalty, cheap to trace; one class is a sigmoid unit."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 1))
    flat = keras.layers.Flatten()(inputs)
    activation, penalty = "sigmoid" if classes == 1 else "softmax", keras.regularizers.L2(0.1)
    layer = keras.layers.Dense(classes, activation, kernel_regularizer=penalty)
    return keras.Model(inputs, layer(flat))


@pytest.fixture
def runner_of(monkeypatch):
    """Make the runner of a loop, at a rate that moves the weights."""
    monkeypatch.setattr(loops, "LEARNING_RATE", 0.1)
    return lambda loop, model, data, **factors: loops.make_runner(
        {**FACTORS, "loop": loop, **factors}, model, data
    )


def trained(model, data, batch_size: int, steps: int) -> np.ndarray:
    """Return the weights after steps of whole batches by the training's own loop."""
    settings = step_loop.UpdateSettings(batch_size, drop_remainder=True)
    loop = step_loop.StepLoop(model, keras.optimizers.SGD(0.1), data, settings)
    loop.run(np.arange(len(data.labels), dtype=np.int32), 0, steps, step_loop.Totals())
    return weights(model)


def weights(model) -> np.ndarray:
    return np.concatenate([array.ravel() for array in model.get_weights()])


@pytest.mark.parametrize("classes", [3, 1])
@pytest.mark.parametrize("loop", first(LOOPS))
def test_every_loop_reaches_the_weights_of_the_trainings_loop(loop, classes, runner_of):
    """Three batches of 16 of 50 examples are an epoch; 64 are all of them."""
    data = digits(50, max(2, classes))
    model, expected = linear(classes), linear(classes)
    before = weights(model)
    runner = runner_of(loop, model, data)
    runner.lead_in_seconds = 0.0
    # Cut within epochs.
    for size, parts in ((16, (1, 6, 4)), (64, (3,))):
        assert all(runner.run(size, runner.steps_per_call * calls) > 0 for calls in parts)
        after = trained(expected, data, size, runner.steps_per_call * sum(parts))
    assert np.abs(after - before).max() > 0.01
    np.testing.assert_allclose(weights(model), after, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loop", first(["graph", "function", "fit"]))
def test_one_runner_serves_all_batch_sizes_without_tracing_again(loop, runner_of, monkeypatch):
    """Each size continues at its position; a lead-in precedes a block of another size."""
    model, reference, traced = linear(), linear(), 0
    call = type(model).call

    def counted(self, *arguments, **options):
        nonlocal traced
        traced += self is model
        return call(self, *arguments, **options)

    monkeypatch.setattr(type(model), "call", counted)
    runner = runner_of(loop, model, digits(50))
    runner.lead_in_seconds = math.inf  # however slow the machine is
    assert LEAD_IN_STEPS > loops.PREFETCH_BATCHES  # which a pipeline keeps ready
    assert runner.steps_at_size(16)(1) > 0
    once = traced
    by_steps = runner_of("eager", reference, digits(50))
    by_steps.lead_in_seconds = 0.0
    by_steps.run(16, 4)
    for size, steps in ((30, 2), (16, 3), (64, 1)):
        assert runner.steps_at_size(size)(steps) > 0
        by_steps.run(size, LEAD_IN_STEPS + steps)
    assert traced == once > 0
    np.testing.assert_allclose(weights(model), weights(reference), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loop", first(["function", "eager", "fit", "fit_steps"]))
def test_a_delay_adds_itself_to_every_step(loop, runner_of, monkeypatch):
    slept, threads = [], set()  # only sleeping moves the clock

    def sleep(seconds):
        slept.append(seconds)
        threads.add(threading.get_ident())

    runner = runner_of(loop, linear(), digits(20), delay_seconds=0.25)
    clock = SimpleNamespace(perf_counter=lambda: sum(slept), sleep=sleep)
    monkeypatch.setattr(loops, "time", clock)
    runner.run(8, runner.steps_per_call)
    calls = math.ceil(LEAD_IN_STEPS / runner.steps_per_call) + 1
    assert sum(slept) == calls * 0.25 * runner.steps_per_call
    slept.clear()
    assert runner.run(8, 64) == 64 * 0.25
    assert len(slept) == 64 // runner.steps_per_call
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("loop", first(["graph", "function", "fit"]))
def test_a_loss_that_is_not_finite_is_not_timed(loop, runner_of):
    huge = Examples(np.full((20, 8, 8, 1), np.nan, np.float32), np.zeros(20, int), 1.0)
    with pytest.raises(NonFiniteLoss):
        runner_of(loop, linear(), huge).run(8, 3)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_pipelines_have_the_same_whole_batches(pipeline, tmp_path):
    count, size = 300, 128  # enough for parallel maps to overtake each other
    ramp = np.add.outer(np.arange(8), np.arange(8))[None, :, :, None]  # JPEG keeps smooth images
    images = ((ramp + np.arange(count)[:, None, None, None] // 10) % 17).clip(0, 16)
    images = np.sort(images, axis=2).astype(np.uint8)
    labels = np.arange(count) % 10
    mapped = loops.mapped_examples(pipeline, Examples(images, labels, SCALE), tmp_path / "jpeg")
    batches = loops.endless_batches(pipeline, mapped, size)
    assert batches.element_spec[0].shape.as_list() == [None, 8, 8, 1]
    for at, (batch, batch_labels) in zip(range(5), batches, strict=False):
        rows = slice(at % 2 * size, (at % 2 + 1) * size)
        expected = images[rows].astype(np.float32) * np.float32(SCALE)
        tolerance = 0.08 if pipeline == "jpeg" else 0
        np.testing.assert_allclose(batch, expected, atol=tolerance)
        assert batch_labels.numpy().tolist() == labels[rows].tolist()
    (whole, _), *_ = loops.endless_batches(pipeline, mapped, 400).take(1)
    assert len(whole) == count


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((2, 8, 8, 2), np.uint8),
        np.full((2, 8, 8, 1), 18, np.uint8),
        np.full((2, 8, 8, 1), np.nan, np.float32),
    ],
)
def test_images_that_cannot_be_jpeg_files_are_refused(images, tmp_path):
    with pytest.raises(loops.UserError, match="^input_pipeline jpeg: received "):
        loops.write_jpegs(images, SCALE, tmp_path / "jpeg")
    assert not list(tmp_path.iterdir())


def test_the_peak_of_tensorflows_tensors_on_the_cpu():
    runner = loops.Runner(None, 1)
    if not runner.reset_peak():
        pytest.skip("this TensorFlow keeps no count on the CPU")
    before = runner.peak_mb() or 0
    block = tf.ones(60_000, tf.float32)  # 240,000 bytes are not counted
    assert (runner.peak_mb() or 0) == before
    block = tf.ones(10_000_000, tf.float32)
    del block
    # A block may be twice as large.
    assert 39 < runner.peak_mb() - before < 82
    runner.reset_peak()
    assert (runner.peak_mb() or 0) - before == pytest.approx(0, abs=4)
    assert loops.Runner(None, 1, "gpu").reset_peak() is False
