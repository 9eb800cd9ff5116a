"""Batches in pieces whose gradients are accumulated, against batches in one piece."""

import keras
import numpy as np
import pytest

from batchscope.datasets import Examples
from batchscope.training import accumulation, step_loop
from batchscope.training.update_methods import Method
from costs import first

EXAMPLES = 23  # batches of 10: two whole ones and one of 3


def small_model(penalty=False, dropout=0.0):
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4, 4, 1))
    x = keras.layers.Conv2D(3, 2, activation="tanh")(inputs)
    x = keras.layers.Dropout(dropout, seed=1)(keras.layers.Flatten()(x))
    regularizer = keras.regularizers.L2(0.1) if penalty else None
    outputs = keras.layers.Dense(5, kernel_regularizer=regularizer)(x)
    return keras.Model(inputs, outputs)


def trained(piece, optimizer="SGD", augment=None, batch=10, update_norms=False, **model):
    """Returns the weights, totals and norms of the updates after two epochs."""
    random = np.random.default_rng(0)
    images = random.normal(size=(EXAMPLES, 4, 4, 1)).astype(np.float32)
    labels = random.integers(0, 5, EXAMPLES)
    made = small_model(**model)
    steps = step_loop.StepLoop(
        made,
        getattr(keras.optimizers, optimizer)(0.05),
        Examples(images, labels, 1.0),
        step_loop.Batches(batch, augment=augment, piece=piece),
        update_norms,
    )
    count = step_loop.steps_per_epoch(EXAMPLES, batch)
    totals, norms = step_loop.Totals(), []
    for epoch in range(2):
        order = step_loop.epoch_order(0, epoch, EXAMPLES)
        _, totals, _, norm = steps.run(order, 0, count, totals)
        norms.append(norm)
    weights = np.concatenate([value.ravel() for value in made.get_weights()])
    return weights, totals, np.concatenate(norms)


@pytest.mark.parametrize("optimizer", first(["SGD", "Adam"]))
@pytest.mark.parametrize("piece", first([4, 1, 3, 10, 16]))
def test_pieces_give_the_weights_of_one_piece_to_rounding(piece, optimizer):
    whole, totals, norms = trained(0, optimizer, penalty=True, update_norms=True)
    found, own, own_norms = trained(piece, optimizer, penalty=True, update_norms=True)
    np.testing.assert_allclose(found, whole, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(own_norms, norms, rtol=1e-3)
    assert own.loss == pytest.approx(totals.loss, rel=1e-5)
    assert own.hits == totals.hits


@pytest.mark.slow
def test_a_batch_in_one_piece_has_its_very_bits():
    for piece in (10, 16):
        np.testing.assert_array_equal(trained(piece)[0], trained(0)[0])


@pytest.mark.slow
def test_dropout_and_augmentation_draw_anew_for_every_piece():
    masked = trained(5, dropout=0.5)[0]
    assert np.array_equal(masked, trained(5, dropout=0.5)[0])
    assert not np.allclose(masked, trained(0, dropout=0.5)[0], rtol=1e-3)
    noise = keras.layers.GaussianNoise(0.5, seed=2)
    assert not np.allclose(trained(5, augment=noise)[0], trained(5)[0], rtol=1e-3)


def test_batch_normalisation_moves_once_per_piece():
    import tensorflow as tf

    layer = keras.layers.BatchNormalization(momentum=0.5, center=False, scale=False)
    layer.build((None, 2))
    x = tf.constant([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]])

    def evaluation(batch, share):
        def evaluate():
            normal = layer(tf.gather(x, batch), training=True)
            return share * tf.reduce_sum(normal), tf.ones_like(batch, tf.bool), []

        return evaluate

    @tf.function(autograph=False)
    def run():
        return accumulation.in_pieces(evaluation, tf.range(3), 2, [])()

    run()
    # From 0 half of the way to 2, the mean of the first piece, and half of that to 5.
    np.testing.assert_allclose(layer.moving_mean.numpy(), [3.0, 0.0], rtol=1e-6)


def test_only_the_plain_method_takes_pieces():
    with pytest.raises(ValueError, match="method plain"):
        step_loop.StepLoop(
            None,
            None,
            Examples(np.zeros((2, 1)), np.zeros(2), 1.0),
            step_loop.Batches(2, method=Method("robust"), piece=1),
        )
