"""A batch divided among devices is the batch: run by `test_replicas`, in a process of its own."""

from batchscope.host import tensorflow_start

tensorflow_start.start(replicas=4)

import keras
import numpy as np
import pytest
from keras import layers

from batchscope.datasets import Examples
from batchscope.study import names
from batchscope.training import optimizers, replicas, step_loop
from digit_runs import run_name

# 42 examples in batches of 10 end in a batch of 2, and neither is a multiple of 4.
RANDOM = np.random.default_rng(5)
IMAGES = RANDOM.integers(0, 17, (42, 8, 8, 1), np.uint8)
LABELS = RANDOM.integers(0, 3, 42)


def trained(count, build, images=IMAGES, labels=LABELS, scale=1 / 16, batch_size=10, **factors):
    """Return a model after an epoch on replicas, its totals, and the norms of its updates."""
    momentum = {"momentum": 0.9} if factors.get("optimizer", "sgd") == "sgd" else {}
    factors = {**momentum, "replicas": count, "batch_size": batch_size, **factors}
    factors = names.parse_run(run_name(**factors))
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(3)
    with replicas.scope(factors):
        dtype = "int32" if images.dtype == np.int32 else "float32"
        model = keras.Sequential([keras.Input(images.shape[1:], dtype=dtype), *build()])
        optimizer = optimizers.make_optimizer(factors)
    examples, settings = Examples(images, labels, scale), step_loop.UpdateSettings(batch_size)
    loop = replicas.make_loop(factors, model, optimizer, examples, settings, True)
    order, stop = step_loop.epoch_order(0, 0, len(images)), -(-len(images) // batch_size)
    done, totals, _, norms = loop.run(order, 0, stop, step_loop.Totals())
    assert done == stop
    return model, totals, norms


def bits(model):
    return [variable.numpy().tobytes() for variable in model.weights]


def assert_close(one, other):
    for left, right in zip(one[0].weights, other[0].weights, strict=True):
        np.testing.assert_allclose(left.numpy(), right.numpy(), rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(one[1].loss, other[1].loss, rtol=1e-6)
    assert one[1].scores == other[1].scores
    np.testing.assert_allclose(one[2], other[2], rtol=1e-4)


def softmax(**options):
    return layers.Dense(3, activation="softmax", **options)


CASES = {
    "convolutions with Adam": (
        lambda: [layers.Conv2D(8, 3, 2, activation="relu"), layers.Flatten(), softmax()],
        {"optimizer": "adam", "learning_rate": 0.001},
    ),
    # Every position has a label; the gradient of the embedding is one of looked-up rows.
    "sequences": (
        lambda: [layers.Embedding(5, 4), layers.Dense(5, activation="softmax")],
        {
            "scale": 1.0,
            "images": RANDOM.integers(0, 5, (42, 6)).astype(np.int32),
            "labels": RANDOM.integers(0, 5, (42, 6)),
        },
    ),
    # A penalty counts once, and what is frozen stays.
    "penalties, constraints and frozen layers": (
        lambda: [
            layers.Flatten(),
            layers.Dense(5, trainable=False),
            softmax(
                kernel_regularizer=keras.regularizers.L2(0.5),
                bias_regularizer="l1",
                kernel_constraint="unit_norm",
            ),
        ],
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_replicas_end_with_the_weights_of_one_device(case):
    build, options = CASES[case]
    one, four, again = (trained(count, build, **options) for count in (1, 4, 4))
    assert_close(one, four)
    assert bits(four[0]) == bits(again[0])
    for weights in zip(one[0].non_trainable_weights, four[0].non_trainable_weights, strict=True):
        np.testing.assert_array_equal(*(variable.numpy() for variable in weights))


def test_an_empty_shard_adds_exactly_nothing():
    """What one example alone would do to batch normalisation must not be seen either."""

    def build():
        first = layers.Conv2D(4, 3), layers.BatchNormalization(), layers.Flatten()
        return [*first, softmax(kernel_regularizer="l2")]

    options = {"images": IMAGES[:6], "labels": LABELS[:6], "batch_size": 2}
    two, four = (trained(count, build, **options) for count in (2, 4))
    assert bits(two[0]) == bits(four[0])
    assert two[1] == four[1]


def test_batch_normalisation_sees_shards_and_its_mean_the_batch():
    def build():
        return [layers.BatchNormalization(), layers.Flatten(), softmax()]

    options = {"images": IMAGES[:5], "labels": LABELS[:5], "batch_size": 5, "learning_rate": 1e-6}
    norm = trained(2, build, **options)[0].layers[0]
    seen = IMAGES[:5][step_loop.epoch_order(0, 0, 5)] / 16
    variance = (3 * seen[:3].var() + 2 * seen[3:].var()) / 5
    np.testing.assert_allclose(norm.moving_variance.numpy(), [0.99 + 0.01 * variance], rtol=1e-6)


def test_every_replica_draws_its_own_dropout():
    """The kernel's gradient at an input is the sum over two examples of mask times error.

    Two masks give it four values, and one mask two.
    """

    def build():
        last = layers.Dense(1, kernel_initializer="zeros", activation="sigmoid")
        return [layers.Flatten(), layers.Dropout(0.5), last]

    options = {"images": np.ones((2, 8, 8, 1), np.float32), "labels": np.ones(2), "scale": 1.0}
    options |= {"batch_size": 2, "learning_rate": 0.5, "momentum": 0.0}
    one, two, again = (trained(count, build, **options)[0] for count in (1, 2, 2))
    assert bits(two) == bits(again)
    values, counts = np.unique(two.weights[0].numpy(), return_counts=True)
    np.testing.assert_allclose(values, [0, 0.25, 0.5], atol=1e-6)
    assert counts.min() > 4
    generators = [
        [variable.numpy() for variable in model.variables if "seed" in variable.path]
        for model in (one, two)
    ]
    np.testing.assert_array_equal(*generators)
