"""What drives the training steps in TensorFlow: five loops that make the same updates.

`graph`      a while loop inside the graph over arrays in memory: one call runs many steps
`eager`      one operation after the other from Python, under a GradientTape
`function`   the same step as a tf.function: one call per batch
`fit`        Keras's `model.fit`: one call per batch, and all that Keras does besides
`fit_steps`  the same with `steps_per_execution`, 32 steps per call

All loops read the examples in the order 0 to n - 1, epoch after epoch. They take the model's
cross-entropy of `batchscope.training.losses`, as a mean over the batch, plus the layers' penalties,
so that the same initial weights lead to the same weights. They differ in what a step costs beyond
its arithmetic. One update differs: of an embedding, `fit` lets an optimizer square the gradients
of a token's occurrences one by one (see `losses.dense`).

Source: "Why does TensorFlow training on mini-batches sometimes become slower?" (2025), whose
examples 1 and 2 are `eager` over the pipeline `dataset`, without and with a delay.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from batchscope import private_interfaces
from batchscope.catalogue import incompatible_factors, run_factors
from batchscope.frameworks import LEARNING_RATE, Runner
from batchscope.timing import TimingJob
from batchscope.timing.instruments import flops, peak, peak_memory
from batchscope.timing.steps import pipelines
from batchscope.training import augmentations, losses, optimizers, replicas
from batchscope.training.step_loop import Batches, Examples, StepLoop, Totals
from batchscope.training.update_methods import Method

LOOPS = ("graph", "eager", "function", "fit", "fit_steps")
# Steps per call of `fit_steps`; large enough that a call's own cost hardly counts.
STEPS_PER_EXECUTION = 32
PLAIN = "plain"  # the input pipeline that a loop has by itself


def make_optimizer(factors: dict[str, Any]) -> keras.optimizers.Optimizer:
    """Returns the optimizer of what is timed, on the devices that its batches are divided among.

    Neither a step's time nor its memory depends on the rate, nor on what would follow from the
    batch size.
    """
    births = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    given = {**births, "batch_size": 1, **factors, "learning_rate": LEARNING_RATE}
    with replicas.scope(factors):
        return optimizers.make_optimizer(given)


def make_loop(
    factors: dict[str, Any],
    model: keras.Model,
    data: Examples,
    size: int | tf.Variable,
    whole: bool = False,
) -> StepLoop:
    """Returns the loop of a training, with an optimizer of its own; `whole` as `Batches` has it."""
    batches = Batches(
        size,
        whole,
        augmentations.layer(factors["augmentation"], 0),
        Method.of(factors),
        factors["micro_batch_size"],
    )
    return replicas.make_loop(factors, model, make_optimizer(factors), data, batches)


class TensorFlowRunner(Runner):
    """Updates in TensorFlow; model and optimizer belong to one runner."""

    device = "cpu"

    def __init__(self, model: keras.Model, examples: int) -> None:
        super().__init__(examples)
        self.model = model

    def ceiling(self) -> dict[str, Any]:
        """Measures the peak of a matrix product on this process's threads and device."""
        return peak.matmul_peak()

    def flops(self) -> dict[str, Any]:
        """Returns the operations per example, and the layers that are not counted."""
        return asdict(flops.per_image(self.model))

    def reset_peak(self) -> bool:
        """Lets `peak_bytes` count from now on; returns whether TensorFlow keeps count."""
        return peak_memory.reset_tensorflow_peak(self.device)

    def peak_bytes(self) -> int | None:
        """Returns the most that TensorFlow's tensors held at once since."""
        return peak_memory.tensorflow_peak(self.device)


class GraphRunner(TensorFlowRunner):
    """The loop in the graph: a call runs all its steps, whatever epochs they belong to.

    The batch size is a variable of the graph, so that one trace and one copy of the images serve
    all batch sizes. A step takes as long as with a constant, to the 2 % that measuring both in
    turns could resolve.
    """

    def __init__(self, factors: dict[str, Any], model: keras.Model, data: Examples) -> None:
        super().__init__(model, len(data.labels))
        with tf.device("CPU"):  # loop counters are there whatever the device
            self._size = tf.Variable(1, trainable=False, dtype=tf.int32)
        self._loop = make_loop(factors, model, data, self._size, whole=True)
        self._loop.compile()
        self._order = tf.range(self.examples, dtype=tf.int32)

    def _switch(self, batch_size: int, delayed: bool) -> None:
        self._size.assign(batch_size)

    def _run(self, batch_size: int, start: int, steps: int) -> tuple[float, float]:
        _, totals, seconds, _ = self._loop.run(self._order, start, start + steps, Totals())
        return seconds, totals.loss


@dataclass(frozen=True)
class Source:
    """Where the batches of a loop over a pipeline come from."""

    pipeline: str = "dataset"
    delay_seconds: float = 0.0  # the training thread sleeps so long before every step
    folder: Path | None = None  # gets the files of the pipeline `jpeg`


class PipelineRunner(TensorFlowRunner):
    """A loop over a `tf.data` pipeline, whose examples are shared by all batch sizes."""

    def __init__(self, model: keras.Model, data: Examples, source: Source) -> None:
        super().__init__(model, len(data.labels))
        self._source, self._delay = source, 0.0
        self._mapped = pipelines.examples(source.pipeline, data, source.folder)
        self._kept: dict[int, tf.data.Dataset] = {}
        # Batches that were made ready meanwhile are all used up, and a delay is no step's work.
        if source.pipeline in pipelines.PREFETCHING or source.delay_seconds:
            self.lead_in_seconds = math.inf

    def _switch(self, batch_size: int, delayed: bool) -> None:
        self._delay = self._source.delay_seconds if delayed else 0.0
        # Kept, since a new iterator would have to find its degree of parallelism again.
        if batch_size not in self._kept:
            endless = pipelines.batches(self._source.pipeline, self._mapped, batch_size)
            self._kept[batch_size] = private_interfaces.continued(endless)


class StepRunner(PipelineRunner):
    """A Python loop over batches, one GradientTape step each.

    If it is compiled, the step is a tf.function, traced once for batches of any size.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        compiled: bool,
        data: Examples,
        source: Source,
    ) -> None:
        super().__init__(model, data, source)
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
            signature = pipelines.batches(source.pipeline, self._mapped, 1).element_spec
            step = tf.function(step, input_signature=signature, autograph=False)
        self._step = step

    def _run(self, batch_size: int, start: int, steps: int) -> tuple[float, float]:
        batches, step, delay = iter(self._kept[batch_size]), self._step, self._delay
        begun = time.perf_counter()
        for _ in range(steps):
            if delay:
                time.sleep(delay)
            loss = step(*next(batches))
        value = float(loss)  # waits for the device
        return time.perf_counter() - begun, value


class FitRunner(PipelineRunner):
    """Keras's `fit`, one call per `run`, with so many steps in a call into the graph.

    The timed span lies between Keras's `on_epoch_begin` and `on_epoch_end`: every step with its
    loss metric and dispatch of callbacks, and at the end the loss as a number, once. A call's work
    before and after is left out: a training pays it once per epoch and a timing once per block. No
    callback runs at batches, unless there is a delay: a callback at their end would change how
    Keras dispatches all of them. A delay is slept before the call that its steps share. XLA is
    off, which Keras would switch on for a GPU: the other loops do not use it either.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        unit: int,
        data: Examples,
        source: Source,
    ) -> None:
        super().__init__(model, data, source)
        self.unit = unit
        optimizer.build(model.trainable_variables)
        model.compile(optimizer, _MeanLoss(model), jit_compile=False)
        self._functions: dict[int, Any] = {}

    def _run(self, batch_size: int, start: int, steps: int) -> tuple[float, float]:
        rest = steps % self.unit
        seconds, value = 0.0, 0.0
        for count, per_call in ((steps - rest, self.unit), (rest, 1)):
            if count:
                clock = self._fit(self._kept[batch_size], count, per_call)
                seconds, value = seconds + clock.seconds, value + clock.loss
        return seconds, value

    def _fit(self, batches: tf.data.Dataset, steps: int, per_call: int) -> _Clock:
        model = self.model
        model.steps_per_execution = per_call
        # Keras keeps one function, which has the steps of a call traced into it.
        if per_call not in self._functions:
            model.make_train_function(force=True)
            self._functions[per_call] = model.train_function
        model.train_function = self._functions[per_call]
        clock = _Clock()
        callbacks = [clock, _Delay(self._delay * per_call)] if self._delay else [clock]
        options = {"verbose": 0, "callbacks": callbacks, "shuffle": False}
        model.fit(batches, steps_per_epoch=steps, epochs=1, **options)
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


def over_pipeline(
    loop: str,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    data: Examples,
    source: Source = Source(),
) -> PipelineRunner:
    """Returns the runner of any loop but `graph`; raises as `pipelines.examples` does."""
    if loop in ("eager", "function"):
        return StepRunner(model, optimizer, loop == "function", data, source)
    unit = STEPS_PER_EXECUTION if loop == "fit_steps" else 1
    return FitRunner(model, optimizer, unit, data, source)


@contextlib.contextmanager
def open_runner(job: TimingJob) -> Iterator[TensorFlowRunner]:
    """Opens the runner of a sweep; raises as `steps.open_runner` does."""
    factors, model = job.factors, job.network()
    train = augmentations.extended(factors["augmentation"], job.data.examples("train"))
    largest = max(job.subject.batch_sizes)
    incompatible_factors.check_batch_size(factors, largest, len(train.labels))
    with tempfile.TemporaryDirectory(prefix="batchscope-") as folder:
        if factors["loop"] == "graph":
            runner: TensorFlowRunner = GraphRunner(factors, model, train)
        else:
            pipeline = factors["input_pipeline"]
            pipeline = "dataset" if pipeline == PLAIN else pipeline
            source = Source(pipeline, factors["delay_seconds"], Path(folder) / "jpeg")
            # One copy for every batch size; on a GPU it is in the GPU's memory.
            placed = replace(train, images=tf.constant(train.images))
            optimizer = make_optimizer(factors)
            runner = over_pipeline(factors["loop"], model, optimizer, placed, source)
        runner.device = factors["device"]
        yield runner
