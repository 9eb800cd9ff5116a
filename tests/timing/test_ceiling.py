"""Counted operations against counts by hand, and the measured peak against NumPy's."""

from __future__ import annotations

import json

import numpy as np
import pytest

from batchscope.host import tensorflow_start

tensorflow_start.start()

import keras
import tensorflow as tf
from keras import layers

from batchscope.datasets.looks import Look
from batchscope.timing.instruments import ceiling
from batchscope.training import models, networks
from costs import first

CONV = {"padding": "same", "activation": "relu"}


def chain(shape: tuple, *parts: layers.Layer) -> keras.Model:
    """A classifier of three classes."""
    parts = (*parts, layers.Flatten(), layers.Dense(3, activation="softmax"))
    return keras.Sequential([keras.Input(shape), *parts])


def conv(kernel: int, channels: int, filters: int, rows: int) -> int:
    """Operations of a convolution with a square output of `rows` rows."""
    return 2 * kernel * kernel * channels * filters * rows * rows


def products(model: keras.Model) -> tuple[int, int]:
    forward, training, left_out = ceiling.flops(model).values()
    assert not left_out
    return forward, training


@pytest.mark.parametrize(
    ("layer", "shape", "forward", "outputs"),
    [
        (layers.Conv2D(4, 4, padding="same"), (9, 9, 2), conv(4, 2, 4, 9), 4 * 81),
        (layers.Conv2D(4, 4, 2), (9, 9, 2), conv(4, 2, 4, 3), 4 * 9),
        (layers.Conv2D(6, 3, padding="same", groups=2), (6, 6, 4), conv(3, 2, 6, 6), 6 * 36),
        (layers.DepthwiseConv2D(3, depth_multiplier=2), (6, 6, 2), 2 * 9 * 4 * 16, 4 * 16),
        (layers.Conv3D(3, 2), (4, 4, 2, 1), 2 * 8 * 3 * 9, 27),
        (layers.Dense(5), (12,), 2 * 12 * 5, 5),
    ],
)
def test_layers_of_every_kind(layer, shape, forward, outputs):
    dense = 2 * outputs * 3
    # The first layer's input needs no gradient; TensorFlow's trace holds one all the same.
    assert products(chain(shape, layer)) == (forward + dense, 2 * forward + 3 * dense)


def test_frozen_layers_have_no_weight_gradient():
    model = chain((8, 8, 2), layers.Conv2D(4, 3, **CONV), layers.Conv2D(5, 3, **CONV))
    one, two, dense = conv(3, 2, 4, 8), conv(3, 4, 5, 8), 2 * 320 * 3
    model.layers[0].trainable = False
    assert products(model) == (one + two + dense, one + 2 * two + 3 * dense)
    model.layers[1].trainable = False
    assert products(model) == (one + two + dense, one + two + 2 * dense)


def test_branches_that_meet_and_models_among_the_layers():
    """Both first convolutions need no gradient by their input, wherever they stand."""
    inputs = keras.Input((6, 6, 2))
    inner = keras.Sequential([keras.Input((6, 6, 2)), layers.Conv2D(4, 3, **CONV)])
    left, right = inner(inputs), layers.Conv2D(4, 3, **CONV)(inputs)
    deeper = keras.Sequential([keras.Input((6, 6, 4)), layers.Conv2D(5, 3, **CONV)])
    outputs = layers.Dense(3)(layers.Flatten()(deeper(layers.Add()([left, right]))))
    one, two, dense = conv(3, 2, 4, 6), conv(3, 4, 5, 6), 2 * 180 * 3
    forward = 2 * one + two + dense
    assert products(keras.Model(inputs, outputs)) == (forward, 3 * forward - 2 * one)


class Gram(layers.Layer):
    """A product without weights."""

    def call(self, values):
        return tf.matmul(values, values, transpose_a=True)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ([layers.Reshape((8, 4)), Gram(name="gram")], "gram (Gram)"),
        ([layers.Conv2DTranspose(3, 2, 2, name="up")], "up (Conv2DTranspose)"),
    ],
)
def test_other_layers_are_named_and_the_rest_is_counted(parts, named):
    model = chain((4, 4, 2), layers.Conv2D(2, 1, name="conv"), *parts)
    conv, dense = 2 * 2 * 2 * 16, 2 * 3 * model.layers[-1].input.shape[-1]
    assert ceiling.flops(model) == {
        "forward_products": conv + dense,
        "training_products": 2 * conv + 3 * dense,
        "not_counted": [named],
    }


def test_a_model_without_a_graph_of_layers_is_named():
    class Own(keras.Model):
        def call(self, images):
            return keras.ops.reshape(images, (-1, 16))

    inputs, model = keras.Input((4, 4, 1)), Own(name="own")
    outputs = layers.Dense(2)(model(inputs))
    assert [*ceiling.flops(model).values()] == [0, 0, ["own (Own)"]]
    found = ceiling.flops(keras.Model(inputs, outputs))
    assert [*found.values()] == [64, 2 * 64, ["own (Own)"]]


def test_forward_products_are_those_of_tensorflow_s_profiler():
    model = networks.campbell_cnn((28, 28, 1), 10)
    call = tf.function(lambda images: model(images, training=True), autograph=False)
    graph = call.get_concrete_function(tf.TensorSpec([1, 28, 28, 1])).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    found = tf.compat.v1.profiler.profile(graph, cmd="op", options={**options, "output": "none"})
    types = {}
    while found.children:
        found = found.children[0]
        types[found.name] = found.float_ops
    assert ceiling.flops(model)["forward_products"] == types["Conv2D"] + types["MatMul"] > 0


@pytest.mark.parametrize("name", first(networks.BUILDERS))
def test_every_network_is_counted_whole_and_nothing_changes(name):
    of_tokens = name == "tiny_transformer"
    look = Look((16,), 20, "tokens") if of_tokens else Look((32, 32, 3), 2)
    model = models.build(name, look, 0)
    before = [variable.numpy() for variable in model.variables]
    forward, training = products(model)
    assert 2 < training / forward < 3 or of_tokens  # what is before its first product is trained
    for old, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, variable.numpy())


def test_attention_has_its_kernels_and_the_products_of_all_pairs():
    """A head's kernels are width x 4 each, of queries, keys, values, and back; 5 positions."""
    inputs, other = keras.Input((5, 8)), keras.Input((7, 8))
    outputs = layers.MultiHeadAttention(2, 4)(inputs, inputs, use_causal_mask=True)
    kernels, pairs = 2 * 5 * 4 * 8 * 8, 2 * 2 * (5 * 5) * 2 * 4
    # Nothing before it is trained.
    expected = (kernels + pairs, 2 * kernels + 3 * pairs)
    assert products(keras.Model(inputs, outputs)) == expected
    across = keras.Model([inputs, other], layers.MultiHeadAttention(2, 4)(inputs, other))
    assert len(ceiling.flops(across)["not_counted"]) == 1


def test_a_chain_of_products_really_multiplies():
    matrix = ceiling.involution(48)
    np.testing.assert_allclose(matrix @ matrix, np.eye(48), atol=1e-12)
    start = np.random.default_rng(1).standard_normal((48, 48))
    for count, expected in ((0, start), (1, matrix @ start), (2000, start)):
        found = ceiling.chain(tf.constant(matrix), tf.constant(start), tf.constant(count))
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_the_best_size_that_fits_the_time_is_the_peak():
    found = ceiling.matmul_peak(0.01, (64, 8192))
    (tried,) = found["sizes"]
    assert tried["size"] == found["size"] == 64
    rates = tried["products"] * 2 * 64**3 / np.array(tried["seconds"])
    quartiles = [found[f"flops_per_second{end}"] for end in ("_q1", "", "_q3")]
    assert quartiles == pytest.approx(np.percentile(rates, [25, 50, 75]))
    assert (found["threads"], found["device"], found["dtype"]) == (1, "cpu", "float32")
    json.dumps(found)


def test_products_that_are_not_finite_are_no_peak(monkeypatch):
    monkeypatch.setattr(ceiling, "involution", lambda size: np.full((size, size), np.inf))
    with pytest.raises(ArithmeticError, match="size 16"):
        ceiling.matmul_peak(0.01, (16,))
