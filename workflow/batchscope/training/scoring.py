"""Loss of each example and metrics, by task.

Scores of examples add up to sums, which are exact if they are counts. Metrics follow from the sums.
"""

import abc
from typing import Any

import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.datasets import Learned
from batchscope.study import tasks


def logits(outputs: tf.Tensor) -> tf.Tensor:
    """Return the logits of a classifier, from its probabilities or as they are.

    A cross-entropy of probabilities cannot exceed 16.1 in float32 (Keras clips them at 1e-7), and
    has no gradient beyond. Keras's softmax and sigmoid keep their input on their result. The
    operation of TensorFlow's has it as its input.
    """
    kept = private_interfaces.kept_logits(outputs)
    if kept is not None:
        outputs = kept
    elif tf.is_symbolic_tensor(outputs) and outputs.op.type in ("Softmax", "Sigmoid"):
        outputs = outputs.op.inputs[0]
    return full_precision(outputs)


def full_precision(tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(tensor, tf.float32) if tensor.dtype.size < 4 else tensor


class Scoring(abc.ABC):
    """Loss and scores of examples, as operations of a graph."""

    labels = tf.int32  # type of the labels
    type = tf.int64  # type of the sums
    shape: tuple[int, ...] = ()  # shape of the sums

    @abc.abstractmethod
    def examples(self, labels: tf.Tensor, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return loss, shape (n,), and scores of each example.

        The outputs must be the untouched result of the model.
        """

    @abc.abstractmethod
    def total(self, scores: tf.Tensor) -> tf.Tensor:
        """Return the sums of examples' scores."""

    @abc.abstractmethod
    def metrics(self, sums: Any, labels: np.ndarray) -> dict[str, float]:
        """Return the metrics in `tasks.TASKS`, from sums over all examples with these labels."""


def _binary_cross_entropy(labels: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    targets = tf.cast(labels, numbers.dtype)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=numbers)


class _Classes(Scoring):
    """Cross-entropy, and number of correct predictions.

    With a label for each position of a sequence, the loss is the mean over positions, and each
    position has a score.
    """

    def examples(self, labels: tf.Tensor, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
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

    def total(self, scores: tf.Tensor) -> tf.Tensor:
        return tf.math.count_nonzero(scores)

    def metrics(self, sums: Any, labels: np.ndarray) -> dict[str, float]:
        return {"accuracy": int(sums) / labels.size}


class _Numbers(Scoring):
    """Squared error of standardised targets; metrics have the targets' units.

    Errors and R2 are means over the targets. R2 leaves out targets that are constant.
    """

    labels, type = tf.float32, tf.float64

    def __init__(self, learned: Learned) -> None:
        self._deviations = np.array(learned.deviations)
        self.shape = (2, len(self._deviations))

    def examples(self, labels: tf.Tensor, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        error = full_precision(outputs) - labels
        squared, absolute = tf.square(error), tf.abs(error)
        return tf.reduce_mean(squared, axis=-1), tf.stack([squared, absolute], axis=1)

    def total(self, scores: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(scores, tf.float64), axis=0)

    def metrics(self, sums: Any, labels: np.ndarray) -> dict[str, float]:
        squared, absolute = np.asarray(sums) / len(labels)
        spread = np.asarray(labels, np.float64).var(axis=0)
        varied = spread > 0
        r2 = (1 - squared[varied] / spread[varied]).mean() if varied.any() else np.nan
        mse, mae = squared * self._deviations**2, absolute * self._deviations
        return {"r2": float(r2), "mse": float(mse.mean()), "mae": float(mae.mean())}


class _Labels(Scoring):
    """Binary cross-entropy, the mean over the labels, and counts for micro-F1."""

    shape = (3,)

    def examples(self, labels: tf.Tensor, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        numbers = logits(outputs)
        losses = _binary_cross_entropy(labels, numbers)
        positive, true = numbers > 0, labels > 0
        counted = (positive & true, positive & ~true, ~positive & true)
        scores = [tf.math.count_nonzero(part, axis=-1) for part in counted]
        return tf.reduce_mean(losses, axis=-1), tf.stack(scores, axis=-1)

    def total(self, scores: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(scores, axis=0)

    def metrics(self, sums: Any, labels: np.ndarray) -> dict[str, float]:
        right, wrong, missed = map(int, sums)
        total = 2 * right + wrong + missed
        return {"f1": 2 * right / total if total else 0.0}


def for_task(learned: Learned) -> Scoring:
    if learned.task == tasks.REGRESSION:
        return _Numbers(learned)
    return _Labels() if learned.task == tasks.MULTI_LABEL else _Classes()
