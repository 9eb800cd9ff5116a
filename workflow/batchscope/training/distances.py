"""Distances between the weights of a model: overall, relative and by layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batchscope.store import records

Arrays = dict[str, np.ndarray]


def squared_norms(arrays: Arrays) -> dict[str, float]:
    """Returns the sum of squares of each array, in float64."""
    norms = {}
    for key, array in arrays.items():
        flat = array.reshape(-1).astype(np.float64)
        norms[key] = float(np.dot(flat, flat))
    return norms


def distances(initial: Arrays, trained: Arrays) -> dict[str, Any]:
    """Returns D = ||w - w_0||_2 and D / ||w_0||_2, of all weights and of each layer.

    Args:
        initial: Trainable weights w_0: variable's path (`conv_1/kernel`) -> array.

    Returns:
        `distance`, `relative` (None where ||w_0|| = 0, as of biases that start at 0), and
        `layers`: layer -> the same two, in the model's order. The squares of the layers'
        distances add up to the square of the whole.

    Raises:
        ValueError: If the two do not hold the same variables of the same shapes.
    """
    shapes = {key: array.shape for key, array in initial.items()}
    if shapes != {key: array.shape for key, array in trained.items()}:
        raise ValueError("Expected initial and trained weights of one model.")
    moved = squared_norms({key: trained[key].astype(np.float64) - initial[key] for key in initial})
    start = squared_norms(initial)
    layers: dict[str, list[str]] = {}
    for key in initial:
        layers.setdefault(records.layer_of(key), []).append(key)
    return {
        **_pair(moved, start, list(initial)),
        "layers": {layer: _pair(moved, start, keys) for layer, keys in layers.items()},
    }


def _pair(moved: dict[str, float], start: dict[str, float], keys: list[str]) -> dict[str, Any]:
    distance = math.sqrt(math.fsum(moved[key] for key in keys))
    norm = math.sqrt(math.fsum(start[key] for key in keys))
    return {"distance": distance, "relative": distance / norm if norm > 0 else None}
