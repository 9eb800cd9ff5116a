"""How far training moved the weights: the distance from the initial ones, by layer."""

from __future__ import annotations

from typing import Any

from batchscope.measures import FinishedRun, Measured
from batchscope.training import distances


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measures how far a run moved its weights."""
    # Moving statistics are no parameters: only trainable weights count.
    initial, _ = run.weights("initial")
    trained, _ = run.weights(settings["weights"])
    measured = distances.distances(initial, trained)
    values = {
        "weight_distance": measured["distance"],
        "weight_distance_relative": measured["relative"],
    }
    return Measured(values, {"layers": measured["layers"]})
