"""Measure the seconds of a training step on random examples, for estimates of times."""

import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

from batchscope.datasets import Examples, TaskInfo
from batchscope.datasets.model_inputs import ModelInput
from batchscope.study import tasks
from batchscope.study.example_kinds import IMAGES, TOKEN_KINDS, TOKENS
from batchscope.training import augmentations, models, optimizers
from batchscope.training.step_loop import StepLoop, Totals, UpdateSettings

_MIN_SECONDS = 0.2  # shortest time of the repeated steps


def step_seconds(
    factors: dict[str, Any], model_input: ModelInput, model_file: Path | str | None
) -> float:
    """Return the seconds of a step of a run, on random examples of the data set's shape."""
    token, seed, precision = factors["model"], factors["seed"], factors["precision"]
    model = models.build(token, model_input, seed, model_file, precision=precision)
    loop = step_loop(model, factors, model_input)
    return loop_seconds(loop, np.arange(factors["batch_size"], dtype=np.int32))


def step_loop(model: keras.Model, factors: dict[str, Any], model_input: ModelInput) -> StepLoop:
    """Return the step loop of a run over one batch of random examples, with a rate of 0."""
    augment = augmentations.random_layer(factors["augmentation"], factors["seed"])
    settings = UpdateSettings.from_factors(factors, factors["batch_size"], augment)
    # With a rate of 0, the loss stays finite. The loop would otherwise end early.
    optimizer = optimizers.make_optimizer({**factors, "learning_rate": 0.0})
    examples = _random_examples(model_input, factors["batch_size"])
    return StepLoop(model, optimizer, examples, settings)


def loop_seconds(loop: StepLoop, order: np.ndarray) -> float:
    """Return the mean seconds of a step of a loop, after a first step that is not timed."""
    loop.run(order, 0, 1, Totals())
    steps, seconds = 1, 0.0
    while seconds < _MIN_SECONDS:
        steps = max(steps, int(steps * min(10.0, _MIN_SECONDS / max(seconds, 1e-6))))
        begun = time.perf_counter()
        loop.run(order, 0, steps, Totals())
        seconds = time.perf_counter() - begun
    return seconds / steps


def _random_examples(model_input: ModelInput, count: int) -> Examples:
    random, shape = np.random.default_rng(0), (count, *model_input.input_shape)
    if model_input.kind in TOKEN_KINDS:
        largest = model_input.classes - 1 if model_input.kind == TOKENS else model_input.largest
        examples = random.integers(0, largest + 1, shape, np.int32)
        examples[:, 0] = largest  # An embedding of too few tokens must fail.
    elif model_input.kind == IMAGES:
        examples = random.integers(0, 256, shape, np.uint8)
    else:
        examples = random.normal(size=shape).astype(np.float32)
    labels_shape = shape if model_input.kind == TOKENS else (count,)
    if model_input.task != tasks.CLASSIFICATION:
        labels_shape = (count, model_input.classes)
    task_info = TaskInfo(model_input.task, deviations=(1.0,) * model_input.classes)
    scale = 1 / 255 if model_input.kind == IMAGES else 1.0
    return Examples(examples, np.zeros(labels_shape, np.int32), scale, task_info)
