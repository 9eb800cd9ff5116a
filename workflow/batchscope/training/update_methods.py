"""How one update uses its batch: factors `method` and `micro_batch_size`.

`plain` takes the optimizer's step along the gradient of the batch's loss f_B. The other methods
compute more than one gradient of the same f_B, against what large batches are blamed for. Within an
update f_B stays one function: every gradient sees the same dropout masks, and only the first moves
the moving statistics of batch normalisation. The loss that is reported is that of the first
gradient, at the weights before the update.

With `micro_batch_size` m, a batch of B examples is cut into micro-batches of m, the last one
smaller where m does not divide B. The gradient of the batch's mean loss is the sum of theirs, each
weighted by its share of the batch: the same number as in one piece, to rounding. Only one
micro-batch's activations are in memory, beside one more copy of the gradient. What differs:

- Batch normalisation uses the statistics of each micro-batch, and its moving statistics move once
  per micro-batch.
- Dropout, noise and augmentation draw anew for each: other numbers, of the same distribution.
- What a model adds to its loss is weighted by the shares, which sum to one: a penalty on weights
  counts once, a mean over the examples is the batch's mean.
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
    """A method and its parameters, as the factors give them."""

    name: str = "plain"
    gamma: float = 1.0  # weight of the distance that `proximal` adds
    inner_steps: int = 5  # that `proximal` takes on a batch
    rho: float = 0.05  # length of the step of `sam`

    @classmethod
    def of(cls, factors: dict[str, Any]) -> Method:
        given = {key: factors[key] for key in ("gamma", "inner_steps", "rho") if key in factors}
        return cls(factors["method"], **given)

    def apply(
        self, evaluate: Evaluate, optimizer: keras.optimizers.Optimizer, model: keras.Model
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Updates the weights once with a batch, by a built optimizer; inside a graph.

        Returns what `evaluate` returned of loss and scores at the weights before the update.
        """
        variables = model.trainable_variables
        if self.name == "plain":
            loss, scores, gradients = evaluate()
            # While the backward pass still holds a weight, updating it copies it first.
            with tf.control_dependencies(gradients):
                optimizer.apply(gradients, variables)
            return loss, scores
        before, again = _copies(variables), _repeated(evaluate, model)
        loss, scores, gradients = evaluate()
        update = {"proximal": self._proximal, "sam": self._sam}[self.name]
        update(gradients, again, before, optimizer, variables)
        return loss, scores

    def _proximal(
        self,
        gradients: list[tf.Tensor],
        again: Callable[[], list[tf.Tensor]],
        before: list[tf.Tensor],
        optimizer: keras.optimizers.Optimizer,
        variables: list[keras.Variable],
    ) -> None:
        """Minimises f_B(w) + gamma / 2 ||w - w_k||^2 by `inner_steps` of the optimizer from w_k.

        Of one inner step nothing but the plain update is left. Source: M. Li, T. Zhang, Y. Chen,
        A. J. Smola, "Efficient mini-batch training for stochastic optimization", KDD 2014,
        doi 10.1145/2623330.2623612, who call it conservative.
        """
        optimizer.apply(gradients, variables)  # at w_k, which pulls nothing
        for _ in range(self.inner_steps - 1):
            moved = zip(again(), variables, before, strict=True)
            pulled = [
                gradient + self.gamma * (variable.value - anchor)
                for gradient, variable, anchor in moved
            ]
            optimizer.apply(pulled, variables)

    def _sam(
        self,
        gradients: list[tf.Tensor],
        again: Callable[[], list[tf.Tensor]],
        before: list[tf.Tensor],
        optimizer: keras.optimizers.Optimizer,
        variables: list[keras.Variable],
    ) -> None:
        """SAM: the optimizer's step from w_k along the gradient at w_k + rho g / ||g||, g at w_k.

        One step against the worst case within rho. Source: P. Foret et al., "Sharpness-aware
        minimization", ICLR 2021, arXiv 2010.01412, equations 2 and 3; N. S. Keskar et al., arXiv
        1609.04836, section 5, call this the robust cost of large batches.
        """
        # At a stationary point there is no direction, and the step stays where it is.
        factor = tf.math.divide_no_nan(self.rho, tf.linalg.global_norm(gradients))
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_add(factor * gradient)
        worst = again()
        assign(variables, before)  # the very bits, which a subtraction would not give back
        optimizer.apply(worst, variables)


def _copies(variables: list[keras.Variable]) -> list[tf.Tensor]:
    return [tf.identity(variable.value) for variable in variables]


def assign(variables: Sequence[keras.Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _repeated(evaluate: Evaluate, model: keras.Model) -> Callable[[], list[tf.Tensor]]:
    """Returns what computes the gradient of a batch's loss, as of now, at other weights.

    It draws the same dropout and moves no statistics, whatever is computed before it.
    """
    # Of batch normalisation the moving statistics; of dropout the states of its generators.
    state = model.non_trainable_variables
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
    """Returns what computes a batch's loss, scores and gradient part by part; inside a graph.

    Args:
        evaluation: From examples and their share of the batch to what computes their mean loss,
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
        # One at a time: the memory is that of one.
        _, loss, scores, *sums = tf.while_loop(
            lambda start, *_: start < size,
            body,
            (tf.constant(0), tf.constant(0.0), tf.zeros(scored.shape, scored.type), *zeros),
            parallel_iterations=1,
        )
        return loss, scores, sums

    return evaluate
