"""Trains a small network on scikit-learn's handwritten digits, in PyTorch, as one's own script may.

It knows nothing of Batchscope: it takes its settings as arguments and writes a CSV file.
"""

import argparse
import csv
import time
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

EVERY = 1024  # training examples between two evaluations

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, required=True)
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--out", type=Path, required=True)
args = parser.parse_args()

torch.manual_seed(args.seed)
digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
train, validation, test = order[:1197], order[1197:1497], order[1497:]

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
loss_of = nn.CrossEntropyLoss()


def evaluate(rows):
    """Returns loss and accuracy on some examples."""
    with torch.no_grad():
        outputs = model(images[rows])
    accuracy = (outputs.argmax(1) == labels[rows]).float().mean()
    return loss_of(outputs, labels[rows]).item(), accuracy.item()


with open(args.out / "metrics.csv", "w", newline="") as file:
    log = csv.writer(file)
    log.writerow(
        ["step", "examples", "seconds", "val_loss", "val_accuracy", "test_loss", "test_accuracy"]
    )
    begun, seconds, step, examples = time.perf_counter(), 0.0, 0, 0
    for _ in range(args.epochs):
        for batch in train[torch.randperm(len(train))].split(args.batch_size):
            optimizer.zero_grad()
            loss_of(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            step, examples = step + 1, examples + len(batch)
            if examples // EVERY > (examples - len(batch)) // EVERY:
                seconds += time.perf_counter() - begun  # evaluations apart
                log.writerow([step, examples, seconds, *evaluate(validation), *evaluate(test)])
                begun = time.perf_counter()
