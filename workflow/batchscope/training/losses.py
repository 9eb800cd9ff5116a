"""Mean loss over examples and its gradient, in chunks; shared by training and measures."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.datasets import Examples
from batchscope.training import placed, scoring

# Numbers of input per forward pass outside training, and limits of its examples: large enough that
# the fixed cost of a chunk does not count, small enough for activations well under 1 GB.
CHUNK_VALUES = 2**22
FEWEST, MAX = 64, 2048
TOKEN_VALUES = 512  # numbers per token: a network makes vectors of tokens, and logits in the end

Evaluated = tuple[float, dict[str, float]]  # mean loss, and each metric by its name


def chunk_size(input_shape: tuple[int, ...], dtype: Any = np.uint8) -> int:
    """Return the examples of a forward pass, from the shape and type of one example."""
    values = math.prod(input_shape) * (TOKEN_VALUES if dtype == np.int32 else 1)
    return max(FEWEST, min(MAX, CHUNK_VALUES // values))


def scaled(images: tf.Tensor, scale: float) -> tf.Tensor:
    """Return images as float32 times `scale`, inside a graph; tokens as they are."""
    if images.dtype == tf.int32:
        return images
    return tf.cast(images, tf.float32) * tf.constant(scale, tf.float32)


def penalties(model: keras.Model) -> list[tf.Tensor]:
    return [scoring.full_precision(tf.convert_to_tensor(loss)) for loss in model.losses]


def dense(gradients: list[Any]) -> list[tf.Tensor | None]:
    """Return gradients as tensors. Keras's Adam squares the parts of a row with two lookups."""
    return [
        tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
    ]


def switch_off_dropout(model: keras.Model) -> None:
    """Set the rate of all layers of dropout and noise to 0, for training mode without them."""
    for layer in private_interfaces.all_layers(model):
        for strength in ("rate", "stddev"):
            if isinstance(getattr(layer, strength, None), float):
                setattr(layer, strength, 0.0)


def _graph(compute: Callable[..., Any], *signature: tf.TensorSpec, **options: Any) -> Any:
    return tf.function(compute, autograph=False, input_signature=signature, **options)


def _gradients(
    tape: tf.GradientTape, target: tf.Tensor, values: list[tf.Tensor]
) -> list[tf.Tensor]:
    none = tf.UnconnectedGradients.ZERO
    return dense(tape.gradient(target, values, unconnected_gradients=none))


def _joined(tensors: list[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


class Objective:
    """Mean loss f(x) of a model over fixed examples, as a function of its trainable weights.

    The model runs in inference mode: no dropout, moving statistics in batch normalisation. Sums
    over chunks are float64 and divided once by the number of examples. Penalties of the model's
    layers are part of f. Flat vectors of weights are float64 of shape (size,), and rounded to
    float32 when they are set.

    Args:
        chunk: Examples per forward pass. None: depends on the examples' size.
        batch_statistics: Normalise by the statistics of each chunk instead of the moving ones. The
            model's dropout layers are switched off permanently, and its moving statistics drift, so
            the caller must own the model.
        noinline: Whether a graph that calls this one keeps it as a function. Otherwise TensorFlow
            optimises both together, and the last bits differ from a call from outside.
    """

    def __init__(
        self,
        model: keras.Model,
        examples: Examples,
        chunk: int | None = None,
        batch_statistics: bool = False,
        noinline: bool = False,
    ) -> None:
        self.model = model
        self.variables = model.trainable_variables
        self.shapes = [tuple(variable.shape) for variable in self.variables]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)
        self._scale, self._batch_statistics = examples.scale, batch_statistics
        self.scoring = scoring.for_task(examples.learned)
        if batch_statistics:
            switch_off_dropout(model)
        shape = examples.images.shape[1:]
        self._chunk = chunk or chunk_size(shape, examples.images.dtype)
        self._place(examples)
        # One trace for all chunks, the last and smaller one too.
        chunks = [
            tf.TensorSpec([None, *shape], examples.images.dtype),
            tf.TensorSpec([None, *np.shape(examples.labels)[1:]], self.scoring.labels),
        ]
        vector = tf.TensorSpec([self.size], tf.float64)
        options = {"experimental_attributes": {"_noinline": True}} if noinline else {}
        self._sums = _graph(self._sums_in_graph, *chunks, **options)
        self._examples = _graph(self._parts, *chunks)
        self._sum_and_gradient = _graph(self._sum_and_gradient_in_graph, *chunks)
        self._hessian_times = _graph(self._hessian_times_in_graph, *chunks, vector)

    def _place(self, examples: Examples) -> None:
        images, labels = examples.images, examples.labels
        self.examples, self.labels = len(images), labels
        self._chunks = placed.Chunks(images, labels, self.scoring.labels, self._chunk)

    def over(self, examples: Examples) -> Objective:
        other = copy.copy(self)
        other._place(examples)  # noqa: SLF001
        return other

    # Operations of graphs, on one chunk or on a vector of all weights.

    def _parts(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return the losses of a chunk, its share of the penalties, and its scores."""
        outputs = self.model(scaled(images, self._scale), training=self._batch_statistics)
        losses, scores = self.scoring.examples(labels, outputs)
        # Penalties are the weights' own or means over the chunk. Times the size of the chunk, they
        # become weighted means over the chunks in the end.
        count = tf.cast(tf.shape(labels)[0], losses.dtype)
        added = penalties(self.model)
        return losses, count * tf.add_n(added) if added else tf.zeros(()), scores

    def _sum(self, losses: tf.Tensor, penalties: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(losses, tf.float64)) + tf.cast(penalties, tf.float64)

    def _sums_in_graph(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        *parts, scores = self._parts(images, labels)
        return self._sum(*parts), self.scoring.total(scores)

    def _sum_and_gradient_in_graph(
        self, images: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        values = [variable.value for variable in self.variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            losses, penalties, _ = self._parts(images, labels)
            summed = tf.reduce_sum(losses) + penalties
        return self._sum(losses, penalties), _joined(_gradients(tape, summed, values))

    def _hessian_times_in_graph(
        self, images: tf.Tensor, labels: tf.Tensor, direction: tf.Tensor
    ) -> tf.Tensor:
        # The gradient of the slope along the direction.
        values = [variable.value for variable in self.variables]
        with tf.GradientTape(watch_accessed_variables=False) as outer:
            outer.watch(values)
            with tf.GradientTape(watch_accessed_variables=False) as inner:
                inner.watch(values)
                losses, penalties, _ = self._parts(images, labels)
                summed = tf.reduce_sum(losses) + penalties
            pairs = zip(_gradients(inner, summed, values), self._split(direction), strict=True)
            slope = tf.add_n([tf.reduce_sum(gradient * part) for gradient, part in pairs])
        return _joined(_gradients(outer, slope, values))

    def _split(self, flat: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.split(tf.cast(flat, tf.float32), self.sizes)
        return [tf.reshape(part, shape) for part, shape in zip(parts, self.shapes, strict=True)]

    # Functions for the outside.

    def weights(self) -> np.ndarray:
        parts = [variable.numpy().reshape(-1) for variable in self.variables]
        return np.concatenate(parts).astype(np.float64)

    def set_weights(self, flat: np.ndarray) -> None:
        for variable, part in zip(self.variables, self._split(flat), strict=True):
            variable.assign(part)

    def evaluate(self) -> Evaluated:
        sums = [self._sums(images, labels) for images, labels in self._chunks]
        losses, scores = ([part.numpy() for part in parts] for parts in zip(*sums, strict=True))
        return self.evaluated(losses, scores)

    def example_losses(self) -> tuple[np.ndarray, np.ndarray]:
        parts = [self._examples(images, labels) for images, labels in self._chunks]
        losses, _, scores = zip(*parts, strict=True)
        return np.concatenate(losses), np.concatenate(scores)

    def evaluated(self, losses: Iterable[np.ndarray], scores: Iterable[np.ndarray]) -> Evaluated:
        loss = sum(map(float, losses)) / self.examples
        return loss, self.scoring.metrics(sum(scores), self.labels)

    def totals(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return summed loss, float64, and scores of each chunk, for other graphs."""
        sums: list[tuple[tf.Tensor, tf.Tensor]] = []
        for images, labels in self._chunks:
            # One after the other: only one chunk's activations are in memory.
            with tf.control_dependencies([loss for loss, _ in sums[-1:]]):
                sums.append(self._sums(images, labels))
        losses, scores = zip(*sums, strict=True)
        return tf.stack(losses), tf.stack(scores)

    def loss(self, flat: np.ndarray) -> float:
        self.set_weights(flat)
        return self.evaluate()[0]

    def loss_and_gradient(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Return mean loss and its gradient, both float64, at weights, which stay set."""
        self.set_weights(flat)
        loss, gradient = 0.0, np.zeros(self.size)
        for images, labels in self._chunks:
            chunk_loss, chunk_gradient = self._sum_and_gradient(images, labels)
            loss += float(chunk_loss)
            gradient += chunk_gradient.numpy()
        return loss / self.examples, gradient / self.examples

    def chunk_gradient(self, index: int) -> np.ndarray:
        images, labels = self._chunks[index]
        return self._sum_and_gradient(images, labels)[1].numpy() / np.float32(len(labels))

    def hessian_times(self, direction: np.ndarray) -> np.ndarray:
        """Return H v, float64, where H is the Hessian of the mean loss at the current weights.

        It differentiates twice in reverse (Pearlmutter 1994). At a kink (ReLU, a maximum), H
        belongs to the smooth piece that contains the weights.

        Raises:
            LookupError: If an operation of the model has no second derivative in TensorFlow.
        """
        direction = tf.constant(direction, tf.float64)
        product = np.zeros(self.size)
        for images, labels in self._chunks:
            product += self._hessian_times(images, labels, direction).numpy()
        return product / self.examples


def together(objectives: Sequence[Objective]) -> Callable[[], list[Evaluated]]:
    """Return a function that evaluates mean loss and metrics over several sets of examples.

    It is one call into a graph: for a small network, a call costs about the time of a hundred
    examples. The objectives are one function over several sets (`Objective.over`). If it is
    `noinline`, the numbers equal those of `evaluate`, bit for bit.
    """

    def compute() -> list[tuple[tf.Tensor, tf.Tensor]]:
        sums: list[tuple[tf.Tensor, tf.Tensor]] = []
        for objective in objectives:
            with tf.control_dependencies([losses for losses, _ in sums[-1:]]):
                sums.append(objective.totals())
        return sums

    graph = _graph(compute).get_concrete_function()  # a call need not look for its trace

    def evaluate() -> list[Evaluated]:
        return [
            objective.evaluated(*(part.numpy() for part in sums))
            for objective, sums in zip(objectives, graph(), strict=True)
        ]

    return evaluate
