"""Estimate the moving statistics of batch normalisation for weights that were not trained.

The images pass in training mode without dropout. A layer's input then comes from layers that
normalise by the statistics of the chunk, as in training. Moving mean and variance become the means,
over all images, of the chunks' means and variances: a cumulative average replaces the exponential
average of a training.

Source: P. Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization",
arXiv 1803.05407, section 3.2.
"""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.datasets import Examples
from batchscope.measures.finished_run import even_chunk
from batchscope.training import losses


def normalisation_layers(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    """Return the layers of batch normalisation that are not frozen: their statistics change."""
    return [
        layer
        for layer in private_interfaces.all_layers(model)
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
    ]


def make_estimator(
    model: keras.Model, examples: Examples, chunk: int | None = None
) -> Callable[[], None]:
    """Return a function that sets the moving statistics to estimates for the current weights.

    The model cannot be trained afterwards: its dropout stays switched off and its momenta are lost.

    Args:
        examples: Training examples.
        chunk: Examples per forward pass.
    """
    images, norm_layers = examples.images, normalisation_layers(model)
    losses.switch_off_dropout(model)
    for layer in norm_layers:
        layer.momentum = 0.0  # after a chunk, the moving statistics are the statistics of the chunk
    chunk = chunk or even_chunk(len(images), losses.chunk_size(images.shape[1:], images.dtype))

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None, *images.shape[1:]], images.dtype)]
    )
    def forward(rows: tf.Tensor) -> None:
        model(losses.scaled_images(rows, examples.scale), training=True)

    def estimate() -> None:
        if not norm_layers:
            return
        statistics = []
        for layer in norm_layers:
            statistics += [layer.moving_mean, layer.moving_variance]
            # Earlier weights may have overflowed to NaN, and 0 * NaN is NaN.
            layer.moving_mean.assign(np.zeros(layer.moving_mean.shape))
            layer.moving_variance.assign(np.ones(layer.moving_variance.shape))
        means = [0.0] * len(statistics)
        for start in range(0, len(images), chunk):
            rows = images[start : start + chunk]
            forward(tf.constant(rows))
            share = len(rows) / len(images)
            for index, statistic in enumerate(statistics):
                means[index] += share * statistic.numpy().astype(np.float64)
        for statistic, mean in zip(statistics, means, strict=True):
            statistic.assign(mean)

    return estimate
