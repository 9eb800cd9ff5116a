"""Factors of a timing in, `Runner` of its training loop out: five loops that make equal updates.

`graph`      a while loop inside the graph over arrays in memory: one call runs many steps
`eager`      one operation after the other from Python, under a GradientTape
`function`   the same step as a tf.function: one call per batch
`fit`        Keras's `model.fit`: one call per batch, with Keras's other work
`fit_steps`  the same with `steps_per_execution`: 32 steps per call

All loops read the examples in the order 0 to n - 1, epoch after epoch. Their loss is the mean loss
of a batch (`losses.Scoring`) plus the layers' penalties, so that the same initial weights lead to
the same weights. They differ in the cost of a step beyond its arithmetic. One
update differs: in an embedding, `fit` lets an optimizer square the gradients of a token's
occurrences one by one (see `losses.dense_gradients`).

All loops but `graph` have an input pipeline of `tf.data`, by the factor `input_pipeline`, whose
default `plain` means `dataset`. Each adds one operation to the previous:

`dataset`   from_tensor_slices, a map of one image at a time, batch
`map`       the same with a parallel map
`prefetch`  the same, and two batches are prepared while a step runs
`cache`     the same, and the mapped images stay in memory: no image is mapped twice
`jpeg`      as `prefetch`, but every image is a JPEG file that is read and decoded. The files are
            written just before, from the data set's resized images. They are small and in the page
            cache, so no step waits for a disk

The map converts one stored image to float32 numbers, times the data set's scale. Every pipeline
yields the same whole batches in the same order, without shuffling.

A new loop is a function that returns a `RunLoop`, a case in `make_runner`, and a choice of the
factor `loop`. A new pipeline is a branch of `mapped_examples` and a choice of `input_pipeline`.

Source: "Why does TensorFlow training on mini-batches sometimes become slower?" (2025), whose
examples 1 and 2 are `eager` over `dataset`, without and with a delay. The order of the pipelines is
that in TensorFlow's guide "Better performance with the tf.data API".
"""

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.core.errors import UserError
from batchscope.datasets import TaskInfo
from batchscope.study import run_factors, tasks
from batchscope.timing.blocks import LEAD_IN_STEPS, NonFiniteLoss, RunSteps
from batchscope.timing.samples import MEGABYTE
from batchscope.training import inputs, losses, optimizers, replicas
from batchscope.training.step_loop import Examples, StepLoop, Totals, UpdateSettings

# Steps per call of `fit_steps`; large enough that the cost of a call is negligible.
STEPS_PER_EXECUTION = 32
# At this rate no model diverges within a timing. A step's time does not depend on the rate.
LEARNING_RATE = 1e-6
# A lead-in of this duration fills memory and builds all functions.
LEAD_IN_SECONDS = 0.25
DEFAULT_PIPELINE = "plain"  # the default input pipeline of a loop
PREFETCHING_PIPELINES = ("prefetch", "cache", "jpeg")
# Number of prefetched batches. It is small and fixed, not AUTOTUNE, because the batches that are
# ready when a block begins cost the block nothing.
PREFETCH_BATCHES = 2
JPEG_QUALITY = 95

# Batch size and number of steps -> seconds of the next steps at this batch size, and a loss that is
# finite only if the losses of all steps are finite.
RunLoop = Callable[[int, int], tuple[float, float]]
BatchesOfSize = Callable[[int], tf.data.Dataset]  # batch size -> endless batches, as one iterator


@dataclass
class Runner:
    """Run and time consecutive updates on whole batches, at any batch size of a sweep.

    All batch sizes share model, optimizer and images. Each batch size has its own position in the
    epoch. The last, smaller batch of an epoch is left out, so a time belongs to one batch size.
    """

    run_loop: RunLoop
    examples: int
    device: str = "cpu"
    steps_per_call: int = 1  # only whole calls are timed
    lead_in_seconds: float = LEAD_IN_SECONDS  # maximum duration of a lead-in
    _last_size: int | None = None  # batch size of the last updates

    def steps_at_size(self, batch_size: int) -> RunSteps:
        return functools.partial(self.run, batch_size)

    def run(self, batch_size: int, steps: int) -> float:
        """Run the next updates, wait for the device, and return their seconds.

        After a change of batch size, a lead-in runs untimed.

        Raises:
            NonFiniteLoss: If the loss is not finite.
        """
        if batch_size != self._last_size:
            self._last_size = batch_size
            total_steps, total_seconds = 0, 0.0
            while total_steps < LEAD_IN_STEPS and total_seconds < self.lead_in_seconds:
                total_seconds += self._run(batch_size, self.steps_per_call)
                total_steps += self.steps_per_call
        return self._run(batch_size, steps)

    def _run(self, batch_size: int, steps: int) -> float:
        seconds, loss = self.run_loop(batch_size, steps)
        if not math.isfinite(loss):
            raise NonFiniteLoss(f"The loss is not finite within {steps} steps.")
        return seconds

    def reset_peak(self) -> bool:
        """Restart the count of `peak_mb`; return whether TensorFlow counts."""
        try:
            tf.config.experimental.reset_memory_stats(f"{self.device.upper()}:0")
        except ValueError:
            return False
        return True

    def peak_mb(self) -> float | None:
        """Return the peak memory of TensorFlow's tensors since `reset_peak`, in MB, or None.

        The peak counts the blocks that TensorFlow's allocator gave out, up to twice a tensor's
        size. It does not count the allocator's reserve. TensorFlow documents the count only for
        GPUs and TPUs. Version 2.21 also counts on the CPU, without tensors smaller than 256 KiB. An
        allocator without a count reports 0.
        """
        peak = tf.config.experimental.get_memory_info(f"{self.device.upper()}:0")["peak"]
        return peak / MEGABYTE or None


def make_runner(
    factors: dict[str, Any], model: keras.Model, data: Examples, folder: Path | None = None
) -> Runner:
    """Return the runner of the loop and input pipeline that the factors name.

    Args:
        folder: Folder for the files of the pipeline `jpeg`, which must not exist yet.
    """
    loop, pipeline, delay = factors["loop"], factors["input_pipeline"], factors["delay_seconds"]
    examples, device = len(data.labels), factors["device"]
    if loop == "graph":
        return Runner(make_graph_loop(factors, model, data), examples, device)
    # All batch sizes share one copy; on a GPU it is in the GPU's memory.
    placed = replace(data, images=tf.constant(data.images))
    pipeline = "dataset" if pipeline == DEFAULT_PIPELINE else pipeline
    mapped = mapped_examples(pipeline, placed, folder)

    @functools.cache  # a new iterator would have to find its degree of parallelism again
    def batches(batch_size: int) -> tf.data.Dataset:
        return private_interfaces.resumable(endless_batches(pipeline, mapped, batch_size))

    optimizer, mean_loss = make_optimizer(factors), _MeanLoss(data.task_info)
    optimizer.build(model.trainable_variables)
    # A lead-in has to use up the prefetched batches, and a delay is no work that could fill it.
    needs_all_steps = pipeline in PREFETCHING_PIPELINES or delay
    lead_in_seconds = math.inf if needs_all_steps else LEAD_IN_SECONDS
    steps_per_call = STEPS_PER_EXECUTION if loop == "fit_steps" else 1
    if loop in ("eager", "function"):
        spec = endless_batches(pipeline, mapped, 1).element_spec if loop == "function" else None
        run_loop = make_python_loop(model, optimizer, mean_loss, batches, delay, spec)
    else:
        options = {"steps_per_execution": steps_per_call, "jit_compile": False}
        model.compile(optimizer, mean_loss, **options)
        run_loop = make_fit_loop(model, batches, delay * steps_per_call)
    return Runner(run_loop, examples, device, steps_per_call, lead_in_seconds)


def make_optimizer(factors: dict[str, Any]) -> keras.optimizers.Optimizer:
    """Return the optimizer of a timing, on the devices that share its batches.

    Neither the time nor the memory of a step depends on the learning rate or on scaling rules.
    """
    defaults = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    all_factors = {**defaults, "batch_size": 1, **factors, "learning_rate": LEARNING_RATE}
    with replicas.scope(factors):
        return optimizers.make_optimizer(all_factors)


def make_step_loop(
    factors: dict[str, Any],
    model: keras.Model,
    data: Examples,
    size: int | tf.Variable,
    whole_only: bool = False,
) -> StepLoop:
    """Return the loop inside the graph, as a training has it, with a new optimizer.

    Args:
        whole_only: Leave out the last, smaller batch of an epoch.
    """
    settings = UpdateSettings.from_factors(factors, size, drop_remainder=whole_only)
    return replicas.make_loop(factors, model, make_optimizer(factors), data, settings)


def make_graph_loop(factors: dict[str, Any], model: keras.Model, data: Examples) -> RunLoop:
    """Return the loop `graph`: one call runs all its steps, also across epochs.

    The batch size is a variable of the graph, so that one trace and one copy of the images serve
    all batch sizes. A step takes as long as with a constant batch size: timed in turns, the two
    agree to within the resolution of 2 %.
    """
    with tf.device("CPU"):  # loop counters are on the CPU even if a GPU trains
        size = tf.Variable(1, trainable=False, dtype=tf.int32)
    loop = make_step_loop(factors, model, data, size, whole_only=True)
    examples = len(data.labels)
    order = tf.range(examples, dtype=tf.int32)
    positions: dict[int, int] = {}  # batch size -> steps of the epoch that have run

    def run(batch_size: int, steps: int) -> tuple[float, float]:
        start = positions.get(batch_size, 0)
        size.assign(batch_size)
        _, totals, seconds, _ = loop.run(order, start, start + steps, Totals())
        positions[batch_size] = (start + steps) % max(1, examples // batch_size)
        return seconds, totals.loss

    return run


def make_python_loop(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    mean_loss: keras.losses.Loss,
    batches: BatchesOfSize,
    delay: float,
    spec: tuple[tf.TensorSpec, ...] | None,
) -> RunLoop:
    """Return the loop `eager` or `function`: Python iterates over batches, one step each.

    If `spec` describes a batch, the step is a tf.function, traced once for all batch sizes.
    """

    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(labels, model(images, training=True))
            loss = tf.add_n([loss, *model.losses])
        gradients = losses.dense_gradients(tape.gradient(loss, model.trainable_variables))
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    if spec:
        step = tf.function(step, input_signature=spec, autograph=False)

    def run(batch_size: int, steps: int) -> tuple[float, float]:
        iterator = iter(batches(batch_size))
        start_seconds = time.perf_counter()
        for _ in range(steps):
            if delay:
                time.sleep(delay)
            loss = step(*next(iterator))
        value = float(loss)  # waits for the device
        return time.perf_counter() - start_seconds, value

    return run


def make_fit_loop(model: keras.Model, batches: BatchesOfSize, delay: float) -> RunLoop:
    """Return the loop `fit` or `fit_steps`: Keras's `fit` of a compiled model, one call per run.

    The timed span begins at Keras's `on_epoch_begin` and ends at `on_epoch_end`. It contains every
    step with its loss metric and dispatch of callbacks, and one conversion of the loss to a number.
    It leaves out the work of a call before and after the span: a training pays it once per epoch, a
    timing once per block. Only a delay needs a callback at the begin of batches; a callback at the
    end of batches would change how Keras dispatches the steps. The delay of several steps in one
    call comes before the call. XLA is off, because the other loops do not use it either.
    """

    def run(batch_size: int, steps: int) -> tuple[float, float]:
        timer = _EpochTimer()
        callbacks: list[keras.callbacks.Callback] = [timer]
        if delay:
            sleep = keras.callbacks.LambdaCallback(
                on_train_batch_begin=lambda batch, logs: time.sleep(delay)
            )
            callbacks.append(sleep)
        options = {"verbose": 0, "callbacks": callbacks, "shuffle": False}
        model.fit(batches(batch_size), steps_per_epoch=steps, epochs=1, **options)
        return timer.seconds, timer.loss

    return run


class _MeanLoss(keras.losses.Loss):
    """Mean loss of the examples.

    It overrides Keras's `__call__`, which reshapes labels and outputs to equal ranks, because the
    loss needs the model's outputs unchanged.
    """

    def __init__(self, task_info: TaskInfo) -> None:
        super().__init__(name="mean_loss")
        self._scoring = losses.scoring_for(task_info)

    def __call__(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: Any = None) -> Any:
        return tf.reduce_mean(self._scoring.score_examples(y_true, y_pred)[0])


class _EpochTimer(keras.callbacks.Callback):
    """Callback that times the epoch of a call of `fit` and stores its mean loss."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.loss = float(logs["loss"])
        self.seconds = time.perf_counter() - self._start


def mapped_examples(pipeline: str, data: Examples, folder: Path | None = None) -> tf.data.Dataset:
    """Return one epoch of a pipeline's mapped examples, for batches of any size.

    By default tf.data makes a sequential map parallel, fuses it with the batching and adds a
    prefetch at the end. That is switched off; otherwise the first two pipelines would equal the
    third.

    Args:
        data: Examples. If the images are a tensor, all pipelines share them.
        folder: Folder for the files of `jpeg`, which must not exist yet.

    Raises:
        UserError: If the images cannot be JPEG files.
    """
    source, labels, scale = data.images, data.labels, data.scale
    labels = tf.cast(labels, tf.float32 if data.task_info.task == tasks.REGRESSION else tf.int32)
    shape = source.shape[1:]
    if pipeline == "jpeg":
        source, scale = write_jpegs(np.asarray(source), scale, folder), 1 / 255

    def example(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if pipeline == "jpeg":
            image = tf.io.decode_jpeg(tf.io.read_file(image), shape[-1])
            image = tf.ensure_shape(image, shape)  # decoding leaves the shape unknown
        return inputs.scaled_images(image, scale), label

    slices = tf.data.Dataset.from_tensor_slices((source, labels))
    parallel = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": True}
    mapped = slices.map(example, **({} if pipeline == "dataset" else parallel))
    options = tf.data.Options()
    rewrites = options.experimental_optimization
    rewrites.apply_default_optimizations = False
    rewrites.map_parallelization = False
    rewrites.map_and_batch_fusion = False
    rewrites.inject_prefetch = False
    mapped = mapped.with_options(options)
    if pipeline == "cache":
        mapped = mapped.cache()
        mapped.reduce(np.int64(0), lambda count, _: count + 1)  # fills the cache before the timing
    return mapped


def endless_batches(pipeline: str, mapped: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
    """Return the whole batches of a pipeline's mapped examples, repeated without end.

    If the batch size exceeds the number of examples, one batch has all examples.
    """
    count = int(mapped.cardinality())
    # `drop_remainder` would give each batch size its own type, and so its own trace.
    mapped = mapped.take(max(count - count % batch_size, min(count, batch_size)))
    endless = mapped.batch(batch_size).repeat()
    return endless.prefetch(PREFETCH_BATCHES) if pipeline in PREFETCHING_PIPELINES else endless


def write_jpegs(images: np.ndarray, scale: float, folder: Path) -> list[str]:
    """Write images of shape (n, height, width, channels) as JPEG files; return their paths.

    The intensities `scale * image` are stored as bytes from 0 to 255.

    Raises:
        UserError: If the images do not have 1 or 3 channels, or have intensities outside [0, 1].
    """
    if images.shape[-1] not in (1, 3):
        raise UserError(
            f"input_pipeline jpeg: received images of {images.shape[-1]} channels; 1 or 3 are "
            "expected."
        )
    low, high = scale * np.float64(images.min()), scale * np.float64(images.max())
    # The tolerance is half a byte, because intensities are rounded to bytes. NaN fails too.
    if not (low > -0.5 / 255 and high < 1 + 0.5 / 255):
        raise UserError(
            f"input_pipeline jpeg: received intensities from {low:g} to {high:g}; numbers from 0 "
            "to 1, once scaled, are expected."
        )
    folder.mkdir()
    paths = [str(folder / f"{index:07d}.jpg") for index in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        pixels = np.rint(image * np.float64(255 * scale)).clip(0, 255).astype(np.uint8)
        keras.utils.save_img(path, pixels, scale=False, quality=JPEG_QUALITY)
    return paths
