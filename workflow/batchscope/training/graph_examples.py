"""Give graphs the examples: as constants on the device, or from the disk if they are too large.

Rows from the disk pass through the system's page cache. The results are equal, bit for bit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.host import memory_limits


def stays_on_disk(images: Any) -> bool:
    return isinstance(images, np.memmap) and images.nbytes > memory_limits.max_array_bytes()


def row_reader(images: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function that gathers examples in a graph, given indices, int32 of shape (b,)."""
    if not stays_on_disk(images):
        constant = tf.constant(images)  # The graph keeps a copy, because it outlives the arrays.
        return lambda chosen: tf.gather(constant, chosen)
    kind = tf.as_dtype(images.dtype)
    private_interfaces.advise_random_access(images)

    def read(chosen: tf.Tensor) -> tf.Tensor:
        rows = tf.numpy_function(images.__getitem__, [chosen], kind, stateful=False)
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
        shape = self._images[rows].shape
        kind = tf.as_dtype(self._images.dtype)
        read = tf.numpy_function(lambda: np.asarray(self._images[rows]), [], kind)
        return tf.ensure_shape(read, shape), labels
