"""Distance of the weights from the initial ones: overall, relative and by layer.

The distance is D = ||w - w_0||, the relative distance D / ||w_0||. Only trainable weights count,
without moving statistics. The squares of the layers' distances add up to the square of D.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.measures import Measured
from batchscope.study.specifications import (
    Column,
    Figure,
    IntegerColumn,
    Measure,
    Panel,
    PositiveColumn,
    Scale,
    Table,
    TextColumn,
    WeightsSettings,
)

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun
    from batchscope.store.weights import Arrays

_LAYER_COLUMNS = {
    "position": IntegerColumn("Position of the layer, from 0."),
    "layer": TextColumn("Name of the layer."),
    "distance": PositiveColumn("Distance of its weights from the initial ones."),
    "relative": Column("distance over the norm of its initial weights."),
}


def _layer_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    for position, (layer, values) in enumerate(record.get("layers", {}).items()):
        yield {"position": position, "layer": layer, **values}


ENTRY = Measure(
    version="weight_distance-v1",
    settings=WeightsSettings,
    columns={
        "weight_distance": PositiveColumn(
            "Euclidean distance from the initial weights.",
            label="Distance from the initial weights",
            # Keskar et al. 2017, arXiv 1609.04836; Hoffer et al. 2017, arXiv 1705.08741
            direction="falls",
        ),
        "weight_distance_relative": PositiveColumn(
            "weight_distance over the norm of the initial weights.",
            label="Relative distance from the initial weights",
        ),
    },
    data=False,
    figures=(
        Figure(
            "weight_distance",
            "Distance from the initial weights",
            "Weights",
            "Euclidean distance of the trained weights w from the initial weights w₀.",
            panels=(
                Panel("weight_distance", "Distance", "‖w − w₀‖"),
                Panel("weight_distance_relative", "Relative distance", "‖w − w₀‖ / ‖w₀‖"),
            ),
        ),
        Figure(
            "weight_distance_by_layer",
            "Distance from the initial weights, by layer",
            "Weights",
            "Distance of each layer's weights from the initial ones, in the order of the layers.",
            table="layers",
            panels=(Panel("distance", "{layer}", "‖w − w₀‖"),),
            columns=("relative",),
        ),
        Figure(
            "epoch_distance",
            "Distance within an epoch",
            "Weights",
            "Distance that the weights move in each epoch, at the best learning rate of each batch "
            "size: means over seeds with 95 % intervals.",
            kind="by_progress",
            table="history",
            panels=(Panel("epoch_distance", "", "distance within an epoch", Scale.LOG),),
            x_columns=("epoch",),
        ),
    ),
    tables={
        "layers": Table(
            _LAYER_COLUMNS, _layer_rows, keys=("layer",), figures=("weight_distance_by_layer",)
        )
    },
    memory_mb=1000,
    order=3,
)


def distances(initial: Arrays, trained: Arrays) -> dict[str, Any]:
    """Return distance and relative distance of all weights and, in `layers`, of each layer.

    The relative distance is None if ||w_0|| = 0, for example for biases that start at 0.
    """
    from batchscope.store import weights

    moves, norms = weights.squared_distances(initial, trained), weights.squared_norms(initial)

    def distances_of(keys: Iterable[str]) -> dict[str, float | None]:
        distance = math.sqrt(math.fsum(moves[key] for key in keys))
        norm = math.sqrt(math.fsum(norms[key] for key in keys))
        return {"distance": distance, "relative": distance / norm if norm > 0 else None}

    layers: dict[str, list[str]] = {}
    for key in initial:
        layers.setdefault(weights.layer_name(key), []).append(key)
    return {
        **distances_of(initial),
        "layers": {layer: distances_of(keys) for layer, keys in layers.items()},
    }


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    moves = distances(run.weights("initial")[0], run.weights(settings["weights"])[0])
    values = {"weight_distance": moves["distance"], "weight_distance_relative": moves["relative"]}
    return Measured(values, {"layers": moves["layers"]})
