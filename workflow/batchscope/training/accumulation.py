"""A batch in micro-batches whose gradients are accumulated: factor `micro_batch_size`.

A batch of B examples is cut into micro-batches of m, the last one smaller where m does not divide
B. The gradient of the batch's mean loss is the sum of theirs, each weighted by its share of the
batch: the same number as in one piece, to rounding. Only one micro-batch's activations are in
memory, beside one more copy of the gradient. What differs from one piece:

- Batch normalisation uses the statistics of each micro-batch, and its moving statistics move once
  per micro-batch.
- Dropout, noise and augmentation draw anew for each: other numbers, of the same distribution.
- What a model adds to its loss is weighted by the shares, which sum to one: a penalty on weights
  counts once, a mean over the examples is the batch's mean.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from batchscope.training.update_methods import Evaluate


def accumulated(
    evaluation: Callable[[tf.Tensor, tf.Tensor], Evaluate],
    batch: tf.Tensor,
    micro_batch: int,
    variables: list[keras.Variable],
) -> Evaluate:
    """Returns what computes a batch's loss, hits and gradient part by part; inside a graph.

    Args:
        evaluation: From examples and their share of the batch to what computes their mean loss,
            their hits, and the gradient of the loss times the share.
        batch: The batch's examples, int32 of shape (b,).
        variables: What the gradients are with respect to.
    """

    def evaluate() -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        size = tf.size(batch)

        def body(start: tf.Tensor, loss: tf.Tensor, hits: tf.Tensor, *sums: tf.Tensor) -> tuple:
            examples = batch[start : tf.minimum(start + micro_batch, size)]
            share = tf.cast(tf.size(examples), tf.float32) / tf.cast(size, tf.float32)
            part_loss, part_hits, gradients = evaluation(examples, share)()
            sums = [
                total + tf.convert_to_tensor(gradient)
                for total, gradient in zip(sums, gradients, strict=True)
            ]
            hits += tf.math.count_nonzero(part_hits, dtype=tf.int32)
            return start + micro_batch, loss + share * part_loss, hits, *sums

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
        # One at a time: the memory is that of one.
        _, loss, hits, *sums = tf.while_loop(
            lambda start, *_: start < size,
            body,
            (tf.constant(0), tf.constant(0.0), tf.constant(0), *zeros),
            parallel_iterations=1,
        )
        return loss, tf.range(size) < hits, sums  # as many ones as hits: who calls counts them

    return evaluate
