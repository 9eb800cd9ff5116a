"""Weights as arrays by name: group them into layers, and compute how far they moved."""

import math
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, ...]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Layer:
    """A layer that has weights, trained or not."""

    name: str
    arrays: dict[str, Shape]  # such as `kernel` -> its shape

    @property
    def weights(self) -> int:
        return sum(math.prod(shape) for shape in self.arrays.values())


def layer_of(variable: str) -> str:
    """Return the layer of a variable's path, such as `conv_1` of `conv_1/kernel`."""
    return variable.rpartition("/")[0] or variable


def layers(trainable: Arrays, state: Arrays) -> list[Layer]:
    """Return the layers of a model's weights, in the model's order."""
    shapes: dict[str, dict[str, Shape]] = {}
    for variable, array in [*trainable.items(), *state.items()]:
        name = layer_of(variable)
        shapes.setdefault(name, {})[variable.removeprefix(f"{name}/")] = array.shape
    return [Layer(name, arrays) for name, arrays in shapes.items()]


def squared_norms(arrays: Arrays) -> dict[str, float]:
    # The last bits of a product by BLAS would depend on its number of threads.
    return {key: float(np.square(array, dtype=np.float64).sum()) for key, array in arrays.items()}


def squared_moves(initial: Arrays, trained: Arrays) -> dict[str, float]:
    return squared_norms({key: trained[key].astype(np.float64) - initial[key] for key in initial})


def distance(initial: Arrays, trained: Arrays) -> float:
    return math.sqrt(math.fsum(squared_moves(initial, trained).values()))
