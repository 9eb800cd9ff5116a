"""Batches in micro-batches whose gradients are accumulated, against batches in one piece."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.training import accumulation, step_loop
from batchscope.training.update_methods import Method
from costs import first

EXAMPLES = 23  # batches of 10: two whole ones and one of 3


def trained(micro_batch, optimizer="SGD", augment=None, dropout=0.0):
    """Returns the weights, totals and norms of the updates after two epochs."""
    random = np.random.default_rng(0)
    images = random.normal(size=(EXAMPLES, 4, 4, 1)).astype(np.float32)
    examples = Examples(images, random.integers(0, 5, EXAMPLES), 1.0)
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4, 4, 1))
    x = keras.layers.Conv2D(3, 2, activation="tanh")(inputs)
    x = keras.layers.Dropout(dropout, seed=1)(keras.layers.Flatten()(x))
    outputs = keras.layers.Dense(5, kernel_regularizer=keras.regularizers.L2(0.1))(x)
    model = keras.Model(inputs, outputs)
    batches = step_loop.Batches(10, augment=augment, micro_batch=micro_batch)
    made = getattr(keras.optimizers, optimizer)(0.05)
    steps = step_loop.StepLoop(model, made, examples, batches, update_norms=True)
    totals, norms = step_loop.Totals(), []
    for epoch in range(2):
        order = step_loop.epoch_order(0, epoch, EXAMPLES)
        _, totals, _, norm = steps.run(order, 0, 3, totals)
        norms.append(norm)
    weights = np.concatenate([value.ravel() for value in model.get_weights()])
    return weights, totals, np.concatenate(norms)


@pytest.mark.parametrize("optimizer", first(["SGD", "Adam"]))
@pytest.mark.parametrize("micro_batch", first([4, 1, 3, 10, 16]))
def test_micro_batches_give_the_weights_of_one_piece_to_rounding(micro_batch, optimizer):
    whole, totals, norms = trained(0, optimizer)
    found, own, own_norms = trained(micro_batch, optimizer)
    np.testing.assert_allclose(found, whole, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(own_norms, norms, rtol=1e-3)
    assert own.loss == pytest.approx(totals.loss, rel=1e-5)
    assert own.hits == totals.hits


@pytest.mark.slow
def test_dropout_and_augmentation_draw_anew_for_every_micro_batch():
    masked = trained(5, dropout=0.5)[0]
    assert np.array_equal(masked, trained(5, dropout=0.5)[0])
    assert not np.allclose(masked, trained(0, dropout=0.5)[0], rtol=1e-3)
    noise = keras.layers.GaussianNoise(0.5, seed=2)
    assert not np.allclose(trained(5, augment=noise)[0], trained(5)[0], rtol=1e-3)


def test_batch_normalisation_moves_once_per_micro_batch():
    layer = keras.layers.BatchNormalization(momentum=0.5, center=False, scale=False)
    layer.build((None, 2))
    x = tf.constant([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]])

    def evaluation(batch, share):
        def evaluate():
            normal = layer(tf.gather(x, batch), training=True)
            return share * tf.reduce_sum(normal), tf.ones_like(batch, tf.bool), []

        return evaluate

    tf.function(accumulation.accumulated(evaluation, tf.range(3), 2, []), autograph=False)()
    # From 0 half of the way to 2, the mean of the first micro-batch, and half of that to 5.
    np.testing.assert_allclose(layer.moving_mean.numpy(), [3.0, 0.0], rtol=1e-6)


def test_only_the_plain_method_takes_micro_batches():
    examples = Examples(np.zeros((2, 1)), np.zeros(2), 1.0)
    batches = step_loop.Batches(2, method=Method("sam"), micro_batch=1)
    with pytest.raises(ValueError, match="method plain"):
        step_loop.StepLoop(None, None, examples, batches)
