"""Losses and metrics: of single examples by task (`Scoring`), and of a set (`Objective`).

Each example has a loss and scores, such as whether it is correct. Metrics follow from the sums of
scores. An `Objective` computes the mean loss over a set, its gradient and its Hessian products in
chunks.
"""

import abc
import copy
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.datasets import Examples, TaskInfo
from batchscope.study import tasks
from batchscope.training import inputs

# A chunk is one forward pass outside training. It has this many input numbers, and its examples are
# limited: the fixed cost of a chunk is small, and the activations need well under 1 GB.
CHUNK_VALUES = 2**22
MIN_CHUNK_EXAMPLES, MAX_CHUNK_EXAMPLES = 64, 2048
TOKEN_VALUES = 512  # A token counts as many numbers, because networks turn tokens into vectors.


def logits(outputs: tf.Tensor) -> tf.Tensor:
    """Return the logits behind a classifier's outputs, which are probabilities or logits.

    Keras clips probabilities at 1e-7. A cross-entropy of them cannot exceed 16.1 in float32, and
    has no gradient beyond. Keras's softmax and sigmoid attach their input to their result.
    TensorFlow's operations have it as their input.
    """
    kept = private_interfaces.attached_logits(outputs)
    if kept is not None:
        outputs = kept
    elif tf.is_symbolic_tensor(outputs) and outputs.op.type in ("Softmax", "Sigmoid"):
        outputs = outputs.op.inputs[0]
    return full_precision(outputs)


def full_precision(tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(tensor, tf.float32) if tensor.dtype.size < 4 else tensor


class Scoring(abc.ABC):
    """Loss and scores of examples, as operations of a graph. Sums of scores have type and shape."""

    label_type = tf.int32
    sum_type = tf.int64
    sum_shape: tuple[int, ...] = ()

    @abc.abstractmethod
    def score_examples(self, labels: tf.Tensor, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return loss, shape (n,), and scores of each example.

        The outputs must be the model's result itself, because `logits` looks at its operation.
        """

    @abc.abstractmethod
    def sum_scores(self, scores: tf.Tensor) -> tf.Tensor:
        """Return the sums of examples' scores."""

    @abc.abstractmethod
    def metrics(self, sums: Any, labels: np.ndarray) -> dict[str, float]:
        """Return the metrics in `tasks.TASKS`, from sums over all examples with these labels."""


def _binary_cross_entropy(labels: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    targets = tf.cast(labels, numbers.dtype)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=numbers)


class _ClassScoring(Scoring):
    """Cross-entropy and number of correct predictions.

    If each position of a sequence has a label, the loss of an example is the mean over its
    positions, and each position has a score.
    """

    def score_examples(self, labels: tf.Tensor, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        numbers = logits(outputs)
        if outputs.shape[-1] == 1:
            numbers = numbers[:, 0]
            losses = _binary_cross_entropy(labels, numbers)
            return losses, tf.equal(numbers > 0, labels > 0)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=numbers)
        predicted = tf.argmax(numbers, axis=-1, output_type=labels.dtype)
        if labels.shape.rank == 2:
            losses = tf.reduce_mean(losses, axis=-1)
        return losses, tf.equal(predicted, labels)

    def sum_scores(self, scores: tf.Tensor) -> tf.Tensor:
        return tf.math.count_nonzero(scores)

    def metrics(self, sums: Any, labels: np.ndarray) -> dict[str, float]:
        return {"accuracy": int(sums) / labels.size}


class _RegressionScoring(Scoring):
    """Squared error of standardised targets, and metrics in the units of the targets.

    Errors and R2 are means over the targets. R2 leaves out constant targets.
    """

    label_type, sum_type = tf.float32, tf.float64

    def __init__(self, task_info: TaskInfo) -> None:
        self._deviations = np.array(task_info.deviations)
        self.sum_shape = (2, len(self._deviations))

    def score_examples(self, labels: tf.Tensor, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        error = full_precision(outputs) - labels
        squared, absolute = tf.square(error), tf.abs(error)
        return tf.reduce_mean(squared, axis=-1), tf.stack([squared, absolute], axis=1)

    def sum_scores(self, scores: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(scores, tf.float64), axis=0)

    def metrics(self, sums: Any, labels: np.ndarray) -> dict[str, float]:
        squared, absolute = np.asarray(sums) / len(labels)
        variance = np.asarray(labels, np.float64).var(axis=0)
        varies = variance > 0
        r2 = (1 - squared[varies] / variance[varies]).mean() if varies.any() else np.nan
        mse, mae = squared * self._deviations**2, absolute * self._deviations
        return {"r2": float(r2), "mse": float(mse.mean()), "mae": float(mae.mean())}


class _MultiLabelScoring(Scoring):
    """Mean binary cross-entropy over the labels, and counts for micro-F1."""

    sum_shape = (3,)

    def score_examples(self, labels: tf.Tensor, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        numbers = logits(outputs)
        losses = _binary_cross_entropy(labels, numbers)
        positive, true = numbers > 0, labels > 0
        outcomes = (positive & true, positive & ~true, ~positive & true)
        scores = [tf.math.count_nonzero(outcome, axis=-1) for outcome in outcomes]
        return tf.reduce_mean(losses, axis=-1), tf.stack(scores, axis=-1)

    def sum_scores(self, scores: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(scores, axis=0)

    def metrics(self, sums: Any, labels: np.ndarray) -> dict[str, float]:
        true_positives, false_positives, false_negatives = map(int, sums)
        total = 2 * true_positives + false_positives + false_negatives
        return {"f1": 2 * true_positives / total if total else 0.0}


def scoring_for(task_info: TaskInfo) -> Scoring:
    if task_info.task == tasks.REGRESSION:
        return _RegressionScoring(task_info)
    return _MultiLabelScoring() if task_info.task == tasks.MULTI_LABEL else _ClassScoring()


def chunk_size(input_shape: tuple[int, ...], dtype: Any = np.uint8) -> int:
    """Return the number of examples in a chunk, from the shape and type of one example."""
    values = math.prod(input_shape) * (TOKEN_VALUES if dtype == np.int32 else 1)
    return max(MIN_CHUNK_EXAMPLES, min(MAX_CHUNK_EXAMPLES, CHUNK_VALUES // values))


def penalties(model: keras.Model) -> list[tf.Tensor]:
    return [full_precision(tf.convert_to_tensor(loss)) for loss in model.losses]


def dense_gradients(gradients: list[Any]) -> list[tf.Tensor | None]:
    """Return gradients as tensors without `IndexedSlices`.

    Keras's Adam would square each part of a row that is looked up twice.
    """
    return [
        tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
    ]


def switch_off_randomness(model: keras.Model) -> None:
    """Let layers that draw random numbers (dropout, noise, augmentation) ignore training mode."""
    for layer in private_interfaces.all_layers(model):
        draws = any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())
        if draws and "training" in inspect.signature(layer.call).parameters:
            layer.call = functools.partial(_call_in_inference, layer.call)


def _call_in_inference(call: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    return call(*inputs, **{**options, "training": False})


def _make_graph(compute: Callable[..., Any], *signature: tf.TensorSpec) -> Any:
    return tf.function(compute, autograph=False, input_signature=signature)


def gradients_by(
    tape: tf.GradientTape, target: tf.Tensor, values: list[tf.Tensor]
) -> list[tf.Tensor]:
    """Return dense gradients by values; 0 for a weight that the target does not depend on."""
    zero = tf.UnconnectedGradients.ZERO
    return dense_gradients(tape.gradient(target, values, unconnected_gradients=zero))


def _flatten(tensors: list[tf.Tensor]) -> tf.Tensor:
    # A layer may have another precision.
    return tf.concat([tf.cast(tf.reshape(tensor, [-1]), tf.float32) for tensor in tensors], 0)


class Objective:
    """Mean loss f(x) of a model over fixed examples, as a function of its trainable weights.

    The model runs in inference mode: no dropout, moving statistics in batch normalisation. Sums
    over chunks are float64 and divided once by the number of examples. Penalties of the model's
    layers are part of f. Flat vectors of weights are float64 of shape (size,), and rounded to
    float32 when they are set.

    Args:
        chunk: Examples per forward pass. None: depends on the examples' size.
        batch_statistics: Normalise by the statistics of each chunk instead of the moving ones. The
            model's random layers are switched off permanently, and its moving statistics drift, so
            the caller must own the model.
    """

    def __init__(
        self,
        model: keras.Model,
        examples: Examples,
        chunk: int | None = None,
        batch_statistics: bool = False,
    ) -> None:
        self.model = model
        self.variables = model.trainable_variables
        self.shapes = [tuple(variable.shape) for variable in self.variables]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)
        self._scale, self._batch_statistics = examples.scale, batch_statistics
        self.scoring = scoring_for(examples.task_info)
        if batch_statistics:
            switch_off_randomness(model)
        shape = examples.images.shape[1:]
        self._chunk = chunk or chunk_size(shape, examples.images.dtype)
        self.set_examples(examples)
        # The number of examples is left open: all chunks, also the smaller last one, share a trace.
        chunks = [
            tf.TensorSpec([None, *shape], examples.images.dtype),
            tf.TensorSpec([None, *np.shape(examples.labels)[1:]], self.scoring.label_type),
        ]
        vector = tf.TensorSpec([self.size], tf.float64)
        self._sums = _make_graph(self._sums_in_graph, *chunks)
        self._examples = _make_graph(self._loss_parts, *chunks)
        self._sum_and_gradient = _make_graph(self._sum_and_gradient_in_graph, *chunks)
        self._hessian_times = _make_graph(self._hessian_times_in_graph, *chunks, vector)

    def set_examples(self, examples: Examples) -> None:
        images, labels = examples.images, examples.labels
        self.examples, self.labels = len(images), labels
        self._chunks = inputs.Chunks(images, labels, self.scoring.label_type, self._chunk)

    def with_examples(self, examples: Examples) -> Self:
        other = copy.copy(self)
        other.set_examples(examples)
        return other

    # The following methods are operations inside graphs, on one chunk or a vector of all weights.

    def _loss_parts(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return the losses of a chunk, its share of the penalties, and its scores."""
        scaled_images = inputs.scaled_images(images, self._scale)
        outputs = self.model(scaled_images, training=self._batch_statistics)
        losses, scores = self.scoring.score_examples(labels, outputs)
        # A penalty depends on the weights alone, or is a mean over the chunk. Multiplied by the
        # chunk's size, the sum over the chunks gives their weighted mean.
        count = tf.cast(tf.shape(labels)[0], losses.dtype)
        terms = penalties(self.model)
        return losses, count * tf.add_n(terms) if terms else tf.zeros(()), scores

    def _sum(self, losses: tf.Tensor, penalties: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(losses, tf.float64)) + tf.cast(penalties, tf.float64)

    def _sums_in_graph(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        *parts, scores = self._loss_parts(images, labels)
        return self._sum(*parts), self.scoring.sum_scores(scores)

    def _sum_and_gradients(
        self, images: tf.Tensor, labels: tf.Tensor, values: list[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            losses, penalties, _ = self._loss_parts(images, labels)
            summed = tf.reduce_sum(losses) + penalties
        return self._sum(losses, penalties), gradients_by(tape, summed, values)

    def _sum_and_gradient_in_graph(
        self, images: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        values = [variable.value for variable in self.variables]
        summed, gradients = self._sum_and_gradients(images, labels, values)
        return summed, _flatten(gradients)

    def _hessian_times_in_graph(
        self, images: tf.Tensor, labels: tf.Tensor, direction: tf.Tensor
    ) -> tf.Tensor:
        # H v is the gradient of the slope along the direction v.
        values = [variable.value for variable in self.variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            _, gradients = self._sum_and_gradients(images, labels, values)
            pairs = zip(gradients, self._unflatten(direction), strict=True)
            products = [tf.cast(gradient, tf.float32) * part for gradient, part in pairs]
            slope = tf.add_n([tf.reduce_sum(product) for product in products])
        return _flatten(gradients_by(tape, slope, values))

    def _unflatten(self, flat: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.split(tf.cast(flat, tf.float32), self.sizes)
        return [tf.reshape(part, shape) for part, shape in zip(parts, self.shapes, strict=True)]

    # The following methods are called from outside of graphs.

    def weights(self) -> np.ndarray:
        parts = [variable.numpy().reshape(-1) for variable in self.variables]
        return np.concatenate(parts).astype(np.float64)

    def set_weights(self, flat: np.ndarray) -> None:
        for variable, part in zip(self.variables, self._unflatten(flat), strict=True):
            variable.assign(part)

    def evaluate(self) -> tuple[float, dict[str, float]]:
        """Return the mean loss, and each metric by its name."""
        losses, scores = zip(*(self._sums(*chunk) for chunk in self._chunks), strict=True)
        loss = sum(float(part.numpy()) for part in losses) / self.examples
        return loss, self.scoring.metrics(sum(part.numpy() for part in scores), self.labels)

    def evaluate_split(self, split: str) -> dict[str, float]:
        """Return the mean loss and the metrics, named as the columns of a split of the data."""
        loss, metrics = self.evaluate()
        return {f"{split}_{name}": value for name, value in {"loss": loss, **metrics}.items()}

    def example_losses(self) -> tuple[np.ndarray, np.ndarray]:
        parts = [self._examples(images, labels) for images, labels in self._chunks]
        losses, _, scores = zip(*parts, strict=True)
        return np.concatenate(losses), np.concatenate(scores)

    def chunk_losses(self) -> tf.Tensor:
        """Return the summed loss of each chunk, float64, inside another graph."""
        losses: list[tf.Tensor] = []
        for images, labels in self._chunks:
            # The chunks run in sequence, so that the activations of one chunk are in memory.
            with tf.control_dependencies(losses[-1:]):
                losses.append(self._sums(images, labels)[0])
        return tf.stack(losses)

    def loss(self, flat: np.ndarray) -> float:
        self.set_weights(flat)
        return self.evaluate()[0]

    def loss_and_gradient(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Set the weights; return the mean loss and its gradient at them, both float64."""
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
