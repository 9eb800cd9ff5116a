"""What is learned of examples: the task of a data set, and what is counted beside its loss."""

from __future__ import annotations

from dataclasses import dataclass

CLASSIFICATION, REGRESSION, MULTI_LABEL = "classification", "regression", "multi_label"
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Metric:
    """What is counted of predictions beside their loss; `test_accuracy` is one on a split."""

    name: str  # of a column, after the split's
    words: str
    higher_is_better: bool
    share: bool = False  # whether it lies in [0, 1] and is shown as a percentage
    margin: float | None = None  # loss of it that counts as negligible; None where its unit decides


METRICS = {
    each.name: each
    for each in (
        Metric("accuracy", "accuracy", higher_is_better=True, share=True, margin=0.01),
        Metric("f1", "micro-F1", higher_is_better=True, share=True, margin=0.01),
        Metric("r2", "R²", higher_is_better=True, margin=0.01),
        Metric("mse", "mean squared error", higher_is_better=False),
        Metric("mae", "mean absolute error", higher_is_better=False),
    )
}
# Task -> its metrics; the first is what batch sizes are compared by.
TASKS: dict[str, tuple[str, ...]] = {
    CLASSIFICATION: ("accuracy",),
    REGRESSION: ("r2", "mse", "mae"),
    MULTI_LABEL: ("f1",),
}
# Value of the factor `loss_function` -> the tasks that it is for. The default is the task's own:
# the cross-entropy of classes, the mean squared error of numbers.
LOSSES = {"default": tuple(TASKS), **dict.fromkeys(("mse", "mae", "huber"), (REGRESSION,))}


def metric(column: str) -> Metric | None:
    """Returns the metric that a column is of, such as `test_accuracy`; None of any other column."""
    return METRICS.get(column.rpartition("_")[2])


def higher_is_better(column: str) -> bool:
    """Returns whether larger values of a loss or a metric are better: of no loss they are."""
    found = metric(column)
    return found is not None and found.higher_is_better


def columns(task: str, split: str) -> tuple[str, ...]:
    """Returns the columns of a task's loss and metrics on a split."""
    return (f"{split}_loss", *(f"{split}_{name}" for name in TASKS[task]))
