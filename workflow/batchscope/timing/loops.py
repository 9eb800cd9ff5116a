"""Training loops in TensorFlow: five loops that make the same updates.

`graph`      a while loop inside the graph over arrays in memory: one call runs many steps
`eager`      one operation after the other from Python, under a GradientTape
`function`   the same step as a tf.function: one call per batch
`fit`        Keras's `model.fit`: one call per batch, and all that Keras does besides
`fit_steps`  the same with `steps_per_execution`, 32 steps per call

All loops read the examples in the order 0 to n - 1, epoch after epoch. They take the model's
cross-entropy of `batchscope.training.losses`, as a mean over the batch, plus the layers' penalties,
so that the same initial weights lead to the same weights. They differ in the cost of a step beyond
its arithmetic. One update differs: in an embedding, `fit` lets an optimizer square the gradients of
a token's occurrences one by one (see `losses.dense`).

Source: "Why does TensorFlow training on mini-batches sometimes become slower?" (2025). Its examples
1 and 2 are `eager` over the pipeline `dataset`, without and with a delay.
"""

from __future__ import annotations

import abc
import functools
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from batchscope import private_interfaces
from batchscope.datasets import Learned
from batchscope.study import run_factors
from batchscope.timing import pipelines
from batchscope.timing.blocks import LEAD_IN_STEPS, NonFiniteLoss
from batchscope.timing.instruments.processes import MEGABYTE
from batchscope.training import augmentations, losses, optimizers, replicas, scoring
from batchscope.training.step_loop import Batches, Examples, StepLoop, Totals

# Steps per call of `fit_steps`; large enough that the cost of a call is negligible.
STEPS_PER_EXECUTION = 32
PLAIN = "plain"  # the default input pipeline of a loop
# No model diverges within a timing at this rate, and a step's time does not depend on it.
LEARNING_RATE = 1e-6
# One step of this length already fills memory and builds all functions.
LEAD_IN_SECONDS = 0.25


def make_optimizer(factors: dict[str, Any]) -> keras.optimizers.Optimizer:
    """Return the optimizer of a timing, on the devices that share its batches.

    Neither the time nor the memory of a step depends on the learning rate or on scaling rules.
    """
    defaults = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    all_factors = {**defaults, "batch_size": 1, **factors, "learning_rate": LEARNING_RATE}
    with replicas.scope(factors):
        return optimizers.make_optimizer(all_factors)


def make_loop(
    factors: dict[str, Any],
    model: keras.Model,
    data: Examples,
    size: int | tf.Variable,
    whole_only: bool = False,
) -> StepLoop:
    """Return the loop of a training with a new optimizer.

    Args:
        whole_only: Leave out the last, smaller batch of an epoch.
    """
    augment = augmentations.layer(factors["augmentation"], 0)
    batches = Batches.of(factors, size, augment, drop_remainder=whole_only)
    return replicas.make_loop(factors, model, make_optimizer(factors), data, batches)


class Runner(abc.ABC):
    """Run and time consecutive updates on whole batches, at any batch size of a sweep.

    Model and optimizer belong to one runner. All batch sizes share weights and images, and each
    keeps its own place in its epoch. The last, smaller batch of an epoch is left out, so that a
    time belongs to its batch size.
    """

    device = "cpu"
    threads = 1
    unit = 1  # updates of one call; only multiples of it are timed
    lead_in_seconds = LEAD_IN_SECONDS  # a lead-in ends after this time

    def __init__(self, model: keras.Model, examples: int) -> None:
        self.model, self.examples = model, examples
        self._positions: dict[int, int] = {}
        self._current: tuple[int, bool] | None = None

    def per_epoch(self, batch_size: int) -> int:
        return max(1, self.examples // batch_size)

    def at(self, batch_size: int, delayed: bool = True) -> Callable[[int], float]:
        return functools.partial(self.run, batch_size, delayed=delayed)

    def run(self, batch_size: int, steps: int, delayed: bool = True) -> float:
        """Run the next updates, wait for the device, and return their seconds.

        After a change of batch size or delay, a lead-in runs untimed.

        Raises:
            NonFiniteLoss: If the loss is not finite.
        """
        if (batch_size, delayed) != self._current:
            self._current = (batch_size, delayed)
            total_steps, total_seconds = 0, 0.0
            while total_steps < LEAD_IN_STEPS and total_seconds < self.lead_in_seconds:
                total_seconds += self._next(batch_size, self.unit, delayed)
                total_steps += self.unit
        return self._next(batch_size, steps, delayed)

    def _next(self, batch_size: int, steps: int, delayed: bool) -> float:
        start = self._positions.get(batch_size, 0)
        seconds, loss = self._run(batch_size, start, steps, delayed)
        if not math.isfinite(loss):
            raise NonFiniteLoss(f"The loss is not finite within {steps} steps.")
        self._positions[batch_size] = (start + steps) % self.per_epoch(batch_size)
        return seconds

    @abc.abstractmethod
    def _run(self, batch_size: int, start: int, steps: int, delayed: bool) -> tuple[float, float]:
        """Run updates from a position in the epoch; return their seconds and a loss.

        The loss is finite only if the losses of all updates are.
        """

    def reset_peak(self) -> bool:
        """Restart the count of `peak_mb`; return whether TensorFlow keeps count."""
        try:
            tf.config.experimental.reset_memory_stats(f"{self.device.upper()}:0")
        except ValueError:
            return False
        return True

    def peak_mb(self) -> float | None:
        """Return the peak memory of TensorFlow's tensors since `reset_peak`, in MB, or None.

        The peak counts the blocks that TensorFlow's allocator gave out, up to twice a tensor's
        size. It does not count memory that the allocator holds in reserve. TensorFlow documents it
        for GPUs and TPUs alone. Version 2.21 also counts on the CPU, without tensors smaller than
        256 KiB. An allocator that keeps no count reports 0.
        """
        peak = tf.config.experimental.get_memory_info(f"{self.device.upper()}:0")["peak"]
        return peak / MEGABYTE or None


class GraphRunner(Runner):
    """The loop in the graph: a call runs all its steps, also across epochs.

    The batch size is a variable of the graph, so that one trace and one copy of the images serve
    all batch sizes. A step takes as long as with a constant batch size: measured in turns, the two
    agree to within the resolution of 2 %.
    """

    def __init__(self, factors: dict[str, Any], model: keras.Model, data: Examples) -> None:
        super().__init__(model, len(data.labels))
        with tf.device("CPU"):  # loop counters live on the CPU also when a GPU trains
            self._size = tf.Variable(1, trainable=False, dtype=tf.int32)
        self._loop = make_loop(factors, model, data, self._size, whole_only=True)
        self._order = tf.range(self.examples, dtype=tf.int32)

    def _run(self, batch_size: int, start: int, steps: int, delayed: bool) -> tuple[float, float]:
        self._size.assign(batch_size)
        _, totals, seconds, _ = self._loop.run(self._order, start, start + steps, Totals())
        return seconds, totals.loss


class PipelineRunner(Runner):
    """A loop over a `tf.data` pipeline; all batch sizes share its examples."""

    def __init__(
        self,
        loop: str,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        data: Examples,
        pipeline: str = "dataset",
        delay_seconds: float = 0.0,  # sleep of the training thread before every step
        folder: Path | None = None,  # gets the files of the pipeline `jpeg`
    ) -> None:
        super().__init__(model, len(data.labels))
        self._pipeline, self._delay_seconds = pipeline, delay_seconds
        self._mapped = pipelines.examples(pipeline, data, folder)
        self._learned = data.learned
        self._kept: dict[int, tf.data.Dataset] = {}
        # The lead-in uses up prefetched batches. A delay is not part of the work of a step.
        if pipeline in pipelines.PREFETCHING or delay_seconds:
            self.lead_in_seconds = math.inf
        optimizer.build(model.trainable_variables)
        self._build(loop, optimizer)

    @abc.abstractmethod
    def _build(self, loop: str, optimizer: keras.optimizers.Optimizer) -> None:
        """Build the functions that a step calls."""

    def _batches(self, batch_size: int) -> tf.data.Dataset:
        # Kept, since a new iterator would have to find its degree of parallelism again.
        if batch_size not in self._kept:
            endless = pipelines.batches(self._pipeline, self._mapped, batch_size)
            self._kept[batch_size] = private_interfaces.continued(endless)
        return self._kept[batch_size]


class StepRunner(PipelineRunner):
    """A Python loop over batches, one GradientTape step each.

    If it is compiled, the step is a tf.function, traced once for batches of any size.
    """

    def _build(self, loop: str, optimizer: keras.optimizers.Optimizer) -> None:
        model, mean_loss = self.model, _MeanLoss(self.model, self._learned)

        def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = mean_loss(labels, model(images, training=True))
                loss = tf.add_n([loss, *model.losses])
            gradients = losses.dense(tape.gradient(loss, model.trainable_variables))
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        if loop == "function":
            signature = pipelines.batches(self._pipeline, self._mapped, 1).element_spec
            step = tf.function(step, input_signature=signature, autograph=False)
        self._step = step

    def _run(self, batch_size: int, start: int, steps: int, delayed: bool) -> tuple[float, float]:
        batches, step = iter(self._batches(batch_size)), self._step
        delay = self._delay_seconds if delayed else 0.0
        begun = time.perf_counter()
        for _ in range(steps):
            if delay:
                time.sleep(delay)
            loss = step(*next(batches))
        value = float(loss)  # waits for the device
        return time.perf_counter() - begun, value


class FitRunner(PipelineRunner):
    """Keras's `fit`, one call per `run`, with `unit` steps in a call into the graph.

    The steps of a `run` are a multiple of `unit`.

    The timed span begins at Keras's `on_epoch_begin` and ends at `on_epoch_end`. It contains every
    step with its loss metric and dispatch of callbacks, and one conversion of the loss to a number.
    It leaves out the work of a call before and after: a training pays it once per epoch and a
    timing once per block. No callback runs at batches, unless there is a delay: a callback at the
    end of batches would change how Keras dispatches the steps. The delay of several steps in one
    call comes before the call. XLA is off, although Keras would use it on a GPU: the other loops do
    not use it either.
    """

    def _build(self, loop: str, optimizer: keras.optimizers.Optimizer) -> None:
        self.unit = STEPS_PER_EXECUTION if loop == "fit_steps" else 1
        options = {"steps_per_execution": self.unit, "jit_compile": False}
        self.model.compile(optimizer, _MeanLoss(self.model, self._learned), **options)

    def _run(self, batch_size: int, start: int, steps: int, delayed: bool) -> tuple[float, float]:
        clock, delay = _Clock(), self._delay_seconds * self.unit if delayed else 0.0
        callbacks: list[keras.callbacks.Callback] = [clock]
        if delay:
            sleep = keras.callbacks.LambdaCallback(
                on_train_batch_begin=lambda batch, logs: time.sleep(delay)
            )
            callbacks.append(sleep)
        options = {"verbose": 0, "callbacks": callbacks, "shuffle": False}
        self.model.fit(self._batches(batch_size), steps_per_epoch=steps, epochs=1, **options)
        return clock.seconds, clock.loss


class _MeanLoss(keras.losses.Loss):
    """Mean loss of the examples.

    This overrides Keras's `__call__`, which reshapes labels and outputs to equal ranks. The loss
    needs the model's outputs unchanged.
    """

    def __init__(self, model: keras.Model, learned: Learned) -> None:
        super().__init__(name="mean_loss")
        self._scoring = scoring.of(learned)

    def __call__(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: Any = None) -> Any:
        return tf.reduce_mean(self._scoring.examples(y_true, y_pred)[0])


class _Clock(keras.callbacks.Callback):
    """Time the epoch of a call of `fit` and keep its mean loss."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.loss = float(logs["loss"])
        self.seconds = time.perf_counter() - self._begun


# The loops that are not in the graph.
OVER_PIPELINES = {
    **dict.fromkeys(("eager", "function"), StepRunner),
    **dict.fromkeys(("fit", "fit_steps"), FitRunner),
}


def make_runner(
    factors: dict[str, Any], model: keras.Model, data: Examples, folder: Path
) -> Runner:
    loop, pipeline = factors["loop"], factors["input_pipeline"]
    if loop == "graph":
        runner: Runner = GraphRunner(factors, model, data)
    else:
        # One copy for every batch size; on a GPU it is in the GPU's memory.
        placed = replace(data, images=tf.constant(data.images))
        pipeline = "dataset" if pipeline == PLAIN else pipeline
        arguments = make_optimizer(factors), placed, pipeline, factors["delay_seconds"], folder
        runner = OVER_PIPELINES[loop](loop, model, *arguments)
    runner.device = factors["device"]
    return runner
