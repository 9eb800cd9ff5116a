"""Floating-point operations of a training step, counted on the graph that TensorFlow traces.

A multiply-add is two operations. Matrix products and convolutions are counted apart from all
else, because a matrix product's measured peak bounds only them. They are counted from the
shapes of their tensors: TensorFlow's own statistics of a convolution's backward pass take its
input's size over its stride for its output's size, which is too much without padding. A
convolution counts every tap of its kernel at every position, those on the padding too, as
TensorFlow does for the forward pass.

What belongs to a step: the forward pass in training mode, the loss, the gradient of every
trainable weight, and the updates of moving statistics. What does not: the optimizer, which
works per step and not per image; the images' conversion; and what the graph holds but no
result needs, such as the gradient of the first layer's input, which TensorFlow prunes.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batchscope import private_interfaces

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")

# The positions of a convolution's output and kernel (or of their gradients) among the inputs;
# None for the operation's own output.
_CONVOLUTIONS: dict[str, tuple[int | None, int | None]] = {
    "Conv2D": (None, 1),
    "Conv2DBackpropInput": (2, 1),
    "Conv2DBackpropFilter": (2, None),
    "Conv3D": (None, 1),
    "Conv3DBackpropInputV2": (2, 1),
    "Conv3DBackpropFilterV2": (2, None),
    "DepthwiseConv2dNative": (None, 1),
    "DepthwiseConv2dNativeBackpropInput": (2, 1),
    "DepthwiseConv2dNativeBackpropFilter": (2, None),
}
_MATRIX_PRODUCTS = {
    "MatMul": "transpose_a",
    "BatchMatMul": "adj_x",
    "BatchMatMulV2": "adj_x",
    "BatchMatMulV3": "adj_x",
}
# A product of another kind must not pass for nothing.
_LIKE_A_PRODUCT = re.compile("MatMul|Conv|Einsum|RNN|LSTM|GRU")

# No statistics are registered for these; one operation per element, as TensorFlow has it for
# its logarithm and its square root's inverse.
_POINTWISE = re.compile(
    "Abs|Erf|Exp|Expm1|Log1p|Sqrt(Grad)?|Tanh(Grad)?|Sigmoid(Grad)?|Softplus(Grad)?"
    "|Softsign(Grad)?|(Leaky)?Relu(Grad)?|Relu6(Grad)?|Selu(Grad)?|Elu(Grad)?"
)


class Uncounted(ValueError):
    """A product's operations depend on what only a run knows, or its kind is not known here."""


@dataclass(frozen=True)
class Flops:
    """Floating-point operations, 2 per multiply-add.

    Attributes:
        forward_products: Of the matrix products and convolutions of the forward pass and loss.
        forward_other: Of everything else there.
        training_products: Of the products of the forward and the backward pass.
        training_other: Of everything else there. TensorFlow's statistics, and one per element
            of common activations, where it has none; what neither covers counts nothing, so
            this is an estimate from below.
    """

    forward_products: int
    forward_other: int
    training_products: int
    training_other: int


def per_image(model: keras.Model, input_shape: tuple[int, ...] | None = None) -> Flops:
    """Returns the operations that one more image adds to a training step.

    The difference between a step with two images and one with one, so that what a step costs
    whatever its batch (a penalty on the weights) is no part of it.

    Args:
        model: A built classifier.
        input_shape: Height, width, channels; the model's own where None.

    Raises:
        Uncounted: If a product cannot be counted.
    """
    one, two = (step(model, batch_size, input_shape) for batch_size in (1, 2))
    return Flops(*(vars(two)[name] - count for name, count in vars(one).items()))


def step(
    model: keras.Model, batch_size: int = 1, input_shape: tuple[int, ...] | None = None
) -> Flops:
    """Returns the operations of one training step; nothing is run and no weight changes.

    Args:
        model: A built classifier.
        batch_size: Images of the step.
        input_shape: Height, width, channels; the model's own where None.

    Raises:
        Uncounted: If a product cannot be counted.
    """
    import tensorflow as tf

    from batchscope.training import losses

    shape = tuple(input_shape or model.input_shape[1:])
    if None in shape:
        raise Uncounted(f"input_shape: received {shape}; every size is expected.")
    per_example = losses.example_losses(model)

    @tf.function(autograph=False)
    def traced(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        values = [variable.value for variable in model.trainable_variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            example, _ = per_example(labels, model(images, training=True))
            loss = tf.add_n([tf.reduce_mean(example), *model.losses])
        return loss, tape.gradient(loss, values)

    graph = traced.get_concrete_function(
        tf.TensorSpec([batch_size, *shape], tf.float32), tf.TensorSpec([batch_size], tf.int32)
    ).graph
    with _unwarned():
        forward = _count(graph, graph.outputs[:1], [])
        training = _count(graph, graph.outputs, graph.control_outputs)
    return Flops(*forward, *training)


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    """Keeps the note off the terminal that TensorFlow's statistics use old functions of its."""
    import tensorflow as tf

    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)


def _count(
    graph: tf.Graph, tensors: Iterable[tf.Tensor], operations: Iterable[tf.Operation]
) -> tuple[int, int]:
    """Returns the operations of products, and of all else, that the results of a graph need."""
    products = other = 0
    for operation, outputs in _needed(tensors, operations).items():
        if operation.type in _CALLS:
            inner = _function(graph, operation.get_attr("f").name, operation)
            wanted = [inner.outputs[index] for index in sorted(outputs)]
            more = _count(inner, wanted, inner.control_outputs)
            products, other = products + more[0], other + more[1]
            continue
        _refuse_products_inside(graph, operation)
        count = _product(operation)
        if count is None:
            other += _other(graph, operation)
        else:
            products += count
    return products, other


def _needed(
    tensors: Iterable[tf.Tensor], operations: Iterable[tf.Operation]
) -> dict[tf.Operation, set[int]]:
    """Returns the operations behind the given ones, with the outputs that are used of each."""
    needed: dict[tf.Operation, set[int]] = {}
    left: list[tuple[tf.Operation, int | None]] = [(each.op, each.value_index) for each in tensors]
    left += [(operation, None) for operation in operations]
    while left:
        operation, output = left.pop()
        if operation not in needed:
            needed[operation] = set()
            left += [(each.op, each.value_index) for each in operation.inputs]
            left += [(each, None) for each in operation.control_inputs]
        if output is not None:
            needed[operation].add(output)
    return needed


def _function(graph: tf.Graph, name: str, operation: tf.Operation) -> Any:
    found = private_interfaces.called_graph(graph, name)
    if found is None:
        raise Uncounted(f"{operation.name}: calls {name}; a function of the graph is expected.")
    return found


def _refuse_products_inside(graph: tf.Graph, operation: tf.Operation) -> None:
    """Raises Uncounted for a loop or a branch with products: its rounds are not in the graph."""
    for attribute in operation.node_def.attr.values():
        for function in [attribute.func, *attribute.list.func]:
            if function.name:
                inner = _function(graph, function.name, operation)
                if _count(inner, inner.outputs, inner.control_outputs)[0]:
                    raise Uncounted(
                        f"{operation.name}: received products inside {operation.type}; "
                        "products outside of loops and branches are expected."
                    )


def _product(operation: tf.Operation) -> int | None:
    """Returns the operations of a matrix product or a convolution; None for anything else."""
    kind = operation.type
    if kind in _MATRIX_PRODUCTS:
        first = _shape(operation, 0)
        inner = first[-2] if operation.get_attr(_MATRIX_PRODUCTS[kind]) else first[-1]
        return 2 * inner * math.prod(_shape(operation, None))
    if kind in _CONVOLUTIONS:
        output, kernel = (_shape(operation, where) for where in _CONVOLUTIONS[kind])
        # A depthwise kernel's last size is the filters of one channel.
        taps = kernel[:-2] if kind.startswith("Depthwise") else kernel[:-1]
        return 2 * math.prod(taps) * math.prod(output)
    if kind == "Einsum":
        shapes = [_shape(operation, index) for index in range(len(operation.inputs))]
        return einsum_flops(operation.get_attr("equation").decode(), shapes)
    if _LIKE_A_PRODUCT.search(kind):
        raise Uncounted(f"{operation.name}: received {kind}; one of these is expected: {_KNOWN}.")
    return None


_KNOWN = ", ".join([*_MATRIX_PRODUCTS, *_CONVOLUTIONS, "Einsum"])


def _shape(operation: tf.Operation, where: int | None) -> list[int]:
    """Returns the shape of the output (None) or of an input of an operation."""
    shape = (operation.outputs[0] if where is None else operation.inputs[where]).shape
    if not shape.is_fully_defined():
        raise Uncounted(f"{operation.name}: received a shape {shape}; a full one is expected.")
    return shape.as_list()


def einsum_flops(equation: str, shapes: list[list[int]]) -> int:
    """Returns the operations of the product of two tensors by Einstein's summation.

    Twice the product of the sizes of all labels. A label of one input alone that the output
    does not have is summed before the product and does not count.

    Args:
        equation: Such as `...ij,jk->...ik`, with an arrow.
        shapes: The shapes of the inputs; 0 is returned where there is but one.
    """
    if len(shapes) < 2:
        return 0
    left, result = equation.replace(" ", "").split("->")
    terms = left.split(",")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        start, dots, end = term.partition("...")
        named = [*zip(start, shape, strict=False)]
        if dots:
            stop = len(shape) - len(end)
            named += zip(end, shape[stop:], strict=True)
            # Counted from the end, as they are broadcast.
            spread = reversed(shape[len(start) : stop])
            named += [(f"...{place}", size) for place, size in enumerate(spread)]
        for label, size in named:
            sizes[label] = max(size, sizes.get(label, 1))
    counted = [
        size
        for label, size in sizes.items()
        if label.startswith("...") or label in result or all(label in term for term in terms)
    ]
    return 2 * math.prod(counted)


def _other(graph: tf.Graph, operation: tf.Operation) -> int:
    """Returns the operations on floating-point numbers of what is no product."""
    if not operation.outputs or not operation.outputs[0].dtype.is_floating:
        return 0
    if _POINTWISE.fullmatch(operation.type):
        return operation.outputs[0].shape.num_elements() or 0
    try:
        return private_interfaces.registered_flops(graph, operation)
    except (AssertionError, ValueError, TypeError, IndexError):
        # Its shape is not known before it runs, or its layout not to the statistics.
        return 0
