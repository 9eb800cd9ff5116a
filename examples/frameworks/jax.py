"""Train one of two small networks in JAX; log losses, examples and seconds as CSV."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.pop(0)  # this folder: its files have the names of packages

import jax
import numpy as np
from jax import numpy as jnp
from jax.example_libraries import stax


def build(network: str) -> tuple[Callable, Callable]:
    """Return functions for a network's first weights and its logits, for images of 32x32 pixels."""
    draw = {"W_init": jax.nn.initializers.glorot_uniform(), "b_init": jax.nn.initializers.zeros}
    if network == "mlp":
        layers = [stax.Flatten, stax.Dense(512, **draw), stax.Relu, stax.Dense(512, **draw)]
    else:
        layers = [stax.Conv(16, (3, 3), **draw), stax.Relu, stax.MaxPool((2, 2), (2, 2))]
        layers += [stax.Conv(32, (3, 3), **draw), stax.Relu, stax.MaxPool((2, 2), (2, 2))]
        layers += [stax.Flatten, stax.Dense(128, **draw)]
    return stax.serial(*layers, stax.Relu, stax.Dense(10, **draw))


class Trainer:
    """A network and its updates by stochastic gradient descent."""

    def __init__(self, network: str, rate: float, seed: int) -> None:
        initial, self.logits = build(network)
        _, self.weights = initial(jax.random.key(seed), (1, 32, 32, 1))
        self.rate = rate
        self._update, self.loss = jax.jit(self._updated), jax.jit(self._loss)

    def update(self, images: np.ndarray, labels: np.ndarray) -> jax.Array:
        """Make one update; return the loss before it, without waiting for the device."""
        self.weights, loss = self._update(self.weights, images, labels)
        return loss

    def evaluate(self, images: np.ndarray, labels: np.ndarray) -> list[jax.Array]:
        """Return loss and accuracy."""
        logits = self.logits(self.weights, images)
        return self.loss(self.weights, images, labels), (logits.argmax(1) == labels).mean()

    def _loss(self, weights: list, images: jax.Array, labels: jax.Array) -> jax.Array:
        logs = jax.nn.log_softmax(self.logits(weights, images))
        return -jnp.take_along_axis(logs, labels[:, None], axis=1).mean()

    def _updated(self, weights: list, images: jax.Array, labels: jax.Array) -> tuple:
        loss, gradients = jax.value_and_grad(self._loss)(weights, images, labels)
        weights = jax.tree.map(lambda w, g: w - self.rate * g, weights, gradients)
        return weights, loss


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
