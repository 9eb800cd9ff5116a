"""The grid of a new study, by what short trainings on its data showed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LARGEST = 1024  # examples of a batch, beyond which a first study does not go
SIZES = 4
SEEDS, FIRST_SEEDS = 6, 3  # what a verdict needs; where they take long, the first of them
LONG_SECONDS = 1800.0  # of a study, from which on it begins with fewer seeds
_NEARLY = 0.005  # of a fall
_UPDATES = 20  # evaluations on the way to the target
# Learning rates that are tried and listed: half decades, 0.00001 to 10.
RATES = tuple(float(f"{10 ** (half / 2):.0e}") for half in range(-10, 3))


@dataclass(frozen=True)
class Falls:
    """How the validation loss fell in one training: after so many examples, in order."""

    examples: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def best(self) -> int:
        """Index of the lowest loss."""
        return min(range(len(self.losses)), key=self.losses.__getitem__)

    def target(self) -> float:
        """Returns a loss on the way: nine tenths of the fall, rounded up to three digits."""
        first, lowest = self.losses[0], self.losses[self.best]
        wanted = lowest + 0.1 * (first - lowest)
        digits = 2 - math.floor(math.log10(abs(wanted)))
        return math.ceil(wanted * 10**digits) / 10**digits

    def until(self, loss: float) -> float:
        """Returns the examples until a loss was reached, between two evaluations on a line."""
        for index, value in enumerate(self.losses):
            if value <= loss:
                if index == 0:
                    return self.examples[0]
                before, used = self.losses[index - 1], self.examples[index - 1]
                share = (before - loss) / (before - value)
                return used + share * (self.examples[index] - used)
        return math.inf


def batch_sizes(examples: int, most: float) -> list[int]:
    """Returns four sizes, each twice or four times the one before.

    Args:
        examples: Training examples; the largest size makes four updates of them at least.
        most: Examples of a batch that fit the memory.
    """
    largest = 2 ** int(math.log2(max(1, min(examples // 4, most, LARGEST))))
    step = 4 if largest >= 4 ** (SIZES - 1) * 4 else 2
    return [largest // step**power for power in reversed(range(SIZES)) if largest // step**power]


def best_rate(first: float, after: dict[float, float]) -> float | None:
    """Returns the largest rate by which a loss falls nearly as far as by any; None if by none.

    Where it falls alike by several rates, a larger one is sooner at a target.

    Args:
        first: The loss before the trainings.
        after: Rate -> the loss after its training.
    """
    lowest = min(after.values())
    near = lowest + _NEARLY * (first - lowest)
    return max(rate for rate, loss in after.items() if loss <= near) if lowest < first else None


def rates(best: float, base: int, size: int) -> list[float]:
    """Returns three learning rates around the best one, which grows as the root of the size."""
    shift = round(math.log10(size / base))  # half decades of the root
    middle = min(max(RATES.index(best) + shift, 1), len(RATES) - 2)
    return list(RATES[middle - 1 : middle + 2])


def cases(
    sizes: Sequence[int], best: float, base: int, falls: Falls, examples: int, evaluated: int
) -> list[dict[str, Any]]:
    """Returns a case for each size: its rates, epochs and how often it is evaluated.

    A training goes on to twice the examples that the target took. Larger batches make fewer
    updates of them, so they get more epochs, by the root of the size.

    Args:
        best: The best rate at the base size.
        evaluated: Examples of an evaluation, whose forward passes cost a third of training.
    """
    needed = max(falls.until(falls.target()), falls.examples[1])
    every = max(needed / _UPDATES, 2 * evaluated / 3)
    found = []
    for size in sizes:
        more = max(1.0, math.sqrt(size / base))
        epochs = max(1, math.ceil(2 * needed * more / examples))
        often = max(_rounded(every * more), size)
        rate = rates(best, base, size)
        found.append({"batch_size": size, "epochs": epochs, "evaluate_every": often, "rates": rate})
    return found


def _rounded(value: float) -> int:
    """Returns a positive number to two digits."""
    digits = max(0, math.floor(math.log10(max(value, 1))) - 1)
    return max(1, round(value / 10**digits)) * 10**digits
