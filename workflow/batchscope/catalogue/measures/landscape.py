"""Surfaces and profiles of the training loss along filter-normalised random directions (Li et al.
2018, arXiv 1712.09913).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope.catalogue.entries import (
    Column,
    Figure,
    Integer,
    Measure,
    Panel,
    Settings,
    Table,
    Text,
)
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.shared import WEIGHTS, examples


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings["points"] % 2 == 0:
        text = f"received {settings['points']}; an odd number is expected: 0 is among the "
        yield "points", f"{text}points."
    if settings["pairs"] == settings["lines"] == 0:
        text = "received no pairs and no lines; at least one of either is expected."
        yield "pairs", text


_LANDSCAPES = {
    "kind": Text("surface or line."),
    "index": Integer("Which of them, from 0."),
    "a": Column("Position along the first direction."),
    "b": Column("Position along the second; 0 on a line."),
    "loss": Column("Training loss there.", "nats"),
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yields the points of surfaces and lines; the second direction is that of a surface's rows."""
    from batchscope import disk

    if record.get("status") != "finished":
        return
    members = disk.read_arrays(path.with_suffix(".npz"), "axis")
    axis = members.pop("axis").tolist()
    for member, losses in members.items():
        kind, _, index = member.partition(":")
        if kind in ("surface", "line"):
            points = itertools.product(axis if kind == "surface" else [0.0], axis)
            for (b, a), loss in zip(points, losses.ravel().tolist(), strict=True):
                yield {"kind": kind, "index": int(index), "a": a, "b": b, "loss": loss}


ENTRY = Measure(
    version="landscape-v1",
    settings=(
        WEIGHTS,
        examples(2000),
        Parameter("points", "pt", "int", 51, "Points along each axis; odd.", minimum=3),
        Parameter("span", "sp", "float", 1.0, "Largest distance along a direction.", above=0),
        Parameter(
            "pairs", "pa", "int", 1, "Surfaces, each over its own pair of directions.", minimum=0
        ),
        Parameter("lines", "ln", "int", 5, "One-dimensional profiles.", minimum=0),
    ),
    columns={
        "landscape_rise": Column(
            "Mean over random lines of (f(-r) + f(r)) / 2 - f(0), f the training loss and r half "
            "of the span of the landscape, in filter-normalised units (Li et al. 2018).",
            label="Rise of the loss along random directions",
        )
    },
    also_writes=(".npz",),
    problems=_problems,
    figures=(
        Figure(
            "landscape",
            "Loss surface",
            "Landscape",
            caption=(
                "Training loss over a plane through the trained weights (cross), along two random "
                "directions whose filters have the norms of the model's own (Li et al. 2018, arXiv "
                "1712.09913). Closer lines are steeper slopes."
            ),
            kind="landscape",
            table="landscapes",
            panels=(Panel("loss", "Loss surface", "training loss{nats}"),),
        ),
        Figure(
            "landscape_lines",
            "Loss along random directions",
            "Landscape",
            caption=(
                "Rise of the training loss over that at the trained weights along random "
                "directions (Li et al. 2018, arXiv 1712.09913): thin lines are means over the "
                "directions of a run, thick ones over seeds with a 95 % interval."
            ),
            kind="landscape",
            table="landscapes",
            panels=(Panel("rise", "Rise of the loss", "f(a) − f(0){nats}"),),
            over=("a",),
        ),
    ),
    tables={"landscapes": Table(_LANDSCAPES, _rows, keys=("kind", "index", "a", "b"))},
    minutes=480,
    order=8,
)
