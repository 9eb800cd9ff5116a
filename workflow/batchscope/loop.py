"""Training steps inside the graph: shared by training and by timing."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from batchscope import losses

# Registry names are Keras's class names in lower case.
_OPTIMIZERS = {
    value.__name__.lower(): value
    for value in vars(keras.optimizers).values()
    if isinstance(value, type) and issubclass(value, keras.optimizers.Optimizer)
}


class Totals(NamedTuple):
    """Sums over the examples of an epoch so far: of their losses, and of the correct ones."""

    loss: float = 0.0
    hits: int = 0


def effective_learning_rate(factors: dict[str, Any]) -> float:
    """Returns the rate a run is trained with, after its scaling rule.

    With k = batch_size / base_batch_size: `linear` multiplies by k (Goyal et al. 2017,
    arXiv 1706.02677, section 2.1), `sqrt` by the square root of k (Krizhevsky 2014,
    arXiv 1404.5997, section 5), `none` by 1.
    """
    k = factors["batch_size"] / factors["base_batch_size"]
    power = {"none": 0.0, "sqrt": 0.5, "linear": 1.0}[factors["learning_rate_scaling"]]
    return factors["learning_rate"] * k**power


def make_optimizer(factors: dict[str, Any]) -> keras.optimizers.Optimizer:
    """Returns the Keras optimizer of a run, with its effective learning rate."""
    options: dict[str, Any] = {"learning_rate": effective_learning_rate(factors)}
    if factors["momentum"]:
        options["momentum"] = factors["momentum"]
    if factors["nesterov"]:
        options["nesterov"] = True
    return _OPTIMIZERS[factors["optimizer"]](**options)


def epoch_order(seed: int, epoch: int, examples: int) -> np.ndarray:
    """Returns the order of the training examples in an epoch, int32 of shape (examples,).

    A function of seed and epoch alone: a resumed training needs no generator's state, and
    every batch size sees the examples of an epoch in the same order.
    """
    generator = np.random.default_rng([seed, epoch])
    return generator.permutation(examples).astype(np.int32)


def steps_per_epoch(examples: int, batch_size: int) -> int:
    """Returns the updates of an epoch; the last, smaller batch is one of them."""
    return math.ceil(examples / batch_size)


class StepLoop:
    """The updates of one epoch as a loop inside the graph.

    Args:
        model: A built classifier.
        optimizer: An optimizer; it is built for the model's trainable variables.
        images: Training images, shape (n, height, width, channels), any dtype; kept on the
            device as they are and turned into float32 batch by batch.
        labels: Integer classes, shape (n,).
        scale: Factor that turns the images into what the model is trained on.
        batch_size: Examples per update.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        images: np.ndarray,
        labels: np.ndarray,
        scale: float,
        batch_size: int,
    ) -> None:
        self.examples = len(images)
        optimizer.build(model.trainable_variables)
        variables = model.trainable_variables
        all_images = tf.constant(images)
        all_labels = tf.constant(np.asarray(labels, np.int32))
        per_example = losses.example_losses(model)

        def update(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            images = losses.scaled(tf.gather(all_images, batch), scale)
            labels = tf.gather(all_labels, batch)
            values = [variable.value for variable in variables]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(values)
                example, hits = per_example(labels, model(images, training=True))
                loss = tf.add_n([tf.reduce_mean(example), *model.losses])
            gradients = tape.gradient(loss, values)
            # While the backward pass still holds a weight, updating it copies it first.
            with tf.control_dependencies(gradients):
                optimizer.apply(gradients, variables)
            # The mean's own non-finite value must reach the total, whatever the penalties.
            total = tf.cast(loss, tf.float64) * tf.cast(tf.size(batch), tf.float64)
            return total, tf.math.count_nonzero(hits)

        @tf.function(
            autograph=False,  # nothing here to convert, and looking for it doubles the tracing
            input_signature=[
                tf.TensorSpec([self.examples], tf.int32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([], tf.float64),
                tf.TensorSpec([], tf.int64),
            ],
        )
        def run(
            order: tf.Tensor, step: tf.Tensor, stop: tf.Tensor, loss: tf.Tensor, hits: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            def body(step: tf.Tensor, loss: tf.Tensor, hits: tf.Tensor) -> tuple:
                first = step * batch_size
                batch = order[first : tf.minimum(first + batch_size, self.examples)]
                batch_loss, batch_hits = update(batch)
                return step + 1, loss + batch_loss, hits + batch_hits

            def go_on(step: tf.Tensor, loss: tf.Tensor, hits: tf.Tensor) -> tf.Tensor:
                return tf.logical_and(step < stop, tf.math.is_finite(loss))

            # One step at a time: the next one needs this one's weights.
            return tf.while_loop(go_on, body, (step, loss, hits), parallel_iterations=1)

        self._run = run

    def compile(self) -> None:
        """Traces the loop, so that no later call pays for it."""
        self._run.get_concrete_function()

    def run(
        self, order: np.ndarray | tf.Tensor, start: int, stop: int, totals: Totals
    ) -> tuple[int, Totals, float]:
        """Runs the steps [start, stop) of an epoch, or up to one whose loss is not finite.

        Args:
            order: The epoch's order of examples, int32 of shape (n,).
            start: First step.
            stop: Step after the last.
            totals: Sums over the epoch's steps before `start`. They are carried on step by
                step, so that where an epoch is cut does not change a bit.

        Returns:
            Steps of the epoch done so far, the totals, and the seconds that the call took.
        """
        begun = time.perf_counter()
        step, loss, hits = self._run(
            tf.constant(order),
            tf.constant(start, tf.int32),
            tf.constant(stop, tf.int32),
            tf.constant(totals.loss, tf.float64),
            tf.constant(totals.hits, tf.int64),
        )
        done, new = int(step), Totals(float(loss), int(hits))  # waits for the device
        return done, new, time.perf_counter() - begun
