"""Update methods: how one update uses its batch (factors `method` and `micro_batch_size`).

`plain` is the optimizer's step along the gradient of the batch's loss f_B. The other methods
compute several gradients of the same f_B: all of them see the same dropout masks, and the first
alone moves the statistics of batch normalisation. The reported loss is the first one.

With `micro_batch_size` m, the gradient of a batch is the sum of the gradients of parts of m
examples, weighted by their shares of the batch: the same number, to rounding. Batch normalisation,
dropout and augmentation work on each part. Losses that a model adds are weighted by the shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from batchscope.training.scoring import Scoring

# Computes loss, sums of scores and the gradient at the current weights, always of the same batch.
Evaluate = Callable[[], tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]]


@dataclass(frozen=True)
class Method:
    """A method and its parameters."""

    name: str = "plain"
    gamma: float = 1.0  # weight of the distance that `proximal` adds
    inner_steps: int = 5  # steps of `proximal` on a batch
    rho: float = 0.05  # length of the step of `sam`

    @classmethod
    def from_factors(cls, factors: dict[str, Any]) -> Method:
        parameters = ("gamma", "inner_steps", "rho")
        return cls(factors["method"], **{key: factors[key] for key in parameters if key in factors})

    def apply(
        self, evaluate: Evaluate, optimizer: keras.optimizers.Optimizer, model: keras.Model
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Update the weights once with a batch, by a built optimizer, inside a graph.

        `proximal` minimises f_B(w) + gamma / 2 ||w - w_k||^2 by `inner_steps` of the optimizer from
        w_k. The first inner step is the plain update. Source: M. Li, T. Zhang, Y. Chen, A. J.
        Smola, "Efficient mini-batch training for stochastic optimization", KDD 2014, doi
        10.1145/2623330.2623612.

        `sam` is the optimizer's step from w_k along the gradient at w_k + rho g / ||g||, where g is
        the gradient at w_k. Source: P. Foret et al., "Sharpness-aware minimization", ICLR 2021,
        arXiv 2010.01412, equations 2 and 3. N. S. Keskar et al., arXiv 1609.04836, section 5, call
        this the robust cost of large batches.

        Returns:
            Loss and scores of `evaluate` at the weights before the update.
        """
        variables = model.trainable_variables
        if self.name == "plain":
            loss, scores, gradients = evaluate()
            # An update copies a weight that the backward pass still holds.
            with tf.control_dependencies(gradients):
                optimizer.apply(gradients, variables)
            return loss, scores
        before, again = _copies(variables), _repeated(evaluate, model)
        loss, scores, gradients = evaluate()
        if self.name == "proximal":
            optimizer.apply(gradients, variables)
            for _ in range(self.inner_steps - 1):
                moved = zip(again(), variables, before, strict=True)
                pulled = [
                    gradient + self.gamma * (variable.value - anchor)
                    for gradient, variable, anchor in moved
                ]
                optimizer.apply(pulled, variables)
        else:  # sam
            # A stationary point has no direction. The step stays there.
            factor = tf.math.divide_no_nan(self.rho, tf.linalg.global_norm(gradients))
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.assign_add(factor * gradient)
            worst = again()
            assign(variables, before)  # a subtraction would round
            optimizer.apply(worst, variables)
        return loss, scores


def _copies(variables: list[keras.Variable]) -> list[tf.Tensor]:
    return [tf.identity(variable.value) for variable in variables]


def assign(variables: Sequence[keras.Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _repeated(evaluate: Evaluate, model: keras.Model) -> Callable[[], list[tf.Tensor]]:
    """Return a function for the gradient of a batch's loss at other weights.

    It draws the same dropout as the first evaluation, and moves no statistics.
    """
    state = model.non_trainable_variables  # moving statistics, and states of generators
    before = _copies(state)

    def again() -> list[tf.Tensor]:
        after = _copies(state)
        assign(state, before)
        _, _, gradients = evaluate()
        assign(state, after)
        return gradients

    return again


def accumulated(
    evaluation: Callable[[tf.Tensor, tf.Tensor], Evaluate],
    batch: tf.Tensor,
    micro_batch: int,
    variables: list[keras.Variable],
    scored: Scoring,
) -> Evaluate:
    """Return a function for loss, scores and gradient of a batch, part by part, inside a graph.

    Args:
        evaluation: From examples and their share of the batch to a function for their mean loss,
            their scores, and the gradient of the loss times the share.
        batch: The batch's examples, int32 of shape (b,).
    """

    def evaluate() -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        size = tf.size(batch)

        def body(start: tf.Tensor, loss: tf.Tensor, scores: tf.Tensor, *sums: tf.Tensor) -> tuple:
            examples = batch[start : tf.minimum(start + micro_batch, size)]
            share = tf.cast(tf.size(examples), tf.float32) / tf.cast(size, tf.float32)
            part_loss, part_scores, gradients = evaluation(examples, share)()
            sums = [
                total + tf.convert_to_tensor(gradient)
                for total, gradient in zip(sums, gradients, strict=True)
            ]
            return start + micro_batch, loss + share * part_loss, scores + part_scores, *sums

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
        # One at a time: one part is in memory.
        _, loss, scores, *sums = tf.while_loop(
            lambda start, *_: start < size,
            body,
            (tf.constant(0), tf.constant(0.0), tf.zeros(scored.shape, scored.type), *zeros),
            parallel_iterations=1,
        )
        return loss, scores, sums

    return evaluate
