"""The networks that every framework trains, described once and for all of them.

Layers, sizes and names are those of the Keras models in `batchscope.training.networks`; arrays are
laid out as Keras has them (images NHWC, kernels HWIO and (inputs, outputs)), and each framework
converts them into its own. Where a framework has its channels first, what it flattens stands in
another order, so that the rows of the dense kernel behind it must move with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, ...]
Arrays = dict[str, np.ndarray]  # variable's path, such as conv_1/kernel -> values


@dataclass(frozen=True)
class Layer:
    """One layer, by its name in the Keras model; `kernel` and `bias` are their initialisers."""

    kind: str  # conv, max_pool, flatten, dropout or dense
    name: str
    units: int = 0  # filters of a convolution, units of a dense layer
    size: int = 0  # side of a convolution's kernel, or of a pool, which is its stride too
    same: bool = False  # whether a convolution pads to the size of its input
    relu: bool = False  # whether ReLU follows
    rate: float = 0.0  # share that dropout drops
    kernel: str = "glorot_uniform"  # or random_normal, he_uniform
    bias: str = "zeros"  # or random_normal


@dataclass(frozen=True)
class Network:
    """A network for images of a shape; its last layer gives logits."""

    input_shape: Shape  # height, width, channels
    layers: tuple[Layer, ...]

    @property
    def binary(self) -> bool:
        """Whether its one output is the logit of the second of two classes."""
        return self.layers[-1].units == 1

    def inputs(self) -> Iterator[tuple[Layer, Shape]]:
        """Yields each layer with the shape of what goes into it, without the batch."""
        shape = self.input_shape
        for layer in self.layers:
            yield layer, shape
            shape = _output_shape(layer, shape)

    def shapes(self) -> dict[str, Shape]:
        """Returns the shape of every weight by its path, in Keras's layout and order."""
        found: dict[str, Shape] = {}
        for layer, shape in self.inputs():
            if layer.kind == "conv":
                found[f"{layer.name}/kernel"] = (layer.size, layer.size, shape[-1], layer.units)
            elif layer.kind == "dense":
                found[f"{layer.name}/kernel"] = (shape[-1], layer.units)
            else:
                continue
            found[f"{layer.name}/bias"] = (layer.units,)
        return found

    def flattened(self) -> dict[str, Shape]:
        """Returns dense layer -> the shape (height, width, channels) that it sees flattened.

        What lies between the two (dropout) leaves the order alone.
        """
        found, flat = {}, None
        for layer, shape in self.inputs():
            if layer.kind == "flatten":
                flat = shape
            elif layer.kind == "dense" and flat is not None:
                found[layer.name], flat = flat, None
        return found


def _output_shape(layer: Layer, shape: Shape) -> Shape:
    if layer.kind == "conv":
        side = 0 if layer.same else layer.size - 1
        return (shape[0] - side, shape[1] - side, layer.units)
    if layer.kind == "max_pool":
        return (shape[0] // layer.size, shape[1] // layer.size, shape[2])
    if layer.kind == "flatten":
        return (math.prod(shape),)
    return (layer.units,) if layer.kind == "dense" else shape


def campbell_cnn(input_shape: Shape, classes: int) -> Network:
    """Returns the network of `batchscope.training.networks.campbell_cnn`."""
    normal = {"kernel": "random_normal", "bias": "random_normal"}
    layers = (
        Layer("conv", "conv_1", 16, 4, relu=True, **normal),
        Layer("max_pool", "pool_1", size=2),
        Layer("conv", "conv_2", 32, 4, relu=True, **normal),
        Layer("max_pool", "pool_2", size=2),
        Layer("flatten", "flatten"),
        Layer("dropout", "dropout_1", rate=0.25),
        Layer("dense", "dense_1", 500, relu=True, **normal),
        Layer("dropout", "dropout_2", rate=0.5),
        Layer("dense", "output", classes, **normal),
    )
    return Network(input_shape, layers)


def lheureux_cnn(input_shape: Shape, classes: int) -> Network:
    """Returns the network of `batchscope.training.networks.lheureux_cnn`."""
    layers = (
        Layer("conv", "conv_1", 32, 3, same=True, relu=True, kernel="he_uniform"),
        Layer("max_pool", "pool_1", size=2),
        Layer("flatten", "flatten"),
        Layer("dense", "dense_1", 128, relu=True, kernel="he_uniform"),
        Layer("dense", "output", 1 if classes == 2 else classes),
    )
    return Network(input_shape, layers)


NETWORKS = {"campbell_cnn": campbell_cnn, "lheureux_cnn": lheureux_cnn}


def build(model: str, input_shape: Shape, classes: int) -> Network:
    """Returns a network by the name of its model.

    Raises:
        ValueError: If there is no such network, or the images are too small for it.
    """
    if model not in NETWORKS:
        raise ValueError(f"Expected one of {', '.join(NETWORKS)}. Received: {model!r}")
    network = NETWORKS[model](tuple(input_shape), classes)
    if min(min(shape) for _, shape in network.inputs()) < 1:
        raise ValueError(f"Expected larger images for {model}. Received: {tuple(input_shape)}")
    return network


def initial_weights(network: Network, seed: int) -> Arrays:
    """Returns weights drawn by Keras's initialisers, float32 in Keras's layout.

    Random normal is N(0, 0.05^2); He uniform is U(-l, l) with l = sqrt(6 / fan_in) (He et al.
    2015, arXiv 1502.01852), Glorot uniform with l = sqrt(6 / (fan_in + fan_out)) (Glorot and
    Bengio 2010).
    """
    generator = np.random.default_rng(seed)
    named = {layer.name: layer for layer in network.layers}
    weights = {}
    for path, shape in network.shapes().items():
        layer, what = path.split("/")
        initialiser = getattr(named[layer], what)
        weights[path] = _draw(generator, initialiser, shape).astype(np.float32)
    return weights


def _draw(generator: np.random.Generator, kind: str, shape: Shape) -> np.ndarray:
    if kind == "zeros":
        return np.zeros(shape)
    if kind == "random_normal":
        return generator.normal(0.0, 0.05, shape)
    field = math.prod(shape[:-2])
    fans = shape[-2] if kind == "he_uniform" else shape[-2] + shape[-1]
    limit = math.sqrt(6 / (field * fans))
    return generator.uniform(-limit, limit, shape)


def channels_first(network: Network, weights: Arrays) -> Arrays:
    """Returns weights for a framework with NCHW images: kernels OIHW and (outputs, inputs)."""
    flattened = network.flattened()
    found = {}
    for path, values in weights.items():
        shape = flattened.get(path.partition("/")[0])
        if values.ndim == 4:
            values = values.transpose(3, 2, 0, 1)
        elif values.ndim == 2 and shape:
            # Its rows are flattened (height, width, channels).
            values = values.reshape(*shape, -1).transpose(3, 2, 0, 1).reshape(values.shape[::-1])
        elif values.ndim == 2:
            values = values.T
        found[path] = np.ascontiguousarray(values)
    return found


def channels_last(network: Network, weights: Arrays) -> Arrays:
    """Returns what `channels_first` was given."""
    flattened = network.flattened()
    found = {}
    for path, values in weights.items():
        shape = flattened.get(path.partition("/")[0])
        if values.ndim == 4:
            values = values.transpose(2, 3, 1, 0)
        elif values.ndim == 2 and shape:
            height, width, channels = shape
            parts = values.reshape(-1, channels, height, width)
            values = parts.transpose(2, 3, 1, 0).reshape(values.shape[::-1])
        elif values.ndim == 2:
            values = values.T
        found[path] = np.ascontiguousarray(values)
    return found
