"""Inputs: what augmentation does to images, and examples that stay on the disk."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from batchscope.datasets import Examples
from batchscope.host import memory_limits
from batchscope.study import names
from batchscope.training import inputs, losses
from batchscope.training.trainer import Training, TrainingRun
from costs import first
from measured_run import RUN


def photographs(count=5, size=40, dtype=np.uint8):
    """Return smooth pictures: a slope of their own each."""
    axis = np.linspace(0, 1, size)
    pictures = np.linspace(0.2, 1, count)[:, None, None] * (axis[:, None] + axis) / 2
    pictures = np.repeat(pictures[..., None], 3, axis=-1)
    return (255 * pictures).astype(dtype) if dtype == np.uint8 else pictures.astype(dtype)


def test_the_copy_is_the_upper_left_four_fifths_of_the_image():
    """As the document makes it with Pillow: resize((250, 250)), crop((0, 0, 200, 200))."""
    images = photographs(size=200)
    result = inputs.stretched_images(images)
    assert (result.shape, result.dtype) == (images.shape, images.dtype)
    for image, copy in zip(images, result, strict=True):
        stretched = Image.fromarray(image).resize((250, 250), Image.Resampling.BICUBIC)
        expected = np.asarray(stretched.crop((0, 0, 200, 200))).astype(int)
        assert np.abs(copy.astype(int) - expected).max() <= 1
    floats = photographs(dtype=np.float32)
    result = inputs.stretched_images(floats)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result[:, 0, 0], floats[:, 0, 0], atol=0.02)


def test_crop_doubles_the_set_and_nothing_else_does():
    examples = Examples(photographs(), np.arange(5), 1 / 255)
    twice = inputs.extended_examples("crop", examples)
    copies = [examples.images, inputs.stretched_images(examples.images)]
    np.testing.assert_array_equal(twice.images, np.concatenate(copies))
    assert twice.labels.tolist() == [*range(5), *range(5)] and twice.scale == 1 / 255
    assert inputs.extended_examples("random", examples) is examples


@pytest.mark.slow
def test_random_changes_are_new_each_time_and_fixed_by_the_seed():
    images = photographs(dtype=np.float32)

    def twice(seed):
        layer = inputs.random_layer("random", seed)
        return np.stack([np.asarray(layer(images, training=True)) for _ in range(2)])

    once, again = twice(3)
    assert once.shape == images.shape
    assert not np.allclose(once, again) and not np.allclose(once, images)
    np.testing.assert_array_equal(twice(3), [once, again])
    assert not np.allclose(twice(4)[0], once)
    # A shift moves by a tenth at most, a flip turns around: the mean grey stays about the same.
    np.testing.assert_allclose(once.mean((1, 2, 3)), images.mean((1, 2, 3)), rtol=0.3)


@pytest.mark.parametrize("augmentation", first(["crop", "random"]))
def test_an_epoch_has_the_updates_of_its_examples(results, augmentation):
    factors = {**names.parse_run(RUN), "batch_size": 8, "augmentation": augmentation}
    one = Training(TrainingRun(results, names.run_name(factors)))
    expected = 140 if augmentation == "crop" else 70
    assert (one.examples, one.course.epoch_updates(0)) == (expected, -(-expected // 8))
    assert one.fit().status == "finished"


@pytest.fixture
def examples(tmp_path) -> Examples:
    generator = np.random.default_rng(0)
    path = tmp_path / "images.npy"
    np.save(path, generator.integers(0, 255, (23, 6, 6, 1), np.uint8))
    images = np.lib.format.open_memmap(path, mode="r")
    return Examples(images, generator.integers(0, 3, 23).astype(np.int32), 1 / 255)


@pytest.fixture
def on_disk(monkeypatch):
    """Lets no array be held from now on."""
    return lambda: monkeypatch.setattr(memory_limits, "_ARRAY_SHARE", 0.0)


def test_rows_in_a_graph_are_held_if_they_are_few_or_not_mapped(examples, on_disk):
    assert not inputs.stays_on_disk(examples.images)
    on_disk()
    assert inputs.stays_on_disk(examples.images)
    assert not inputs.stays_on_disk(np.array(examples.images))
    read = inputs.row_reader(examples.images)
    graph = tf.function(read, input_signature=[tf.TensorSpec([None], tf.int32)])
    assert graph.get_concrete_function().structured_outputs.shape.as_list() == [None, 6, 6, 1]
    for chosen in ([3], [22, 0, 0, 5], []):
        result = graph(tf.constant(chosen, tf.int32))
        assert result.dtype == tf.uint8
        np.testing.assert_array_equal(result, examples.images[np.array(chosen, int)])


def test_each_use_of_an_objective_has_the_same_bits(examples, on_disk):
    keras.utils.set_random_seed(0)
    outputs = keras.layers.Dense(3, activation="softmax")
    model = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Flatten(), outputs])

    def numbers(objective: losses.Objective) -> list:
        loss, gradient = objective.loss_and_gradient(objective.weights())
        few = objective.with_examples(examples.rows(np.arange(4)))
        product = objective.hessian_times(np.linspace(-1, 1, objective.size))
        values = [loss, objective.evaluate()[0], few.evaluate()[0]]
        return [*values, *gradient, *product, *objective.chunk_gradient(1)]

    held = numbers(losses.Objective(model, examples, chunk=10))
    on_disk()
    mapped = losses.Objective(model, examples, chunk=10)
    assert len(mapped._chunks) == 3 and not mapped._chunks._tensors
    assert numbers(mapped) == held
