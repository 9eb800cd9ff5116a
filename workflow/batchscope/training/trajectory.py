"""Trajectory of a training: losses and metrics on one grid of examples used."""

from collections.abc import Callable

import numpy as np

from batchscope.datasets import Dataset
from batchscope.study.batch_phases import Course
from batchscope.training.losses import Evaluated, Objective, together

# Training examples of an evaluation, which dominate its cost. They are the same for all runs.
MAX_EXAMPLES = 512


def evaluation_steps(interval: int, epoch: int, course: Course) -> list[int]:
    """Return the steps of an epoch, from 1, after which the run is evaluated.

    They are the first updates after k * `interval` examples of the training, k = 1, 2, ...: the
    same grid for every batch size, late by less than a batch. An interval of 0 has none.
    """
    if not interval:
        return []
    used = epoch * course.examples + np.array(course.used(epoch), np.int64)
    return (np.flatnonzero(np.diff(used // interval)) + 1).tolist()


def fixed_subset(examples: int) -> np.ndarray:
    order = np.random.default_rng(0).permutation(examples)
    return np.sort(order[:MAX_EXAMPLES])


def evaluator(validation: Objective, data: Dataset) -> Callable[[], dict[str, float]]:
    """Return a function for the losses and metrics of a row at the current weights.

    `validation` is the loss of the trained network; its graphs serve all splits. An evaluation
    changes neither weights nor generators.
    """
    train = data.examples("train")
    subset = validation.over(train.rows(fixed_subset(len(train.labels))))
    evaluate = together([validation, subset, validation.over(data.examples("test"))])

    def row() -> dict[str, float]:
        validation, train, test = evaluate()
        losses = {"train_loss": train[0]}
        return {**losses, **named("validation", validation), **named("test", test)}

    return row


def named(split: str, evaluated: Evaluated) -> dict[str, float]:
    loss, metrics = evaluated
    return {f"{split}_loss": loss, **{f"{split}_{name}": value for name, value in metrics.items()}}
