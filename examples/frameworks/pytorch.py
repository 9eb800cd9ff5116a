"""Train one of two small networks in PyTorch; log losses, examples and seconds as CSV."""

import argparse
import sys
import time
from pathlib import Path

sys.path.pop(0)  # this folder: its files have the names of packages

import numpy as np
import torch
from torch import nn
from torch.nn import functional


def build(network: str) -> nn.Sequential:
    """Return a network up to its logits, for images of 32x32 pixels."""
    if network == "mlp":
        layers = [nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(512, 10))
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1152, 128), nn.ReLU(), nn.Linear(128, 10))


class Trainer:
    """A network and its updates by stochastic gradient descent."""

    def __init__(self, network: str, rate: float, seed: int) -> None:
        torch.manual_seed(seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = build(network)
        for layer in self.model:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        self.model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), rate)

    def update(self, images: np.ndarray, labels: np.ndarray) -> torch.Tensor:
        """Make one update; return the loss before it, without waiting for the device."""
        loss = functional.cross_entropy(*self._forward(images, labels))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, images: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Return loss and accuracy."""
        logits, labels = self._forward(images, labels)
        return functional.cross_entropy(logits, labels), (logits.argmax(1) == labels).float().mean()

    def _forward(self, images: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.from_numpy(images).permute(0, 3, 1, 2).to(self.device)
        return self.model(images), torch.from_numpy(labels).long().to(self.device)


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
