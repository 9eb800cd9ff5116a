"""What a training sees of its images besides themselves: factor `augmentation`.

- `none`: the images.
- `crop`: a second, stretched and cropped copy of every image, which doubles the training set: 1.25
  times as large, of which the upper left corner of the original size is kept (A. Lheureux, listing
  under "Effect of data augmentation" in the article on how to maximise GPU utilisation by the batch
  size: 200x200 to 250x250, cropped to 200x200).
- `random`: the set keeps its size, and every image is changed anew each time that it is seen:
  flipped, rotated, shifted, zoomed and sheared by Keras's preprocessing layers.

Validation and test images, and whatever is measured of a finished run, are never augmented.
"""

from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

from batchscope.datasets import Examples

STRETCH = 1.25
# Shares of the image's size; of a full turn for the rotation: 18 degrees to either side.
SHIFT, ZOOM, ROTATION, SHEAR = 0.1, 0.1, 0.05, 0.1
_ROWS = 256  # images stretched at once


def extended(augmentation: str, examples: Examples) -> Examples:
    """Returns the training set: with its copies, in order, behind it for `crop`, else as it is."""
    if augmentation != "crop":
        return examples
    images = np.concatenate([examples.images, stretched(examples.images)])
    return replace(examples, images=images, labels=np.concatenate(2 * [examples.labels]))


def stretched(images: np.ndarray) -> np.ndarray:
    """Returns the upper left corner of images that were made 1.25 times as large (bicubic).

    Shape, (n, height, width, channels), and dtype stay the same: bytes are rounded.
    """
    height, width = images.shape[1:3]
    larger = round(STRETCH * height), round(STRETCH * width)
    found = np.empty(images.shape, images.dtype)
    for start in range(0, len(images), _ROWS):
        rows = slice(start, start + _ROWS)
        corner = tf.image.resize(images[rows], larger, "bicubic")[:, :height, :width].numpy()
        if images.dtype == np.uint8:
            corner = np.clip(np.rint(corner), 0, 255)
        found[rows] = corner
    return found


def layer(augmentation: str, seed: int) -> keras.layers.Pipeline | None:
    """Returns what changes a batch of images at random; None where nothing does.

    The seed fixes the changes; the layers' generators are among its variables.
    """
    if augmentation != "random":
        return None
    layers = keras.layers
    flip, rotate, shift, zoom, shear = np.random.SeedSequence(seed).generate_state(5).tolist()
    return layers.Pipeline(
        [
            layers.RandomFlip("horizontal", seed=flip),
            layers.RandomRotation(ROTATION, fill_mode="nearest", seed=rotate),
            layers.RandomTranslation(SHIFT, SHIFT, fill_mode="nearest", seed=shift),
            layers.RandomZoom(ZOOM, fill_mode="nearest", seed=zoom),
            layers.RandomShear(SHEAR, SHEAR, fill_mode="nearest", seed=shear),
        ]
    )
