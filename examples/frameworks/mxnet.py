"""Train one of two small networks in MXNet; log losses, examples and seconds as CSV."""

import argparse
import sys
import time
from pathlib import Path

sys.path.pop(0)  # this folder: its files have the names of packages

import mxnet
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn


def build(network: str) -> nn.HybridSequential:
    """Return a network up to its logits, for images of 32x32 pixels."""
    model = nn.HybridSequential()
    if network == "mlp":
        model.add(nn.Dense(512, activation="relu"), nn.Dense(512, activation="relu"))
    else:
        model.add(nn.Conv2D(16, 3, activation="relu"), nn.MaxPool2D(2))
        model.add(nn.Conv2D(32, 3, activation="relu"), nn.MaxPool2D(2))
        model.add(nn.Dense(128, activation="relu"))
    model.add(nn.Dense(10))
    return model


class Trainer:
    """A network and its updates by stochastic gradient descent."""

    def __init__(self, network: str, rate: float, seed: int) -> None:
        mxnet.random.seed(seed)
        self.device = mxnet.gpu() if mxnet.context.num_gpus() else mxnet.cpu()
        self.model = build(network)
        self.model.initialize(mxnet.init.Xavier(), ctx=self.device)
        self.model.hybridize()
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.trainer = gluon.Trainer(self.model.collect_params(), "sgd", {"learning_rate": rate})

    def update(self, images: np.ndarray, labels: np.ndarray) -> mxnet.np.ndarray:
        """Make one update; return the loss before it, without waiting for the device."""
        images, labels = self._arrays(images, labels)
        with autograd.record():
            losses = self.loss(self.model(images), labels)
        losses.backward()  # of the sum: `step` divides by the batch size
        self.trainer.step(len(labels))
        return losses.mean().as_np_ndarray()

    def evaluate(self, images: np.ndarray, labels: np.ndarray) -> tuple:
        """Return loss and accuracy."""
        images, labels = self._arrays(images, labels)
        logits = self.model(images)
        results = self.loss(logits, labels), logits.argmax(axis=1) == labels
        return tuple(result.mean().as_np_ndarray() for result in results)

    def _arrays(self, images: np.ndarray, labels: np.ndarray) -> list[mxnet.nd.NDArray]:
        arrays = images.transpose(0, 3, 1, 2), labels.astype(np.float32)
        return [mxnet.nd.array(array, ctx=self.device) for array in arrays]


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
