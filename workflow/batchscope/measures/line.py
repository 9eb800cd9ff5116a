"""Losses and metrics on the straight line through two minimisers.

f((1 - alpha) * x_small + alpha * x_large), as in figure 3 of Keskar et al. 2017 (arXiv
1609.04836, section 2.2.1) and figure 18 of Chang and Pathak: alpha 0 is the run of the small
batch, alpha 1 that of the large one. Both start from the same weights. The moving statistics of
batch normalisation belong to no point in between: they are estimated anew at every point.
"""

from typing import Any

import numpy as np

from batchscope.catalogue import tasks
from batchscope.errors import UserError
from batchscope.measures import FinishedRun, Measured, batch_norm
from batchscope.measures.finished_run import describe_subset, subset
from batchscope.store import paths
from batchscope.store.weights import Arrays
from batchscope.training import losses, models, trajectory


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
    """Evaluates the line from `run`, at position 0, to `other`, at position 1."""
    if run.record["weights"]["initial"] != other.record["weights"]["initial"]:
        raise UserError(
            f"line: received {run.name} and {other.name}, whose initial weights differ; two runs "
            "that start from the same weights (those of one seed) are expected."
        )
    alphas = positions(settings["start"], settings["stop"], settings["points"])
    model = run.model(settings["weights"])
    small, large = (each.weights(settings["weights"]) for each in (run, other))
    rows, subsets = {}, {}
    for split in paths.SPLITS:
        rows[split] = run.data.examples(split)
        indices = np.arange(len(rows[split].labels))
        if 0 < settings["examples"] < len(indices):  # else all, in their own order, as evaluated
            indices = subset(len(indices), settings["examples"])
            rows[split] = rows[split].rows(indices)
        subsets[split] = describe_subset(indices, len(run.data.labels(split)))
    objective = losses.Objective(model, rows["train"])
    objectives = {split: objective.over(examples) for split, examples in rows.items()}
    normalised = bool(batch_norm.layers(model))
    if normalised:
        estimate = batch_norm.estimator(model, rows["train"].images, run.data.scale)
    details: dict[str, Any] = {
        "alphas": alphas.tolist(),
        "batch_norm": "re-estimated" if normalised else "none",
        "subsets": subsets,
    }
    shown = ("loss", tasks.TASKS[run.data.task][0])
    for alpha in alphas.tolist():
        # Frozen layers are alike in both; what else is no parameter goes along with the weights.
        trainable, state = (between(small[i], large[i], alpha) for i in (0, 1))
        models.set_weights(model, trainable, state)
        if normalised:
            estimate()
        for split, loss in objectives.items():
            found = trajectory.named(split, loss.evaluate())
            for column in shown:
                details.setdefault(f"{split}_{column}", []).append(found[f"{split}_{column}"])
    return Measured(details=details)
