"""Loss and metrics of a run's weights on train, validation and test data, without dropout."""

import math
from typing import Any

import numpy as np

from batchscope.catalogue import kept_epochs, tasks
from batchscope.measures import FinishedRun, Measured, finite
from batchscope.store import paths
from batchscope.training import losses, trajectory

# A mean loss below the rounding of a float32 probability near 1 has no digits of its own.
SMALLEST_LOSS = float(np.finfo(np.float32).eps)


def generalisation_gaps(metrics: dict[str, float], metric: str) -> dict[str, float | None]:
    """Returns the three forms of the generalisation gap; all grow with it.

    Losses as difference and as ratio, test to training, and the task's first metric (of classes
    the accuracy) as difference, training to test. None stands for what is not finite, and for the
    ratio where the training loss is no more than rounding.
    """
    train, test = metrics["train_loss"], metrics["test_loss"]
    gaps = {
        "generalisation_gap": test - train,
        f"generalisation_gap_{metric}": metrics[f"train_{metric}"] - metrics[f"test_{metric}"],
        "generalisation_gap_ratio": test / train if train >= SMALLEST_LOSS else math.nan,
    }
    return finite(gaps)


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Evaluates a run, by its last weights or those of an epoch."""
    which, epoch = settings["weights"], settings["epoch"]
    if epoch:
        which = kept_epochs.weights_name(epoch, run.record["epochs_run"])
    examples = {split: run.data.examples(split) for split in paths.SPLITS}
    objective = losses.Objective(run.model(which), examples["train"])
    metrics: dict[str, float] = {}
    for split, rows in examples.items():
        metrics |= trajectory.named(split, objective.over(rows).evaluate())
    counts = {split: len(rows.labels) for split, rows in examples.items()}
    gaps = generalisation_gaps(metrics, tasks.TASKS[run.data.task][0])
    return Measured({**metrics, **gaps}, {"counts": counts})
