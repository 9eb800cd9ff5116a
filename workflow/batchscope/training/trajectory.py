"""The trajectory of a training: losses and metrics on one grid of examples used."""

from collections.abc import Callable

import numpy as np

from batchscope.datasets import Dataset
from batchscope.study.batch_phases import Course
from batchscope.training.losses import Evaluated, Objective, together

# Of the training set, whose loss is evaluated: most of what an evaluation costs. The same examples
# for all runs, so that their number blurs no comparison of two runs.
MOST_EXAMPLES = 512


def evaluation_steps(every: int, epoch: int, course: Course) -> list[int]:
    """Returns the steps of an epoch, counted from 1, after which an evaluation stands.

    They are the first updates by which at least k * `every` examples were used since the training
    began, k = 1, 2, ...: the same grid of examples for every batch size, each evaluation late by
    less than a batch. None where `every` is 0.
    """
    if not every:
        return []
    used = epoch * course.examples + np.array(course.used(epoch), np.int64)
    return (np.flatnonzero(np.diff(used // every)) + 1).tolist()


def fixed_subset(examples: int) -> np.ndarray:
    order = np.random.default_rng(0).permutation(examples)
    return np.sort(order[:MOST_EXAMPLES])


def evaluator(validation: Objective, data: Dataset) -> Callable[[], dict[str, float]]:
    """Returns a function that gives a row's losses and metrics at the current weights.

    `validation` is the loss of the network that is trained; its graphs serve all splits. No
    evaluation changes weights or generators.
    """
    train = data.examples("train")
    subset = validation.over(train.rows(fixed_subset(len(train.labels))))
    evaluate = together([validation, subset, validation.over(data.examples("test"))])

    def row() -> dict[str, float]:
        own, train, test = evaluate()
        return {"train_loss": train[0], **named("validation", own), **named("test", test)}

    return row


def named(split: str, evaluated: Evaluated) -> dict[str, float]:
    loss, metrics = evaluated
    return {f"{split}_loss": loss, **{f"{split}_{name}": one for name, one in metrics.items()}}
