"""All uses of private interfaces of NumPy, Keras and TensorFlow, one function each.

Each docstring says why no public interface suffices. A function imports its library inside.
tests/core/test_private_interfaces.py lists the attributes of Snakemake's `workflow` that
the rules use.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf


def all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """Return all layers of a Keras model, including nested layers.

    `Model.layers` has only the outermost layers, and not every layer lists its inner layers.
    """
    return list(model._flatten_layers(include_self=False))


def advise_random_access(array: np.memmap) -> None:
    """Tell the kernel that rows of an array on the disk are read in random order.

    By default the kernel reads 32 pages around each row. NumPy has no public name for the `mmap`
    object of an array.
    """
    if hasattr(mmap, "MADV_RANDOM") and array._mmap is not None:  # Linux, and no copy in memory
        array._mmap.madvise(mmap.MADV_RANDOM)


def attached_logits(outputs: tf.Tensor) -> tf.Tensor | None:
    """Return the logits that Keras's softmax or sigmoid attached to its output, if it did.

    Keras's losses read this attribute, which has no public name.
    """
    return getattr(outputs, "_keras_logits", None)


def adam_moments(
    optimizer: keras.optimizers.Adam, variable: tf.Variable
) -> tuple[tf.Variable, tf.Variable]:
    """Return Adam's running means of a weight's gradient and of the squared gradient.

    `Optimizer.variables` does not say which weight a moment belongs to.
    """
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index].value, optimizer._velocities[index].value


def resumable(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a data set that all iterations share: each continues where the last one stopped.

    Keras's `fit` accepts only a `tf.data.Dataset`, and TensorFlow documents no subclass of it. A
    subclass has to pass on the tensor behind the data set and to define `_inputs`.
    """
    import tensorflow as tf

    class Resumable(tf.data.Dataset):
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

    return Resumable()
