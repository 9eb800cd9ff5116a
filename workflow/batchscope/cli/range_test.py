"""Range test for a new study: short trainings in; learning rates, batch sizes and a guess out."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from batchscope.core.errors import UserError
from batchscope.measures import noise_scale
from batchscope.study import new_study
from batchscope.study.new_study import Curve
from batchscope.training import step_loop
from batchscope.training.probe import Probe, bytes_per_example, constant_losses

if TYPE_CHECKING:
    from batchscope.datasets import Dataset

_RATE_SECONDS, _LONG_SECONDS = 4.0, 30.0  # longest training at each rate, and at the best rate
_RATE_UPDATES, _MIN_UPDATES = 500, 30  # numbers of updates of the training at each rate
_EVALUATIONS = (8, 40)  # smallest and largest number of evaluations of this training
_SLOW_STEP = 1.0  # If an update takes longer, larger batches are not timed.


def explore(data: Dataset, model: Any, factors: dict[str, Any], memory: float) -> dict[str, Any]:
    """Return the grid of a new study, a guess of the batch size, and the numbers behind both.

    Args:
        factors: The optimizer and its constants.
        memory: Largest number of bytes that a training may use.

    Raises:
        UserError: If no learning rate predicts better than a constant.
    """
    probe = Probe(model, data, factors)
    examples = probe.examples
    max_size = int(max(1, min(memory / bytes_per_example(model), examples)))
    sizes = new_study.batch_sizes(examples, max_size)
    seconds = _step_seconds(probe, sizes, max_size)
    base = _middle_size(sizes, seconds)
    constant = float(constant_losses(probe.validation.labels, data.task)[0].mean())
    updates = max(math.ceil(examples / base), _RATE_UPDATES)
    updates = max(_MIN_UPDATES, min(updates, int(_RATE_SECONDS / seconds[base])))
    # The evaluations use about as many examples as the updates.
    evaluations = updates * base // probe.validation.examples
    distance = max(1, updates // min(max(evaluations, _EVALUATIONS[0]), _EVALUATIONS[1]))
    stops = range(0, updates + 1, distance)
    curves: dict[float, Curve] = {}
    while rates := new_study.next_rates(curves, constant):
        for rate in rates:
            curves[rate] = _training_curve(probe, rate, base, stops, updates)
    best = new_study.best_rate(curves, constant)
    tried = {rate: curves[rate].lowest for rate in sorted(curves)}
    if best is None or not probe.is_better_than_constant(best, base, stops):
        raise UserError(_nothing_learned_message(tried, updates, base, constant))
    stops = range(0, max(updates, int(_LONG_SECONDS / seconds[base])) + 1, distance)
    curve = _training_curve(probe, best, base, stops, updates)
    scales = _noise_scales(probe, best, base, curve, constant)
    half = new_study.size_of_throughput(new_study.HALF_SHARE, seconds)
    size = new_study.guessed_batch_size(statistics.geometric_mean(scales), half, sizes)
    evaluated = sum(data.record["counts"].values()) - examples
    epochs, interval, needed_epochs = new_study.training_length(
        curve, constant, sizes[-1] / base, examples, evaluated
    )
    return {
        "base": base,
        "best": best,
        "constant": constant,
        "lowest": curve.lowest,
        "tried": tried,
        "sizes": sizes,
        "rates": new_study.rate_grid(best, base, sizes),
        "epochs": epochs,
        "updates": epochs * step_loop.steps_per_epoch(examples, sizes[-1]),
        "needed_epochs": needed_epochs,
        "epoch_reserve": new_study.EPOCH_RESERVE,
        "evaluate_every": interval,
        "guess": {
            "batch_size": size,
            "learning_rate": new_study.scaled_rate(best, size / base),
            "largest_batch_size": max_size,
            "half_throughput": half,
            "level_throughput": new_study.size_of_throughput(new_study.LEVEL_SHARE, seconds),
            "noise_scale": [float(f"{scale:.2g}") for scale in scales],
        },
    }


def _step_seconds(probe: Probe, sizes: list[int], max_size: int) -> dict[int, float]:
    """Return the seconds of an update at powers of two, at least up to the middle of the sizes."""
    seconds: dict[int, float] = {}
    size = 1
    while size <= min(max_size, new_study.MAX_BATCH_SIZE):
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
    falls = (new_study.HALF_SHARE, new_study.FALL_SHARE)
    examples = [
        curve.examples_to(new_study.loss_after(fall, constant, curve.lowest)) for fall in falls
    ]
    objective = probe.single_examples()
    scales = []
    for _ in probe.training(rate, size, [math.ceil(used / size) for used in examples]):
        scale = noise_scale.estimate_noise_scale(objective)[0].scale
        scales.append(max(scale, 1.0) if math.isfinite(scale) else float(objective.examples))
    return scales
