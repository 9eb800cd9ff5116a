"""Losses and accuracies along the straight line between two runs that start from the same weights
(Keskar et al. 2017, section 2.2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope.catalogue.entries import (
    Column,
    Figure,
    Measure,
    Panel,
    Scale,
    Settings,
    Share,
    Table,
    Text,
)
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.shared import WEIGHTS


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings["start"] >= settings["stop"]:
        text = f"received {settings['stop']:g}; a number above start, {settings['start']:g}, is"
        yield "stop", f"{text} expected."


_LINES = {
    "other": Text("The large run, at 1; the run itself is the small one, at 0."),
    "factor": Text("Factor in which the two differ."),
    "small": Text("Its value in the small run."),
    "large": Text("Its value in the large run."),
    "alpha": Column("Position on the line between them."),
    "split": Text("train, validation or test."),
    "loss": Column("Loss there.", "nats"),
    "accuracy": Share("Accuracy there."),
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yields the losses and accuracies of every split along the line."""
    for split in ("train", "validation", "test") if record.get("alphas") else ():
        found = (record[name] for name in ("alphas", f"{split}_loss", f"{split}_accuracy"))
        for alpha, loss, accuracy in zip(*found, strict=True):
            yield {"split": split, "alpha": alpha, "loss": loss, "accuracy": accuracy}


ENTRY = Measure(
    version="line-v1",
    settings=(
        WEIGHTS,
        Parameter(
            "examples",
            "ex",
            "int",
            0,
            "Examples of each split; 0 or `all` for all.",
            "examples",
            minimum=0,
            words=(("all", 0),),
        ),
        Parameter("points", "pt", "int", 25, "Points on the line.", minimum=2),
        Parameter("start", "from", "float", -1.0, "First position; the small run is at 0."),
        Parameter("stop", "to", "float", 2.0, "Last position; the large run is at 1."),
    ),
    pairs=True,
    problems=_problems,
    figures=(
        Figure(
            "line",
            "Line between two minimisers",
            "Landscape",
            "Loss and accuracy along the straight line between two trained models that "
            "started from the same weights (Keskar et al. 2017, section 2.2.1): means over "
            "seeds, and every seed thin.",
            kind="along",
            table="lines",
            panels=(
                Panel("loss", "Loss", "loss (nats)"),
                Panel("accuracy", "Accuracy", "accuracy (%)", Scale.PERCENT),
            ),
            columns=("factor", "small", "large"),
            lines="split",
            over=("alpha",),
        ),
    ),
    tables={"lines": Table(_LINES, _rows, keys=("split", "alpha"))},
    memory_mb=2000,
    minutes=120,
    order=9,
)
