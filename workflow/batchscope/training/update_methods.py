"""How one update uses its batch: factor `method`.

`plain` takes the optimizer's step along the gradient of the batch's loss f_B. The others compute
more than one gradient of the same f_B, against what large batches are blamed for. Within an update
f_B stays one function: every gradient sees the same dropout masks, and only the first moves the
moving statistics of batch normalisation. The loss that is reported is that of the first gradient,
at the weights before the update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

# Computes loss, hits and the gradient at the current weights, always of the same batch.
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
        """Returns the method of a run, or of a timing, whose time no gamma and rho changes."""
        given = {key: factors[key] for key in ("gamma", "inner_steps", "rho") if key in factors}
        return cls(factors["method"], **given)

    def apply(
        self, evaluate: Evaluate, optimizer: keras.optimizers.Optimizer, model: keras.Model
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Updates the weights once with a batch, by a built optimizer; inside a graph.

        Returns what `evaluate` returned of loss and hits at the weights before the update.
        """
        return _METHODS[self.name](self, evaluate, optimizer, model)


def _plain(
    method: Method, evaluate: Evaluate, optimizer: keras.optimizers.Optimizer, model: keras.Model
) -> tuple[tf.Tensor, tf.Tensor]:
    loss, hits, gradients = evaluate()
    # While the backward pass still holds a weight, updating it copies it first.
    with tf.control_dependencies(gradients):
        optimizer.apply(gradients, model.trainable_variables)
    return loss, hits


def _proximal(
    method: Method, evaluate: Evaluate, optimizer: keras.optimizers.Optimizer, model: keras.Model
) -> tuple[tf.Tensor, tf.Tensor]:
    """Minimises f_B(w) + gamma / 2 ||w - w_k||^2 by `inner_steps` steps of the optimizer from w_k.

    Of one inner step nothing but the plain update is left. Source: M. Li, T. Zhang, Y. Chen, A. J.
    Smola, "Efficient mini-batch training for stochastic optimization", KDD 2014,
    doi 10.1145/2623330.2623612, who call it conservative.
    """
    variables = model.trainable_variables
    anchors = _copies(variables)
    with _one_function(model) as again:
        loss, hits, gradients = evaluate()  # at the anchors, which pull nothing
        optimizer.apply(gradients, variables)
        for _ in range(method.inner_steps - 1):
            with again():
                _, _, gradients = evaluate()
                pulled = [
                    gradient + method.gamma * (variable.value - anchor)
                    for gradient, variable, anchor in zip(
                        gradients, variables, anchors, strict=True
                    )
                ]
                optimizer.apply(pulled, variables)
    return loss, hits


def _sam(
    method: Method, evaluate: Evaluate, optimizer: keras.optimizers.Optimizer, model: keras.Model
) -> tuple[tf.Tensor, tf.Tensor]:
    """SAM: the optimizer's step from w_k along the gradient at w_k + rho g / ||g||, g that at w_k.

    One step against the worst case within rho. Source: P. Foret et al., "Sharpness-aware
    minimization", ICLR 2021, arXiv 2010.01412, equations 2 and 3; N. S. Keskar et al., arXiv
    1609.04836, section 5, call this the robust cost of large batches.
    """
    variables = model.trainable_variables
    old = _copies(variables)
    with _one_function(model) as again:
        loss, hits, gradients = evaluate()
        # At a stationary point there is no direction, and the step stays where it is.
        factor = tf.math.divide_no_nan(method.rho, tf.linalg.global_norm(gradients))
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_add(factor * gradient)
        with again():
            _, _, gradients = evaluate()
        for variable, before in zip(variables, old, strict=True):
            variable.assign(before)  # the very bits, which a subtraction would not give back
        optimizer.apply(gradients, variables)
    return loss, hits


_METHODS = {"plain": _plain, "proximal": _proximal, "sam": _sam}


def _copies(variables: list[keras.Variable]) -> list[tf.Tensor]:
    """Returns the values of variables; an assignment in place copies what is held here."""
    return [tf.identity(variable.value) for variable in variables]


@contextmanager
def _one_function(model: keras.Model) -> Iterator[Callable[[], Any]]:
    """Keeps a batch's loss one function, however often it is computed inside the block.

    Yields what is to surround every computation but the first.
    """
    # Of batch normalisation the moving statistics; of dropout the states of its generators.
    state = model.non_trainable_variables
    before = _copies(state)

    @contextmanager
    def again() -> Iterator[None]:
        after = _copies(state)
        for variable, value in zip(state, before, strict=True):
            variable.assign(value)
        yield
        for variable, value in zip(state, after, strict=True):
            variable.assign(value)

    yield again
