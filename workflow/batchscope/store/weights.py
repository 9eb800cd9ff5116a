"""Weights as arrays: the layers of a file of them, and how far they moved."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from batchscope import errors
from batchscope.store import npz_header, records
from batchscope.store.npz_header import Shape

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Layer:
    """A layer that has weights, trained or not."""

    name: str
    arrays: dict[str, Shape]  # such as `kernel` -> its shape

    @property
    def weights(self) -> int:
        return sum(math.prod(shape) for shape in self.arrays.values())


def layers(path: Path) -> list[Layer]:
    """Returns the layers of a file of weights, in the model's order; no array is read."""
    with errors.reading(path, "an npz of weights"):
        headers = npz_header.headers(path)
    found: dict[str, dict[str, Shape]] = {}
    for member, (shape, _) in headers.items():
        variable = member.partition(":")[2]
        name = records.layer_of(variable)
        found.setdefault(name, {})[variable.removeprefix(f"{name}/")] = shape
    return [Layer(name, arrays) for name, arrays in found.items()]


def squared_norms(arrays: Arrays) -> dict[str, float]:
    flat = {key: array.reshape(-1).astype(np.float64) for key, array in arrays.items()}
    return {key: float(np.dot(numbers, numbers)) for key, numbers in flat.items()}


def squared_moves(initial: Arrays, trained: Arrays) -> dict[str, float]:
    return squared_norms({key: trained[key].astype(np.float64) - initial[key] for key in initial})


def distance(initial: Arrays, trained: Arrays) -> float:
    return math.sqrt(math.fsum(squared_moves(initial, trained).values()))
