"""Distance of the weights from the initial ones: overall, relative and by layer."""

from __future__ import annotations

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
    Table,
    Text,
)
from batchscope.catalogue.shared import WEIGHTS

_LAYERS = {
    "position": Integer("Place of the layer in the model, from 0."),
    "layer": Text("Name of the layer."),
    "distance": Positive("Euclidean distance of its weights from the initial ones."),
    "relative": Column("distance over the norm of its initial weights."),
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    for position, (layer, found) in enumerate(record.get("layers", {}).items()):
        yield {"position": position, "layer": layer, **found}


ENTRY = Measure(
    version="weight_distance-v1",
    settings=(WEIGHTS,),
    columns={
        "weight_distance": Positive(
            "Euclidean distance of the weights from the initial ones.",
            label="Distance from the initial weights",
            direction="falls",
            source="Keskar et al. 2017, arXiv 1609.04836; Hoffer et al. 2017, arXiv 1705.08741",
        ),
        "weight_distance_relative": Positive(
            "weight_distance over the Euclidean norm of the initial weights.",
            label="Relative distance from the initial weights",
        ),
    },
    weights=("initial", "final", "best"),
    data=False,
    figures=(
        Figure(
            "weight_distance",
            "Distance from the initial weights",
            "Weights",
            "Euclidean distance of the trained weights w from the initial ones, w₀.",
            panels=(
                Panel("weight_distance", "Distance", "‖w − w₀‖"),
                Panel("weight_distance_relative", "Relative distance", "‖w − w₀‖ / ‖w₀‖"),
            ),
        ),
        Figure(
            "weight_distance_by_layer",
            "Distance from the initial weights, by layer",
            "Weights",
            "Distance of each layer's weights from the initial ones, in the model's order.",
            table="layers",
            panels=(Panel("distance", "", "‖w − w₀‖"),),
            columns=("relative",),
            facets="layer",
        ),
        Figure(
            "epoch_distance",
            "Distance within an epoch",
            "Weights",
            "How far the weights move from the start of an epoch to its end, each batch size "
            "at its best learning rate: means over seeds with a 95 % interval.",
            kind="against_progress",
            table="history",
            panels=(Panel("epoch_distance", "", "distance within an epoch", Scale.LOG),),
            over=("epoch",),
            also_over=("updates", "seconds"),
            best_rate=True,
        ),
    ),
    tables={
        "layers": Table(_LAYERS, _rows, keys=("layer",), figures=("weight_distance_by_layer",))
    },
    memory_mb=1000,
    minutes=10,
    order=3,
)
