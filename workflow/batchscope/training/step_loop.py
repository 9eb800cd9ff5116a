"""Order of the examples in, updates of an epoch as one loop inside a graph, and their totals out.

Training and timing share this loop. A new number that is recorded for each update goes next to the
norms: into `update` here and in `replicas`, and into a `TensorArray` of `_make_run`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.study.batch_phases import Segment
from batchscope.training import graph_examples, losses, optimizers, scoring
from batchscope.training.update_methods import Evaluate, Method, accumulated_evaluation

# Function of the b indices of a batch, int32. It updates the weights and returns b times the loss
# (float64), the sums of the scores and, if recorded, the norm of the update (float32).
Update = Callable[[tf.Tensor], tuple[tf.Tensor, ...]]


@dataclass(frozen=True, eq=False)
class UpdateSettings:
    """Settings of the updates of an epoch: their batches, augmentation, method and accumulation."""

    # Number of examples per update, on all replicas together. A variable can change between calls
    # into the graph without another trace.
    size: int | tf.Variable
    drop_remainder: bool = False  # whether a smaller last batch is left out; a single one is kept
    augment: keras.layers.Layer | None = None  # changes a batch of scaled images
    method: Method = Method()
    micro_batch: int = 0  # examples per part with gradient accumulation; 0 for whole batches
    offset: int | tf.Variable = 0  # update k begins at position offset + k size of the epoch

    @classmethod
    def from_factors(
        cls,
        factors: dict[str, Any],
        size: int | tf.Variable,
        augment: keras.layers.Layer | None,
        **options: Any,
    ) -> UpdateSettings:
        """Return the settings of the updates of a training with these factors."""
        return cls(
            size,
            augment=augment,
            method=Method.from_factors(factors),
            micro_batch=factors["micro_batch_size"],
            **options,
        )

    def set_segment(self, segment: Segment) -> None:
        """Use the batch size and offset of a segment from now on, if they are variables.

        Otherwise each epoch is a single segment with these values.
        """
        if isinstance(self.size, tf.Variable):
            self.size.assign(segment.size)
            self.offset.assign(segment.offset)


class Totals(NamedTuple):
    """Sums over the examples of an epoch so far."""

    loss: float = 0.0  # with the penalties of the model, counted once per example
    scores: Any = 0  # as `Scoring.sum_scores` returns them; 0 before the first update


def epoch_order(seed: int, epoch: int, examples: int) -> np.ndarray:
    generator = np.random.default_rng([seed, epoch])
    return generator.permutation(examples).astype(np.int32)


def distance(old: list[tf.Tensor], variables: list[keras.Variable]) -> tf.Tensor:
    """Return the Euclidean distance of variables from their old values, float32."""
    halves = [
        tf.cast(tf.nn.l2_loss(variable.value - before), tf.float64)  # sum of squares / 2
        for before, variable in zip(old, variables, strict=True)
    ]
    return tf.cast(tf.sqrt(2.0 * tf.add_n(halves)), tf.float32)


def steps_per_epoch(examples: int, batch_size: int) -> int:
    return math.ceil(examples / batch_size)


class StepLoop:
    """Updates of one epoch as a loop inside a graph.

    The images stay on the device or on the disk in their type. Each batch becomes float32.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        examples: Examples,
        update_settings: UpdateSettings,
        update_norms: bool = False,
    ) -> None:
        self.example_count = len(examples.images)
        self.update_settings = update_settings
        self.update_norms = update_norms
        self.scoring = scoring.for_task(examples.task_info)
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        self._run = self._make_run(self._make_update(model, optimizer, examples))

    def _make_run(self, update: Update) -> Callable[..., tuple[tf.Tensor, ...]]:
        """Return the graph of the steps [start, stop) of an epoch."""
        settings, example_count = self.update_settings, self.example_count

        def run(
            order: tf.Tensor, step: tf.Tensor, stop: tf.Tensor, loss: tf.Tensor, scores: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            start = step
            size = tf.convert_to_tensor(settings.size)  # A variable is read once per call.
            incomplete = 0 if settings.drop_remainder else size - 1
            offset = tf.convert_to_tensor(settings.offset)
            steps = tf.maximum(1, (example_count - offset + incomplete) // size)

            def body(
                step: tf.Tensor, loss: tf.Tensor, scores: tf.Tensor, *norms: tf.TensorArray
            ) -> tuple:
                first = offset + step % steps * size
                batch = order[first : tf.minimum(first + size, example_count)]
                batch_loss, batch_scores, *norm = update(batch)
                norms = [array.write(step - start, norm[0]) for array in norms]
                return step + 1, loss + batch_loss, scores + batch_scores, *norms

            def should_continue(step: tf.Tensor, loss: tf.Tensor, *_: Any) -> tf.Tensor:
                return tf.logical_and(step < stop, tf.math.is_finite(loss))

            arrays = []
            if self.update_norms:
                arrays.append(tf.TensorArray(tf.float32, stop - start, element_shape=[]))
            # The steps run in sequence, because each one needs the weights of the last one.
            step, loss, scores, *arrays = tf.while_loop(
                should_continue, body, (step, loss, scores, *arrays), parallel_iterations=1
            )
            return step, loss, scores, *(array.stack()[: step - start] for array in arrays)

        numbers = [tf.TensorSpec([], dtype) for dtype in (tf.int32, tf.int32, tf.float64)]
        scores = tf.TensorSpec(self.scoring.sum_shape, self.scoring.sum_type)
        signature = [tf.TensorSpec([example_count], tf.int32), *numbers, scores]
        # Autograph has nothing to convert here, and its search doubles the time of tracing.
        graph = tf.function(run, autograph=False, input_signature=signature)
        return graph.get_concrete_function()

    def _make_update(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, examples: Examples
    ) -> Update:
        """Return the function that updates the weights with one batch, inside the graph."""
        variables = model.trainable_variables
        settings, task_scoring = self.update_settings, self.scoring
        scale, read_images = examples.scale, graph_examples.row_reader(examples.images)
        all_labels = tf.constant(np.asarray(examples.labels), task_scoring.label_type)

        def make_evaluate(batch: tf.Tensor, share: tf.Tensor | None = None) -> Evaluate:
            images = losses.scaled_images(read_images(batch), scale)
            labels = tf.gather(all_labels, batch)
            if settings.augment:
                images = settings.augment(images, training=True)

            def evaluate() -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
                values = [variable.value for variable in variables]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(values)
                    outputs = model(images, training=True)
                    example_losses, scores = task_scoring.score_examples(labels, outputs)
                    loss = tf.add_n([tf.reduce_mean(example_losses), *losses.penalties(model)])
                    weighted_loss = loss if share is None else share * loss
                    scaled_loss = optimizers.scaled_loss(optimizer, weighted_loss)
                gradients = losses.dense_gradients(tape.gradient(scaled_loss, values))
                return loss, task_scoring.sum_scores(scores), gradients

            return evaluate

        def update(batch: tf.Tensor) -> tuple[tf.Tensor, ...]:
            if settings.micro_batch:
                evaluate = accumulated_evaluation(
                    make_evaluate, batch, settings.micro_batch, variables, task_scoring
                )
            else:
                evaluate = make_evaluate(batch)
            # These reads are free, but they make the update copy the weights.
            old = (
                [tf.identity(variable.value) for variable in variables] if self.update_norms else []
            )
            loss, scores = settings.method.apply(evaluate, optimizer, model)
            total = tf.cast(loss, tf.float64) * tf.cast(tf.size(batch), tf.float64)
            norms = [distance(old, variables)] if self.update_norms else []
            return total, scores, *norms

        return update

    def run(
        self, order: np.ndarray | tf.Tensor, start: int, stop: int, totals: Totals
    ) -> tuple[int, Totals, float, np.ndarray]:
        """Run the steps [start, stop) of an epoch, but end after a step with a non-finite loss.

        The steps add to the given totals one by one, so that the bits do not depend on the length
        of calls. Steps after the epoch's last one begin it again.

        Returns:
            Steps of the epoch done so far, the totals, the seconds of the call, and the norm
            ||w_{k+1} - w_k|| of each update over all trainable weights: float32 of shape (steps,),
            or (0,) without `update_norms`.
        """
        begun = time.perf_counter()
        step, loss, scores, *norms = self._run(
            tf.constant(order),
            tf.constant(start, tf.int32),
            tf.constant(stop, tf.int32),
            tf.constant(totals.loss, tf.float64),
            tf.constant(
                np.broadcast_to(totals.scores, self.scoring.sum_shape), self.scoring.sum_type
            ),
        )
        # These conversions wait for the device, so that the seconds contain its work.
        steps_done, totals = int(step), Totals(float(loss), scores.numpy().tolist())
        seconds = time.perf_counter() - begun
        return steps_done, totals, seconds, norms[0].numpy() if norms else np.empty(0, np.float32)
