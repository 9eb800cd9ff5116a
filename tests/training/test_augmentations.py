"""What augmentation does to images: its sizes, its generators, and a resumed training's bits."""

import shutil

import numpy as np
import pytest
from PIL import Image

from batchscope.catalogue import run_names
from batchscope.datasets import Examples
from batchscope.training import augmentations, models
from batchscope.training.trainer import Interrupted, Limits, Run, Training
from costs import first
from measured_run import DATASET


def photographs(count=5, size=40, dtype=np.uint8):
    """Returns smooth pictures: a slope of their own each."""
    axis = np.linspace(0, 1, size)
    slopes = np.linspace(0.2, 1, count)
    pictures = slopes[:, None, None] * (axis[:, None] + axis[None, :]) / 2
    pictures = np.repeat(pictures[..., None], 3, axis=-1)
    return (255 * pictures).astype(dtype) if dtype == np.uint8 else pictures.astype(dtype)


def test_the_copy_is_the_upper_left_four_fifths_of_the_image():
    """As the document makes it with Pillow: resize((250, 250)), crop((0, 0, 200, 200))."""
    images = photographs(size=200)
    found = augmentations.stretched(images)
    assert (found.shape, found.dtype) == (images.shape, images.dtype)
    for image, copy in zip(images, found, strict=True):
        stretched = Image.fromarray(image).resize((250, 250), Image.Resampling.BICUBIC)
        expected = np.asarray(stretched.crop((0, 0, 200, 200))).astype(int)
        assert np.abs(copy.astype(int) - expected).max() <= 1
    # The last pixel shows what stood at four fifths.
    assert abs(int(found[-1, -1, -1, 0]) - int(images[-1, 159, 159, 0])) <= 2


def test_floats_stay_floats():
    images = photographs(dtype=np.float32)
    found = augmentations.stretched(images)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, 0, 0], images[:, 0, 0], atol=0.02)


def test_crop_doubles_the_set_and_nothing_else_does():
    images, labels = photographs(), np.arange(5)
    given = Examples(images, labels, 1 / 255)
    twice = augmentations.extended("crop", given)
    np.testing.assert_array_equal(twice.images[:5], images)
    np.testing.assert_array_equal(twice.images[5:], augmentations.stretched(images))
    assert twice.labels.tolist() == [*range(5), *range(5)] and twice.scale == 1 / 255
    for other in ("none", "random"):
        assert augmentations.extended(other, given) is given


@pytest.mark.slow
def test_random_changes_are_new_each_time_and_fixed_by_the_seed():
    images = photographs(dtype=np.float32)

    def twice(seed):
        layer = augmentations.layer("random", seed)
        return [np.asarray(layer(images, training=True)) for _ in range(2)]

    first, second = twice(3)
    assert first.shape == images.shape
    assert not np.allclose(first, second)
    assert not np.allclose(first, images)
    np.testing.assert_array_equal(np.stack(twice(3)), np.stack([first, second]))
    assert not np.allclose(twice(4)[0], first)
    # A shift moves by a tenth at most, a flip turns around: the mean grey stays about the same.
    np.testing.assert_allclose(first.mean((1, 2, 3)), images.mean((1, 2, 3)), rtol=0.3)


def test_the_generators_are_variables_that_a_checkpoint_can_keep():
    layer = augmentations.layer("random", 0)
    layer(photographs(dtype=np.float32), training=True)
    assert len(layer.variables) >= 5
    assert augmentations.layer("none", 0) is augmentations.layer("crop", 0) is None


def training(results, augmentation, **limits):
    factors = {"dataset": DATASET, "model": "small_cnn", "batch_size": 8, "learning_rate": 0.1}
    factors |= {"optimizer": "sgd", "epochs": 2, "seed": 0, "augmentation": augmentation}
    return Training(Run(results, run_names.run_name(factors)), Limits(**limits))


@pytest.mark.parametrize("augmentation", first(["crop", "random"]))
def test_an_epoch_has_the_updates_of_its_examples(results, augmentation):
    one = training(results, augmentation)
    examples = len(one.run.data.labels("train"))
    expected = 2 * examples if augmentation == "crop" else examples
    assert one.examples == expected
    assert one.steps == -(-expected // 8)
    assert one.fit()[0] == "finished"


@pytest.mark.slow
def test_an_augmented_training_that_is_killed_goes_on_with_the_same_bits(results, tmp_path):
    whole = training(results, "random")
    whole.fit()
    copy = tmp_path / "results"
    shutil.copytree(results / "data", copy / "data")
    first = training(copy, "random", chunk_steps=3)
    first._pause = lambda pause=first._pause: (setattr(first, "stopping", True), pause())
    with pytest.raises(Interrupted):
        first.fit()
    assert first.progress.step > 0
    second = training(copy, "random")
    second.fit()
    assert second.progress.resumed == 1
    expected, found = models.weights(whole.model)[0], models.weights(second.model)[0]
    for path, value in expected.items():
        np.testing.assert_array_equal(found[path], value)
