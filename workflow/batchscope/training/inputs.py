"""Inputs of a network: augmented examples, scaled inside graphs, in memory or on the disk.

A new value of the factor `augmentation` is a branch of `extended_examples`, which changes the
training set, or of `random_layer`, which changes each batch. The values so far:

- `crop`: doubles the training set by the upper left corner of every image at 1.25 times its size
  (A. Lheureux, listing under "Effect of data augmentation" in the article on how to maximise GPU
  utilisation by the batch size).
- `random`: Keras's preprocessing layers flip, rotate, shift, zoom and shear every image differently
  in every epoch.

Graphs have the examples as constants on the device, or read them from the disk if they are too
large. These rows pass through the system's page cache. The results are equal, bit for bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.datasets import Examples
from batchscope.host import memory_limits

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


def scaled_images(images: tf.Tensor, scale: float) -> tf.Tensor:
    """Return images as float32 times `scale`, inside a graph. Tokens stay unchanged."""
    if images.dtype == tf.int32:
        return images
    return tf.cast(images, tf.float32) * tf.constant(scale, tf.float32)


def stays_on_disk(images: Any) -> bool:
    return isinstance(images, np.memmap) and images.nbytes > memory_limits.max_array_bytes()


def row_reader(images: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function that gathers examples in a graph, given indices, int32 of shape (b,)."""
    if not stays_on_disk(images):
        constant = tf.constant(images)  # The graph keeps a copy, because it outlives the arrays.
        return lambda chosen: tf.gather(constant, chosen)
    private_interfaces.advise_random_access(images)

    def read(chosen: tf.Tensor) -> tf.Tensor:
        rows = tf.numpy_function(images.__getitem__, [chosen], images.dtype, stateful=False)
        return tf.ensure_shape(rows, [None, *images.shape[1:]])

    return read


class Chunks(Sequence):
    """Chunks of consecutive examples and labels as tensors, in memory or read at each use."""

    def __init__(self, images: Any, labels: Any, label_type: tf.DType, size: int) -> None:
        self._images, self._labels, self._type = images, labels, label_type
        self._rows = [slice(start, start + size) for start in range(0, len(images), size)]
        self._stays_on_disk = stays_on_disk(images)
        self._tensors = [] if self._stays_on_disk else [self._read(rows) for rows in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._read(self._rows[index]) if self._stays_on_disk else self._tensors[index]

    def _read(self, rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
        labels = tf.constant(np.asarray(self._labels[rows]), self._type)
        if tf.executing_eagerly() or not self._stays_on_disk:
            return tf.constant(self._images[rows]), labels
        # A constant would stay in the graph, so the chunk is read when the graph runs.
        chunk = self._images[rows]
        read = tf.numpy_function(lambda: np.asarray(chunk), [], chunk.dtype)
        return tf.ensure_shape(read, chunk.shape), labels
