"""A user's model that rests in every training step, as long as a file is there.

So no training ends before a test has stopped it, however fast the machine is.
"""

import os
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

WHILE = os.environ.get("BATCHSCOPE_TEST_REST")


def rest():
    if os.path.exists(WHILE):
        time.sleep(0.1)
    return np.int32(0)


class Rest(layers.Layer):
    """Passes its input on, after a while."""

    def call(self, inputs, training=None):
        if not training or not WHILE:
            return inputs
        with tf.control_dependencies([tf.numpy_function(rest, [], tf.int32)]):
            return tf.identity(inputs)


def build(input_shape, classes):
    inputs = keras.Input(input_shape)
    x = layers.Flatten(name="flatten")(inputs)
    x = Rest(name="rest")(x)
    x = layers.Dense(24, activation="relu", name="dense_1")(x)
    x = layers.Dropout(0.3, name="drop")(x)
    return keras.Model(inputs, layers.Dense(classes, activation="softmax", name="out")(x))
