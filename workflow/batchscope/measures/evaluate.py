"""Weights in; loss and metrics on every split out, dropout off, with the generalisation gap.

The gap is a difference of losses, their ratio, and a difference of the task's first metric. A new
metric goes into `study.tasks.METRICS`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope.measures import Measured, finite
from batchscope.study import tasks
from batchscope.study.specifications import (
    Column,
    Epoch,
    Figure,
    Measure,
    Panel,
    PositiveColumn,
    WeightsSettings,
)

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun


class EvaluateSettings(WeightsSettings):
    """Settings of `evaluate`."""

    epoch: Epoch = 0
    """Epoch after which to measure, given by `at_epochs`; 0 for `weights`."""


_TITLES = {"train": "Training", "validation": "Validation", "test": "Test"}


def _split_columns(split: str, first_metric_direction: str = "") -> dict[str, Column]:
    """Return the columns of a split.

    Args:
        first_metric_direction: Direction in which the first metric of each task should change with
            the batch size; every study tests it.
    """
    loss = f"{_TITLES[split]} loss"
    columns = {
        f"{split}_loss": PositiveColumn(f"Mean loss on the {split} split, dropout off.", label=loss)
    }
    for metric in tasks.METRICS.values():
        columns[f"{split}_{metric.name}"] = Column(
            f"{metric.doc.format(split=split)}.",
            metric.unit,
            label=f"{_TITLES[split]} {metric.words}",
            minimum=metric.minimum,
            maximum=metric.maximum,
            direction=first_metric_direction if metric in tasks.FIRST_METRICS else "",
        )
    return columns


ENTRY = Measure(
    version="evaluate-v1",
    settings=EvaluateSettings,
    columns={
        **_split_columns("train"),
        **_split_columns("validation"),
        **_split_columns("test", first_metric_direction="falls"),  # Keskar et al. 2017
        "generalisation_gap": Column(
            "test_loss - train_loss.",
            label="Generalisation gap",
            direction="rises",  # Keskar et al. 2017
        ),
        **{
            name: Column(f"train_{metric.name} - test_{metric.name}.", unit=metric.unit)
            for name, metric in tasks.GAPS.items()
        },
        "generalisation_gap_ratio": Column(
            "test_loss / train_loss; empty if the training loss is only rounding error."
        ),
    },
    at_epochs=True,
    outcomes=True,
    # `study.figures.for_tasks` fills the braces of texts with the words of the tasks' metrics. A
    # name `a|b` in `log_columns` requires a or b.
    figures=(
        Figure(
            "accuracy",
            "{metric}",
            "Quality",
            "{metric} on the training, validation and test data.{error}",
            panels=tuple(
                Panel(
                    f"{split}_{{metric}}",
                    title,
                    "{metric}{percent}",
                    counted_on=f"{split}_examples",
                )
                for split, title in _TITLES.items()
            ),
            log_columns=(
                "|".join(f"{split}_{name}" for name in tasks.METRICS for split in _TITLES),
            ),
        ),
        Figure(
            "generalisation_gap",
            "Generalisation gap",
            "Quality",
            "Gap between test and training data, in loss and in {first}: larger is worse.",
            panels=(
                Panel("generalisation_gap", "Loss, difference", "test − training loss{nats}"),
                Panel("generalisation_gap_ratio", "Loss, ratio", "test loss / training loss"),
                Panel(
                    "generalisation_gap_{first}",
                    "{first}, difference",
                    "training − test {first}{points}",
                ),
            ),
            log_columns=("|".join(["generalisation_gap", *tasks.GAPS]),),
        ),
    ),
    memory_mb=2000,
    order=1,
)

# A smaller mean loss is the rounding error of float32 probabilities near 1; no ratio uses it.
MIN_RATIO_LOSS = float(np.finfo(np.float32).eps)


def generalisation_gaps(metrics: dict[str, float], metric: str) -> dict[str, float | None]:
    """Return the three forms of the generalisation gap; larger values mean a larger gap.

    They are test loss - training loss, test loss / training loss, and training metric - test metric
    (accuracy for classes). A value is None if it is not finite. The ratio is also None if the
    training loss is only rounding error.
    """
    train, test = metrics["train_loss"], metrics["test_loss"]
    gaps = {
        "generalisation_gap": test - train,
        f"generalisation_gap_{metric}": metrics[f"train_{metric}"] - metrics[f"test_{metric}"],
        "generalisation_gap_ratio": test / train if train >= MIN_RATIO_LOSS else math.nan,
    }
    return finite(gaps)


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Evaluate a run on every split, with final or best weights or the weights after an epoch."""
    from batchscope.study import snapshot_epochs
    from batchscope.training import losses

    weights, epoch = settings["weights"], settings["epoch"]
    if epoch:
        weights = snapshot_epochs.weights_name(epoch, run.record["epochs_run"])
    examples = {split: run.data.examples(split) for split in tasks.SPLITS}
    objective = losses.Objective(run.model(weights), examples["train"])
    metrics: dict[str, float] = {}
    for split, rows in examples.items():
        metrics |= objective.with_examples(rows).evaluate_split(split)
    return Measured(metrics | generalisation_gaps(metrics, tasks.TASKS[run.data.task][0]))
