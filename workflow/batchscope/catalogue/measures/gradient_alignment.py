"""Norm of the mean gradient of 1, 2, 4 ... examples over the mean norm of single ones, at the
start, middle and end of the training.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope.catalogue.entries import Column, Figure, Integer, Measure, Panel, Scale, Table, Text
from batchscope.catalogue.parameters import Parameter

_ALIGNMENT = {
    "place": Text("start, middle or end of the training."),
    "epoch": Integer("Epoch whose weights were measured.", "epochs"),
    "examples": Integer("Examples in a batch.", "examples"),
    "norm": Column("Mean norm of the mean gradient of such a batch."),
    "ratio": Column("norm over the mean norm of single examples' gradients."),
    "independent": Column("ratio on average, were the sign of each gradient random."),
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yields the alignment at each place, by number of examples in a batch."""
    names = ("norm", "ratio", "independent")
    for place in record.get("places") or ():
        same = {name: place[name] for name in ("place", "epoch")}
        for examples, *found in zip(
            place["batch_sizes"], *(place[name] for name in names), strict=True
        ):
            yield {**same, "examples": examples, **dict(zip(names, found, strict=True))}


ENTRY = Measure(
    version="gradient_alignment-v3",
    settings=(
        Parameter("examples", "ex", "int", 256, "Training examples.", "examples", minimum=2),
        Parameter("draws", "dr", "int", 20, "Random divisions into batches.", minimum=1),
        Parameter("memory_mb", "mem", "int", 2048, "Limit on the gradients.", "MB", minimum=1),
    ),
    columns={
        f"gradient_cosine_{place}": Column(
            "Mean cosine between the gradients of two different training examples, at the "
            f"{place} of the training."
        )
        for place in ("start", "middle", "end")
    },
    weights=("initial", "middle", "final"),
    figures=(
        Figure(
            "gradient_alignment",
            "Alignment of gradients",
            "Gradients",
            "Norm of the mean gradient of b examples over the mean norm of single ones. The "
            "thin line is what the same gradients give with random signs: above it gradients "
            "agree, on it they share no direction, below it they cancel.",
            kind="gradient_alignment",
            table="alignment",
            panels=(Panel("ratio", "", "‖mean of b‖ / mean ‖single‖", Scale.LOG),),
            columns=("place", "epoch", "examples", "norm", "independent"),
        ),
    ),
    tables={"alignment": Table(_ALIGNMENT, _rows, keys=("place", "examples"))},
    minutes=120,
    order=5,
)
