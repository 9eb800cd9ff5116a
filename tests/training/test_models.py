"""Networks: what the documents say of them, and their parameters."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.core.errors import UserError
from batchscope.datasets.prepared import ModelInput
from batchscope.study import tasks
from batchscope.training import models
from costs import first


def assert_same(weights, others):
    for arrays, again in zip(weights, others, strict=True):
        assert list(arrays) == list(again)
        assert all((arrays[path] == again[path]).all() for path in arrays)


@pytest.mark.parametrize(
    "network",
    first(
        [
            ("small_cnn", (8, 8, 1), 10, 6058),
            ("mlp", (30,), 2, 20738),
            ("campbell_cnn", (28, 28, 1), 10, 270006),
            ("chang_vgg", (128, 128, 3), 2, 353161),
            ("lheureux_cnn", (64, 64, 3), 2, 4195457),
            ("benchmark_cnn", (256, 256, 3), 10, 2131538),
            ("keskar_f1", (28, 28, 1), 10, 1462794),
            ("keskar_f1_plain", (28, 28, 1), 10, 1457674),
            ("tutorial_cnn", (28, 28, 1), 10, 54410),
            ("tiny_transformer", (32,), 92, 244700),
        ]
    ),
)
def test_parameters_are_those_of_the_documents(network):
    name, shape, classes, parameters = network
    model = models.build(name, ModelInput(shape, classes), seed=0)
    count = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    assert count == parameters
    outputs = model(np.zeros((2, *shape), np.float32))
    assert outputs.shape[-1] in ((1, 2) if classes == 2 else (classes,))
    if shape[0] != 64:  # of the document's size
        assert f"{parameters:,}" in models.BUILDERS[name].__doc__


def test_the_seed_fixes_weights_and_paths_whatever_was_built_before():
    def built(seed):
        return models.build("campbell_cnn", ModelInput((28, 28, 1), 10), seed)

    model = built(5)
    first = models.weights(model)
    # Generators are no weights.
    assert first[1] == {} and len(model.non_trainable_variables) == 2
    keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(2)])
    assert_same(first, models.weights(built(5)))
    other, _ = models.weights(built(6))
    assert all((first[0][path] != other[path]).any() for path in other)


@pytest.mark.parametrize("name", first(models.BUILDERS))
def test_the_least_side_that_the_plan_knows_is_the_networks_own(name):
    if name == "tiny_transformer":
        return
    least = tasks.NETWORKS[name].min_side
    assert models.build(name, ModelInput((least, least, 1), 10), seed=0).count_params()
    if least > 1:
        side = least - 1
        with pytest.raises(UserError, match=rf"model {name}: cannot be built .*\({side}, {side}"):
            models.build(name, ModelInput((side, side, 1), 10), seed=0)


def test_weights_go_round_and_those_of_another_network_are_refused():
    model = models.build("keskar_f1", ModelInput((4, 4, 1), 3), seed=0)
    trainable, state = models.weights(model)
    other = models.build("keskar_f1", ModelInput((4, 4, 1), 3), seed=1)
    assert len(state) == 10 and all("moving" in path for path in state)
    state["norm_1/moving_mean"] = state["norm_1/moving_mean"] + 3
    images = np.random.default_rng(0).random((5, 4, 4, 1), np.float32)
    assert not np.allclose(model(images), other(images))
    for item in (model, other):
        models.set_weights(item, trainable, state)
        assert_same((trainable, state), models.weights(item))
    with pytest.raises(UserError, match=r"dense_1/kernel \(received None\)"):
        models.set_weights(model, {}, state)
    wide = trainable | {"output/kernel": trainable["output/kernel"][:, :2]}
    with pytest.raises(UserError, match=r"output/kernel \(received \(512, 2\)\)"):
        models.set_weights(model, wide, state)


def test_a_position_of_a_sequence_sees_no_later_one():
    length, classes = 6, 11
    model_input = ModelInput((length,), classes, tasks.TOKENS)
    model = tf.function(models.build("tiny_transformer", model_input, 0))
    tokens = np.random.default_rng(0).integers(0, classes, (20, length)).astype(np.int32)
    complete = model(tokens).numpy()
    for position in range(length):
        other = tokens.copy()
        other[:, position] = (other[:, position] + 1) % classes
        moved = np.abs(model(other).numpy() - complete).max(axis=(0, 2))
        assert (moved[:position] == 0).all()
        assert (moved[position:] > 0).all()
