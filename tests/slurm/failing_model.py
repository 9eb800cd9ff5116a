"""A user's model whose training fails on a compute node as long as a file exists.

The file holds the number of bytes that the training allocates before it fails.
"""

import os

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FAIL_FILE = os.environ.get("BATCHSCOPE_TEST_FAIL")


def fail():
    if os.path.exists(FAIL_FILE):
        with open(FAIL_FILE) as file:
            np.ones(int(file.read()), np.uint8)
        raise RuntimeError("This member fails.")
    return np.int32(0)


class Fail(layers.Layer):
    def call(self, inputs, training=None):
        if not training or not FAIL_FILE or "SLURM_JOB_ID" not in os.environ:
            return inputs
        with tf.control_dependencies([tf.numpy_function(fail, [], tf.int32)]):
            return tf.identity(inputs)


def build(input_shape, classes):
    inputs = keras.Input(input_shape)
    x = Fail(name="fail")(layers.Flatten(name="flatten")(inputs))
    return keras.Model(inputs, layers.Dense(classes, activation="softmax", name="out")(x))
