"""Moving statistics of batch normalisation, estimated for weights that no training reached."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from batchscope import private_interfaces
from batchscope.measures.finished_run import even_chunk
from batchscope.training import losses


def layers(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    """Return the layers with moving statistics that training changes, without frozen layers."""
    return [
        layer
        for layer in private_interfaces.all_layers(model)
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
    ]


def estimator(
    model: keras.Model, images: np.ndarray, scale: float, chunk: int | None = None
) -> Callable[[], None]:
    """Return a function that sets the moving statistics to the model's current weights' own.

    The images, shape (n, *input_shape), pass in training mode without dropout, so that a layer's
    input comes from layers that normalise by the statistics of the chunk, as in training. Moving
    mean and variance become the means, over all images, of their chunks' means and variances: what
    a cumulative average leaves in place of an exponential one. The model must be the caller's own:
    its dropout is switched off for good and its momenta are lost.

    Source: P. Izmailov et al., "Averaging Weights Leads to Wider Optima and Better
    Generalization", arXiv 1803.05407, section 3.2.
    """
    found = layers(model)
    losses.switch_off_dropout(model)
    for layer in found:
        layer.momentum = 0.0  # after a chunk, the moving statistics are the statistics of the chunk
    chunk = chunk or even_chunk(len(images), losses.chunk_size(images.shape[1:], images.dtype))

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None, *images.shape[1:]], images.dtype)]
    )
    def forward(rows: tf.Tensor) -> None:
        model(losses.scaled(rows, scale), training=True)

    def estimate() -> None:
        statistics = [
            each for layer in found for each in (layer.moving_mean, layer.moving_variance)
        ]
        sums = [0.0] * len(statistics)
        for layer in found:  # 0 * NaN, of weights that overflowed, would stay
            layer.moving_mean.assign(np.zeros(layer.moving_mean.shape))
            layer.moving_variance.assign(np.ones(layer.moving_variance.shape))
        for start in range(0, len(images), chunk):
            rows = images[start : start + chunk]
            forward(tf.constant(rows))
            share = len(rows) / len(images)
            for index, each in enumerate(statistics):
                sums[index] += share * each.numpy().astype(np.float64)
        for each, mean in zip(statistics, sums, strict=True):
            each.assign(mean)

    return estimate
