"""The grid and the first guess of a new study, from the numbers of short trainings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LARGEST = 1024  # largest batch size of a first study
SIZES = 4
SEEDS, FIRST_SEEDS = 6, 3  # A verdict needs six. A long study begins with three.
LONG_SECONDS = 1800.0  # of a study that begins with fewer seeds
FALL = 0.9  # share of the fall from the constant predictor's loss to the lowest one
# A training may end after this share of the fall, if its loss is also near the lowest one.
_LEARNED, _NEAR = 0.95, 1.25
_SPARE = 1.5  # factor of the epochs, for seeds and rates that need more
_EVALUATIONS = 20  # on the way to nine tenths of the fall
_MAX_EVALUATED = 3  # examples evaluated per training example
HALF, LEVEL = 0.5, 0.9  # shares of the highest throughput
# Half decades from 0.000001 to 10. Those of the range test, and how many a study has.
RATES = tuple(float(f"{10 ** (half / 2):.0e}") for half in range(-12, 3))
TRIED = RATES[4:-2]
_GRID = 5


@dataclass(frozen=True)
class Curve:
    """Validation loss along one training, after numbers of examples in rising order."""

    examples: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def lowest(self) -> float:
        return min(self.losses)

    def examples_to(self, loss: float) -> float:
        """Return the examples until a loss is reached, interpolated; infinite if it never is."""
        for index, value in enumerate(self.losses):
            if value <= loss:
                if index == 0:
                    return self.examples[0]
                before, used = self.losses[index - 1], self.examples[index - 1]
                share = 1.0 if math.isinf(before) else (before - loss) / (before - value)
                return used + share * (self.examples[index] - used)
        return math.inf


def batch_sizes(examples: int, most: float) -> list[int]:
    """Return four batch sizes, two or four times apart.

    Args:
        examples: Training examples; the largest size makes at least four updates of them.
        most: Examples of a batch that fit into memory.
    """
    largest = 2 ** int(math.log2(max(1, min(examples // 4, most, LARGEST))))
    step = 4 if largest >= 4 ** (SIZES - 1) * 4 else 2
    return [largest // step**power for power in reversed(range(SIZES)) if largest // step**power]


def loss_after(fall: float, constant: float, lowest: float) -> float:
    return constant - fall * (constant - lowest)


def best_rate(curves: Mapping[float, Curve], constant: float) -> float | None:
    """Return the learning rate that is soonest at a common loss; None if no rate learns.

    The common loss is nine tenths of the fall from the constant predictor to the lowest loss of
    any rate. Later losses have no influence, so that a fast rate may overfit.
    """
    lowest = min(curve.lowest for curve in curves.values())
    if lowest >= constant:
        return None
    common = loss_after(FALL, constant, lowest)
    return min(sorted(curves), key=lambda rate: curves[rate].examples_to(common))


def next_rates(curves: Mapping[float, Curve], constant: float) -> list[float]:
    """Return the rates to try next: all at first, then one beyond a best rate at an end."""
    if not curves:
        return list(TRIED)
    best = best_rate(curves, constant)
    ends = {min(curves): -1, max(curves): 1}
    if best not in ends:
        return []
    index = RATES.index(best) + ends[best]
    return [RATES[index]] if 0 <= index < len(RATES) else []


def rates(best: float, base: int, sizes: Sequence[int]) -> list[float]:
    """Return five learning rates; the middle one is for the geometric mean of the sizes.

    The best rate grows as the square root of the batch size.

    Args:
        best: The best rate at the size `base`.
    """
    mean = math.exp(sum(map(math.log, sizes)) / len(sizes))
    middle = RATES.index(scaled_rate(best, mean / base))
    first = min(max(middle - _GRID // 2, 0), len(RATES) - _GRID)
    return list(RATES[first : first + _GRID])


def scaled_rate(rate: float, factor: float) -> float:
    target = math.log(rate) + math.log(factor) / 2
    return min(RATES, key=lambda candidate: abs(math.log(candidate) - target))


def length(
    curve: Curve, constant: float, growth: float, examples: int, evaluated: int
) -> tuple[int, int]:
    """Return the epochs of every run, and the training examples between two evaluations.

    Args:
        curve: Of a training at the best rate of a middle size.
        growth: Largest batch size over that size. It needs more examples, by the square root.
        examples: Training examples.
        evaluated: Examples of an evaluation.
    """
    near = min(loss_after(_LEARNED, constant, curve.lowest), _NEAR * curve.lowest)
    learned = curve.examples_to(near)
    epochs = max(1, math.ceil(_SPARE * learned * math.sqrt(growth) / examples))
    fallen = curve.examples_to(loss_after(FALL, constant, curve.lowest))
    return epochs, _rounded(max(fallen / _EVALUATIONS, evaluated / _MAX_EVALUATED))


def _rounded(value: float) -> int:
    digits = max(0, math.floor(math.log10(max(value, 1))) - 1)
    return max(1, round(value / 10**digits)) * 10**digits


def size_of_throughput(share: float, step_seconds: Mapping[int, float]) -> int:
    throughput = {size: size / seconds for size, seconds in step_seconds.items()}
    return min(size for size in throughput if throughput[size] >= share * max(throughput.values()))


def guessed_batch_size(noise_scale: float, half: int, sizes: Sequence[int]) -> int:
    """Return the power of two nearest to sqrt(B_noise a / b), within the range of the sizes.

    With 1 + B_noise / B updates to a loss and a + b B seconds for each of them, this size is the
    soonest there. At B = a / b the throughput is half of the highest.
    """
    size = 2 ** round(math.log2(max(1.0, math.sqrt(noise_scale * half))))
    return min(max(size, sizes[0]), sizes[-1])
