"""Trainings in mixed precision: what is float32 all the same, and the scaled loss of float16."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples, TaskInfo, model_inputs
from batchscope.study import names
from batchscope.training import losses, models, optimizers, scoring, step_loop
from digit_runs import run_name

MIXED = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
RANDOM = np.random.default_rng(1)
EXAMPLES = Examples(
    RANDOM.integers(0, 17, (40, 8, 8, 1), np.uint8), RANDOM.integers(0, 10, 40), 1 / 16
)


def updated(model, optimizer, steps, micro_batch=0):
    settings = step_loop.UpdateSettings(10, micro_batch=micro_batch)
    loop = step_loop.StepLoop(model, optimizer, EXAMPLES, settings)
    return loop.run(np.arange(40, dtype=np.int32), 0, steps, step_loop.Totals())[1]


def built(precision):
    return models.build("small_cnn", model_inputs.ModelInput((8, 8, 1), 10), 3, precision=precision)


def trained(precision, micro_batch=0, steps=8):
    factors = names.parse_run(run_name(precision=precision, momentum=0.9))
    model, optimizer = built(precision), optimizers.make_optimizer(factors)
    return model, optimizer, updated(model, optimizer, steps, micro_batch)


@pytest.mark.parametrize("precision", MIXED)
def test_layers_and_outputs_have_half_the_width_and_weights_and_losses_keep_theirs(precision):
    model = built(precision)
    assert {layer.compute_dtype for layer in model.layers} == {MIXED[precision]}
    assert {str(weight.dtype) for weight in model.trainable_variables} == {"float32"}
    assert keras.config.dtype_policy().name == "float32"  # of what is built next
    assert all(map(np.array_equal, built("float32").get_weights(), model.get_weights()))
    outputs = model(losses.scaled_images(EXAMPLES.images, 1 / 16))
    assert scoring.logits(outputs).dtype == tf.float32
    assert (
        scoring.for_task(TaskInfo()).score_examples(tf.zeros(40, tf.int32), outputs)[0].dtype
        == tf.float32
    )
    penalties = {"kernel_regularizer": "l2", "activity_regularizer": keras.regularizers.L1(0.5)}
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2, dtype=precision, **penalties)]
    )
    model(tf.ones((4, 3)))
    assert [item.dtype for item in losses.penalties(model)] == [tf.float32] * 2


@pytest.mark.parametrize(("precision", "micro_batch"), list(zip(MIXED, (0, 4), strict=True)))
@pytest.mark.slow
def test_it_trains_nearly_as_float32_does(precision, micro_batch):
    plain, mixed = trained("float32"), trained(precision, micro_batch)
    start, ends = built("float32").get_weights(), [item[0].get_weights() for item in (plain, mixed)]
    moved, apart = (
        np.concatenate([(one - other).ravel() for one, other in zip(*pair, strict=True)])
        for pair in ((ends[0], start), (ends[1], ends[0]))
    )
    assert 0 < np.linalg.norm(apart) < 0.05 * np.linalg.norm(moved)
    assert mixed[2].loss == pytest.approx(plain[2].loss, rel=0.01)


@pytest.mark.slow
def test_an_update_whose_gradient_overflows_is_left_out_and_the_scale_halved():
    model, optimizer, _ = trained("mixed_float16", steps=1)
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**15
    before = [value.copy() for value in model.get_weights()]
    optimizer.dynamic_scale.assign(2.0**40)
    updated(model, optimizer, steps=1)
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**39
    assert all(map(np.array_equal, before, model.get_weights()))
