"""Examples that stay on the disk: the same numbers as of those that are held."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.host import memory_limits
from batchscope.training import graph_examples, losses

COUNT, SHAPE = 23, (6, 6, 1)


@pytest.fixture
def examples(tmp_path) -> Examples:
    generator = np.random.default_rng(0)
    path = tmp_path / "images.npy"
    np.save(path, generator.integers(0, 255, (COUNT, *SHAPE), np.uint8))
    images = np.lib.format.open_memmap(path, mode="r")
    return Examples(images, generator.integers(0, 3, COUNT).astype(np.int32), 1 / 255)


@pytest.fixture
def on_disk(monkeypatch):
    """Lets no array be held from now on."""
    return lambda: monkeypatch.setattr(memory_limits, "_ARRAY_SHARE", 0.0)


@pytest.fixture
def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [keras.Input(SHAPE), keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax")]
    )


def test_what_is_small_or_not_mapped_is_held(examples, on_disk):
    assert not graph_examples.stays_on_disk(examples.images)
    on_disk()
    assert graph_examples.stays_on_disk(examples.images)
    assert not graph_examples.stays_on_disk(np.array(examples.images))
    assert not graph_examples.stays_on_disk(tf.constant(examples.images))


def test_rows_in_a_graph(examples, on_disk):
    on_disk()
    images_of = graph_examples.row_reader(examples.images)
    graph = tf.function(images_of, input_signature=[tf.TensorSpec([None], tf.int32)])
    assert graph.get_concrete_function().structured_outputs.shape.as_list() == [None, *SHAPE]
    for chosen in ([3], [22, 0, 0, 5], []):
        result = graph(tf.constant(chosen, tf.int32))
        assert result.dtype == tf.uint8
        np.testing.assert_array_equal(result, examples.images[np.array(chosen, int)])


def test_each_use_of_an_objective_has_the_same_bits(examples, model, on_disk):
    def numbers(objective: losses.Objective) -> list:
        weights = objective.weights()
        loss, gradient = objective.loss_and_gradient(weights)
        few = objective.with_examples(examples.rows(np.arange(4)))
        return [
            loss,
            *gradient,
            *objective.hessian_times(np.linspace(-1, 1, objective.size)),
            *objective.chunk_gradient(1),
            objective.evaluate()[0],
            few.evaluate()[0],
        ]

    held = numbers(losses.Objective(model, examples, chunk=10))
    on_disk()
    mapped = losses.Objective(model, examples, chunk=10)
    assert len(mapped._chunks) == 3 and not mapped._chunks._tensors
    assert numbers(mapped) == held
