"""Layers of the built-in networks and their weights, known without building them.

One line of layers for each network of `batchscope.training.networks`: `conv` filters, side of the
kernel, stride and padding; `pool`; `drop` a share of a vector; `norm`, whose moving statistics are
stored too; `dense`; `output`, one unit for two classes where the network has a sigmoid there; of
sequences `embedding` of tokens and positions, `scale` and shift of a layer normalisation,
`attention`, and `each`, a dense layer at each position. Tests hold them against Keras.
"""

from __future__ import annotations

import math
from typing import NamedTuple

Layer = tuple[str | float, ...]
Shape = tuple[int, ...]
_SAME = "same"
_DENSE_NORM = [layer for _ in range(5) for layer in (("dense", 512), ("norm",))]

_NETWORKS: dict[str, list[Layer]] = {
    "small_cnn": [("conv", 8, 3, 2, _SAME), ("conv", 16, 3, 2, _SAME), ("dense", 64), ("output",)],
    "campbell_cnn": [
        ("conv", 16, 4),
        ("pool",),
        ("conv", 32, 4),
        ("pool",),
        ("drop", 0.25),
        ("dense", 500),
        ("drop", 0.5),
        ("output",),
    ],
    "chang_vgg": [
        *(
            layer
            for filters in (4, 8, 16, 32, 64)
            for layer in (("conv", filters, 3, 1, _SAME), ("pool",))
        ),
        ("dense", 256),
        ("dense", 256),
        ("output", "sigmoid"),
    ],
    "lheureux_cnn": [("conv", 32, 3, 1, _SAME), ("pool",), ("dense", 128), ("output", "sigmoid")],
    "benchmark_cnn": [
        ("conv", 8, 3, 1, _SAME),
        *(
            layer
            for filters in (8, 16, 32, 64)
            for layer in (("conv", filters, 3, 1, _SAME), ("norm",), ("pool",))
        ),
        ("dense", 128),
        ("dense", 64),
        ("output",),
    ],
    "keskar_f1": [*_DENSE_NORM, ("output",)],
    "keskar_f1_plain": [*[("dense", 512)] * 5, ("output",)],
    "tutorial_cnn": [("conv", 32, 3), ("pool",), ("output",)],
    "tiny_transformer": [
        ("embedding", 96),
        *(
            layer
            for _ in range(2)
            for layer in (("scale",), ("attention",), ("scale",), ("each", 384), ("each", 96))
        ),
        ("scale",),
        ("each",),
    ],
    "mlp": [("dense", 128), ("dense", 128), ("output",)],
}


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


def layers(model: str, input_shape: Shape, classes: int) -> list[Summary] | None:
    """Returns a model's layers in order; None for a user's own model."""
    if model not in _NETWORKS:
        return None
    shape, found = tuple(input_shape), []
    for kind, *rest in _NETWORKS[model]:
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
    lost = 0 if padding == _SAME else side - 1
    height, width = (-(-(size - lost) // stride) for size in shape[:2])
    return (side * side * shape[2] + 1) * filters, (height, width, filters)


def _outputs(classes: int, kind: str = "softmax") -> int:
    return 1 if kind == "sigmoid" and classes == 2 else classes
