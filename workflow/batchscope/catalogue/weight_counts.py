"""What the layers of the built-in networks give and their weights, known without building them.

Tests hold them against Keras.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

from batchscope.catalogue.networks import NETWORKS, SAME

Shape = tuple[int, ...]


class Summary(NamedTuple):
    """A layer of a network, as a summary has it.

    Attributes:
        layer: What it is.
        shape: Of what it gives for one example; None where that is not known.
        weights: How many it has, with those that are not trained.
    """

    layer: str
    shape: tuple[int | None, ...] | None
    weights: int


def stored(model: str, input_shape: Shape, classes: int) -> int | None:
    """Returns the weights in a file of a model's, trained or not; None for a user's own model."""
    found = layers(model, input_shape, classes)
    return None if found is None else sum(each.weights for each in found)


@functools.cache
def least_side(model: str) -> int:
    """Returns the least height and width of images that a built-in network takes, in pixels."""
    return next(
        side
        for side in itertools.count(1)
        if all(min(each.shape) > 0 for each in layers(model, (side, side, 1), 2))
    )


def layers(model: str, input_shape: Shape, classes: int) -> list[Summary] | None:
    """Returns a model's layers in order; None for a user's own model."""
    if model not in NETWORKS:
        return None
    shape, found = tuple(input_shape), []
    for kind, *rest in NETWORKS[model].layers:
        words, count = kind, 0
        if kind == "conv":
            words = f"convolution {rest[1]} \N{MULTIPLICATION SIGN} {rest[1]}"
            words += f", stride {rest[2]}" if rest[2:3] > [1] else ""
            count, shape = _convolution(shape, *rest)
        elif kind == "pool":
            words = "max pooling 2 \N{MULTIPLICATION SIGN} 2"
            shape = (shape[0] // 2, shape[1] // 2, shape[2])
        elif kind == "norm":
            words, count = "batch normalisation", 4 * shape[-1]
        elif kind == "drop":
            words, shape = f"dropout {rest[0]}", (math.prod(shape),)
        elif kind == "embedding":
            words, count = "embedding of tokens and positions", (classes + shape[0]) * rest[0]
            shape = (shape[0], rest[0])
        elif kind == "scale":
            words, count = "layer normalisation", 2 * shape[-1]
        elif kind == "attention":  # query, key, value, and what joins the heads
            words, count = "causal attention, sum", 4 * (shape[-1] + 1) * shape[-1]
        elif kind == "each":
            units = rest[0] if rest else classes
            words = "dense at each position" if rest else "output at each position"
            count = (shape[-1] + 1) * units
            shape = (*shape[:-1], units)
        else:
            units = rest[0] if kind == "dense" else _outputs(classes, *rest)
            count = (math.prod(shape) + 1) * units
            shape = (units,)
        found.append(Summary(words, shape, count))
    return found


def _convolution(
    shape: Shape, filters: int, side: int, stride: int = 1, padding: str = "valid"
) -> tuple[int, Shape]:
    """Returns a convolution's weights and the shape of what it gives."""
    lost = 0 if padding == SAME else side - 1
    height, width = (-(-(size - lost) // stride) for size in shape[:2])
    return (side * side * shape[2] + 1) * filters, (height, width, filters)


def _outputs(classes: int, kind: str = "softmax") -> int:
    return 1 if kind == "sigmoid" and classes == 2 else classes
