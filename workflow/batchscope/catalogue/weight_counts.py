"""Numbers of weights of the built-in networks, known without building them.

One line of layers for each network of `batchscope.training.networks`: `conv` filters, side of the
kernel, stride and padding; `pool`; `norm`, whose moving statistics are stored too; `dense`;
`output`, one unit for two classes where the network has a sigmoid there; of sequences `embedding`
of tokens and positions, `scale` and shift of a layer normalisation, `attention`, and `each`, a
dense layer at each position. Tests hold them against
Keras.
"""

from __future__ import annotations

import math

Layer = tuple[str | int, ...]
Shape = tuple[int, ...]
_SAME = "same"
_DENSE_NORM = [layer for _ in range(5) for layer in (("dense", 512), ("norm",))]

_NETWORKS: dict[str, list[Layer]] = {
    "small_cnn": [
        ("conv", 8, 3, 2, _SAME),
        ("conv", 16, 3, 2, _SAME),
        ("dense", 64),
        ("output",),
    ],
    "campbell_cnn": [
        ("conv", 16, 4),
        ("pool",),
        ("conv", 32, 4),
        ("pool",),
        ("dense", 500),
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


def stored(model: str, input_shape: Shape, classes: int) -> int | None:
    """Returns the weights in a file of a model's, trained or not; None for a user's own model."""
    if model not in _NETWORKS:
        return None
    shape, count = tuple(input_shape), 0
    for kind, *rest in _NETWORKS[model]:
        if kind == "conv":
            weights, shape = _convolution(shape, *rest)
            count += weights
        elif kind == "pool":
            shape = (shape[0] // 2, shape[1] // 2, shape[2])
        elif kind == "norm":
            count += 4 * shape[-1]
        elif kind == "embedding":
            count += (classes + shape[0]) * rest[0]
            shape = (shape[0], rest[0])
        elif kind == "scale":
            count += 2 * shape[-1]
        elif kind == "attention":  # query, key, value, and what joins the heads
            count += 4 * (shape[-1] + 1) * shape[-1]
        elif kind == "each":
            units = rest[0] if rest else classes
            count += (shape[-1] + 1) * units
            shape = (*shape[:-1], units)
        else:
            units = rest[0] if kind == "dense" else _outputs(classes, *rest)
            count += (math.prod(shape) + 1) * units
            shape = (units,)
    return count


def _convolution(
    shape: Shape, filters: int, side: int, stride: int = 1, padding: str = "valid"
) -> tuple[int, Shape]:
    """Returns a convolution's weights and the shape of what it gives."""
    lost = 0 if padding == _SAME else side - 1
    height, width = (-(-(size - lost) // stride) for size in shape[:2])
    return (side * side * shape[2] + 1) * filters, (height, width, filters)


def _outputs(classes: int, kind: str = "softmax") -> int:
    return 1 if kind == "sigmoid" and classes == 2 else classes
