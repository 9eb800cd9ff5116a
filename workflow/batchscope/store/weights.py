"""Weights as arrays by name in, distances out: how far a training moved them.

Trainings and measures use it, so it stands below both. A new number about saved weights is a
function here if it needs no TensorFlow.
"""

import math

import numpy as np

Arrays = dict[str, np.ndarray]


def layer_name(variable: str) -> str:
    """Return the layer of a variable's path, such as `conv_1` of `conv_1/kernel`."""
    return variable.rpartition("/")[0] or variable


def squared_norms(arrays: Arrays) -> dict[str, float]:
    # The last bits of a product by BLAS would depend on its number of threads.
    return {key: float(np.square(array, dtype=np.float64).sum()) for key, array in arrays.items()}


def squared_distances(initial: Arrays, trained: Arrays) -> dict[str, float]:
    return squared_norms({key: trained[key].astype(np.float64) - initial[key] for key in initial})


def distance(initial: Arrays, trained: Arrays) -> float:
    return math.sqrt(math.fsum(squared_distances(initial, trained).values()))
