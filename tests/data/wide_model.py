"""A user's model whose activations do not fit: 4 GB for a batch of 500 digits."""

import keras
from keras import layers


def build(input_shape, classes):
    inputs = keras.Input(input_shape)
    x = layers.Conv2D(32768, 1, activation="relu", name="conv")(inputs)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, layers.Dense(classes, activation="softmax", name="out")(x))
