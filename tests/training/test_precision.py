"""Trainings in mixed precision: what is float32 all the same, and the scaled loss of float16."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.catalogue import run_names
from batchscope.datasets import Examples, looks
from batchscope.training import losses, models, optimizers, step_loop
from costs import first
from digit_runs import run_name

MIXED = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}


def images_and_labels():
    random = np.random.default_rng(1)
    return random.integers(0, 17, (40, 8, 8, 1), np.uint8), random.integers(0, 10, 40)


def updated(model, optimizer, steps, piece=0):
    examples = Examples(*images_and_labels(), 1 / 16)
    loop = step_loop.StepLoop(model, optimizer, examples, step_loop.Batches(10, piece=piece))
    return loop.run(np.arange(40, dtype=np.int32), 0, steps, step_loop.Totals())[1]


def trained(precision, piece=0, steps=8):
    factors = run_names.parse_run(run_name(precision=precision, momentum=0.9))
    model = models.build("small_cnn", looks.Look((8, 8, 1), 10), 3, precision=precision)
    optimizer = optimizers.make_optimizer(factors)
    return model, optimizer, updated(model, optimizer, steps, piece)


@pytest.mark.parametrize("precision", first(MIXED))
def test_layers_compute_in_half_the_width_and_weights_keep_theirs(precision):
    model, _, _ = trained(precision, steps=1)
    assert {layer.compute_dtype for layer in model.layers} == {MIXED[precision]}
    assert {str(weight.dtype) for weight in model.trainable_variables} == {"float32"}
    assert keras.config.dtype_policy().name == "float32"  # of what is built next
    same = models.build("small_cnn", looks.Look((8, 8, 1), 10), 3)
    fresh = models.build("small_cnn", looks.Look((8, 8, 1), 10), 3, precision=precision)
    assert all(map(np.array_equal, same.get_weights(), fresh.get_weights()))


@pytest.mark.parametrize("precision", MIXED)
@pytest.mark.parametrize("piece", [0, 4])
@pytest.mark.slow
def test_it_trains_nearly_as_float32_does(precision, piece):
    plain, mixed = trained("float32"), trained(precision, piece)
    start = models.build("small_cnn", looks.Look((8, 8, 1), 10), 3).get_weights()
    moved, apart = (
        np.concatenate([(one - other).ravel() for one, other in zip(*pair, strict=True)])
        for pair in (
            (plain[0].get_weights(), start),
            (mixed[0].get_weights(), plain[0].get_weights()),
        )
    )
    assert 0 < np.linalg.norm(apart) < 0.05 * np.linalg.norm(moved)
    assert mixed[2].loss == pytest.approx(plain[2].loss, rel=0.01)


@pytest.mark.parametrize("precision", MIXED)
def test_the_loss_is_of_float32_logits(precision):
    """Beyond what a probability of half the width reaches, and in steps that it has no bits for."""
    model = models.build("small_cnn", looks.Look((8, 8, 1), 10), 3, precision=precision)
    outputs = model(losses.scaled(images_and_labels()[0], 1 / 16))
    found = losses.logits(outputs)
    assert found.dtype == tf.float32
    values, _ = losses.example_losses(model)(tf.zeros(40, tf.int32), outputs)
    assert values.dtype == tf.float32


def test_penalties_of_any_width_are_added_in_float32():
    penalties = {"kernel_regularizer": "l2", "activity_regularizer": keras.regularizers.L1(0.5)}
    layer = keras.layers.Dense(2, dtype="mixed_float16", **penalties)
    model = keras.Sequential([keras.Input((3,)), layer])
    model(tf.ones((4, 3)))
    assert len(model.losses) == 2
    assert {each.dtype for each in losses.penalties(model)} == {tf.float32}


@pytest.mark.slow
def test_an_update_whose_gradient_overflows_is_left_out_and_the_scale_halved():
    model, optimizer, _ = trained("mixed_float16", steps=1)
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**15
    before = [value.copy() for value in model.get_weights()]
    optimizer.dynamic_scale.assign(2.0**40)
    updated(model, optimizer, steps=1)
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**39
    assert all(map(np.array_equal, before, model.get_weights()))


def test_small_gradients_survive_float16():
    """A loss of 1e-9 has gradients that float16 rounds to zero, and its scaled ones do not."""

    def gradient(scaled):
        variable = keras.Variable([1.0])
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build([variable])
        with tf.GradientTape() as tape:
            loss = 1e-9 * tf.cast(tf.cast(variable.value, tf.float16), tf.float32)
            loss = optimizers.scaled_loss(optimizer, loss) if scaled else loss
        return float(tape.gradient(loss, variable.value)[0])

    assert gradient(False) == 0
    assert gradient(True) == pytest.approx(1e-9 * 2**15, rel=1e-2)
    sgd = keras.optimizers.SGD(1.0)
    assert optimizers.scaled_loss(sgd, 3.0) == 3.0
