"""Train one of two small networks in TensorFlow; log losses, examples and seconds as CSV."""

import argparse
import sys
import time
from pathlib import Path

sys.path.pop(0)  # this folder: its files have the names of packages

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def build(network: str) -> keras.Model:
    """Return a network up to its logits, for images of 32x32 pixels."""
    if network == "mlp":
        hidden = [layers.Flatten(), *(layers.Dense(512, activation="relu") for _ in range(2))]
    else:
        hidden = [layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(2)]
        hidden += [layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(2)]
        hidden += [layers.Flatten(), layers.Dense(128, activation="relu")]
    return keras.Sequential([keras.Input((32, 32, 1)), *hidden, layers.Dense(10)])


class Trainer:
    """A network and its updates by stochastic gradient descent."""

    def __init__(self, network: str, rate: float, seed: int) -> None:
        keras.utils.set_random_seed(seed)
        self.model = build(network)
        self.optimizer = keras.optimizers.SGD(rate)
        self.optimizer.build(self.model.trainable_variables)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def update(self, images: np.ndarray, labels: np.ndarray) -> tf.Tensor:
        """Make one update; return the loss before it, without waiting for the device."""
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.model(images, training=True))
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply(gradients, self.model.trainable_variables)
        return loss

    @tf.function
    def evaluate(self, images: np.ndarray, labels: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        """Return loss and accuracy."""
        logits = self.model(images, training=False)
        correct = tf.equal(tf.argmax(logits, 1, labels.dtype), labels)
        return self.loss(labels, logits), tf.reduce_mean(tf.cast(correct, tf.float32))


# From here on the same in all four scripts.
def main() -> None:
    """Train, and write a row of the log after the first update and after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=("cnn", "mlp"), default="cnn")
    parser.add_argument("--data", default=Path(__file__).with_name("digits.npz"))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of log.csv")
    options = parser.parse_args()

    data = np.load(options.data)
    # Digits of 8x8 pixels with 17 shades, enlarged to 32x32.
    images = data["images"].repeat(4, axis=1).repeat(4, axis=2)[..., None].astype(np.float32) / 16
    labels = data["labels"].astype(np.int32)
    count, size = len(labels) * 5 // 6, options.batch_size  # the rest is held out
    trainer = Trainer(options.network, options.learning_rate, options.seed)
    generator = np.random.default_rng(options.seed)
    updates, seconds = 0, 0.0
    with open(options.out / "log.csv", "w") as log:
        print("updates,examples,seconds,train_loss,validation_loss,validation_accuracy", file=log)
        # The first update compiles. The clock starts after it, and runs for whole epochs.
        while seconds < options.seconds:
            rows = generator.permutation(count)[: count // size * size if updates else size]
            begun = time.perf_counter()
            batches = rows.reshape(-1, size)
            losses = [trainer.update(images[batch], labels[batch]) for batch in batches]
            train_loss = sum(map(float, losses)) / len(losses)  # waits for the device
            seconds += time.perf_counter() - begun if updates else 0.0
            updates += len(losses)
            held_out = trainer.evaluate(images[count:], labels[count:])
            row = updates, updates * size, seconds, train_loss, *map(float, held_out)
            print(*row, sep=",", file=log, flush=True)


if __name__ == "__main__":
    main()
