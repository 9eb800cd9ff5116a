"""Evaluate a training at regular numbers of examples. Each row of `trajectory.csv` is one."""

from collections.abc import Callable

import numpy as np

from batchscope.datasets import Dataset
from batchscope.study.batch_phases import Course
from batchscope.training.losses import Evaluation, Objective, joint_evaluation

# Largest number of training examples in an evaluation. All runs use the same examples.
MAX_EXAMPLES = 512


def evaluation_steps(interval: int, epoch: int, course: Course) -> list[int]:
    """Return the steps of an epoch, counted from 1, after which the run is evaluated.

    They are the first updates at or after k * `interval` examples of the training, k = 1, 2, ...
    An evaluation is late by less than a batch. An interval of 0 has no evaluations.
    """
    if not interval:
        return []
    used = epoch * course.examples + np.array(course.example_positions(epoch), np.int64)
    return (np.flatnonzero(np.diff(used // interval)) + 1).tolist()


def fixed_subset(examples: int) -> np.ndarray:
    order = np.random.default_rng(0).permutation(examples)
    return np.sort(order[:MAX_EXAMPLES])


def make_evaluator(validation: Objective, data: Dataset) -> Callable[[], dict[str, float]]:
    """Return a function that computes the losses and metrics of a row at the current weights.

    All splits use the graphs of the validation objective. An evaluation changes neither weights nor
    generators.
    """
    train = data.examples("train")
    subset = validation.with_examples(train.rows(fixed_subset(len(train.labels))))
    test = validation.with_examples(data.examples("test"))
    evaluate = joint_evaluation([validation, subset, test])

    def row() -> dict[str, float]:
        validation, train, test = evaluate()
        evaluated = columns_of_split("validation", validation) | columns_of_split("test", test)
        return {"train_loss": train[0], **evaluated}

    return row


def columns_of_split(split: str, evaluation: Evaluation) -> dict[str, float]:
    loss, metrics = evaluation
    return {f"{split}_loss": loss, **{f"{split}_{name}": value for name, value in metrics.items()}}
