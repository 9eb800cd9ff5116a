"""Short trainings before a study is written: which rate falls fastest, and how far a loss falls.

Nothing of them is kept; their numbers only choose a grid.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.catalogue import run_factors
from batchscope.datasets import Dataset
from batchscope.errors import UserError
from batchscope.study import new_study
from batchscope.training import losses, models, optimizers
from batchscope.training.step_loop import Batches, StepLoop, Totals, epoch_order, steps_per_epoch

_RATE_SECONDS, _FALL_SECONDS = 6.0, 45.0  # of the training at each rate, and of the longer one
_LEAST_EPOCHS = 20  # of the longer one
_RATE_UPDATES = 500  # the fewest of the training at each rate
_COPIES = 4  # that an update holds of the outputs of layers: themselves, gradients, and room
_CALLS = 10  # into the graph in an epoch, between which the time is looked at


def explored(
    data: Dataset, token: str, model_file: Path | str | None, optimizer: str, memory: float
) -> dict[str, Any]:
    """Returns the grid of a new study, and the rate, the losses and the target behind it.

    Args:
        token: A built-in model's name, or that of the user's file.
        memory: Bytes that a training may take.

    Raises:
        UserError: If the model cannot be built, or no rate trains it.
    """
    tf.get_logger().setLevel("ERROR")  # that many models are traced is as meant
    examples = data.record["counts"]["train"]
    of_one = 4 * _COPIES * numbers_of_example(_network(data, token, model_file))
    sizes = new_study.batch_sizes(examples, memory / of_one)
    base = sizes[len(sizes) // 2 - 1]
    factors = {"model": token, "optimizer": optimizer, "batch_size": base}

    def training(rate: float, seconds: float) -> Iterator[tuple[float, float]]:
        given = {**factors, "learning_rate": rate}
        return validation_losses(data, given, model_file, seconds)

    after: dict[float, float] = {}
    for rate in new_study.RATES[2:-2]:
        shown = training(rate, _RATE_SECONDS)
        _, first = next(shown)
        for used, loss in shown:
            after[rate] = loss
            if used >= max(examples, _RATE_UPDATES * base):
                break
    best = new_study.best_rate(first, after)
    if best is None:
        received = f"{token}, whose validation loss stays at {first:.4g} and above at "
        tried = f"learning rates of {min(after)} to {max(after)}"
        raise UserError(f"MODEL: received {received}{tried}; a model that learns is expected.")
    used, fell = [], []
    for examples_used, loss in training(best, _FALL_SECONDS):
        used.append(examples_used)
        fell.append(loss)
        # As long again as to the lowest loss, without a lower one.
        if len(fell) > _LEAST_EPOCHS and fell.index(min(fell)) < len(fell) // 2:
            break
    falls = new_study.Falls(tuple(used), tuple(fell))
    evaluated = sum(data.record["counts"].values()) - examples
    return {
        "base": base,
        "best": best,
        "first": falls.losses[0],
        "lowest": falls.losses[falls.best],
        "target": falls.target(),
        "cases": new_study.cases(sizes, best, base, falls, examples, evaluated),
    }


def validation_losses(
    data: Dataset, factors: dict[str, Any], model_file: Path | str | None, seconds: float
) -> Iterator[tuple[float, float]]:
    """Yields examples used and validation loss: before a training, then after each of its epochs.

    It ends where the loss is not finite, which is yielded as infinite, or with the epoch in which
    the seconds are over, after the updates made by then.

    Args:
        factors: Model, optimizer, batch size and learning rate; others as their frozen defaults.
    """
    frozen = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    given = {**frozen, "seed": 0, "epochs": 1, **factors}
    model = _network(data, given["model"], model_file)
    train, size = data.examples("train"), given["batch_size"]
    examples = len(train.labels)
    loop = StepLoop(model, optimizers.make_optimizer(given), train, Batches(size))
    loop.compile()
    validation = losses.Objective(model, data.examples("validation"))
    yield 0, validation.evaluate()[0]
    steps, used, epoch = steps_per_epoch(examples, size), 0, 0
    ends = np.unique(np.linspace(0, steps, _CALLS + 1).astype(int))[1:].tolist()
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        order, start, totals = epoch_order(given["seed"], epoch, examples), 0, Totals()
        for stop in ends:
            _, totals, _, _ = loop.run(order, start, stop, totals)
            start = stop
            if time.monotonic() - begun >= seconds or not math.isfinite(totals.loss):
                break
        epoch, used = epoch + 1, used + min(start * size, examples)
        loss = validation.evaluate()[0] if math.isfinite(totals.loss) else math.inf
        yield used, loss if math.isfinite(loss) else math.inf
        if not math.isfinite(loss):
            return


def _network(data: Dataset, token: str, model_file: Path | str | None) -> keras.Model:
    with contextlib.redirect_stderr(io.StringIO()):  # what is to be said of it was said
        return models.build(token, data.look, 0, model_file)


def numbers_of_example(model: Any) -> int:
    """Returns the numbers that an update holds for each example, roughly: outputs of layers."""
    shapes = (tuple(tensor.shape)[1:] for layer in model.layers for tensor in _outputs(layer))
    return sum(math.prod(each or 1 for each in shape) for shape in shapes)


def _outputs(layer: Any) -> list[Any]:
    try:
        found = layer.output
    except AttributeError:  # a layer that was never called by itself
        return []
    return found if isinstance(found, list) else [found]
