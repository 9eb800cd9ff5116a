"""A user's model that sleeps in every training step as long as a file exists.

No training ends before the test has stopped it, however fast the machine is.
"""

import os
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SLEEP_FILE = os.environ.get("BATCHSCOPE_TEST_SLEEP")


def sleep():
    if os.path.exists(SLEEP_FILE):
        time.sleep(1)
    return np.int32(0)


class Sleep(layers.Layer):
    """Return the input after a while."""

    def call(self, inputs, training=None):
        if not training or not SLEEP_FILE:
            return inputs
        with tf.control_dependencies([tf.numpy_function(sleep, [], tf.int32)]):
            return tf.identity(inputs)


def build(input_shape, classes):
    inputs = keras.Input(input_shape)
    x = Sleep(name="sleep")(layers.Flatten(name="flatten")(inputs))
    x = layers.Dense(24, activation="relu", name="dense_1")(x)
    x = layers.Dropout(0.3, name="drop")(x)
    return keras.Model(inputs, layers.Dense(classes, activation="softmax", name="out")(x))
