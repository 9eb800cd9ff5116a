"""A user's model that rests in every training step: its time does not depend on the machine."""

import os
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

PAUSE = float(os.environ.get("BATCHSCOPE_TEST_PAUSE", "0"))


def rest():
    time.sleep(PAUSE)
    return np.int32(0)


class Rest(layers.Layer):
    """Passes its input on, after a while."""

    def call(self, inputs, training=None):
        if not training or not PAUSE:
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
