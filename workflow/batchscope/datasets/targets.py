"""Labels other than single classes: numbers to predict, and several labels per example."""

from typing import Any

import numpy as np

from batchscope.datasets import kinds
from batchscope.datasets.kinds import LARGEST, Labels, labels_per_example
from batchscope.datasets.raw import Pair, Raw
from batchscope.errors import unexpected
from batchscope.study import tasks
from batchscope.study.example_kinds import ROWS, TOKENS


def labelled(
    place: str,
    kind: str,
    explicit_task: str | None,
    examples: dict[str, np.ndarray],
    part_labels: Labels,
) -> tuple[dict[str, Pair], list[str], str]:
    """Return examples with labels by part, the names of the outputs, and the task.

    Args:
        place: Place of the data set, for errors.
        kind: Kind of the examples, one of `example_kinds.KINDS`.
        explicit_task: Task in the definition; None if the labels decide.
    """
    if kind == TOKENS:
        if explicit_task not in (None, tasks.CLASSIFICATION):
            raise unexpected(f"{place}.task", f"{explicit_task} for {kind}", "classification")
        return (*kinds.predicted(examples, part_labels), tasks.CLASSIFICATION)
    task = kinds.task_of(*part_labels["train"], explicit_task, kind == ROWS)
    if task == tasks.CLASSIFICATION:
        return (*kinds.classified(examples, part_labels), task)
    return (*_numbers(task, examples, part_labels), task)


def _numbers(
    task: str, examples: dict[str, np.ndarray], part_labels: Labels
) -> tuple[dict[str, Pair], list[str]]:
    """Return examples with numbers to predict or several labels, and the names of the outputs.

    Numbers are float64 and labels int32, both of shape (n, outputs).
    """
    numbers: dict[str, np.ndarray] = {}
    for part, (place, labels) in part_labels.items():
        labels = labels_per_example(place, labels, len(examples[part]))
        if labels.dtype.kind not in "uifb" or labels.ndim > 2:
            received = f"{labels.dtype} labels of shape {labels.shape}"
            raise unexpected(place, received, "numbers of shape (n,) or (n, outputs)")
        numbers[part] = labels.reshape(len(labels), -1)
        if numbers[part].shape[1:] != (shape := numbers["train"].shape[1:]):
            received = f"labels of shape {labels.shape}"
            raise unexpected(place, received, f"(n, {shape[0]}), as in the training part,")
        right, expected = np.abs(numbers[part]) <= LARGEST, f"a finite number up to {LARGEST:.2g}"
        if task == tasks.MULTI_LABEL:
            right, expected = (numbers[part] == 0) | (numbers[part] == 1), "0 or 1"
        if not right.all():
            row, output = np.argwhere(~right)[0]
            received = f"{numbers[part][row, output]} in row {row}"
            raise unexpected(place, received, expected)
    place, train = part_labels["train"][0], numbers["train"]
    if (train == train[0]).all():
        raise unexpected(place, "the same of every example", "more than one value")
    kept = np.int32 if task == tasks.MULTI_LABEL else np.float64
    pairs = {part: (examples[part], labels.astype(kept)) for part, labels in numbers.items()}
    return pairs, [str(output) for output in range(train.shape[1])]


def stored(labels: np.ndarray, record: dict[str, Any]) -> np.ndarray:
    """Return labels to train on: the numbers of a regression standardised, float32."""
    if "target_means" not in record:
        return labels
    centred = labels - np.array(record["target_means"])
    return (centred / np.array(record["target_deviations"])).astype(np.float32)


def baselines(task: str, parts: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return the metrics of the best constant prediction on validation and test.

    A regression predicts the training mean of each target. A multi-label task
    predicts the set of labels with the best micro-F1 on the training part.
    """
    baseline = _of_mean if task == tasks.REGRESSION else _of_labels
    return {split: baseline(parts["train"], parts[split]) for split in ("validation", "test")}


def _of_mean(train: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    error = labels - train.mean(axis=0)
    spread = ((labels - labels.mean(axis=0)) ** 2).mean(axis=0)
    squared = (error**2).mean(axis=0)
    varied = spread > 0
    r2 = float((1 - squared[varied] / spread[varied]).mean()) if varied.any() else 0.0
    return {"r2": r2, "mse": float(squared.mean()), "mae": float(np.abs(error).mean())}


def _of_labels(train: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    order = np.argsort(-train.sum(axis=0), kind="stable")
    named = max(
        (order[:count] for count in range(1, len(order) + 1)),
        key=lambda chosen: _f1(train, chosen),
    )
    return {"f1": _f1(labels, named)}


def _f1(labels: np.ndarray, named: np.ndarray) -> float:
    total = len(named) * len(labels) + int(labels.sum())
    return float(2 * labels[:, named].sum() / total) if total else 0.0


def record(raw: Raw, parts: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the entries of a record about its task; {} for a classification.

    A regression has the mean and the standard deviation of each target in the training part.
    """
    if raw.task == tasks.CLASSIFICATION:
        return {}
    moments = {}
    if raw.task == tasks.REGRESSION:
        deviation = parts["train"].std(axis=0)
        moments = {
            "target_means": parts["train"].mean(axis=0).tolist(),
            "target_deviations": np.where(deviation > 0, deviation, 1.0).tolist(),
        }
    return {"task": raw.task, **moments, "baselines": baselines(raw.task, parts)}
