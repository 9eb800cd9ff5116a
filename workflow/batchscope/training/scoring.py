"""Compute the loss of each example and the metrics of a set of examples, by task.

Each example has scores, such as whether it is correct. Metrics follow from the sums of scores.
"""

import abc
from typing import Any

import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.datasets import TaskInfo
from batchscope.study import tasks


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


def for_task(task_info: TaskInfo) -> Scoring:
    if task_info.task == tasks.REGRESSION:
        return _RegressionScoring(task_info)
    return _MultiLabelScoring() if task_info.task == tasks.MULTI_LABEL else _ClassScoring()
