"""Models that predict each position of a sequence: their loss, accuracy and causality."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples, model_inputs
from batchscope.study import example_kinds
from batchscope.training import losses, models, step_loop

LENGTH, CLASSES = 6, 11
RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.integers(0, CLASSES, (20, LENGTH)).astype(np.int32)
LABELS = RANDOM.integers(0, CLASSES, (20, LENGTH)).astype(np.int32)


def transformer():
    look = model_inputs.ModelInput((LENGTH,), CLASSES, example_kinds.TOKENS)
    return models.build("tiny_transformer", look, 0)


def test_a_position_sees_no_later_one():
    model = tf.function(transformer())
    complete = model(INPUTS).numpy()
    for position in range(LENGTH):
        other = INPUTS.copy()
        other[:, position] = (other[:, position] + 1) % CLASSES
        moved = np.abs(model(other).numpy() - complete).max(axis=(0, 2))
        assert (moved[:position] == 0).all()
        assert (moved[position:] > 0).all()


@pytest.mark.slow
def test_loss_is_the_mean_over_positions_and_accuracy_their_share():
    model = transformer()
    probabilities = model(INPUTS).numpy().astype(np.float64)
    of_labels = np.take_along_axis(probabilities, LABELS[..., None], -1)[..., 0]
    expected = -np.log(of_labels).mean(), (probabilities.argmax(-1) == LABELS).mean()
    objective = losses.Objective(model, Examples(INPUTS, LABELS, 1.0), chunk=7)
    loss, metrics = objective.evaluate()
    assert np.allclose((loss, metrics["accuracy"]), expected, rtol=1e-5)


@pytest.mark.slow
def test_a_batch_counts_sequences():
    """One update with 20 of 20 sequences is a step along the gradient of the mean loss."""
    model = transformer()
    objective = losses.Objective(model, Examples(INPUTS, LABELS, 1.0))
    start = objective.weights()
    loss, gradient = objective.loss_and_gradient(start)
    examples, batches = Examples(INPUTS, LABELS, 1.0), step_loop.Batches(20)
    loop = step_loop.StepLoop(model, keras.optimizers.SGD(0.5), examples, batches)
    order = np.arange(20, dtype=np.int32)
    steps, totals, _, _ = loop.run(order, 0, 1, step_loop.Totals())
    assert steps == 1
    assert math.isclose(totals.loss / 20, loss, rel_tol=1e-5)
    assert 0 <= totals.scores <= INPUTS.size
    assert np.allclose(objective.weights(), start - 0.5 * gradient, atol=1e-6)


def test_an_embedding_has_a_dense_gradient():
    table, rows = tf.Variable(tf.ones((5, 2))), tf.constant([1, 1, 3])
    with tf.GradientTape() as tape:
        picked = tf.reduce_sum(tf.gather(table, rows))
    (result,) = losses.dense_gradients([tape.gradient(picked, table)])
    assert result.numpy().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]]
    assert losses.dense_gradients([None]) == [None]
