"""How an update uses its batch: steps by hand on quadratics, what methods share, micro-batches."""

import functools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.training import step_loop
from batchscope.training.update_methods import Method
from costs import first

CURVATURES = np.array([2.0, 0.5], np.float32)
START = np.array([3.0, -1.0], np.float32)
RATE = 0.1


def quadratic(optimizer=None, method=None, updates=1):
    """Returns the weights after updates of f(w) = (2 w_1^2 + 0.5 w_2^2) / 2 from (3, -1)."""
    weight = keras.Variable(START)
    model = SimpleNamespace(trainable_variables=[weight], non_trainable_variables=[])
    optimizer = optimizer or keras.optimizers.SGD(RATE)
    optimizer.build([weight])

    def evaluate():
        value = weight.value
        with tf.GradientTape() as tape:
            tape.watch(value)
            loss = 0.5 * tf.reduce_sum(CURVATURES * value**2)
        return loss, tf.constant(0), [tape.gradient(loss, value)]

    @tf.function(autograph=False)
    def update():
        return (method or Method()).apply(evaluate, optimizer, model)[0]

    losses = [float(update()) for _ in range(updates)]
    assert losses[0] == pytest.approx(0.5 * float(CURVATURES @ START**2))
    return weight.numpy()


@pytest.mark.parametrize(("gamma", "inner_steps"), [(1.5, 3), (0.0, 2), (4.0, 1)])
def test_proximal_against_its_inner_steps_by_hand(gamma, inner_steps):
    expected = START.astype(float)
    for _ in range(2):  # two updates: the second one pulls to where the first one ended
        anchor = expected
        for _ in range(inner_steps):
            expected = expected - RATE * (CURVATURES * expected + gamma * (expected - anchor))
    result = quadratic(method=Method("proximal", gamma, inner_steps), updates=2)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_sam_against_a_step_by_hand():
    """Along the gradient at w + rho g / ||g||; g = (6, -0.5), of length 6.0208."""
    rho = 0.4
    gradient = np.array([6.0, -0.5])
    worst = START + rho * gradient / np.sqrt(36.25)
    expected = START - RATE * CURVATURES * worst
    np.testing.assert_allclose(quadratic(method=Method("sam", rho=rho)), expected, rtol=1e-6)


def test_sam_stays_at_a_stationary_point():
    weight = keras.Variable(np.zeros(2, np.float32))
    model = SimpleNamespace(trainable_variables=[weight], non_trainable_variables=[])
    zero = (tf.constant(1.0), tf.constant(0), [tf.zeros(2)])
    Method("sam").apply(lambda: zero, keras.optimizers.SGD(RATE), model)
    assert weight.numpy().tolist() == [0, 0]


def network():
    """Returns a network with dropout and batch normalisation, the same one at every call."""
    keras.utils.set_random_seed(4)
    first = keras.layers.Flatten(), keras.layers.Dense(16), keras.layers.BatchNormalization()
    last = keras.layers.Dropout(0.5), keras.layers.Dense(3, activation="softmax")
    return keras.Sequential([keras.Input((4, 4, 1)), *first, *last])


@functools.cache
def trained(method, updates=3):
    """Returns a network's variables, and the loss and hits, after updates of the loop."""
    rng = np.random.default_rng(1)
    images, labels = rng.normal(size=(12, 4, 4, 1)).astype(np.float32), np.arange(12) % 3
    model = network()
    examples, settings = Examples(images, labels, 1.0), step_loop.UpdateSettings(6, method=method)
    steps = step_loop.StepLoop(model, keras.optimizers.SGD(0.2), examples, settings)
    totals = steps.run(np.arange(12, dtype=np.int32), 0, updates, step_loop.Totals())[1]
    return [variable.numpy() for variable in model.variables], totals


def test_one_inner_step_is_the_plain_update_to_the_last_bit():
    plain, totals = trained(Method())
    result, same = trained(Method("proximal", 2.0, 1))
    assert same == totals
    assert all(map(np.array_equal, plain, result))


@pytest.mark.parametrize("method", first(["sam", "proximal"]))
def test_a_batch_is_one_function_within_an_update(method):
    """Generators and moving statistics move once per update, whatever the gradients.

    After a single update all of them are those of a plain one: the first gradient is the same.
    """
    plain, totals = trained(Method(), updates=1)
    result, same = trained(Method(method, inner_steps=2), updates=1)
    assert same == totals
    variables = network().variables
    same = {
        variable.path: np.array_equal(one, other)
        for variable, one, other in zip(variables, plain, result, strict=True)
    }
    assert all(same[variable.path] for variable in variables if not variable.trainable)
    assert not all(same[variable.path] for variable in variables if variable.trainable)


EXAMPLES = 23  # batches of 10: two whole ones and one of 3


def in_parts(micro_batch, optimizer="SGD", augment=None, dropout=0.0):
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
    settings = step_loop.UpdateSettings(10, augment=augment, micro_batch=micro_batch)
    built = getattr(keras.optimizers, optimizer)(0.05)
    steps = step_loop.StepLoop(model, built, examples, settings, update_norms=True)
    totals, norms = step_loop.Totals(), []
    for epoch in range(2):
        order = step_loop.epoch_order(0, epoch, EXAMPLES)
        _, totals, _, norm = steps.run(order, 0, 3, totals)
        norms.append(norm)
    weights = np.concatenate([value.ravel() for value in model.get_weights()])
    return weights, totals, np.concatenate(norms)


@pytest.mark.parametrize("optimizer", first(["SGD", "Adam"]))
def test_micro_batches_give_the_weights_of_one_piece_to_rounding(optimizer):
    complete, totals, norms = in_parts(0, optimizer)
    for micro_batch in (4, 1, 16):
        result, own, own_norms = in_parts(micro_batch, optimizer)
        np.testing.assert_allclose(result, complete, rtol=2e-4, atol=2e-6)
        np.testing.assert_allclose(own_norms, norms, rtol=1e-3)
        assert own.loss == pytest.approx(totals.loss, rel=1e-5)
        assert own.scores == totals.scores


@pytest.mark.slow
def test_dropout_and_augmentation_draw_anew_for_every_micro_batch():
    masked = in_parts(5, dropout=0.5)[0]
    assert np.array_equal(masked, in_parts(5, dropout=0.5)[0])
    assert not np.allclose(masked, in_parts(0, dropout=0.5)[0], rtol=1e-3)
    noise = keras.layers.GaussianNoise(0.5, seed=2)
    assert not np.allclose(in_parts(5, augment=noise)[0], in_parts(5)[0], rtol=1e-3)
