"""Range test for a new study: short trainings in; learning rates, batch sizes and a guess out.

`explore` runs the trainings. The functions after them choose from their losses, without TensorFlow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batchscope.core.errors import UserError
from batchscope.measures import noise_scale
from batchscope.study import tasks

if TYPE_CHECKING:
    from batchscope.datasets import Dataset
    from batchscope.training.trials import Probe

MAX_BATCH_SIZE = 1024  # largest batch size of a new study
SIZE_COUNT = 4  # number of batch sizes of a new study
SEEDS, FIRST_SEEDS = 6, 3  # A verdict needs six. A long study begins with three.
LONG_SECONDS = 1800.0  # A study that takes longer begins with fewer seeds.
# Trainings are compared at this share of the fall from the constant predictor's loss to the lowest.
FALL_SHARE = 0.9
# A training may end after this share of the fall, if its loss is also near the lowest one.
_FALL_AT_END, _MAX_LOSS_RATIO = 0.95, 1.25
EPOCH_RESERVE = 1.5  # Some seeds and rates need more epochs, by this factor.
_USUAL_ACCURACY = 0.9  # The margin of the accuracy assumes it.
_EVALUATIONS_TO_FALL = 20  # number of evaluations until `FALL_SHARE` is reached
_MAX_EVALUATED = 3  # largest number of evaluated examples per training example
HALF_SHARE, LEVEL_SHARE = 0.5, 0.9  # shares of the highest throughput; at .9 it levels off
# Learning rates are half decades from 0.000001 to 10.
RATES = tuple(float(f"{10 ** (half / 2):.0e}") for half in range(-12, 3))
FIRST_RATES = RATES[4:-2]  # rates of the range test
_RATE_COUNT = 5  # number of learning rates of a new study
_RATE_SECONDS, _BEST_RATE_SECONDS = 4.0, 30.0  # longest training at each rate, and at the best rate
_RATE_UPDATES, _MIN_UPDATES = 500, 30  # numbers of updates of the training at each rate
_EVALUATION_RANGE = (8, 40)  # smallest and largest number of evaluations of this training
_SLOW_STEP = 1.0  # If an update takes longer, larger batches are not timed.


@dataclass(frozen=True)
class Curve:
    """Validation losses of one training after rising numbers of examples."""

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


def explore(data: Dataset, model: Any, factors: dict[str, Any], memory: float) -> dict[str, Any]:
    """Return the grid of a new study, a guess of the batch size, and the numbers behind both.

    Args:
        factors: The optimizer and its constants.
        memory: Largest number of bytes that a training may use.

    Raises:
        UserError: If no learning rate predicts better than a constant.
    """
    from batchscope.training.trials import Probe, bytes_per_example, constant_losses

    probe = Probe(model, data, factors)
    examples = probe.examples
    max_size = int(max(1, min(memory / bytes_per_example(model), examples)))
    sizes = batch_sizes(examples, max_size)
    seconds = _step_seconds(probe, sizes, max_size)
    base = _middle_size(sizes, seconds)
    constant = float(constant_losses(probe.validation.labels, data.task)[0].mean())
    updates = max(math.ceil(examples / base), _RATE_UPDATES)
    updates = max(_MIN_UPDATES, min(updates, int(_RATE_SECONDS / seconds[base])))
    # The evaluations use about as many examples as the updates.
    evaluations = updates * base // probe.validation.examples
    distance = max(1, updates // min(max(evaluations, _EVALUATION_RANGE[0]), _EVALUATION_RANGE[1]))
    stops = range(0, updates + 1, distance)
    curves: dict[float, Curve] = {}
    while rates := next_rates(curves, constant):
        for rate in rates:
            curves[rate] = _training_curve(probe, rate, base, stops, updates)
    best = best_rate(curves, constant)
    tried = {rate: curves[rate].lowest for rate in sorted(curves)}
    if best is None or not probe.is_better_than_constant(best, base, stops):
        raise UserError(_nothing_learned_message(tried, updates, base, constant))
    stops = range(0, max(updates, int(_BEST_RATE_SECONDS / seconds[base])) + 1, distance)
    curve = _training_curve(probe, best, base, stops, updates)
    scales = _noise_scales(probe, best, base, curve, constant)
    half = size_of_throughput(HALF_SHARE, seconds)
    size = guessed_batch_size(statistics.geometric_mean(scales), half, sizes)
    evaluated = sum(data.record["counts"].values()) - examples
    epochs, interval, needed_epochs = training_length(
        curve, constant, sizes[-1] / base, examples, evaluated
    )
    return {
        "base": base,
        "best": best,
        "constant": constant,
        "lowest": curve.lowest,
        "tried": tried,
        "sizes": sizes,
        "rates": rate_grid(best, base, sizes),
        "epochs": epochs,
        "updates": epochs * math.ceil(examples / sizes[-1]),
        "needed_epochs": needed_epochs,
        "epoch_reserve": EPOCH_RESERVE,
        "evaluate_every": interval,
        "guess": {
            "batch_size": size,
            "learning_rate": scaled_rate(best, size / base),
            "largest_batch_size": max_size,
            "half_throughput": half,
            "level_throughput": size_of_throughput(LEVEL_SHARE, seconds),
            "noise_scale": [float(f"{scale:.2g}") for scale in scales],
        },
    }


def _step_seconds(probe: Probe, sizes: list[int], max_size: int) -> dict[int, float]:
    """Return the seconds of an update at powers of two, at least up to the middle of the sizes."""
    seconds: dict[int, float] = {}
    size = 1
    while size <= min(max_size, MAX_BATCH_SIZE):
        seconds[size] = probe.step_seconds(size)
        if seconds[size] > _SLOW_STEP and size >= sizes[(len(sizes) - 1) // 2]:
            break
        size *= 2
    return seconds


def _middle_size(sizes: list[int], seconds: dict[int, float]) -> int:
    """Return the upper middle size, or the lower one if updates of the upper one take long."""
    lower, upper = sizes[(len(sizes) - 1) // 2], sizes[len(sizes) // 2]
    is_fast = seconds.get(upper, math.inf) * _RATE_UPDATES <= _RATE_SECONDS
    return upper if is_fast else lower


def _training_curve(probe: Probe, rate: float, size: int, stops: range, min_updates: int) -> Curve:
    """Return the losses of a training, evaluated after numbers of updates.

    After `min_updates`, the training ends at twice the examples of its lowest loss.
    """
    examples, losses = [], []
    for used, loss in probe.training(rate, size, stops):
        examples.append(used)
        losses.append(loss)
        if used > max(min_updates * size, 2 * examples[losses.index(min(losses))]):
            break
    return Curve(tuple(examples), tuple(losses))


def _nothing_learned_message(
    tried: dict[float, float], updates: int, size: int, constant: float
) -> str:
    lowest = ", ".join(f"{loss:.4g} at {rate:g}" for rate, loss in tried.items())
    return (
        f"MODEL: received a network that learned nothing in {updates} updates of {size} examples: "
        f"the lowest validation losses were {lowest}; one clearly below {constant:.4g} (a constant "
        "prediction) is expected. Try more examples, another model or another --optimizer, or "
        "check the labels."
    )


def _noise_scales(
    probe: Probe, rate: float, size: int, curve: Curve, constant: float
) -> list[float]:
    """Return the gradient noise scale after a half and after nine tenths of the fall of the loss.

    If the gradients are too noisy for an estimate, use the number of examples as a lower bound.
    """
    falls = (HALF_SHARE, FALL_SHARE)
    examples = [curve.examples_to(loss_after(fall, constant, curve.lowest)) for fall in falls]
    objective = probe.single_examples()
    scales = []
    for _ in probe.training(rate, size, [math.ceil(used / size) for used in examples]):
        scale = noise_scale.estimate_noise_scale(objective)[0].scale
        scales.append(max(scale, 1.0) if math.isfinite(scale) else float(objective.examples))
    return scales


def batch_sizes(examples: int, most: float) -> list[int]:
    """Return four batch sizes, two or four times apart.

    Args:
        examples: Training examples; the largest size makes at least four updates of them.
        most: Examples of a batch that fit into memory.
    """
    largest = 2 ** int(math.log2(max(1, min(examples // 4, most, MAX_BATCH_SIZE))))
    step = 4 if largest >= 4 ** (SIZE_COUNT - 1) * 4 else 2
    sizes = [largest // step**power for power in reversed(range(SIZE_COUNT))]
    return [size for size in sizes if size]


def loss_after(fall: float, constant: float, lowest: float) -> float:
    """Return the loss after a share of the fall from the constant predictor's to the lowest one."""
    return constant - fall * (constant - lowest)


def best_rate(curves: Mapping[float, Curve], constant: float) -> float | None:
    """Return the learning rate that is soonest at a common loss; None if no rate learns.

    The common loss is nine tenths of the fall from the constant predictor to the lowest loss of
    any rate. Later losses have no influence, so that a fast rate may overfit.
    """
    lowest = min(curve.lowest for curve in curves.values())
    if lowest >= constant:
        return None
    common = loss_after(FALL_SHARE, constant, lowest)
    return min(sorted(curves), key=lambda rate: curves[rate].examples_to(common))


def next_rates(curves: Mapping[float, Curve], constant: float) -> list[float]:
    """Return the rates to try next: all at first, then one beyond a best rate at an end."""
    if not curves:
        return list(FIRST_RATES)
    best = best_rate(curves, constant)
    ends = {min(curves): -1, max(curves): 1}
    if best not in ends:
        return []
    index = RATES.index(best) + ends[best]
    return [RATES[index]] if 0 <= index < len(RATES) else []


def rate_grid(best: float, base: int, sizes: Sequence[int]) -> list[float]:
    """Return five learning rates; the middle one suits the geometric mean of the batch sizes.

    The best rate grows as the square root of the batch size.

    Args:
        best: Best rate at the batch size `base`.
    """
    mean = math.exp(sum(map(math.log, sizes)) / len(sizes))
    middle = RATES.index(scaled_rate(best, mean / base))
    first = min(max(middle - _RATE_COUNT // 2, 0), len(RATES) - _RATE_COUNT)
    return list(RATES[first : first + _RATE_COUNT])


def scaled_rate(rate: float, factor: float) -> float:
    """Return the rate of `RATES` at a batch size that is larger by a factor, by the square root."""
    target = math.log(rate) + math.log(factor) / 2
    return min(RATES, key=lambda candidate: abs(math.log(candidate) - target))


def training_length(
    curve: Curve, constant: float, growth: float, examples: int, evaluated: int
) -> tuple[int, int, float]:
    """Return the length of every run and what it follows from.

    The three numbers are the epochs of every run, the training examples between two evaluations,
    and the epochs that the curve's training needed.

    Args:
        curve: Losses of a training at the best rate of a middle batch size.
        growth: Largest batch size over that size. It needs more examples, by the square root.
        examples: Training examples.
        evaluated: Examples of an evaluation.
    """
    final = min(loss_after(_FALL_AT_END, constant, curve.lowest), _MAX_LOSS_RATIO * curve.lowest)
    needed = curve.examples_to(final)
    epochs = max(1, math.ceil(EPOCH_RESERVE * needed * math.sqrt(growth) / examples))
    fall = curve.examples_to(loss_after(FALL_SHARE, constant, curve.lowest))
    interval = _rounded_to_two_digits(max(fall / _EVALUATIONS_TO_FALL, evaluated / _MAX_EVALUATED))
    return epochs, interval, needed / examples


def accuracy_margin(test_examples: int) -> float | None:
    """Return the margin of the test accuracy; None if the default margin is large enough.

    It is the smallest whole percentage above the standard error sqrt(p (1 - p) / n) of an accuracy
    of p = 90 % on n test examples. Smaller differences are noise of the test set.
    """
    error = math.sqrt(_USUAL_ACCURACY * (1 - _USUAL_ACCURACY) / test_examples)
    margin = (math.floor(100 * error) + 1) / 100
    return margin if margin > tasks.METRICS["accuracy"].margin else None


def _rounded_to_two_digits(value: float) -> int:
    digits = max(0, math.floor(math.log10(max(value, 1))) - 1)
    return max(1, round(value / 10**digits)) * 10**digits


def size_of_throughput(share: float, step_seconds: Mapping[int, float]) -> int:
    throughput = {size: size / seconds for size, seconds in step_seconds.items()}
    return min(size for size in throughput if throughput[size] >= share * max(throughput.values()))


def guessed_batch_size(noise_scale: float, half: int, sizes: Sequence[int]) -> int:
    """Return the power of two nearest to sqrt(B_noise a / b), within the range of the sizes.

    A loss takes 1 + B_noise / B updates, in units of the fewest, and each update a + b B seconds.
    This size takes the least time. At B = a / b, `half`, the throughput is half of the highest.
    """
    size = 2 ** round(math.log2(max(1.0, math.sqrt(noise_scale * half))))
    return min(max(size, sizes[0]), sizes[-1])
