"""Local critical batch size by branching (Merrill et al. 2025, arXiv 2505.23971), and the gradient
noise scale at the same weights. The run is trained again, with branches at several points.

The retraining reproduces the run bit for bit, so its history must equal the history on disk.
`branched_training` trains the run and its branches; this module has settings, tables and figures.
The points that a killed job finished stay next to the record, with the training's checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from batchscope.measures import Measured
from batchscope.study.model import Integer, Model, Number, Setting, Unique, Word
from batchscope.study.run_factors import training_copies
from batchscope.study.specifications import (
    Column,
    Examples,
    Figure,
    IntegerColumn,
    Measure,
    Panel,
    PositiveColumn,
    Scale,
    Table,
    Values,
)

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun


class BranchesSettings(Model):
    """Settings of `branches`."""

    points: Annotated[Unique[Annotated[Number, Field(gt=0, le=1)]], Setting("pt")] = (
        0.02,
        0.05,
        0.1,
        0.25,
        0.5,
    )
    """Branch points, as shares of the training's examples."""
    factors: Annotated[Unique[Annotated[Integer, Field(ge=2)]], Setting("k")] = (2, 4, 8, 16)
    """Factors on the batch size, above 1; each divides the largest."""
    window: Annotated[Integer, Field(ge=0), Word("epoch", 0), Setting("win", "examples")] = 0
    """Examples of a branch, rounded up to whole batches; 0 means `epoch`, all training examples."""
    evaluations: Annotated[Integer, Field(ge=1, le=1000), Setting("ev")] = 4
    """Evaluations in a window, evenly spread; the loss is smoothed over them."""
    tolerance: Annotated[Number, Field(ge=0), Setting("tol", "nats")] = 0.01
    """Largest excess over the lowest loss of all smaller batches."""
    examples: Examples = 256
    """Training examples for the noise scale; 0 means `all`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        largest = max(self.factors)
        if any(largest % factor for factor in self.factors):
            raise ValueError(f"factors should be divisors of the largest, {largest}")
        if 0 < self.examples < 3:
            raise ValueError("examples should be 0 or at least 3")
        return self


def _problems(
    factors: Values, settings: Values, training_examples: int | None
) -> Iterator[tuple[str, str]]:
    if training_examples is None:
        return
    available, batch_size = training_examples * training_copies(factors), factors["batch_size"]
    largest = max(settings["factors"])  # a multiple of the batch size, not a factor of the run
    if largest * batch_size > available:
        text = f"received {largest}, a batch size of {largest * batch_size}; at most "
        text += f"{available // batch_size} is expected, by the {available} training examples."
        yield "factors", text


def critical_multiple(multiples: list[int], losses: list[float], tolerance: float) -> int:
    """Return the largest multiple of the batch size that does not raise the loss.

    Its loss is at most the lowest loss of a smaller multiple plus the tolerance. The first multiple
    always passes. The loss of a diverged branch is infinite.
    """
    critical, lowest_loss = multiples[0], losses[0]
    for multiple, loss in zip(multiples[1:], losses[1:], strict=True):
        if math.isfinite(loss) and loss <= lowest_loss + tolerance:
            critical = multiple
        lowest_loss = min(lowest_loss, loss)
    return critical


_POINT_KEYS = {
    "share": Column("Branch point, as a share of the training's examples."),
    "examples_used": IntegerColumn("Examples used before this point.", "examples"),
}
_BRANCH_COLUMNS = {
    **_POINT_KEYS,
    "factor": IntegerColumn("Factor k on the batch size of the training."),
    "branch_loss": Column("Smoothed validation loss of the branch; empty if it diverged.", "nats"),
}
_POINT_COLUMNS = {
    **_POINT_KEYS,
    "local_critical_batch_size": IntegerColumn(
        "Largest batch size with a loss within the tolerance of all smaller ones.", "examples"
    ),
    "gradient_noise_scale": Column(
        "Gradient noise scale at this point, as in noise_scale; empty if not resolved.", "examples"
    ),
    "gradient_norm_squared": Column("The same quantity at this point.", "nats^2"),
    "gradient_variance": Column("The same quantity at this point.", "nats^2"),
    "critical_over_noise": Column("local_critical_batch_size over gradient_noise_scale."),
}


def _point_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the points of a run with their local critical batch size and noise scale."""
    tolerance, batch_size = record["settings"]["tolerance"], record.get("batch_size")
    for point in record.get("points") or ():
        losses = [math.inf if loss is None else loss for loss in point["losses"]]
        critical = batch_size * critical_multiple(record["factors"], losses, tolerance)
        noise = point["noise"] or {}
        noise_scale = noise.get("gradient_noise_scale")
        yield {
            **{name: point[name] for name in _POINT_KEYS},
            **noise,
            "local_critical_batch_size": critical,
            "critical_over_noise": critical / noise_scale if noise_scale else None,
        }


def _branch_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the branches of a run, by point and multiple of the batch size."""
    for point in record.get("points") or ():
        for multiple, loss in zip(record["factors"], point["losses"], strict=True):
            yield {
                **{name: point[name] for name in _POINT_KEYS},
                "factor": multiple,
                "branch_loss": loss,
            }


ENTRY = Measure(
    version="branches-v1",
    settings=BranchesSettings,
    columns={
        "local_critical_batch_size": PositiveColumn(
            "Local critical batch size at the last point: the largest batch size with a loss "
            "within the tolerance of all smaller ones.",
            "examples",
            label="Local critical batch size",
        )
    },
    problems=_problems,
    factors={"replicas": 1, "threads": 1, "batch_schedule": "constant"},
    figures=(
        Figure(
            "local_critical_batch_size",
            "Local critical batch size",
            "Training",
            "Largest batch size that does not raise the loss, by examples used. At each point, "
            "branches of the training continue with larger batches over the same examples. Dots: "
            "mean over seeds of the largest batch size with a loss within the tolerance of all "
            "smaller ones, with 95 % intervals. Diamonds: gradient noise scale at the same "
            "weights. Grey: critical batch size of whole trainings, if known. Dotted: batch size "
            "of the training.",
            kind="noise_scale",
            table="local_critical_batch_size",
            panels=(Panel("critical_batch_size", "", "local critical size (examples)", Scale.LOG),),
        ),
    ),
    tables={
        "branches": Table(_BRANCH_COLUMNS, _branch_rows, keys=("share", "factor")),
        "branch_points": Table(_POINT_COLUMNS, _point_rows, keys=("share",)),
    },
    order=6,
)


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure branches of a run; a killed job continues from its checkpoint.

    Raises:
        UserError: If the history differs from the one on disk.
    """
    from batchscope.measures.branched_training import BranchedTraining
    from batchscope.training import runs

    training = BranchedTraining(run, settings, run.training_loss(settings, chunk=1))
    training.fit(training.epochs)
    runs.check_same_history(run, training.epochs, training.progress.history)
    points = [training.points[str(updates)] for updates in sorted(training.visited_updates)]
    window = training.window
    details = {"points": points, "factors": list(window.multiples), "batch_size": window.batch_size}
    rows = _point_rows({**details, "settings": settings}, Path())
    *_, last = rows
    return Measured({"local_critical_batch_size": last["local_critical_batch_size"]}, details)
