"""Losses and accuracies on the straight line through two minimisers.

f((1 - alpha) * x_small + alpha * x_large), as in figure 3 of Keskar et al. 2017 (arXiv
1609.04836, section 2.2.1) and figure 18 of Chang and Pathak: alpha 0 is the run of the small
batch, alpha 1 that of the large one. Both start from the same weights. The moving statistics of
batch normalisation belong to no point in between: they are estimated anew at every point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from batchscope.errors import UserError
from batchscope.measures import FinishedRun, Measured, batch_norm, evaluate
from batchscope.measures.finished_run import describe_subset, subset
from batchscope.store import paths
from batchscope.store.weights import Arrays
from batchscope.training import models


def positions(start: float, stop: float, points: int) -> np.ndarray:
    """Returns the alphas, float64 of shape (points,): evenly spaced, 0 and 1 exact if on it."""
    alphas = np.linspace(start, stop, points)
    step = (stop - start) / (points - 1)
    for run in (0.0, 1.0):
        alphas[np.abs(alphas - run) < 1e-6 * step] = run
    return alphas


def between(small: Arrays, large: Arrays, alpha: float) -> Arrays:
    """Returns (1 - alpha) * small + alpha * large, in float64, rounded to the arrays' type.

    At 0 and 1 the arrays are the runs' own, bit by bit.
    """
    if alpha in (0.0, 1.0):
        return dict(large if alpha else small)
    exact = {
        key: (1.0 - alpha) * array.astype(np.float64) + alpha * large[key]
        for key, array in small.items()
    }
    return {key: array.astype(small[key].dtype) for key, array in exact.items()}


def measure_run(run: FinishedRun, other: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Evaluates the line from `run`, at position 0, to `other`, at position 1.

    Raises:
        UserError: If the runs are of different models or data, or start from different weights.
    """
    _check(run, other)
    alphas = positions(settings["start"], settings["stop"], settings["points"])
    model = run.model(settings["weights"])
    small, large = (each.weights(settings["weights"]) for each in (run, other))
    splits, described = {}, {}
    for split in paths.SPLITS:
        *splits[split], described[split] = _examples(run.data, split, settings["examples"])
    evaluator = evaluate.evaluator(model, run.data.scale, run.data.images("train").dtype)
    normalised = bool(batch_norm.layers(model))
    if normalised:
        estimate = batch_norm.estimator(model, splits["train"][0], run.data.scale)
    details: dict[str, Any] = {
        "alphas": alphas.tolist(),
        "batch_norm": "re-estimated" if normalised else "none",
        "subsets": described,
    }
    for alpha in alphas.tolist():
        # Frozen layers are alike in both; what else is no parameter goes along with the weights.
        trainable, state = (between(small[i], large[i], alpha) for i in (0, 1))
        models.set_weights(model, trainable, state)
        if normalised:
            estimate()
        for split in paths.SPLITS:
            loss, accuracy = evaluator(*splits[split])
            details.setdefault(f"{split}_loss", []).append(loss)
            details.setdefault(f"{split}_accuracy", []).append(accuracy)
    return Measured(details=details)


def _check(run: FinishedRun, other: FinishedRun) -> None:
    for factor in ("dataset", "model"):
        if run.factors[factor] != other.factors[factor]:
            raise UserError(
                f"line: received {run.name} with {factor} {run.factors[factor]} and {other.name} "
                f"with {other.factors[factor]}; two runs of one model on one data set are expected."
            )
    if run.record["weights"]["initial"] != other.record["weights"]["initial"]:
        raise UserError(
            f"line: received {run.name} and {other.name}, whose initial weights differ; two runs "
            "that start from the same weights (those of one seed) are expected."
        )


def _examples(dataset: Any, split: str, examples: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Returns images and labels of a split, and what identifies them."""
    images, labels = dataset.images(split), dataset.labels(split)
    if not 0 < examples < len(labels):  # all, in their own order and from disk, as evaluated
        return images, labels, describe_subset(np.arange(len(labels)), len(labels))
    indices = subset(len(labels), examples)
    return images[indices], labels[indices], describe_subset(indices, len(labels))
