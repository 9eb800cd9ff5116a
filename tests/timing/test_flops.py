"""Counted operations against counts by hand, and the measured peak against NumPy's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from batchscope import project_files
from batchscope.host import tensorflow_start

tensorflow_start.start()

import keras
import tensorflow as tf
from keras import layers

from batchscope.timing.instruments import flops, peak
from batchscope.training import models, networks

CONV = {"padding": "same", "activation": "relu"}


def chain(shape: tuple, *parts: layers.Layer, classes: int = 3) -> keras.Model:
    parts = (*parts, layers.Flatten(), layers.Dense(classes, activation="softmax"))
    return keras.Sequential([keras.Input(shape), *parts])


def conv(kernel: int, channels: int, filters: int, rows: int) -> int:
    """Operations of a convolution with a square output of `rows` rows."""
    return 2 * kernel * kernel * channels * filters * rows * rows


def products(model: keras.Model) -> tuple[int, int]:
    found = flops.step(model)
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


def test_grouped_depthwise_transposed_and_three_dimensional_convolutions():
    # Keras puts a grouped convolution into a function of its own inside the graph.
    grouped = layers.Conv2D(6, 3, padding="same", groups=2)
    first, second = conv(3, 1, 4, 6), conv(3, 2, 6, 6)
    model = chain((6, 6, 1), layers.Conv2D(4, 3, padding="same"), grouped)
    dense = 2 * 6 * 36 * 3
    assert products(model) == (first + second + dense, 2 * first + 3 * (second + dense))

    model = chain((6, 6, 2), layers.DepthwiseConv2D(3, depth_multiplier=2))
    first, dense = 2 * 9 * 4 * 4 * 4, 2 * 4 * 16 * 3
    assert products(model) == (first + dense, 2 * first + 3 * dense)

    model = chain((4, 4, 2), layers.Conv2DTranspose(3, 2, 2))
    first, dense = 2 * 4 * 2 * 3 * 16, 2 * 3 * 64 * 3
    assert products(model) == (first + dense, 2 * first + 3 * dense)

    model = chain((4, 4, 2), layers.Reshape((4, 4, 2, 1)), layers.Conv3D(3, 2))
    first, dense = 2 * 8 * 1 * 3 * 9, 2 * 27 * 3
    assert products(model) == (first + dense, 2 * first + 3 * dense)


def test_attention():
    places, features, key = 6, 5, 4
    inputs = keras.Input((places, 1, features))
    outputs = layers.Reshape((places, features))(inputs)
    outputs = layers.MultiHeadAttention(2, key)(outputs, outputs)
    outputs = layers.Dense(3)(layers.Flatten()(outputs))
    inward = 3 * 2 * places * features * 2 * key  # query, key and value
    inner = 2 * 2 * places * places * 2 * key  # scores, and their sum of values
    outward, dense = 2 * places * 2 * key * features, 2 * places * features * 3
    forward = inward + inner + outward + dense
    assert products(keras.Model(inputs, outputs)) == (forward, 3 * forward - inward)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [[2, 3], [3, 5]], 2 * 2 * 3 * 5),
        ("...ij,jk->...ik", [[7, 4, 2, 3], [3, 5]], 2 * 28 * 2 * 3 * 5),
        ("a...i,i...b->ab...", [[2, 4, 3], [3, 1, 5]], 2 * 2 * 4 * 3 * 5),
        ("abi,ij->aj", [[2, 9, 3], [3, 5]], 2 * 2 * 3 * 5),  # b is summed first
        ("ab->ba", [[2, 3]], 0),
    ],
)
def test_einsum(equation, shapes, expected):
    assert flops.einsum_flops(equation, shapes) == expected


def test_batch_products_whichever_factor_is_transposed():
    class Gram(layers.Layer):
        def call(self, values):
            return tf.matmul(values, values, transpose_a=True)

    class Weighted(layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(4, 7))

        def call(self, values):
            return tf.matmul(values, self.kernel)

    inputs = keras.Input((1, 5, 4))
    values = Gram()(Weighted()(layers.Reshape((5, 4))(inputs)))
    model = keras.Model(inputs, layers.Dense(3)(layers.Flatten()(values)))
    weighted, gram, dense = 2 * 5 * 4 * 7, 2 * 7 * 5 * 7, 2 * 49 * 3
    assert products(model) == (weighted + gram + dense, 2 * weighted + 3 * (gram + dense))


def recurrent(unroll: bool) -> keras.Model:
    return chain((4, 2, 3), layers.Reshape((4, 6)), layers.LSTM(5, unroll=unroll))


def test_products_inside_a_loop_are_refused_and_outside_counted():
    inward, inner, dense = 4 * 2 * 6 * 20, 4 * 2 * 5 * 20, 2 * 5 * 3
    # The first state is zero, but its product is done; its gradient is asked of nobody.
    forward, training = products(recurrent(unroll=True))
    assert forward == inward + inner + dense
    assert training == 2 * inward + 3 * inner - 2 * 5 * 20 + 3 * dense
    with pytest.raises(flops.Uncounted, match="outside of loops"):
        flops.step(recurrent(unroll=False))


def test_a_size_that_only_a_run_knows_is_refused():
    inputs = keras.Input((None, None, 2))
    outputs = layers.Dense(3)(layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(inputs)))
    model = keras.Model(inputs, outputs)
    with pytest.raises(flops.Uncounted, match="every size is expected"):
        flops.step(model)
    found = flops.step(model, input_shape=(6, 5, 2))
    assert found.forward_products == 2 * 9 * 2 * 4 * 4 * 3 + 2 * 4 * 3


def test_everything_else():
    plain = flops.per_image(chain((4, 4, 1), layers.Conv2D(2, 3)))
    relu = flops.per_image(chain((4, 4, 1), layers.Conv2D(2, 3, activation="relu")))
    assert relu.forward_products == plain.forward_products
    assert relu.forward_other - plain.forward_other == 2 * 2 * 2
    assert relu.training_other - plain.training_other == 2 * 2 * 2 * 2
    # One bias per output, for all layers; the loss adds little to it.
    assert 8 + 3 <= plain.forward_other <= 8 + 3 + 10


def test_a_penalty_on_the_weights_is_of_the_step_and_of_no_image():
    def build(penalty):
        keras.utils.set_random_seed(0)
        return chain((4, 4, 1), layers.Conv2D(2, 3, kernel_regularizer=penalty))

    without, having = build(None), build(keras.regularizers.L2(0.1))
    assert flops.per_image(having) == flops.per_image(without)
    assert flops.step(having).training_other > flops.step(without).training_other


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
    assert flops.step(model).forward_products == types["Conv2D"] + types["MatMul"] > 0


def test_benchmark_cnn_by_hand():
    convolutions = [(3, 8, 64), (8, 8, 64), (8, 16, 32), (16, 32, 16), (32, 64, 8)]
    dense = 2 * (4 * 4 * 64 * 128 + 128 * 64 + 64 * 10)
    forward = sum(conv(3, *sizes) for sizes in convolutions) + dense
    assert forward == 13_845_760
    model = networks.benchmark_cnn((64, 64, 3), 10)
    assert products(model) == (forward, 3 * forward - conv(3, 3, 8, 64))


@pytest.mark.parametrize("name", networks.BUILDERS)
def test_products_are_linear_in_the_batch_and_nothing_changes(name):
    model = models.build(name, (32, 32, 3), 2, 0)
    before = [variable.numpy() for variable in model.variables]
    one, three = flops.step(model, 1), flops.step(model, 3)
    assert three.forward_products == 3 * one.forward_products
    assert three.training_products == 3 * one.training_products
    assert 2 < one.training_products / one.forward_products < 3
    for old, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, variable.numpy())


def test_per_image():
    model = networks.small_cnn((8, 8, 1), 10)
    found = flops.per_image(model)
    # The sum over a batch has one addition less than terms, so "other" is not quite linear.
    assert found.training_products == flops.step(model).training_products == 60_672
    assert found.forward_products == 20_992


def test_a_chain_of_products_really_multiplies():
    matrix = peak.involution(48)
    np.testing.assert_allclose(matrix @ matrix, np.eye(48), atol=1e-12)
    start = np.random.default_rng(1).standard_normal((48, 48))
    run = peak._make_chain("float64")
    for products, expected in ((0, start), (1, matrix @ start), (2000, start)):
        found = run(tf.constant(matrix), tf.constant(start), tf.constant(products))
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_the_best_size_is_the_peak():
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


@pytest.mark.parametrize("arguments", [(0.0,), (float("nan"),), (1.0, ()), (1.0, (1,))])
def test_peak_refuses_what_it_cannot_measure(arguments):
    with pytest.raises(ValueError, match="expected"):
        peak.matmul_peak(*arguments)


BESIDE_NUMPY = """
import json, statistics, sys, time
sys.path.insert(0, sys.argv[1])
from batchscope.host import tensorflow_start
tensorflow_start.start(1)
import numpy as np
from batchscope.timing import peak
matrix = peak.involution(512).astype(np.float32)
def rate():
    begun = time.perf_counter()
    matrix @ matrix
    return peak.product_flops(512) / (time.perf_counter() - begun)
rate()
pairs = []
for _ in range(3):
    before = [rate() for _ in range(5)]
    found = peak.matmul_peak(0.1, (512,))
    numpy = statistics.median(before + [rate() for _ in range(5)])
    pairs.append((found["flops_per_second"], numpy))
print(json.dumps(pairs))
"""


def test_the_peak_is_about_numpy_s_own():
    library = str(project_files.WORKFLOW)
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_NUMPY, library],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **threads},
    )
    # One quiet moment of three is enough: others may use the machine.
    ratios = [found / numpy for found, numpy in json.loads(done.stdout)]
    assert any(1 / 3 < ratio < 3 for ratio in ratios), ratios
