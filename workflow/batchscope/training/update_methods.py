"""Gradients of one batch in, updated weights out, by the factors `method` and `micro_batch_size`.

A new method is a branch of `Method.apply`, and a choice of the factor. `plain` is the optimizer's
step along the gradient of the batch's loss f_B. The other methods compute several gradients of f_B
with the same dropout masks. Only the first one moves the statistics of batch normalisation, and its
loss is reported.

With `micro_batch_size` m, the gradient of a batch is the sum of the gradients of parts of m
examples, weighted by their shares of the batch. This changes only the rounding. Batch
normalisation, dropout and augmentation work on each part. Losses that a model adds are weighted by
the shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from batchscope.study.run_factors import FACTORS
from batchscope.training.scoring import Scoring

# Function that returns loss, sums of scores and gradients of one batch at the current weights.
Evaluate = Callable[[], tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]]


@dataclass(frozen=True)
class Method:
    """A method of updating the weights, and its parameters."""

    name: str = "plain"
    gamma: float = FACTORS["gamma"].default  # weight of the squared distance in `proximal`
    inner_steps: int = FACTORS["inner_steps"].default  # steps of `proximal` per batch
    rho: float = FACTORS["rho"].default  # length of the first step of `sam`

    @classmethod
    def from_factors(cls, factors: dict[str, Any]) -> Method:
        parameters = ("gamma", "inner_steps", "rho")
        return cls(factors["method"], **{key: factors[key] for key in parameters if key in factors})

    def apply(
        self, evaluate: Evaluate, optimizer: keras.optimizers.Optimizer, model: keras.Model
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Update the weights once with a batch and a built optimizer, inside a graph.

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
        # The moving statistics and the states of the random generators, which draw dropout masks.
        state = model.non_trainable_variables
        initial_weights, initial_state = _copies(variables), _copies(state)
        loss, scores, gradients = evaluate()
        if self.name == "proximal":
            optimizer.apply(gradients, variables)
            for _ in range(self.inner_steps - 1):
                inner_gradients = _gradients_from_state(evaluate, state, initial_state)
                terms = zip(inner_gradients, variables, initial_weights, strict=True)
                proximal_gradients = [
                    gradient + self.gamma * (variable.value - initial)
                    for gradient, variable, initial in terms
                ]
                optimizer.apply(proximal_gradients, variables)
        else:  # sam
            # If the gradient is zero, the first step is zero.
            factor = tf.math.divide_no_nan(self.rho, tf.linalg.global_norm(gradients))
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.assign_add(factor * gradient)
            sharp_gradients = _gradients_from_state(evaluate, state, initial_state)
            assign_values(variables, initial_weights)  # A subtraction would round.
            optimizer.apply(sharp_gradients, variables)
        return loss, scores


def assign_values(variables: Sequence[keras.Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def accumulated_evaluation(
    make_evaluate: Callable[[tf.Tensor, tf.Tensor], Evaluate],
    batch: tf.Tensor,
    micro_batch: int,
    variables: list[keras.Variable],
    scoring: Scoring,
) -> Evaluate:
    """Return a function that evaluates a batch part by part, inside a graph.

    Args:
        make_evaluate: Function of a part's indices and its share of the batch. It returns a
            function for the part's mean loss, scores, and gradients of the loss times the share.
        batch: Indices of the batch's examples, int32 of shape (b,).
    """

    def evaluate() -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        size = tf.size(batch)

        def add_part(
            start: tf.Tensor, loss: tf.Tensor, scores: tf.Tensor, *sums: tf.Tensor
        ) -> tuple:
            examples = batch[start : tf.minimum(start + micro_batch, size)]
            share = tf.cast(tf.size(examples), tf.float32) / tf.cast(size, tf.float32)
            part_loss, part_scores, gradients = make_evaluate(examples, share)()
            sums = [
                total + tf.convert_to_tensor(gradient)
                for total, gradient in zip(sums, gradients, strict=True)
            ]
            return start + micro_batch, loss + share * part_loss, scores + part_scores, *sums

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
        # The parts run one after the other, so that only one part is in memory.
        _, loss, scores, *sums = tf.while_loop(
            lambda start, *_: start < size,
            add_part,
            (
                tf.constant(0),
                tf.constant(0.0),
                tf.zeros(scoring.sum_shape, scoring.sum_type),
                *zeros,
            ),
            parallel_iterations=1,
        )
        return loss, scores, sums

    return evaluate


def _gradients_from_state(
    evaluate: Evaluate, state: list[keras.Variable], initial_state: list[tf.Tensor]
) -> list[tf.Tensor]:
    """Return the gradients at the current weights, with the dropout masks of `initial_state`.

    The state is the same afterwards as before.
    """
    current_state = _copies(state)
    assign_values(state, initial_state)
    _, _, gradients = evaluate()
    assign_values(state, current_state)
    return gradients


def _copies(variables: list[keras.Variable]) -> list[tf.Tensor]:
    return [tf.identity(variable.value) for variable in variables]
