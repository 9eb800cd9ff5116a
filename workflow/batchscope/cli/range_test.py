"""Short trainings before a new study: learning rates, batch sizes and a first guess."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from batchscope.core.errors import UserError
from batchscope.measures import noise_scale
from batchscope.study import new_study
from batchscope.study.new_study import Curve
from batchscope.training.probe import Probe, bytes_per_example, constant_losses

if TYPE_CHECKING:
    from batchscope.datasets import Dataset

_RATE_SECONDS, _LONG_SECONDS = 4.0, 30.0
_RATE_UPDATES, _MIN_UPDATES = 500, 30  # of the training at each rate
_EVALUATIONS = (8, 40)  # of that training
_SLOW_STEP = 1.0  # seconds of an update; larger batches are not timed


def explore(data: Dataset, model: Any, factors: dict[str, Any], memory: float) -> dict[str, Any]:
    """Return the grid of a new study, the first guess, and the numbers behind both.

    Args:
        factors: The optimizer and its constants.
        memory: Largest number of bytes of a training.

    Raises:
        UserError: If no learning rate predicts better than a constant.
    """
    probe = Probe(model, data, factors)
    examples = probe.examples
    most = int(max(1, min(memory / bytes_per_example(model), examples)))
    sizes = new_study.batch_sizes(examples, most)
    seconds = _step_seconds(probe, sizes, most)
    base = _middle(sizes, seconds)
    constant = float(constant_losses(probe.validation.labels, data.task)[0].mean())
    updates = max(math.ceil(examples / base), _RATE_UPDATES)
    updates = max(_MIN_UPDATES, min(updates, int(_RATE_SECONDS / seconds[base])))
    # As many forward passes as training examples.
    evaluations = updates * base // probe.validation.examples
    distance = max(1, updates // min(max(evaluations, _EVALUATIONS[0]), _EVALUATIONS[1]))
    stops = range(0, updates + 1, distance)
    curves: dict[float, Curve] = {}
    while rates := new_study.next_rates(curves, constant):
        for rate in rates:
            curves[rate] = _curve(probe, rate, base, stops, updates)
    best = new_study.best_rate(curves, constant)
    tried = {rate: curves[rate].lowest for rate in sorted(curves)}
    if best is None or not probe.learns(best, base, stops):
        raise UserError(_nothing_learned(tried, updates, base, constant))
    stops = range(0, max(updates, int(_LONG_SECONDS / seconds[base])) + 1, distance)
    long = _curve(probe, best, base, stops, updates)
    scales = _noise_scales(probe, best, base, long, constant)
    half = new_study.size_of_throughput(new_study.HALF, seconds)
    size = new_study.guessed_batch_size(statistics.geometric_mean(scales), half, sizes)
    evaluated = sum(data.record["counts"].values()) - examples
    epochs, interval = new_study.length(long, constant, sizes[-1] / base, examples, evaluated)
    return {
        "base": base,
        "best": best,
        "constant": constant,
        "lowest": long.lowest,
        "tried": tried,
        "sizes": sizes,
        "rates": new_study.rates(best, base, sizes),
        "epochs": epochs,
        "evaluate_every": interval,
        "guess": {
            "batch_size": size,
            "learning_rate": new_study.scaled_rate(best, size / base),
            "largest_batch_size": most,
            "half_throughput": half,
            "level_throughput": new_study.size_of_throughput(new_study.LEVEL, seconds),
            "noise_scale": [float(f"{scale:.2g}") for scale in scales],
        },
    }


def _step_seconds(probe: Probe, sizes: list[int], most: int) -> dict[int, float]:
    """Return the seconds of an update at powers of two, at least up to the middle of the sizes."""
    seconds: dict[int, float] = {}
    size = 1
    while size <= min(most, new_study.LARGEST):
        seconds[size] = probe.step_seconds(size)
        if seconds[size] > _SLOW_STEP and size >= sizes[(len(sizes) - 1) // 2]:
            break
        size *= 2
    return seconds


def _middle(sizes: list[int], seconds: dict[int, float]) -> int:
    """Return the upper one of the middle sizes, or the lower one if its updates take long."""
    lower, upper = sizes[(len(sizes) - 1) // 2], sizes[len(sizes) // 2]
    fast = seconds.get(upper, math.inf) * _RATE_UPDATES <= _RATE_SECONDS
    return upper if fast else lower


def _curve(probe: Probe, rate: float, size: int, stops: range, least: int) -> Curve:
    """Return the curve of a training, evaluated at numbers of updates.

    After the least number of updates, it ends after twice the examples of the lowest loss.
    """
    examples, losses = [], []
    for used, loss in probe.training(rate, size, stops):
        examples.append(used)
        losses.append(loss)
        if used > max(least * size, 2 * examples[losses.index(min(losses))]):
            break
    return Curve(tuple(examples), tuple(losses))


def _nothing_learned(tried: dict[float, float], updates: int, size: int, constant: float) -> str:
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

    If gradients are too noisy for an estimate, the number of examples is a lower bound.
    """
    falls = (new_study.HALF, new_study.FALL)
    examples = [
        curve.examples_to(new_study.loss_after(fall, constant, curve.lowest)) for fall in falls
    ]
    objective = probe.single_examples()
    scales = []
    for _ in probe.training(rate, size, [math.ceil(used / size) for used in examples]):
        scale = noise_scale.estimate_noise_scale(objective)[0].scale
        scales.append(max(scale, 1.0) if math.isfinite(scale) else float(objective.examples))
    return scales
