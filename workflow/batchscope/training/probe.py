"""Short trainings before a study is written: which rate falls fastest, and how far a loss falls.

Nothing of them is kept; their numbers only choose a grid.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.catalogue import run_factors
from batchscope.datasets import Dataset
from batchscope.training import losses, models, optimizers
from batchscope.training.step_loop import Batches, StepLoop, Totals, epoch_order, steps_per_epoch

_CALLS = 10  # into the graph in an epoch, between which the time is looked at


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
    model = models.build(given["model"], data.look, given["seed"], model_file)
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
