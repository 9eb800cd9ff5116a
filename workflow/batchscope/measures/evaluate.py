"""Loss and accuracy of a run's weights on train, validation and test data, without dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.catalogue import kept_epochs
from batchscope.measures import FinishedRun, Measured, finite, stopped_before
from batchscope.store import paths
from batchscope.training import losses

# A mean loss below the rounding of a float32 probability near 1 has no digits of its own.
SMALLEST_LOSS = float(np.finfo(np.float32).eps)

Evaluator = Callable[[np.ndarray, np.ndarray], tuple[float, float]]


def generalisation_gaps(metrics: dict[str, float]) -> dict[str, float | None]:
    """Returns the three forms of the generalisation gap, all of which grow with it.

    Losses as difference and as ratio, test to training, and accuracies as difference, training to
    test. None stands for what is not finite, and for the ratio where the training loss is no more
    than rounding.
    """
    train, test = metrics["train_loss"], metrics["test_loss"]
    gaps = {
        "generalisation_gap": test - train,
        "generalisation_gap_accuracy": metrics["train_accuracy"] - metrics["test_accuracy"],
        "generalisation_gap_ratio": test / train if train >= SMALLEST_LOSS else math.nan,
    }
    return finite(gaps)


def evaluator(model: keras.Model, scale: float, dtype: np.dtype) -> Evaluator:
    """Returns a function (images, labels) -> mean loss and accuracy, dropout off.

    The images are read in chunks, so that an array on disk need not fit into memory. Penalties
    that the layers add are part of the loss, as in training.
    """
    per_example = losses.example_losses(model)
    size = losses.chunk_size(model.input_shape[1:], dtype)

    # One trace for every chunk of every split, whatever its length.
    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec(model.input_shape, dtype),
            tf.TensorSpec([None, *losses.label_shape(model)], tf.int32),
        ],
    )
    def sums(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
        outputs = model(losses.scaled(images, scale), training=False)
        example_loss, hits = per_example(labels, outputs)
        penalty = tf.add_n(model.losses) if model.losses else tf.constant(0.0)
        total = tf.reduce_sum(tf.cast(example_loss, tf.float64))
        return total, tf.math.count_nonzero(hits), penalty

    def evaluate(images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        total, hits = 0.0, 0
        for start in range(0, len(images), size):
            chunk = images[start : start + size]
            given = np.asarray(labels[start : start + size], np.int32)
            chunk_total, chunk_hits, penalty = sums(tf.constant(chunk), tf.constant(given))
            total += float(chunk_total) + len(chunk) * float(penalty)
            hits += int(chunk_hits)
        return total / len(images), hits / labels.size

    return evaluate


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Evaluates a run, by its last weights or those of an epoch."""
    which, epoch = settings["weights"], settings["epoch"]
    if epoch:
        if never_came := stopped_before(run, epoch):
            return never_came
        which = kept_epochs.weights_name(epoch, run.record["epochs_run"])
    evaluate = evaluator(run.model(which), run.data.scale, run.data.images("train").dtype)
    metrics: dict[str, float] = {}
    for split in paths.SPLITS:
        found = evaluate(run.data.images(split), run.data.labels(split))
        metrics[f"{split}_loss"], metrics[f"{split}_accuracy"] = found
    counts = {split: len(run.data.labels(split)) for split in paths.SPLITS}
    return Measured({**metrics, **generalisation_gaps(metrics)}, {"counts": counts})
