"""The five loops make the same updates over the same batches, and an injected delay comes back."""

from __future__ import annotations

import functools
import itertools
import math
import threading

import numpy as np
import pytest

from batchscope.catalogue import run_factors
from batchscope.host import tensorflow_start
from costs import first

tensorflow_start.quiet()

import keras
import tensorflow as tf

from batchscope.datasets import Examples, looks
from batchscope.timing.largest.fates import NotFinite
from batchscope.timing.steps import lead_in, loops, pipelines
from batchscope.training import models, step_loop

SCALE = 1 / 16
LOOPS = ("graph", "eager", "function", "fit", "fit_steps")
PIPELINES = ("dataset", "map", "prefetch", "cache", "jpeg")


def digits(count: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    images = random.integers(0, 17, (count, 8, 8, 1), np.uint8)
    return images, random.integers(0, classes, count)


def small_cnn(classes: int = 3):
    return models.build("small_cnn", looks.Look((8, 8, 1), classes), 0)


def linear(classes: int):
    """A network of one layer, cheap to trace."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 1))
    flat = keras.layers.Flatten()(inputs)
    return keras.Model(inputs, keras.layers.Dense(classes, activation="softmax")(flat))


def sgd(rate: float = 0.1):
    return keras.optimizers.SGD(rate)


def made_loop(
    name, model, optimizer, images, labels, batch_size: int, scale=SCALE, whole=False, **source
):
    """A loop's runner over arrays."""
    examples, batches = Examples(images, labels, scale), step_loop.Batches(batch_size, whole)
    return loops.make(name, model, optimizer, examples, batches, loops.Source(**source))


def by_step_loop(model, optimizer, images, labels, batch_size: int, steps: int) -> None:
    """The training's own loop, one call per epoch."""
    order = np.arange(len(images), dtype=np.int32)
    examples, batches = Examples(images, labels, SCALE), step_loop.Batches(batch_size)
    reference = step_loop.StepLoop(model, optimizer, examples, batches)
    per_epoch = step_loop.steps_per_epoch(len(images), batch_size)
    while steps:
        stop = min(steps, per_epoch)
        reference.run(order, 0, stop, step_loop.Totals())
        steps -= stop


def endless(images, labels, batch_size: int):
    """What every pipeline has to yield, by slicing."""
    while True:
        for start in range(0, len(images), batch_size):
            part = slice(start, start + batch_size)
            yield (
                tf.constant(images[part].astype(np.float32) * np.float32(SCALE)),
                tf.constant(labels[part].astype(np.int32)),
            )


def weights(model) -> np.ndarray:
    return np.concatenate([array.ravel() for array in model.get_weights()])


def test_the_loops_and_pipelines_are_those_that_names_know():
    factors = run_factors.TIMING_ONLY_FACTORS
    assert factors["loop"].choices == loops.LOOPS == LOOPS
    assert pipelines.PIPELINES == PIPELINES
    assert factors["input_pipeline"].choices[1:] == pipelines.PIPELINES[1:]


@functools.cache
def reached(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights before and after steps of 16 of 50 examples by the training's own loop."""
    model = small_cnn()
    before = weights(model)
    by_step_loop(model, sgd(), *digits(50), 16, steps)
    return before, weights(model)


@pytest.mark.parametrize("name", first(LOOPS))
def test_every_loop_reaches_the_weights_of_the_trainings_loop(name):
    """Steps of 16 of 50 examples: every epoch has a last batch of two."""
    # Cut within epochs, and within the steps of a call where a call has 32.
    parts = (1, 34, 9) if name == "fit_steps" else (1, 6, 4)
    before, expected = reached(sum(parts))
    model, optimizer = small_cnn(), sgd()
    runner = made_loop(name, model, optimizer, *digits(50), 16)
    assert all(runner.run(steps) > 0 for steps in parts)
    assert int(optimizer.iterations.numpy()) == sum(parts)
    assert np.abs(expected - before).max() > 0.01
    np.testing.assert_allclose(weights(model), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["function", "fit", "fit_steps"])
def test_one_sigmoid_unit_and_penalties_are_trained_alike(name):
    def made():
        inputs = keras.Input((8, 8, 1))
        penalty = keras.regularizers.L2(0.1)
        hidden = keras.layers.Dense(6, kernel_regularizer=penalty)(keras.layers.Flatten()(inputs))
        return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))

    images, labels = digits(20, 2)
    expected, model = made(), made()
    model.set_weights(expected.get_weights())
    by_step_loop(expected, sgd(), images, labels, 8, 40)
    made_loop(name, model, sgd(), images, labels, 8).run(40)
    np.testing.assert_allclose(weights(model), weights(expected), rtol=1e-4, atol=1e-6)


def test_steps_beyond_an_epoch_are_those_of_the_next_bit_for_bit():
    images, labels = digits(50)
    order = step_loop.epoch_order(0, 0, 50)
    found = []
    for parts in (((0, 9),), ((0, 4), (0, 4), (0, 1))):
        model = small_cnn()
        examples, batches = Examples(images, labels, SCALE), step_loop.Batches(16)
        steps = step_loop.StepLoop(model, sgd(), examples, batches)
        totals = step_loop.Totals()
        for part in parts:
            done, totals, *_ = steps.run(order, *part, totals)
            assert done == part[1]
        found.append((weights(model).tobytes(), totals))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", first(["graph", "function", "fit"]))
def test_one_runner_serves_all_batch_sizes_without_tracing_again(name, monkeypatch):
    images, labels = digits(50)
    traced = 0
    expected, model = linear(3), linear(3)
    call = type(model).call

    def counted(self, *arguments, **options):
        nonlocal traced
        traced += self is model
        return call(self, *arguments, **options)

    monkeypatch.setattr(type(model), "call", counted)
    runner = made_loop(name, model, sgd(), images, labels, 16)
    runner.lead_in_seconds = math.inf  # however slow the machine is
    runner.run(1)
    once = traced
    assert once > 0
    # Each size goes on where it stopped; a lead-in precedes a block of another size.
    blocks = ((16, 2, 0), (30, 2, lead_in.STEPS), (16, 3, lead_in.STEPS), (64, 1, lead_in.STEPS))
    for size, steps, _ in blocks:
        assert runner.at(size)(steps) > 0
    assert traced == once
    batches = {size: endless(images, labels, size) for size, _, _ in blocks}
    training = made_loop("eager", expected, sgd(), images, labels, 1)
    for size, steps, untimed in ((16, 1, 0), *blocks):
        for batch in itertools.islice(batches[size], untimed + steps):
            training._step(*batch)
    np.testing.assert_allclose(weights(model), weights(expected), rtol=1e-4, atol=1e-6)


def test_a_lead_in_is_of_whole_calls_into_the_graph():
    """Single steps would trace a function of their own, and leave the timed one cold."""

    class Recorded(loops.Runner):
        steps_per_call = loops.STEPS_PER_EXECUTION
        asked: list[int] = []

        def _switch(self) -> None:
            pass

        def _run(self, steps: int) -> tuple[float, float]:
            self.asked.append(steps)
            return 0.0, 1.0

    runner = Recorded(1000, 16, whole_batches=True)
    runner.at(32)(64)
    assert runner.asked == [32, 64]


@pytest.mark.parametrize(
    ("pipeline", "delay", "whole"),
    [("dataset", 0.0, False), ("prefetch", 0.0, True), ("dataset", 0.5, True)],
)
def test_what_needs_every_step_of_a_lead_in(pipeline, delay, whole):
    source = {"pipeline": pipeline, "delay_seconds": delay}
    made = made_loop("function", linear(3), sgd(), *digits(8), 4, **source)
    assert math.isinf(made.lead_in_seconds) == whole


def test_an_epoch_begins_anew_after_its_last_smaller_batch():
    runner = made_loop("graph", linear(3), sgd(), *digits(50), 16)
    for start, steps in ((0, 3), (3, 1), (4, 2), (6, 11), (17, 4)):
        assert runner.position == start % 4
        runner.run(steps)
    runner.set_batch_size(80)
    assert runner.steps_per_epoch == 1


@pytest.mark.parametrize("name", first(["graph", "function"]))
def test_whole_batches_leave_an_epochs_rest_out(name):
    images, labels = digits(50)
    expected, model = linear(3), linear(3)
    # Of 50 examples, three batches of 16 make an epoch: those of the first 48.
    by_step_loop(expected, sgd(), images[:48], labels[:48], 16, 7)
    runner = made_loop(name, model, sgd(), images, labels, 16, whole=True)
    assert runner.steps_per_epoch == 3
    runner.run(7)
    np.testing.assert_allclose(weights(model), weights(expected), rtol=1e-4, atol=1e-6)
    # None is whole: all examples are one batch.
    runner.set_batch_size(64)
    by_step_loop(expected, sgd(), images, labels, 64, 3)
    assert runner.steps_per_epoch == 1
    runner.run(3)
    np.testing.assert_allclose(weights(model), weights(expected), rtol=1e-4, atol=1e-6)


class Clock:
    """Stands still but for sleeping; for the module `time`."""

    def __init__(self) -> None:
        self.now, self.slept, self.threads = 0.0, [], set()

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        self.threads.add(threading.get_ident())


@pytest.mark.parametrize(
    ("name", "size", "epochs", "sleeps"),
    [
        ("eager", 8, 5, 15),
        ("function", 8, 7, 21),
        ("function", 20, 7, 7),
        ("function", 64, 7, 7),
        pytest.param("fit", 8, 7, 21, marks=pytest.mark.slow),
        # Of 69 steps, two calls have 32.
        pytest.param("fit_steps", 8, 23, 2 + 5, marks=pytest.mark.slow),
    ],
)
def test_a_delay_adds_epochs_times_batches_times_itself(name, size, epochs, sleeps, monkeypatch):
    runner = made_loop(name, linear(3), sgd(), *digits(20), size, delay_seconds=0.25)
    monkeypatch.setattr(loops, "time", clock := Clock())
    taken = runner.run(epochs * runner.steps_per_epoch)
    assert taken == epochs * math.ceil(20 / size) * 0.25
    assert len(clock.slept) == sleeps
    assert clock.threads == {threading.get_ident()}


@pytest.mark.parametrize("name", first(["function", "eager", "fit", "fit_steps"]))
def test_turns_without_the_delay_sleep_nothing(name, monkeypatch):
    runner = made_loop(name, linear(3), sgd(), *digits(20), 8, delay_seconds=0.25)
    monkeypatch.setattr(loops, "time", clock := Clock())
    with_delay = runner.at(8)(runner.steps_per_call)
    without = runner.at(8, delayed=False)(runner.steps_per_call)
    clock.slept.clear()
    again = runner.at(8)(runner.steps_per_call)
    assert (with_delay, without, again) == (0.25 * runner.steps_per_call, 0.0, with_delay)
    # The lead-in has the delay of what follows it.
    lead_in_calls = math.ceil(lead_in.STEPS / runner.steps_per_call)
    assert sum(clock.slept) == (lead_in_calls + 1) * with_delay


@pytest.mark.slow
def test_an_injected_delay_comes_back_as_the_fixed_cost_of_a_step():
    """With t = a + b B, a delay of d per batch adds d to a, and nothing to b."""
    delay, sizes = 0.02, (4, 16, 32, 48, 96)
    made = linear(3), sgd(1e-6), *digits(96), sizes[0]
    runner = made_loop("function", *made, delay_seconds=delay)
    turns = list(itertools.product(sizes, (False, True)))
    for turn in turns:
        runner.at(*turn)(2)  # traces and starts
    least = dict.fromkeys(turns, math.inf)
    # Single steps in turns, the quickest of each: other processes only ever add to a time.
    for _, turn in itertools.product(range(15), turns):
        least[turn] = min(least[turn], runner.at(*turn)(1))
    rows = [[least[size, delayed] for delayed in (False, True)] for size in sizes]
    slope, fixed = np.polyfit(sizes, rows, 1)
    assert fixed[1] - fixed[0] == pytest.approx(delay, rel=0.15)
    assert (slope[1] - slope[0]) * max(sizes) == pytest.approx(0, abs=0.2 * delay)


@pytest.mark.slow
def test_the_documents_first_example_runs():
    """One pass over its 1,000 images in eager steps, at the batch sizes 16 and 128."""
    random = np.random.default_rng(0)
    images = random.standard_normal((1000, 28, 28, 1)).astype(np.float32)
    labels = random.integers(0, 10, 1000)
    layers = keras.layers
    parts = [keras.Input((28, 28, 1)), layers.Conv2D(32, (3, 3), activation="relu")]
    parts += [layers.MaxPooling2D((2, 2)), layers.Flatten(), layers.Dense(10, activation="softmax")]
    model, optimizer = keras.Sequential(parts), keras.optimizers.Adam()
    runner = made_loop("eager", model, optimizer, images, labels, 16, 1.0)
    for size, steps in ((16, 63), (128, 8)):
        runner.set_batch_size(size)
        assert runner.steps_per_epoch == steps
        assert runner.run(steps) > 0
        assert runner.position == 0
    assert int(optimizer.iterations.numpy()) == 71


@pytest.mark.parametrize("name", first(["graph", "function", "fit"]))
def test_a_loss_that_is_not_finite_is_not_timed(name):
    images, labels = np.full((20, 8, 8, 1), np.nan, np.float32), np.zeros(20, int)
    runner = made_loop(name, linear(3), sgd(), images, labels, 8, 1.0)
    with pytest.raises(NotFinite, match="within 3 steps"):
        runner.run(3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "while"}, "loop: received 'while'; one of graph, eager"),
        ({"pipeline": "map"}, "input_pipeline: received 'map' with loop graph; memory is"),
        ({"name": "fit", "pipeline": "memory"}, "'memory' with loop fit; one of dataset, map"),
        ({"name": "eager", "pipeline": "files"}, "input_pipeline: received 'files'; one of"),
        ({"name": "eager", "pipeline": "jpeg"}, "folder: received None"),
        ({"delay_seconds": 0.1}, "delay_seconds: received 0.1 with loop graph; 0 is expected"),
        ({"name": "fit", "delay_seconds": -1.0}, "received -1.0 with loop fit; 0 or more"),
        ({"batch_size": 0}, "batch_size: received 0; at least 1"),
    ],
)
def test_what_does_not_go_together_is_refused(changed, message):
    images, labels = digits(20)
    given = {"name": "graph", "images": images, "labels": labels, "batch_size": 8}
    with pytest.raises(ValueError, match=message):
        made_loop(**given | changed, model=linear(3), optimizer=sgd())
