"""Updates in JAX: one jitted function for a step, which takes the weights' buffers over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.example_libraries import optimizers

from batchscope import frameworks

Layer = tuple[jax.Array, jax.Array]  # kernel and bias
Data = tuple[jax.Array, jax.Array, jax.Array]  # images, labels, and their indices
_LAYOUT = ("NHWC", "HWIO", "NHWC")
RATES = (0.25, 0.5)  # of the dropout of campbell_cnn


def start(threads: int, device: str) -> None:
    """Checks the device; XLA takes a thread for each core that this process has."""
    if device == "gpu":
        try:
            jax.devices("gpu")
        except RuntimeError:
            raise frameworks.no_gpu("JAX") from None


def _convolved(images: jax.Array, layer: Layer, padding: str) -> jax.Array:
    """Returns the convolution of images with ReLU, pooled by twos."""
    kernel, bias = layer
    values = lax.conv_general_dilated(images, kernel, (1, 1), padding, dimension_numbers=_LAYOUT)
    window = (1, 2, 2, 1)
    return lax.reduce_window(jax.nn.relu(values + bias), -jnp.inf, lax.max, window, window, "VALID")


def _dropped(values: jax.Array, rate: float, key: jax.Array) -> jax.Array:
    keep = jax.random.bernoulli(key, 1 - rate, values.shape)
    return jnp.where(keep, values / (1 - rate), 0.0)


def _dense(values: jax.Array, layer: Layer) -> jax.Array:
    kernel, bias = layer
    return values @ kernel + bias


def campbell_cnn(weights: list[Layer], images: jax.Array, key: jax.Array) -> jax.Array:
    """Returns the logits of `batchscope.training.networks.campbell_cnn`, with dropout."""
    first, second = jax.random.split(key)
    values = _convolved(_convolved(images, weights[0], "VALID"), weights[1], "VALID")
    values = _dropped(values.reshape(len(values), -1), RATES[0], first)
    values = jax.nn.relu(_dense(values, weights[2]))
    return _dense(_dropped(values, RATES[1], second), weights[3])


def lheureux_cnn(weights: list[Layer], images: jax.Array, key: jax.Array) -> jax.Array:
    """Returns the logits of `batchscope.training.networks.lheureux_cnn`, which has no dropout."""
    values = _convolved(images, weights[0], "SAME")
    values = jax.nn.relu(_dense(values.reshape(len(values), -1), weights[1]))
    return _dense(values, weights[2])


NETWORKS = {"campbell_cnn": campbell_cnn, "lheureux_cnn": lheureux_cnn}


def kernels(model: str, shape: tuple[int, ...], outputs: int) -> list[tuple[int, ...]]:
    """Returns the shapes of a network's kernels, for images of (height, width, channels)."""
    height, width, channels = shape
    if model == "lheureux_cnn":
        flat = 32 * (height // 2) * (width // 2)
        return [(3, 3, channels, 32), (flat, 128), (128, outputs)]
    height, width = (((side - 3) // 2 - 3) // 2 for side in (height, width))
    flat = 32 * height * width
    return [(4, 4, channels, 16), (4, 4, 16, 32), (flat, 500), (500, outputs)]


class Runner(frameworks.FrameworkRunner):
    """Updates in JAX; see `frameworks.FrameworkRunner`."""

    def _load(self, images: np.ndarray, labels: np.ndarray) -> None:
        kind = jnp.float32 if self.binary else jnp.int32
        order = jnp.arange(self.examples, dtype=jnp.int32)
        self._data = jnp.asarray(images), jnp.asarray(labels, kind), order
        if self.optimizer == "adam":
            self.rule = optimizers.adam(self.learning_rate, *frameworks.ADAM.values())
        else:
            self.rule = optimizers.sgd(self.learning_rate)
        # The state's buffers are written over; a batch's size is a constant of the function.
        self._step = jax.jit(self._stepped, static_argnames="batch_size", donate_argnums=1)

    def restart(self) -> None:
        """Begins anew from the initial weights."""
        draw, key = jax.nn.initializers.glorot_uniform(), jax.random.key(frameworks.SEED)
        shapes = kernels(self.model, self.shape, self.outputs)
        weights = [(draw(key, shape), jnp.zeros(shape[-1])) for shape in shapes]
        self.state, self._steps = self.rule.init_fn(weights), 0

    def _update(self, starts: Sequence[int], batch_size: int) -> float:
        for first in starts:
            count = np.int32(self._steps)
            given = count, self.state, self._data, np.int32(first)
            self.state, loss = self._step(*given, batch_size=batch_size)
            self._steps += 1
        jax.block_until_ready(self.state)
        return float(loss)

    def _stepped(
        self, count: jax.Array, state: Any, data: Data, first: jax.Array, batch_size: int
    ) -> tuple[Any, jax.Array]:
        """Returns the optimizer's state after an update, and the loss of its batch before."""
        images, labels, order = data
        batch = lax.dynamic_slice(order, (first,), (batch_size,))
        batch_images = jnp.take(images, batch, axis=0).astype(jnp.float32) * self.scale
        batch_labels = jnp.take(labels, batch)
        key = jax.random.fold_in(jax.random.key(frameworks.SEED), count)

        def loss_of(weights: list[Layer]) -> jax.Array:
            outputs = NETWORKS[self.model](weights, batch_images, key)
            if self.binary:
                numbers = outputs[:, 0]
                return jnp.mean(jax.nn.softplus(numbers) - numbers * batch_labels)
            logs = jax.nn.log_softmax(outputs)
            return -jnp.mean(jnp.take_along_axis(logs, batch_labels[:, None], axis=1))

        loss, gradients = jax.value_and_grad(loss_of)(self.rule.params_fn(state))
        return self.rule.update_fn(count, gradients, state), loss
