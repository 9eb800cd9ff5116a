"""Examples in graphs: on the device, or read row by row from the disk if they exceed the memory.

Rows from the disk pass through the system's page cache. The numbers are the same, bit for bit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.host import memory_limits


def stays_on_disk(images: Any) -> bool:
    return isinstance(images, np.memmap) and images.nbytes > memory_limits.largest_array()


def rows_of(images: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function from indices, int32 of shape (b,), to rows of examples in a graph."""
    if not stays_on_disk(images):
        constant = tf.constant(images)  # the graph outlives the arrays: it keeps copies
        return lambda chosen: tf.gather(constant, chosen)
    kind = tf.as_dtype(images.dtype)
    private_interfaces.read_at_random(images)

    def read(chosen: tf.Tensor) -> tf.Tensor:
        rows = tf.numpy_function(images.__getitem__, [chosen], kind, stateful=False)
        return tf.ensure_shape(rows, [None, *images.shape[1:]])

    return read


class Chunks(Sequence):
    """Consecutive examples and their labels as tensors, held or read at each use."""

    def __init__(self, images: Any, labels: Any, label_type: tf.DType, size: int) -> None:
        self._images, self._labels, self._type = images, labels, label_type
        self._rows = [slice(start, start + size) for start in range(0, len(images), size)]
        self._mapped = stays_on_disk(images)
        self._held = [] if self._mapped else [self._read(rows) for rows in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._read(self._rows[index]) if self._mapped else self._held[index]

    def _read(self, rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
        labels = tf.constant(np.asarray(self._labels[rows]), self._type)
        if tf.executing_eagerly() or not self._mapped:
            return tf.constant(self._images[rows]), labels
        # A graph would keep a constant of its own of each chunk.
        shape = self._images[rows].shape
        kind = tf.as_dtype(self._images.dtype)
        read = tf.numpy_function(lambda: np.asarray(self._images[rows]), [], kind)
        return tf.ensure_shape(read, shape), labels
