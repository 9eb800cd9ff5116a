"""Losses and accuracies on the straight line through two minimisers.

f((1 - alpha) * x_small + alpha * x_large), as in figure 3 of Keskar et al. 2017 (arXiv
1609.04836, section 2.2.1) and figure 18 of Chang and Pathak: alpha 0 is the run of the small
batch, alpha 1 that of the large one. Both start from the same weights. The moving statistics of
batch normalisation belong to no point in between: they are estimated anew at every point.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from batchscope import disk
from batchscope.catalogue import measure_settings, run_names
from batchscope.errors import UserError
from batchscope.measures.sharpness import describe_subset, subset
from batchscope.store import records

Arrays = dict[str, np.ndarray]


def positions(start: float, stop: float, points: int) -> np.ndarray:
    """Returns the alphas, float64 of shape (points,): evenly spaced, 0 and 1 exact if on it.

    Raises:
        UserError: If the line has no length.
    """
    if not start < stop:
        raise UserError(f"line.stop: received {stop}; a number above start, {start}, is expected.")
    alphas = np.linspace(start, stop, points)
    step = (stop - start) / (points - 1)
    for run in (0.0, 1.0):
        alphas[np.abs(alphas - run) < 1e-6 * step] = run
    return alphas


def between(small: Arrays, large: Arrays, alpha: float) -> Arrays:
    """Returns (1 - alpha) * small + alpha * large, in float64, rounded to the arrays' type.

    At 0 and 1 the arrays are the runs' own, bit by bit.

    Args:
        small: Variable's path (`conv_1/kernel`) -> array.
        large: The same variables.
        alpha: Position on the line.

    Raises:
        ValueError: If the two do not hold the same variables of the same shapes.
    """
    shapes = {key: array.shape for key, array in small.items()}
    if shapes != {key: array.shape for key, array in large.items()}:
        raise ValueError("Expected two sets of weights of one model.")
    if alpha in (0.0, 1.0):
        return dict(large if alpha else small)
    return {
        key: ((1.0 - alpha) * small[key].astype(np.float64) + alpha * large[key]).astype(
            small[key].dtype
        )
        for key in small
    }


def write(
    results: Path | str,
    run: str,
    other: str,
    settings: str,
    output: Path | str,
    model_file: Path | str | None = None,
) -> None:
    """Evaluates the line between two runs and writes the record.

    Args:
        results: The folder of all results.
        run: Name of the small run, at position 0.
        other: Name of the large run, at position 1.
        settings: Name of the settings, as in the path.
        output: The record's file.
        model_file: The user's model file, where the model is not built in.

    Raises:
        UserError: If the runs or their data are missing, if the runs are of different models
            or data, or start from different weights.
    """
    parsed = measure_settings.parse_settings("line", settings)
    _check_model(run, other)
    found = [
        disk.read_json(records.run_folder(results, name) / "record.json", "status", "weights")
        for name in (run, other)
    ]
    unfinished = [record["status"] for record in found if record["status"] != records.FINISHED]
    status = unfinished[0] if unfinished else records.FINISHED
    details: dict[str, Any] = {"other": other}
    if status == records.FINISHED:
        _check_start(run, other, *found)
        details.update(_measure(results, run, other, parsed, model_file))
    record = records.measure_record("line", run, parsed, status, {}, **details)
    disk.write_json(output, record)


def _check_model(run: str, other: str) -> None:
    small, large = run_names.parse_run(run), run_names.parse_run(other)
    for factor in ("dataset", "model"):
        if small[factor] != large[factor]:
            raise UserError(
                f"line: received {run} with {factor} {small[factor]} and {other} with "
                f"{large[factor]}; two runs of one model on one data set are expected."
            )


def _check_start(run: str, other: str, small: dict[str, Any], large: dict[str, Any]) -> None:
    if small["weights"]["initial"] != large["weights"]["initial"]:
        raise UserError(
            f"line: received {run} and {other}, whose initial weights differ; two runs that "
            "start from the same weights (those of one seed) are expected."
        )


def _measure(
    results: Path | str,
    run: str,
    other: str,
    settings: dict[str, Any],
    model_file: Path | str | None,
) -> dict[str, Any]:
    """Returns the details of the record: alphas, losses, accuracies, subsets."""
    # Imported here: the pure functions above need no TensorFlow.
    from batchscope import datasets
    from batchscope.measures import batch_norm, evaluate
    from batchscope.training import models

    alphas = positions(settings["start"], settings["stop"], settings["points"])
    dataset = datasets.load(results, run_names.parse_run(run)["dataset"])
    model = models.load(results, run, settings["weights"], model_file)
    small, large = (
        records.read_weights(records.run_folder(results, name) / f"{settings['weights']}.npz")
        for name in (run, other)
    )
    splits, described = {}, {}
    for split in records.SPLITS:
        *splits[split], described[split] = _examples(dataset, split, settings["examples"])
    evaluator = evaluate.evaluator(model, dataset.scale, dataset.images("train").dtype)
    normalised = bool(batch_norm.layers(model))
    if normalised:
        estimate = batch_norm.estimator(model, splits["train"][0], dataset.scale)
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
        for split in records.SPLITS:
            loss, accuracy = evaluator(*splits[split])
            details.setdefault(f"{split}_loss", []).append(loss)
            details.setdefault(f"{split}_accuracy", []).append(accuracy)
    return details


def _examples(dataset: Any, split: str, examples: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Returns images and labels of a split, and what identifies them."""
    images, labels = dataset.images(split), dataset.labels(split)
    if not 0 < examples < len(labels):  # all, in their own order and from disk, as evaluated
        return images, labels, describe_subset(np.arange(len(labels)), len(labels))
    indices = subset(len(labels), examples)
    return images[indices], labels[indices], describe_subset(indices, len(labels))
