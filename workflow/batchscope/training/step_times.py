"""How long a step of a training takes, by a few of them: for estimates alone."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.datasets import Examples, Learned
from batchscope.datasets.model_inputs import ModelInput
from batchscope.study import tasks
from batchscope.study.example_kinds import IMAGES, OF_TOKENS, TOKENS
from batchscope.training import augmentations, models, optimizers
from batchscope.training.step_loop import Batches, StepLoop, Totals

_SECONDS = 0.2  # at least, of the repeated steps


def seconds(factors: dict[str, Any], look: ModelInput, model_file: Path | str | None) -> float:
    """Returns the seconds of a step, on examples that only have the shape of the data set's."""
    size = factors["batch_size"]
    model = models.build(
        factors["model"], look, factors["seed"], model_file, precision=factors["precision"]
    )
    augment = augmentations.layer(factors["augmentation"], factors["seed"])
    batches = Batches.of(factors, size, augment)
    # A loop ends early if its loss is no longer finite, which a rate of 0 prevents.
    optimizer = optimizers.make_optimizer({**factors, "learning_rate": 0.0})
    loop = StepLoop(model, optimizer, _examples(look, size), batches)
    loop.compile()
    return of_loop(loop, np.arange(size, dtype=np.int32))


def of_loop(loop: StepLoop, order: np.ndarray) -> float:
    """Return the seconds of a step of a loop, without the first one."""
    loop.run(order, 0, 1, Totals())
    steps, seconds = 1, 0.0
    while seconds < _SECONDS:
        steps = max(steps, int(steps * min(10.0, _SECONDS / max(seconds, 1e-6))))
        begun = time.perf_counter()
        loop.run(order, 0, steps, Totals())
        seconds = time.perf_counter() - begun
    return seconds / steps


def _examples(look: ModelInput, count: int) -> Examples:
    """Returns examples that a step takes as long with as with real ones."""
    random, shape = np.random.default_rng(0), (count, *look.input_shape)
    if look.kind in OF_TOKENS:
        examples = random.integers(0, look.largest + 1, shape, np.int32)
    elif look.kind == IMAGES:
        examples = random.integers(0, 256, shape, np.uint8)
    else:
        examples = random.normal(size=shape).astype(np.float32)
    learned = Learned(look.task, deviations=(1.0,) * look.classes)
    if look.task == tasks.REGRESSION:
        labels: Any = random.normal(size=(count, look.classes)).astype(np.float32)
    elif look.task == tasks.MULTI_LABEL:
        labels = random.integers(0, 2, (count, look.classes), np.int32)
    else:
        of_each = shape if look.kind == TOKENS else (count,)
        labels = random.integers(0, look.classes, of_each, np.int32)
    return Examples(examples, labels, 1 / 255 if look.kind == IMAGES else 1.0, learned)
