"""How far training moved the weights: D = ||w - w_0|| and D / ||w_0||, overall and by layer.

Moving statistics are no parameters: only trainable weights count. The squares of the layers'
distances add up to the square of the whole.
"""

import math
from collections.abc import Iterable
from typing import Any

from batchscope.measures import FinishedRun, Measured
from batchscope.store import records, weights
from batchscope.store.weights import Arrays


def distances(initial: Arrays, trained: Arrays) -> dict[str, Any]:
    """Returns distance and relative distance of all weights, and the same of each of `layers`.

    The relative one is None where ||w_0|| = 0, as of biases that start at 0.
    """
    moved, start = weights.squared_moves(initial, trained), weights.squared_norms(initial)

    def of(keys: Iterable[str]) -> dict[str, float | None]:
        distance = math.sqrt(math.fsum(moved[key] for key in keys))
        norm = math.sqrt(math.fsum(start[key] for key in keys))
        return {"distance": distance, "relative": distance / norm if norm > 0 else None}

    layers: dict[str, list[str]] = {}
    for key in initial:
        layers.setdefault(records.layer_of(key), []).append(key)
    return {**of(initial), "layers": {layer: of(keys) for layer, keys in layers.items()}}


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    found = distances(run.weights("initial")[0], run.weights(settings["weights"])[0])
    values = {"weight_distance": found["distance"], "weight_distance_relative": found["relative"]}
    return Measured(values, {"layers": found["layers"]})
