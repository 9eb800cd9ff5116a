"""Loss and first metric along the straight line between two runs that start from the same weights
(Keskar et al. 2017, section 2.2.1).

f((1 - alpha) * x_small + alpha * x_large), as in figure 3 of Keskar et al. 2017 (arXiv
1609.04836, section 2.2.1) and figure 18 of Chang and Pathak: alpha 0 is the run of the small
batch, alpha 1 the run of the large one. Both start from the same weights. The moving statistics of
batch normalisation are estimated at every point, because interpolated ones fit no weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from batchscope import wording
from batchscope.errors import UserError
from batchscope.measures import Measured
from batchscope.study import tasks
from batchscope.study.common_settings import Between, Examples, OfWeights
from batchscope.study.model import Integer, Number
from batchscope.study.setting import Setting
from batchscope.study.specifications import Column, Figure, Measure, Panel, Table, TextColumn

if TYPE_CHECKING:
    from batchscope.measures.finished_run import FinishedRun
    from batchscope.store.weights import Arrays


class LineSettings(OfWeights):
    """Settings of `line`."""

    examples: Examples = 0
    """Examples of each split; 0 or `all` for all."""
    points: Annotated[Integer, Field(ge=2), Setting("pt")] = 25
    """Points on the line."""
    start: Annotated[Number, Setting("from")] = -1.0
    """First position; the small run is at 0."""
    stop: Annotated[Number, Setting("to")] = 2.0
    """Last position; the large run is at 1."""
    between: Between
    """Factor -> its value in the small and in the large run of each pair."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.start >= self.stop:
            raise ValueError("stop should be greater than start")
        return self


_LINES = {
    "other": TextColumn("The large run, at 1; this run is the small one, at 0."),
    "factor": TextColumn("Factor that differs between the two runs."),
    "small": TextColumn("Its value in the small run."),
    "large": TextColumn("Its value in the large run."),
    "alpha": Column("Position on the line between them."),
    "split": TextColumn("train, validation or test."),
    "loss": Column("Loss there.", "nats"),
    **{
        metric.name: Column(
            f"{wording.capital(metric.words)} there.", least=metric.least, most=metric.most
        )
        for metric in tasks.FIRST
    },
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield loss and metric of every split along the line."""
    for split in tasks.SPLITS if record.get("alphas") else ():
        metrics = [metric.name for metric in tasks.FIRST if f"{split}_{metric.name}" in record]
        names = ["loss", *metrics]
        columns = (record["alphas"], *(record[f"{split}_{name}"] for name in names))
        for values in zip(*columns, strict=True):
            yield {"split": split, **dict(zip(("alpha", *names), values, strict=True))}


ENTRY = Measure(
    version="line-v1",
    settings=LineSettings,
    figures=(
        Figure(
            "line",
            "Line between two minimisers",
            "Landscape",
            caption=(
                "Loss and {first} along the straight line between two trained models that "
                "started from the same weights (Keskar et al. 2017, section 2.2.1): means over "
                "seeds, and every seed thin."
            ),
            kind="curves",
            table="lines",
            panels=(
                Panel("loss", "Loss", "loss{nats}"),
                Panel("{first}", "{first}", "{first}{percent}"),
            ),
            columns=("factor", "small", "large"),
            lines="split",
            over=("alpha",),
        ),
    ),
    tables={"lines": Table(_LINES, _rows, keys=("split", "alpha"))},
    memory_mb=2000,
    order=9,
)


def positions(start: float, stop: float, points: int) -> np.ndarray:
    """Return the alphas, float64 of shape (points,): evenly spaced, with exact 0 and 1."""
    alphas = np.linspace(start, stop, points)
    step = (stop - start) / (points - 1)
    for run in (0.0, 1.0):
        alphas[np.abs(alphas - run) < 1e-6 * step] = run
    return alphas


def between(small: Arrays, large: Arrays, alpha: float) -> Arrays:
    """Return (1 - alpha) * small + alpha * large, in float64, rounded to the arrays' type.

    At 0 and 1 the arrays equal the weights of the runs bit by bit.
    """
    if alpha in (0.0, 1.0):
        return dict(large if alpha else small)
    exact = {
        key: (1.0 - alpha) * array.astype(np.float64) + alpha * large[key]
        for key, array in small.items()
    }
    return {key: array.astype(small[key].dtype) for key, array in exact.items()}


def measure_run(run: FinishedRun, other: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Evaluate the line from `run`, at position 0, to `other`, at position 1."""
    from batchscope.measures import batch_norm
    from batchscope.measures.finished_run import describe_subset, subset
    from batchscope.training import losses, models, trajectory

    first, second = (end.record["sha256"]["initial.npz"] for end in (run, other))
    if first != second:
        raise UserError(
            f"line: received {run.name} and {other.name}, whose initial weights differ; two runs "
            "that start from the same weights (those of one seed) are expected."
        )
    alphas = positions(settings["start"], settings["stop"], settings["points"])
    model = run.model(settings["weights"])
    small, large = (end.weights(settings["weights"]) for end in (run, other))
    rows, subsets = {}, {}
    for split in tasks.SPLITS:
        rows[split] = run.data.examples(split)
        indices = np.arange(len(rows[split].labels))
        if 0 < settings["examples"] < len(indices):  # else all, in the order of an evaluation
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
    metrics = ("loss", tasks.TASKS[run.data.task][0])
    for alpha in alphas.tolist():
        # Frozen layers are equal in both runs. Other state is interpolated like the weights.
        trainable, state = (between(small[i], large[i], alpha) for i in (0, 1))
        models.set_weights(model, trainable, state)
        if normalised:
            estimate()
        for split, loss in objectives.items():
            measured = trajectory.named(split, loss.evaluate())
            for column in metrics:
                details.setdefault(f"{split}_{column}", []).append(measured[f"{split}_{column}"])
    return Measured(details=details)
