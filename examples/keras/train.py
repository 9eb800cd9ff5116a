"""Trains a small network on scikit-learn's handwritten digits by Keras's `fit`.

It knows nothing of Batchscope: its log is that of Keras's own `CSVLogger`.
"""

import argparse
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, required=True)
parser.add_argument("--learning-rate", type=float, required=True)
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--out", type=Path, required=True)
args = parser.parse_args()

keras.utils.set_random_seed(args.seed)
digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
images, labels = digits.data[order] / 16, digits.target[order]

model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(10, "softmax")]
)
model.compile(
    keras.optimizers.SGD(args.learning_rate),
    "sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(
    images[:1200],
    labels[:1200],
    args.batch_size,
    args.epochs,
    verbose=0,
    validation_data=(images[1200:], labels[1200:]),
    callbacks=[keras.callbacks.CSVLogger(args.out / "log.csv")],
)
