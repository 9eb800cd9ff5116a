"""Labels that are no single class: numbers to predict, and several labels of one example."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchscope.catalogue import tasks
from batchscope.datasets.raw import Raw


def standard(task: str, train: np.ndarray) -> dict[str, list[float]]:
    """Returns mean and standard deviation of each target over the training part, for the record.

    A network learns numbers best that have mean 0 and deviation 1; errors are reported in the
    targets' own units. Of other tasks nothing.
    """
    if task != tasks.REGRESSION:
        return {}
    deviation = train.std(axis=0)
    return {
        "target_means": train.mean(axis=0).tolist(),
        "target_deviations": np.where(deviation > 0, deviation, 1.0).tolist(),
    }


def stored(labels: np.ndarray, standard: dict[str, Any]) -> np.ndarray:
    """Returns labels as they are trained on: numbers standardised, float32; others as they are."""
    if "target_means" not in standard:
        return labels
    less = labels - np.array(standard["target_means"])
    return (less / np.array(standard["target_deviations"])).astype(np.float32)


def baselines(task: str, parts: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Returns each metric on validation and test of the best that no example is looked at for.

    Of a regression the prediction is the training mean of each target; of several labels those
    that have the best micro-F1 on the training part, the same of every example.
    """
    of = _of_mean if task == tasks.REGRESSION else _of_labels
    return {split: of(parts["train"], parts[split]) for split in ("validation", "test")}


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
    """Returns the micro-F1 of naming the same labels for every example: 2 TP / (2 TP + FP + FN)."""
    total = len(named) * len(labels) + int(labels.sum())
    return float(2 * labels[:, named].sum() / total) if total else 0.0


def record(raw: Raw, parts: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns what the record of a data set says of its task; nothing of a classification."""
    if raw.task == tasks.CLASSIFICATION:
        return {}
    found = standard(raw.task, parts["train"])
    return {"task": raw.task, **found, "baselines": baselines(raw.task, parts)}
