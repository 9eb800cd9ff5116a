"""Every private or undocumented interface of another library, and why no public one does.

Each function imports its library when it is called. Snakemake's own are in the rules, where its
`workflow` is; `SNAKEMAKE` lists them.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf

# Attribute of Snakemake's `workflow` that its documentation does not name -> its purpose, and the
# benchmark if it only saves time.
SNAKEMAKE = {
    "config_settings": "the options of `--config` alone; `config` also holds those of the file",
    "configfiles": "the path of the configuration file; `config` holds its content only",
    "dag": "the targets of a call, to check that a call without a failed job made them",
    "global_resources": "the GPUs and cores of the call; `resources` belong to a job",
    "nodes": "whether the call has a number of jobs, as for a cluster, or a number of cores",
    "remote_exec": "whether this process is a job of a cluster, which reads the Snakefile again",
    "local_exec": "whether jobs run on this machine, where they share imported libraries",
    "register_resource": "the resource `gpu` of 1, if the call sets none",
    "scheduler": "to remove its limit of jobs per second, which costs time on one machine "
    "(benchmarks/grid.py)",
}


def all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """Returns the layers of a Keras model, those inside of layers and of models in it too.

    `Model.layers` holds the outermost alone, and not every layer lists those that it holds.
    """
    return list(model._flatten_layers(include_self=False))


def read_at_random(array: np.memmap) -> None:
    """Tells the system that rows of an array on the disk are read in no order (Linux).

    It reads 32 pages around each otherwise. NumPy has the map of an array under no public name.
    """
    if hasattr(mmap, "MADV_RANDOM") and array._mmap is not None:  # no copy in the memory
        array._mmap.madvise(mmap.MADV_RANDOM)


def kept_logits(outputs: tf.Tensor) -> tf.Tensor | None:
    """Returns the logits that Keras's softmax or sigmoid left on what it returned; None without.

    Keras's own losses read them there; no public function gives them.
    """
    return getattr(outputs, "_keras_logits", None)


def moments(
    optimizer: keras.optimizers.Adam, variable: tf.Variable
) -> tuple[tf.Variable, tf.Variable]:
    """Returns the running means of a weight's gradient and of its square, as Adam has them.

    `Optimizer.variables` lists them all, and does not say which are whose.
    """
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index].value, optimizer._velocities[index].value


def continued(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a data set that every iteration goes on with, in place of beginning anew.

    To Keras's `fit` only a `tf.data.Dataset` is one, and TensorFlow documents no way to derive
    from it: a subclass hands the tensor behind the data set on, and defines `_inputs`.
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
