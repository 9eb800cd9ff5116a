"""What drives the training steps: five loops that make the same updates, to be timed.

`graph`      a while loop inside the graph over arrays in memory: one call runs many steps
`eager`      one operation after the other from Python, under a GradientTape
`function`   the same step as a tf.function: one call per batch
`fit`        Keras's `model.fit`: one call per batch, and all that Keras does besides
`fit_steps`  the same with `steps_per_execution`, 32 steps per call

All of them read the examples in the order 0 to n - 1, epoch after epoch; where the batch size
does not divide n, an epoch's last batch is smaller, or left out. Loss and update are the same
too (the model's cross-entropy of `batchscope.training.losses`, as a mean over the batch, plus the
layers' penalties), so that the same initial weights lead to the same weights. They differ in what
a step costs beyond its arithmetic. One update differs: of an embedding, `fit` lets an optimizer
square the gradients of a token's occurrences one by one (see `losses.dense`).

Source: "Why does TensorFlow training on mini-batches sometimes become slower?" (2025), whose
examples 1 and 2 are `eager` over the pipeline `dataset`, without and with a delay before each
step. They do not run as printed: `tf.random.categorical(logits, num_classes=10)` has no such
argument, and would draw several labels per image. What is meant is one class per image, all ten
equally likely, which is `tf.random.uniform((1000,), maxval=10, dtype=tf.int32)`; one-hot labels
under categorical cross-entropy are those classes under the sparse one. Their single time around
ten epochs also holds the first step's set-up; here the caller drops the first steps.
"""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from batchscope import private_interfaces
from batchscope.timing.largest.fates import NotFinite
from batchscope.timing.steps import lead_in, pipelines
from batchscope.training import losses
from batchscope.training.step_loop import Batches, Examples, StepLoop, Totals, steps_per_epoch

LOOPS = ("graph", "eager", "function", "fit", "fit_steps")
# Steps per call of `fit_steps`; large enough that a call's own cost hardly counts.
STEPS_PER_EXECUTION = 32
# No pipeline: the arrays are in the graph, which gathers its batches from them.
MEMORY = "memory"


@dataclass(frozen=True)
class Source:
    """Where the batches of a loop come from.

    Attributes:
        pipeline: `memory` for the loop in the graph, else one of `pipelines.PIPELINES`; None
            for `memory` and `dataset`.
        delay_seconds: What the training thread sleeps before every step, one delay per batch;
            nothing can sleep between the steps of the loop in the graph.
    """

    pipeline: str | None = None
    delay_seconds: float = 0.0
    folder: Path | str | None = None  # of the files of the pipeline `jpeg`

    def of(self, loop: str) -> Source:
        """Returns it with a loop's own pipeline; raises `ValueError` if they do not go together."""
        pipeline = self.pipeline or (MEMORY if loop == "graph" else "dataset")
        if (pipeline == MEMORY) != (loop == "graph"):
            expected = MEMORY if loop == "graph" else f"one of {', '.join(pipelines.PIPELINES)}"
            raise ValueError(
                f"input_pipeline: received {pipeline!r} with loop {loop}; {expected} is expected."
            )
        delay = self.delay_seconds
        if not 0 <= delay < math.inf or (loop == "graph" and delay):
            expected = "0" if loop == "graph" else "0 or more"
            raise ValueError(
                f"delay_seconds: received {delay} with loop {loop}; {expected} is expected."
            )
        return replace(self, pipeline=pipeline)


class Runner(abc.ABC):
    """Runs and times consecutive updates, at any batch size B.

    One runner serves all batch sizes of a sweep: they share its trace, its copy of the images
    and its model, whose weights no step's time depends on. Every batch size keeps its own place
    in its epoch. The first steps of a runner also trace, and the first of a batch size start its
    pipeline: a timing drops them. Model and optimizer belong to one runner.

    Attributes:
        whole_batches: Whether an epoch ends with its last whole batch, where it has one, so
            that every step is of B examples.
        steps_per_call: Updates of one call into the graph, where that number is fixed. Other
            numbers of steps leave a rest that is run one by one, so that only multiples of it
            are to be timed.
        lead_in_seconds: What is enough of a lead-in.
        delayed: Whether its delay, where it has one, is slept.
    """

    steps_per_call = 1
    lead_in_seconds = lead_in.ENOUGH_SECONDS
    delayed = True

    def __init__(self, examples: int, batch_size: int, whole_batches: bool) -> None:
        self.examples, self.whole_batches = examples, whole_batches
        self._positions: dict[int, int] = {}
        self.set_batch_size(batch_size)

    @property
    def position(self) -> int:
        """Updates of the batch size's current epoch that are done."""
        return self._positions.get(self.batch_size, 0)

    @property
    def steps_per_epoch(self) -> int:
        """Updates of an epoch of n examples: ceil(n / B), or floor where only whole ones count."""
        if self.whole_batches:
            return max(1, self.examples // self.batch_size)
        return steps_per_epoch(self.examples, self.batch_size)

    def set_batch_size(self, batch_size: int) -> None:
        """Goes on with the updates of a batch size; traces nothing again.

        Raises:
            ValueError: If the batch size is not positive.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: received {batch_size}; at least 1 is expected.")
        self.batch_size = int(batch_size)
        self._switch()

    def at(self, batch_size: int, delayed: bool = True) -> Callable[[int], float]:
        """Returns `run`, at a batch size, with or without the delay.

        After a change of either, the lead-in comes first.
        """

        def run(steps: int) -> float:
            if (batch_size, delayed) != (self.batch_size, self.delayed):
                self.delayed = delayed
                self.set_batch_size(batch_size)
                lead_in.run(self.run, self.lead_in_seconds, self.steps_per_call)
            return self.run(steps)

        return run

    def run(self, steps: int) -> float:
        """Runs the next updates and returns the seconds that they took.

        The clock stops when the device has finished, by fetching the last loss.

        Raises:
            NotFinite: If the loss is not finite.
            ValueError: If the number of steps is not positive.
        """
        if steps < 1:
            raise ValueError(f"steps: received {steps}; at least 1 is expected.")
        seconds, loss = self._run(steps)
        if not math.isfinite(loss):
            raise NotFinite(f"The loss is not finite within {steps} steps.")
        self._positions[self.batch_size] = (self.position + steps) % self.steps_per_epoch
        return seconds

    @abc.abstractmethod
    def _switch(self) -> None:
        """Makes the next update that of `batch_size`, at its position."""

    @abc.abstractmethod
    def _run(self, steps: int) -> tuple[float, float]:
        """Returns the seconds of the next updates, and a loss that is finite if all were."""


class GraphRunner(Runner):
    """The loop in the graph: a call runs all its steps, whatever epochs they belong to.

    The batch size is a variable of the graph, so that one trace and one copy of the images
    serve all batch sizes; a step takes as long as with a constant, to the 2 % that measuring
    both in turns could resolve. The size of `batches` is the first of those that are run.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        examples: Examples,
        batches: Batches,
    ) -> None:
        with tf.device("CPU"):  # loop counters are there whatever the device
            self._size = tf.Variable(batches.size, trainable=False, dtype=tf.int32)
        self._loop = StepLoop(model, optimizer, examples, replace(batches, size=self._size))
        self._loop.compile()
        self._order = tf.range(self._loop.examples, dtype=tf.int32)
        super().__init__(self._loop.examples, batches.size, batches.whole)

    def _switch(self) -> None:
        self._size.assign(self.batch_size)

    def _run(self, steps: int) -> tuple[float, float]:
        start = self.position
        _, totals, seconds, _ = self._loop.run(self._order, start, start + steps, Totals())
        return seconds, totals.loss


class _PipelineRunner(Runner):
    """A loop over a `tf.data` pipeline, whose examples are shared by all batch sizes."""

    def __init__(self, examples: tf.data.Dataset, batches: Batches, source: Source) -> None:
        self._examples, self._source = examples, source
        self._kept: dict[int, tf.data.Dataset] = {}
        # Batches that were made ready meanwhile are all used up, and a delay is no step's work.
        if source.pipeline in pipelines.PREFETCHING or source.delay_seconds:
            self.lead_in_seconds = math.inf
        super().__init__(int(examples.cardinality()), batches.size, batches.whole)

    @property
    def _delay(self) -> float:
        return self._source.delay_seconds if self.delayed else 0.0

    def _switch(self) -> None:
        size = self.batch_size
        # Kept, since a new iterator would have to find its degree of parallelism again.
        if size not in self._kept:
            given = (self._source.pipeline, self._examples, size, self.whole_batches)
            self._kept[size] = private_interfaces.continued(pipelines.batches(*given))
        self._batches = self._kept[size]


class StepRunner(_PipelineRunner):
    """A Python loop over batches, one GradientTape step each, eager or as a tf.function.

    Args:
        compiled: Whether the step is a tf.function. It is traced once, for batches of any size.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        compiled: bool,
        examples: tf.data.Dataset,
        batches: Batches,
        source: Source,
    ) -> None:
        super().__init__(examples, batches, source)
        optimizer.build(model.trainable_variables)
        mean_loss = _MeanLoss(model)

        def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = mean_loss(labels, model(images, training=True))
                loss = tf.add_n([loss, *model.losses])
            gradients = losses.dense(tape.gradient(loss, model.trainable_variables))
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        if compiled:
            signature = self._batches.element_spec
            step = tf.function(step, input_signature=signature, autograph=False)
        self._step = step

    def _run(self, steps: int) -> tuple[float, float]:
        batches, step, delay = iter(self._batches), self._step, self._delay
        begun = time.perf_counter()
        for _ in range(steps):
            if delay:
                time.sleep(delay)
            loss = step(*next(batches))
        value = float(loss)  # waits for the device
        return time.perf_counter() - begun, value


class FitRunner(_PipelineRunner):
    """Keras's `fit`, one call per `run`.

    What is timed lies between Keras's `on_epoch_begin` and `on_epoch_end`: every step with what
    Keras does around it (its loss metric, its dispatch of callbacks), and at the end the loss
    as a number, once. What a call of `fit` does before and after (its adapters and callbacks,
    the reset of its metrics) is left out: it is paid once per epoch in a training and once per
    block in a timing, so that charging it to the steps would make their cost depend on how
    many a block has. No callback runs at batches, unless there is a delay: one at their end
    would change how Keras dispatches all.

    XLA is off, which Keras would switch on for a GPU: the other loops do not use it either.

    Args:
        model: A built classifier; it is compiled here.
        steps_per_execution: Steps in one call into the graph. What is left of a number of steps
            is run by calls of one step, and a delay is slept before the call that its steps
            share.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        steps_per_execution: int,
        examples: tf.data.Dataset,
        batches: Batches,
        source: Source,
    ) -> None:
        super().__init__(examples, batches, source)
        self.steps_per_call = steps_per_execution
        optimizer.build(model.trainable_variables)
        model.compile(optimizer, _MeanLoss(model), jit_compile=False)
        self._model = model
        self._functions: dict[int, Any] = {}

    def _run(self, steps: int) -> tuple[float, float]:
        whole = steps - steps % self.steps_per_call
        seconds, value = 0.0, 0.0
        for count, per_call in ((whole, self.steps_per_call), (steps - whole, 1)):
            if count:
                clock = self._fit(count, per_call)
                seconds, value = seconds + clock.seconds, value + clock.loss
        return seconds, value

    def _fit(self, steps: int, per_call: int) -> _Clock:
        model = self._model
        model.steps_per_execution = per_call
        # Keras keeps one function, which has the steps of a call traced into it.
        if per_call not in self._functions:
            model.make_train_function(force=True)
            self._functions[per_call] = model.train_function
        model.train_function = self._functions[per_call]
        clock = _Clock()
        callbacks = [clock, _Delay(self._delay * per_call)] if self._delay else [clock]
        options = {"verbose": 0, "callbacks": callbacks, "shuffle": False}
        model.fit(self._batches, steps_per_epoch=steps, epochs=1, **options)
        return clock


class _MeanLoss(keras.losses.Loss):
    """The mean of the examples' losses.

    Keras's own call would reshape labels and outputs to equal ranks, and the outputs must be
    what the model returned.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(name="mean_loss")
        self._per_example = losses.example_losses(model)

    def __call__(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: Any = None) -> Any:
        return tf.reduce_mean(self._per_example(y_true, y_pred)[0])


class _Clock(keras.callbacks.Callback):
    """Times the epoch of a call of `fit`; keeps its mean loss."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.loss = float(logs["loss"])
        self.seconds = time.perf_counter() - self._begun


class _Delay(keras.callbacks.Callback):
    """Sleeps before every call into the graph, on the training thread."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        time.sleep(self._seconds)


def make(
    loop: str,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    examples: Examples,
    batches: Batches,
    source: Source = Source(),
) -> Runner:
    """Returns the runner of a loop over a pipeline.

    Args:
        model: A built classifier; the runner's own, as the optimizer is.
        batches: Only the loop in the graph augments them, or uses a batch by another method than
            `plain`.

    Raises:
        ValueError: If there is no such loop, or it does not go with the pipeline or the delay.
        UserError: If the images cannot be JPEG files, or the folder holds other files.
    """
    if loop not in LOOPS:
        raise ValueError(f"loop: received {loop!r}; one of {', '.join(LOOPS)} is expected.")
    source = source.of(loop)
    if loop == "graph":
        return GraphRunner(model, optimizer, examples, batches)
    if batches.method.name != "plain" or batches.augment:
        raise ValueError(f"Expected method plain and no augmentation with loop {loop}.")
    given = pipelines.examples(source.pipeline, examples, source.folder), batches, source
    if loop in ("eager", "function"):
        return StepRunner(model, optimizer, loop == "function", *given)
    steps = STEPS_PER_EXECUTION if loop == "fit_steps" else 1
    return FitRunner(model, optimizer, steps, *given)
