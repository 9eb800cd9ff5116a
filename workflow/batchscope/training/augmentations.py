"""Augmentations of the training images alone: factor `augmentation`.

- `crop`: doubles the training set by the upper left corner of every image at 1.25 times its size
  (A. Lheureux, listing under "Effect of data augmentation" in the article on how to maximise GPU
  utilisation by the batch size).
- `random`: Keras's preprocessing layers flip, rotate, shift, zoom and shear every image differently
  in every epoch.
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
    """Return the training set; for `crop` with its copies at the end, in order."""
    if augmentation != "crop":
        return examples
    images = np.concatenate([examples.images, stretched(examples.images)])
    return replace(examples, images=images, labels=np.concatenate(2 * [examples.labels]))


def stretched(images: np.ndarray) -> np.ndarray:
    """Return the upper left corner of images that were made 1.25 times as large (bicubic).

    Shape, (n, height, width, channels), and dtype stay the same: bytes are rounded.
    """
    height, width = images.shape[1:3]
    larger = round(STRETCH * height), round(STRETCH * width)
    corners = np.empty(images.shape, images.dtype)
    for start in range(0, len(images), _ROWS):
        rows = slice(start, start + _ROWS)
        corner = tf.image.resize(images[rows], larger, "bicubic")[:, :height, :width].numpy()
        if images.dtype == np.uint8:
            corner = np.clip(np.rint(corner), 0, 255)
        corners[rows] = corner
    return corners


def layer(augmentation: str, seed: int) -> keras.layers.Pipeline | None:
    """Return a layer that changes a batch of images at random; None without augmentation."""
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
