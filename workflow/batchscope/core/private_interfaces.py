"""Private interfaces of other libraries, each with the reason why no public one suffices.

Each function imports its library when it is called. The rules use attributes of Snakemake's
`workflow`, which tests/core/test_private_interfaces.py lists.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf


def all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """Return the layers of a Keras model, including nested ones.

    `Model.layers` holds the outermost ones, and not every layer lists its inner layers.
    """
    return list(model._flatten_layers(include_self=False))


def read_at_random(array: np.memmap) -> None:
    """Tell the kernel that rows of an array on the disk are read in random order.

    By default it reads 32 pages around each. NumPy has no public name for the map of an array.
    """
    if hasattr(mmap, "MADV_RANDOM") and array._mmap is not None:  # Linux, and no copy in memory
        array._mmap.madvise(mmap.MADV_RANDOM)


def kept_logits(outputs: tf.Tensor) -> tf.Tensor | None:
    """Return the logits that Keras's softmax or sigmoid attached to its output; None without them.

    Keras's own losses read this attribute.
    """
    return getattr(outputs, "_keras_logits", None)


def moments(
    optimizer: keras.optimizers.Adam, variable: tf.Variable
) -> tuple[tf.Variable, tf.Variable]:
    """Return Adam's running means of the gradient of a weight and of its square.

    `Optimizer.variables` does not tell their weights.
    """
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index].value, optimizer._velocities[index].value


def continued(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a data set that each iteration continues, instead of starting again.

    Keras's `fit` accepts only a `tf.data.Dataset`, and TensorFlow documents no way to derive from
    it: a subclass passes on the tensor behind the data set, and defines `_inputs`.
    """
    import tensorflow as tf

    class Continued(tf.data.Dataset):
        def __init__(self) -> None:
            self._iterator = iter(dataset)
            super().__init__(dataset._variant_tensor)

        def _inputs(self) -> list[tf.data.Dataset]:
            return [dataset]

        @property
        def element_spec(self) -> Any:
            return dataset.element_spec

        def __iter__(self) -> Any:
            return self._iterator

    return Continued()
