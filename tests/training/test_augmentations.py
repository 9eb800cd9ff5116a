"""What augmentation does to images: its sizes, its generators, and the updates of an epoch."""

import numpy as np
import pytest
from PIL import Image

from batchscope.datasets import Examples
from batchscope.study import names
from batchscope.training import augmentations
from batchscope.training.trainer import Training, TrainingRun
from costs import first
from measured_run import RUN


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
    result = augmentations.stretched_images(images)
    assert (result.shape, result.dtype) == (images.shape, images.dtype)
    for image, copy in zip(images, result, strict=True):
        stretched = Image.fromarray(image).resize((250, 250), Image.Resampling.BICUBIC)
        expected = np.asarray(stretched.crop((0, 0, 200, 200))).astype(int)
        assert np.abs(copy.astype(int) - expected).max() <= 1
    floats = photographs(dtype=np.float32)
    result = augmentations.stretched_images(floats)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result[:, 0, 0], floats[:, 0, 0], atol=0.02)


def test_crop_doubles_the_set_and_nothing_else_does():
    images, labels = photographs(), np.arange(5)
    given = Examples(images, labels, 1 / 255)
    twice = augmentations.extended_examples("crop", given)
    np.testing.assert_array_equal(twice.images[:5], images)
    np.testing.assert_array_equal(twice.images[5:], augmentations.stretched_images(images))
    assert twice.labels.tolist() == [*range(5), *range(5)] and twice.scale == 1 / 255
    for other in ("none", "random"):
        assert augmentations.extended_examples(other, given) is given


@pytest.mark.slow
def test_random_changes_are_new_each_time_and_fixed_by_the_seed():
    images = photographs(dtype=np.float32)

    def twice(seed):
        layer = augmentations.random_layer("random", seed)
        return [np.asarray(layer(images, training=True)) for _ in range(2)]

    first, second = twice(3)
    assert first.shape == images.shape
    assert not np.allclose(first, second)
    assert not np.allclose(first, images)
    np.testing.assert_array_equal(np.stack(twice(3)), np.stack([first, second]))
    assert not np.allclose(twice(4)[0], first)
    # A shift moves by a tenth at most, a flip turns around: the mean grey stays about the same.
    np.testing.assert_allclose(first.mean((1, 2, 3)), images.mean((1, 2, 3)), rtol=0.3)


@pytest.mark.parametrize("augmentation", first(["crop", "random"]))
def test_an_epoch_has_the_updates_of_its_examples(results, augmentation):
    factors = {**names.parse_run(RUN), "batch_size": 8, "augmentation": augmentation}
    one = Training(TrainingRun(results, names.run_name(factors)))
    examples = len(one.run.data.labels("train"))
    expected = 2 * examples if augmentation == "crop" else examples
    assert (one.examples, one.course.epoch_updates(0)) == (expected, -(-expected // 8))
    assert one.fit().status == "finished"
