"""Loss and first metric along the straight line between two runs that start from the same weights
(Keskar et al. 2017, section 2.2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope import wording
from batchscope.catalogue import tasks
from batchscope.catalogue.entries import (
    Column,
    Figure,
    Measure,
    Panel,
    Settings,
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
    **{
        each.name: Column(f"{wording.capital(each.words)} there.", least=each.least, most=each.most)
        for each in tasks.FIRST
    },
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yields loss and metric of every split along the line."""
    for split in tasks.SPLITS if record.get("alphas") else ():
        names = ["loss", *(each.name for each in tasks.FIRST if f"{split}_{each.name}" in record)]
        found = (record["alphas"], *(record[f"{split}_{name}"] for name in names))
        for values in zip(*found, strict=True):
            yield {"split": split, **dict(zip(("alpha", *names), values, strict=True))}


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
            caption=(
                "Loss and {first} along the straight line between two trained models that "
                "started from the same weights (Keskar et al. 2017, section 2.2.1): means over "
                "seeds, and every seed thin."
            ),
            kind="landscape",
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
    minutes=120,
    order=9,
)
