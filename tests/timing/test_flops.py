"""Counted operations against counts by hand, and the measured peak against NumPy's."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

from batchscope.host import tensorflow_start

tensorflow_start.start()

import keras
import tensorflow as tf
from keras import layers

from batchscope.datasets.looks import Look
from batchscope.timing.instruments import flops, peak
from batchscope.training import models, networks
from costs import first

CONV = {"padding": "same", "activation": "relu"}


def chain(shape: tuple, *parts: layers.Layer, classes: int = 3) -> keras.Model:
    parts = (*parts, layers.Flatten(), layers.Dense(classes, activation="softmax"))
    return keras.Sequential([keras.Input(shape), *parts])


def conv(kernel: int, channels: int, filters: int, rows: int) -> int:
    """Operations of a convolution with a square output of `rows` rows."""
    return 2 * kernel * kernel * channels * filters * rows * rows


def products(model: keras.Model) -> tuple[int, int]:
    found = flops.per_image(model)
    assert not found.not_counted
    return found.forward_products, found.training_products


def test_dense_layers():
    model = chain((2, 3, 2), layers.Flatten(), layers.Dense(5, activation="relu"))
    first, second = 2 * 12 * 5, 2 * 5 * 3
    assert products(model) == (first + second, 2 * first + 3 * second)


@pytest.mark.parametrize(
    ("padding", "stride", "rows", "next_rows"),
    [("same", 1, 9, 9), ("valid", 1, 6, 3), ("same", 2, 5, 3), ("valid", 2, 3, 0)],
)
def test_convolutions_with_every_padding_and_stride(padding, stride, rows, next_rows):
    parts = [layers.Conv2D(4, 4, stride, padding=padding)]
    if next_rows:
        parts.append(layers.Conv2D(5, 4, stride, padding=padding))
    model = chain((9, 9, 2), *parts)
    first, second = conv(4, 2, 4, rows), conv(4, 4, 5, next_rows)
    dense = 2 * 3 * (5 * next_rows**2 if next_rows else 4 * rows**2)
    # The first layer's input needs no gradient; TensorFlow's trace holds one all the same.
    assert products(model) == (first + second + dense, 2 * first + 3 * (second + dense))


def test_frozen_layers_have_no_weight_gradient():
    model = chain((8, 8, 2), layers.Conv2D(4, 3, **CONV), layers.Conv2D(5, 3, **CONV))
    first, second, dense = conv(3, 2, 4, 8), conv(3, 4, 5, 8), 2 * 320 * 3
    model.layers[0].trainable = False
    assert products(model) == (first + second + dense, first + 2 * second + 3 * dense)
    model.layers[1].trainable = False
    assert products(model) == (first + second + dense, first + second + 2 * dense)


def test_grouped_depthwise_and_three_dimensional_convolutions():
    grouped = layers.Conv2D(6, 3, padding="same", groups=2)
    first, second = conv(3, 1, 4, 6), conv(3, 2, 6, 6)
    model = chain((6, 6, 1), layers.Conv2D(4, 3, padding="same"), grouped)
    dense = 2 * 6 * 36 * 3
    assert products(model) == (first + second + dense, 2 * first + 3 * (second + dense))

    model = chain((6, 6, 2), layers.DepthwiseConv2D(3, depth_multiplier=2))
    first, dense = 2 * 9 * 4 * 4 * 4, 2 * 4 * 16 * 3
    assert products(model) == (first + dense, 2 * first + 3 * dense)

    model = chain((4, 4, 2), layers.Reshape((4, 4, 2, 1)), layers.Conv3D(3, 2))
    first, dense = 2 * 8 * 1 * 3 * 9, 2 * 27 * 3
    assert products(model) == (first + dense, 2 * first + 3 * dense)


def test_branches_that_meet_and_models_among_the_layers():
    """Both first convolutions need no gradient by their input, wherever they stand."""
    inputs = keras.Input((6, 6, 2))
    inner = keras.Sequential([keras.Input((6, 6, 2)), layers.Conv2D(4, 3, **CONV)])
    left, right = inner(inputs), layers.Conv2D(4, 3, **CONV)(inputs)
    outputs = layers.Conv2D(5, 3, **CONV)(layers.Add()([left, right]))
    outputs = layers.Dense(3)(layers.Flatten()(outputs))
    first, second, dense = conv(3, 2, 4, 6), conv(3, 4, 5, 6), 2 * 180 * 3
    forward = 2 * first + second + dense
    assert products(keras.Model(inputs, outputs)) == (forward, 3 * forward - 2 * first)

    deeper = keras.Sequential([keras.Input((6, 6, 4)), layers.Conv2D(5, 3, **CONV)])
    model = chain((6, 6, 2), layers.Conv2D(4, 3, **CONV), deeper)
    assert products(model) == (first + second + dense, 2 * first + 3 * (second + dense))


class Gram(layers.Layer):
    """A product without weights."""

    def call(self, values):
        return tf.matmul(values, values, transpose_a=True)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ([layers.Reshape((8, 4)), Gram(name="gram")], "gram (Gram)"),
        ([layers.Reshape((8, 4)), layers.LSTM(5, name="rnn")], "rnn (LSTM)"),
        ([layers.Conv2DTranspose(3, 2, 2, name="up")], "up (Conv2DTranspose)"),
        ([layers.SeparableConv2D(3, 2, name="two")], "two (SeparableConv2D)"),
    ],
)
def test_other_layers_are_named_and_the_rest_is_counted(parts, named):
    model = chain((4, 4, 2), layers.Conv2D(2, 1, name="conv"), *parts)
    found = flops.per_image(model)
    assert found.not_counted == (named,)
    dense = 2 * 3 * model.layers[-1].input.shape[-1]
    assert found.forward_products == 2 * 2 * 2 * 16 + dense
    assert found.training_products == 2 * (2 * 2 * 2 * 16) + 3 * dense


def test_a_layer_that_is_called_twice_is_counted_twice():
    """By the nodes of Keras's graph, which are private to it."""
    inputs = keras.Input((4, 4, 1))
    shared = layers.Dense(16)
    outputs = layers.Dense(3)(shared(shared(layers.Flatten()(inputs))))
    once, dense = 2 * 16 * 16, 2 * 16 * 3
    assert products(keras.Model(inputs, outputs)) == (
        2 * once + dense,
        2 * once + 3 * (once + dense),
    )


def test_a_model_without_a_graph_of_layers_is_named():
    class Own(keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.dense = layers.Dense(3)

        def call(self, images):
            return self.dense(keras.ops.reshape(images, (-1, 16)))

    inputs, model = keras.Input((4, 4, 1)), Own()
    outputs = layers.Dense(2)(model(inputs))
    assert flops.per_image(model) == flops.Flops(0, 0, ("own (Own)",))
    found = flops.per_image(keras.Model(inputs, outputs))
    assert found == flops.Flops(12, 3 * 12, ("own (Own)",))


def test_a_size_that_only_a_run_knows_is_not_counted():
    inputs = keras.Input((None, None, 2))
    outputs = layers.Conv2D(4, 3, name="conv")(inputs)
    outputs = layers.Dense(3)(layers.GlobalAveragePooling2D()(outputs))
    found = flops.per_image(keras.Model(inputs, outputs))
    assert found.not_counted == ("conv (Conv2D)",)
    assert found.forward_products == 2 * 4 * 3


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
    assert flops.per_image(model).forward_products == types["Conv2D"] + types["MatMul"] > 0


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


def test_a_chain_of_products_really_multiplies():
    matrix = peak.involution(48)
    np.testing.assert_allclose(matrix @ matrix, np.eye(48), atol=1e-12)
    start = np.random.default_rng(1).standard_normal((48, 48))
    for products, expected in ((0, start), (1, matrix @ start), (2000, start)):
        found = peak.chain(tf.constant(matrix), tf.constant(start), tf.constant(products))
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_the_best_size_is_the_peak(monkeypatch):
    # A busy machine leaves out what does not fit the time: each block takes 1 ms longer instead.
    ticks = itertools.accumulate(itertools.count(step=5e-4))
    monkeypatch.setattr(peak, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    found = peak.matmul_peak(0.3, (64, 192))
    assert [each["size"] for each in found["sizes"]] == [64, 192]
    best = max(found["sizes"], key=lambda each: each["flops_per_second"])
    assert found["size"] == best["size"]
    rates = [best["products"] * 2 * best["size"] ** 3 / seconds for seconds in best["seconds"]]
    low, median, high = np.percentile(rates, [25, 50, 75])
    assert found["flops_per_second"] == pytest.approx(median)
    assert found["flops_per_second_q1"] == pytest.approx(low)
    assert found["flops_per_second_q3"] == pytest.approx(high)
    assert (found["threads"], found["device"], found["dtype"]) == (1, "cpu", "float32")
    assert isinstance(found["tensor_float_32"], bool)
    json.dumps(found)


def test_a_size_that_does_not_fit_the_time_is_left_out():
    found = peak.matmul_peak(0.01, (64, 8192))
    assert [each["size"] for each in found["sizes"]] == [64]


def test_products_that_are_not_finite_are_no_peak(monkeypatch):
    monkeypatch.setattr(peak, "involution", lambda size: np.full((size, size), np.inf))
    with pytest.raises(ArithmeticError, match="size 16"):
        peak.matmul_peak(0.01, (16,))


def test_attention_has_its_kernels_and_the_products_of_all_pairs():
    """A head's kernels are width x 4 each, of queries, keys, values, and back; 5 positions."""
    inputs = keras.Input((5, 8))
    outputs = keras.layers.MultiHeadAttention(2, 4)(inputs, inputs, use_causal_mask=True)
    found = flops.per_image(keras.Model(inputs, outputs))
    kernels, pairs = 2 * 5 * 4 * 8 * 8, 2 * 2 * (5 * 5) * 2 * 4
    assert found.forward_products == kernels + pairs
    assert found.training_products == 2 * kernels + 3 * pairs  # nothing before it is trained
    assert found.not_counted == ()
    other = keras.Input((7, 8))
    across = keras.Model([inputs, other], keras.layers.MultiHeadAttention(2, 4)(inputs, other))
    assert len(flops.per_image(across).not_counted) == 1


def test_the_transformer_is_counted_whole():
    model = models.build("tiny_transformer", Look((32,), 93, "tokens"), 0)
    found = flops.per_image(model)
    weights = 2 * (4 * 96 * 96 + 2 * 96 * 384) + 96 * 93  # of the products; 2 layers
    pairs = 2 * 2 * 32 * 32 * 96 * 2
    assert found.forward_products == 2 * 32 * weights + pairs
    assert found.training_products == 3 * found.forward_products
    assert found.not_counted == ()
