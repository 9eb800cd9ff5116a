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

# Attributes of Snakemake's `workflow` that its documentation does not name -> what for.
SNAKEMAKE = {
    "config_settings": "the options of `--config` alone; `config` has those of the file too",
    "configfiles": "the configuration file as it was given; `config` has its contents alone",
    "dag": "what a command was to make, and which of its outputs are made though they are there",
    "global_resources": "which GPUs and cores are given; `resources` belong to a job",
    "nodes": "whether a number of jobs is given, as for a cluster, in place of one of cores",
    "remote_exec": "whether this is a job of a cluster, which reads the Snakefile anew",
    "local_exec": "whether jobs run on this machine, where they share imported libraries",
    "register_resource": "a resource `gpu` of one where none is given",
    "scheduler": "to take away its limit of jobs per second, which keeps it busy on one machine",
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
