"""Local critical batch size by branching (Merrill et al. 2025, arXiv 2505.23971), and the gradient
noise scale at the same weights: the run is trained again, and left at several points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope.catalogue.entries import (
    Column,
    Figure,
    Integer,
    Measure,
    Panel,
    Positive,
    Scale,
    Settings,
    Table,
)
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.shared import examples

_TOLERANCE = 0.01


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    largest = max(settings["factors"])
    odd = [str(each) for each in settings["factors"] if largest % each]
    if odd:
        text = f"received {', '.join(odd)}; divisors of the largest, {largest}, are expected."
        yield "factors", text
    if 0 < settings["examples"] < 3:
        yield "examples", f"received {settings['examples']}; 0 or at least 3 is expected."


def critical_factor(factors: list[int], losses: list[float], tolerance: float) -> int:
    """Returns the largest factor whose loss is at most the least of smaller ones + a tolerance.

    At least the first; the loss of a branch that diverged is infinite.
    """
    found, least = factors[0], losses[0]
    for factor, loss in zip(factors[1:], losses[1:], strict=True):
        if math.isfinite(loss) and loss <= least + tolerance:
            found = factor
        least = min(least, loss)
    return found


_POINT = {
    "share": Column("Share of the examples that the training used, at which it was left."),
    "examples_used": Integer("Examples that it had used by then.", "examples"),
}
_BRANCHES = {
    **_POINT,
    "factor": Integer("Factor k on the batch size; 1 is the training's own."),
    "branch_loss": Column(
        "Its validation loss over the window, smoothed; empty where it diverged.", "nats"
    ),
}
_POINTS = {
    **_POINT,
    "local_critical_batch_size": Integer(
        "Batch size of the largest factor whose loss is at most the lowest of any smaller factor "
        "and the tolerance.",
        "examples",
    ),
    "gradient_noise_scale": Column(
        "Gradient noise scale at these weights, as the measure noise_scale has it; empty where it "
        "is not resolved.",
        "examples",
    ),
    "gradient_norm_squared": Column("As there, at these weights.", "nats^2"),
    "gradient_variance": Column("As there, at these weights.", "nats^2"),
    "critical_over_noise": Column("local_critical_batch_size over gradient_noise_scale."),
}


def _points(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yields the points of a run with their local critical batch size and noise scale."""
    tolerance, size = record["settings"]["tolerance"], record.get("batch_size")
    for point in record.get("points") or ():
        losses = [math.inf if loss is None else loss for loss in point["losses"]]
        critical = size * critical_factor(record["factors"], losses, tolerance)
        noise = point["noise"] or {}
        scale = noise.get("gradient_noise_scale")
        yield {
            **{name: point[name] for name in _POINT},
            **noise,
            "local_critical_batch_size": critical,
            "critical_over_noise": critical / scale if scale else None,
        }


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yields the branches of a run, by point and factor."""
    for point in record.get("points") or ():
        for factor, loss in zip(record["factors"], point["losses"], strict=True):
            yield {
                **{name: point[name] for name in _POINT},
                "factor": factor,
                "branch_loss": loss,
            }


ENTRY = Measure(
    version="branches-v1",
    settings=(
        Parameter(
            "points",
            "pt",
            "float",
            (0.02, 0.05, 0.1, 0.25, 0.5),
            "Shares of the examples that the training used, at which it is left.",
            above=0,
            maximum=1,
            many=True,
        ),
        Parameter(
            "factors",
            "k",
            "int",
            (2, 4, 8, 16),
            "Factors on the batch size, beside 1; each divides the largest.",
            minimum=2,
            many=True,
        ),
        Parameter(
            "window",
            "win",
            "int",
            0,
            "Examples that a branch uses, rounded up to whole batches; 0 or `epoch` for as many as "
            "the training set has.",
            "examples",
            minimum=0,
            words=(("epoch", 0),),
        ),
        Parameter(
            "evaluations",
            "ev",
            "int",
            4,
            "Evaluations in a window, evenly spread; the loss is smoothed over them.",
            minimum=1,
            maximum=1000,
        ),
        Parameter(
            "tolerance",
            "tol",
            "float",
            _TOLERANCE,
            "By how much a larger batch may end above the lowest loss of the smaller ones.",
            "nats",
            minimum=0,
        ),
        examples(256, "Training examples behind the noise scale"),
    ),
    columns={
        "local_critical_batch_size": Positive(
            "Local critical batch size at the last point: that of the largest factor whose loss is "
            "at most the lowest of any smaller one and the tolerance (Merrill et al. 2025).",
            "examples",
            label="Local critical batch size",
        )
    },
    problems=_problems,
    weights=("final",),
    reads=("history.csv",),
    factors={"replicas": 1, "threads": 1, "batch_schedule": "constant"},
    figures=(
        Figure(
            "local_critical_batch_size",
            "Local critical batch size",
            "Training",
            "How large a batch the training bears, by examples used: it is left at each point and "
            "goes on with larger batches over the same examples. Dots: the mean over seeds of "
            "the largest that ends within the tolerance of all smaller ones, with a 95 % interval. "
            "Diamonds: the gradient noise scale of the same weights. Grey: the critical batch size "
            "of whole trainings, where the experiment has one. Dotted: the batch size that was "
            "used.",
            kind="local_critical_batch_size",
            table="local_critical_batch_size",
            panels=(Panel("critical_batch_size", "", "local critical size (examples)", Scale.LOG),),
        ),
    ),
    tables={
        "branches": Table(_BRANCHES, _rows, keys=("share", "factor")),
        "branch_points": Table(_POINTS, _points, keys=("share",)),
    },
    minutes=240,
    order=6,
)
