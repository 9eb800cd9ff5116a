"""A user's model with everything that carries state through a training."""

import keras
from keras import layers


def build(input_shape, classes):
    inputs = keras.Input(input_shape)
    x = layers.Flatten(name="flatten")(inputs)
    x = layers.Dense(24, name="dense_1", kernel_regularizer="l2")(x)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.ReLU(name="relu")(x)
    x = layers.Dropout(0.3, name="drop")(x)
    return keras.Model(inputs, layers.Dense(classes, activation="softmax", name="out")(x))
