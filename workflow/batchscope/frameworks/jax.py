"""Trainings in JAX: one jitted function for a step, which takes the weights' buffers over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from batchscope import frameworks
from batchscope.frameworks import layers

_LAYOUT = ("NHWC", "HWIO", "NHWC")


Weights = dict[str, jax.Array]  # variable's path -> values


class State(NamedTuple):
    """What a step takes over and gives back; the means are Adam's, and empty for sgd."""

    weights: Weights
    first: Weights  # mean of the gradients
    second: Weights  # mean of their squares
    step: jax.Array  # updates so far, int32


def start(threads: int, device: str) -> None:
    """Checks the device; XLA takes a thread for each core that this process has."""
    if device == "gpu":
        try:
            jax.devices("gpu")
        except RuntimeError:
            raise frameworks.no_gpu("JAX") from None


def logits(
    network: layers.Network, weights: Weights, images: jax.Array, key: jax.Array
) -> jax.Array:
    """Returns the logits of NHWC images, with dropout by a random key."""
    values = images
    for index, layer in enumerate(network.layers):
        if layer.kind == "conv":
            padding = "SAME" if layer.same else "VALID"
            kernel = weights[f"{layer.name}/kernel"]
            values = lax.conv_general_dilated(
                values, kernel, (1, 1), padding, dimension_numbers=_LAYOUT
            )
            values = values + weights[f"{layer.name}/bias"]
        elif layer.kind == "max_pool":
            window = (1, layer.size, layer.size, 1)
            values = lax.reduce_window(values, -jnp.inf, lax.max, window, window, "VALID")
        elif layer.kind == "flatten":
            values = values.reshape(len(values), -1)
        elif layer.kind == "dropout":
            share = 1 - layer.rate
            keep = jax.random.bernoulli(jax.random.fold_in(key, index), share, values.shape)
            values = jnp.where(keep, values / share, 0.0)
        else:
            values = values @ weights[f"{layer.name}/kernel"] + weights[f"{layer.name}/bias"]
        if layer.relu:
            values = jax.nn.relu(values)
    return values


def mean_loss(network: layers.Network, outputs: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the mean cross-entropy of a batch, from its logits."""
    if network.binary:
        numbers = outputs[:, 0]
        return jnp.mean(jax.nn.softplus(numbers) - numbers * labels)
    log_probabilities = jax.nn.log_softmax(outputs)
    return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))


class Training(frameworks.Training):
    """A training in JAX; see `frameworks.Training`."""

    memory_error = jax.errors.JaxRuntimeError
    memory_words = ("RESOURCE_EXHAUSTED",)

    def _load(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._images = jnp.asarray(images)
        self._labels = jnp.asarray(labels, jnp.float32 if self.network.binary else jnp.int32)
        self._order = jnp.arange(self.examples, dtype=jnp.int32)
        # The state's buffers are written over; a batch's size is a constant of the function.
        self._step = jax.jit(self._update, static_argnames="batch_size", donate_argnums=0)

    def restart(self) -> None:
        """Begins anew from the initial weights."""
        weights = {path: jnp.array(values) for path, values in self.initial.items()}

        def zeros() -> Weights:
            return jax.tree.map(jnp.zeros_like, weights) if self.optimizer == "adam" else {}

        self._state = State(weights, zeros(), zeros(), jnp.zeros((), jnp.int32))

    def weights(self) -> layers.Arrays:
        """Returns the weights as they are, in Keras's layout."""
        return {path: np.array(values) for path, values in self._state.weights.items()}

    def _run(self, starts: Sequence[int], batch_size: int) -> float:
        state, loss = self._state, None
        data = (self._images, self._labels, self._order)
        for first in starts:
            state, loss = self._step(state, *data, np.int32(first), batch_size=batch_size)
            self._state = state  # the old one is gone
        jax.block_until_ready(state)
        return float(loss)

    def _update(
        self,
        state: State,
        images: jax.Array,
        labels: jax.Array,
        order: jax.Array,
        first: jax.Array,
        batch_size: int,
    ) -> tuple[State, jax.Array]:
        """Returns the state after an update, and the loss of its batch before."""
        batch = lax.dynamic_slice(order, (first,), (batch_size,))
        batch_images = jnp.take(images, batch, axis=0).astype(jnp.float32) * self.scale
        batch_labels = jnp.take(labels, batch)
        key = jax.random.fold_in(jax.random.key(frameworks.SEED), state.step)

        def loss_of(weights: Weights) -> jax.Array:
            outputs = logits(self.network, weights, batch_images, key)
            return mean_loss(self.network, outputs, batch_labels)

        loss, gradients = jax.value_and_grad(loss_of)(state.weights)
        rule = self._adam if self.optimizer == "adam" else self._sgd
        return rule(state, gradients), loss

    def _sgd(self, state: State, gradients: Weights) -> State:
        moved = jax.tree.map(
            lambda weight, slope: weight - self.learning_rate * slope, state.weights, gradients
        )
        return state._replace(weights=moved, step=state.step + 1)

    def _adam(self, state: State, gradients: Weights) -> State:
        """Returns the state after an update of Adam, as Keras writes it.

        Kingma and Ba 2015 (arXiv 1412.6980), the form before their section 2.1: the bias is
        taken out of the rate, and epsilon added to the uncorrected root.
        """
        beta_1, beta_2, epsilon = frameworks.ADAM.values()
        step = state.step + 1
        rate = self.learning_rate * jnp.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        mix = jax.tree.map
        first = mix(
            lambda mean, slope: mean + (slope - mean) * (1 - beta_1), state.first, gradients
        )
        second = mix(
            lambda mean, slope: mean + (slope**2 - mean) * (1 - beta_2), state.second, gradients
        )
        moved = mix(
            lambda weight, m, v: weight - rate * m / (jnp.sqrt(v) + epsilon),
            state.weights,
            first,
            second,
        )
        return State(moved, first, second, step)
