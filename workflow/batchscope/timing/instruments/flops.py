"""Floating-point operations of a training step's products, from the shapes of the layers.

A multiply-add is two operations. Dense layers, convolutions and attention are counted; all else is
small beside them in the built-in networks. A convolution counts every tap of its kernel at every
position, those on the padding too; attention the products of its kernels and of all pairs of
positions, masked or not.

A layer takes its product once forward, again for the gradient by its weights where they are
trained, and again for the gradient by its input where anything before it is trained: not so for
the first layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
from keras import layers

from batchscope import private_interfaces
from batchscope.training import networks

# Layers with one product -> the sizes of their kernel that every number of the output multiplies;
# a depthwise kernel's last two are channels, each with its own product, and the filters of one.
_COUNTED = {
    **dict.fromkeys((layers.Dense, layers.Conv1D, layers.Conv2D, layers.Conv3D), slice(-1)),
    **dict.fromkeys((layers.DepthwiseConv1D, layers.DepthwiseConv2D), slice(-2)),
}
_WITHOUT_PRODUCTS = (
    *(layers.Flatten, layers.Reshape, layers.Permute, layers.Rescaling),
    *(layers.Embedding, networks.AddPositions),  # rows are looked up and added
    *(layers.Activation, layers.ReLU, layers.LeakyReLU, layers.ELU, layers.PReLU, layers.Softmax),
    *(layers.Dropout, layers.SpatialDropout2D, layers.GaussianNoise, layers.GaussianDropout),
    *(layers.BatchNormalization, layers.LayerNormalization, layers.GroupNormalization),
    *(layers.MaxPooling2D, layers.AveragePooling2D),
    *(layers.GlobalMaxPooling2D, layers.GlobalAveragePooling2D),
    *(layers.ZeroPadding2D, layers.Cropping2D, layers.UpSampling2D),
    *(layers.Add, layers.Subtract, layers.Multiply, layers.Average, layers.Concatenate),
)


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of products per example, 2 per multiply-add."""

    forward_products: int
    training_products: int  # of the forward and the backward pass
    not_counted: tuple[str, ...]  # layers that may have products and are in neither: name (class)


def per_image(model: keras.Model) -> Flops:
    """Returns the operations that one image adds to a training step of a built classifier.

    One that has no graph of layers (a subclass) is not counted.
    """
    found = list(_products(model, False) if _has_graph(model) else [(_name(model), 0, 0)])
    return Flops(
        sum(forward for _, forward, _ in found),
        sum(forward * times for _, forward, times in found),
        tuple(dict.fromkeys(name for name, forward, _ in found if not forward)),
    )


def _products(model: keras.Model, trained: bool) -> Iterator[tuple[str, int, int]]:
    """Yields the name of each call of a layer with products, those inside models among them.

    With its operations (0 where they are not known), and how often a training step takes it.
    """
    graph = keras.Model(model.inputs, model.outputs)  # a Sequential has no nodes of its own
    behind = {id(tensor): trained for tensor in graph.inputs}
    for node in private_interfaces.calls(graph):
        if node.is_input:
            continue
        layer = node.operation
        before = any(behind[id(tensor)] for tensor in node.input_tensors)
        own = {id(weights) for weights in getattr(layer, "trainable_variables", ())}
        behind |= {id(tensor): before or bool(own) for tensor in node.outputs}
        if _has_graph(layer):
            yield from _products(layer, before)
        elif type(layer) in _COUNTED:
            sizes = (*layer.kernel.shape[_COUNTED[type(layer)]], *node.outputs[0].shape[1:])
            forward = 0 if None in sizes else 2 * math.prod(sizes)
            yield _name(layer), forward, 1 + (id(layer.kernel) in own) + before
        elif type(layer) is layers.MultiHeadAttention and _of_itself(node):
            trained_here = bool(own)
            for products, sides in zip(_attention(layer, node), (1, 2), strict=True):
                # Both sides of a product of pairs come from what is trained.
                times = 1 + (trained_here + before if sides == 1 else 2 * (trained_here or before))
                yield _name(layer), products, times
        elif type(layer) not in _WITHOUT_PRODUCTS:
            yield _name(layer), 0, 0


def _of_itself(node: Any) -> bool:
    """Whether a call of attention is of one sequence of known length on itself."""
    shapes = {tuple(tensor.shape) for tensor in node.input_tensors}
    return len(shapes) == 1 and len(shape := shapes.pop()) == 3 and None not in shape[1:]


def _attention(layer: layers.MultiHeadAttention, node: Any) -> tuple[int, int]:
    """Returns the operations of attention's kernels, and of the products of pairs of positions."""
    length = node.outputs[0].shape[1]
    kernels = sum(math.prod(each.shape) for each in layer.weights if each.name == "kernel")
    pairs = length**2 * layer.num_heads * (layer.key_dim + layer.value_dim)
    return 2 * length * kernels, 2 * pairs


def _has_graph(layer: keras.Operation) -> bool:
    return bool(getattr(layer, "inputs", None))


def _name(layer: keras.Operation) -> str:
    return f"{layer.name} ({type(layer).__name__})"
