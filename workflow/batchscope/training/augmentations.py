"""Augment the training images, by the factor `augmentation`. A new value is a branch here.

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
# Shares of the image's size. The rotation is a share of a full turn: 18 degrees to either side.
SHIFT, ZOOM, ROTATION, SHEAR = 0.1, 0.1, 0.05, 0.1
_IMAGES_AT_ONCE = 256  # images stretched at once


def extended_examples(augmentation: str, examples: Examples) -> Examples:
    """Return the training set. For `crop`, the copies follow the originals in the same order."""
    if augmentation != "crop":
        return examples
    images = np.concatenate([examples.images, stretched_images(examples.images)])
    return replace(examples, images=images, labels=np.concatenate(2 * [examples.labels]))


def stretched_images(images: np.ndarray) -> np.ndarray:
    """Enlarge images 1.25 times (bicubic) and return their upper left corners.

    Shape (n, height, width, channels) and dtype stay the same. Bytes are rounded.
    """
    height, width = images.shape[1:3]
    larger = round(STRETCH * height), round(STRETCH * width)
    corners = np.empty(images.shape, images.dtype)
    for start in range(0, len(images), _IMAGES_AT_ONCE):
        rows = slice(start, start + _IMAGES_AT_ONCE)
        corner = tf.image.resize(images[rows], larger, "bicubic")[:, :height, :width].numpy()
        if images.dtype == np.uint8:
            corner = np.clip(np.rint(corner), 0, 255)
        corners[rows] = corner
    return corners


def random_layer(augmentation: str, seed: int) -> keras.layers.Pipeline | None:
    """Return the layer that changes a batch of images for `random`; None for other values."""
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
