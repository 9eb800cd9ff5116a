"""What bounds the throughput: the machine's peak of a matrix product, and a step's operations.

The roofline model's bound by computation (Williams, Waterman and Patterson 2009,
Communications of the ACM 52(4), section 3), with a measured peak in place of the data sheet's:
no training step can do its matrix products and convolutions faster than the machine does its
best matrix product. An algorithm that does a convolution in fewer operations (Winograd, FFT)
can go beyond.

Operations are counted from the shapes of the layers, 2 per multiply-add: of dense layers,
convolutions and attention; all else is small beside them in the built-in networks. A convolution
counts every tap of its kernel at every position, those on the padding too; attention the products
of its kernels and of all pairs of positions, masked or not. A layer takes its product once forward,
again for the gradient by its weights where they are trained, and again for the gradient by its
input where anything before it is trained: not so for the first layer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
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
SIZES = (512, 1024, 2048)
GPU_SIZES = (*SIZES, 4096, 8192)  # the smaller ones are over before a GPU's units are filled
DTYPE = "float32"
FEWEST, MOST = 3, 7  # blocks of a size


def flops(model: keras.Model) -> dict[str, Any]:
    """Returns the operations that one image adds to a training step of a built classifier.

    Returns:
        `forward_products`; `training_products`, of the forward and the backward pass;
        `not_counted`: layers that may have products and are in neither, as name (class). A model
        that has no graph of layers (a subclass) is one of them.
    """
    found = list(_products(model, False) if _has_graph(model) else [(_name(model), 0, 0)])
    return {
        "forward_products": sum(forward for _, forward, _ in found),
        "training_products": sum(forward * times for _, forward, times in found),
        "not_counted": list(dict.fromkeys(name for name, forward, _ in found if not forward)),
    }


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
            length = node.outputs[0].shape[1]
            kernels = sum(math.prod(each.shape) for each in layer.weights if each.name == "kernel")
            yield _name(layer), 2 * length * kernels, 1 + bool(own) + before
            pairs = length**2 * layer.num_heads * (layer.key_dim + layer.value_dim)
            # Both sides of a product of pairs come from what is trained.
            yield _name(layer), 2 * pairs, 1 + 2 * (bool(own) or before)
        elif type(layer) not in _WITHOUT_PRODUCTS:
            yield _name(layer), 0, 0


def _of_itself(node: Any) -> bool:
    """Whether a call of attention is of one sequence of known length on itself."""
    shapes = {tuple(tensor.shape) for tensor in node.input_tensors}
    return len(shapes) == 1 and len(shape := shapes.pop()) == 3 and None not in shape[1:]


def _has_graph(layer: keras.Operation) -> bool:
    return bool(getattr(layer, "inputs", None))


def _name(layer: keras.Operation) -> str:
    return f"{layer.name} ({type(layer).__name__})"


def matmul_peak(seconds: float = 1.0, sizes: Sequence[int] = ()) -> dict[str, Any]:
    """Measures the peak of square matrix products on this process's threads and device.

    The timed blocks of all sizes take about so many seconds together; a size is left out if three
    products would not fit, unless it is the first.

    Returns:
        `flops_per_second`: the highest median of a size's blocks, with its quartiles and its
        `size`; `sizes`: for each size tried, the same, and `products` per block and `seconds` of
        each block; `threads` of an operation (0: as many as TensorFlow chooses);
        `tensor_float_32`: whether float32 products may be rounded to 10 bits of mantissa, as GPUs
        from NVIDIA's Ampere on do by default, and so faster by far than with full ones.
    """
    on_gpu = bool(tf.config.get_visible_devices("GPU"))
    sizes = sizes or (GPU_SIZES if on_gpu else SIZES)
    tried: list[dict[str, Any]] = []
    for size in sizes:
        best = max((each["flops_per_second"] for each in tried), default=math.inf)
        if FEWEST * 2 * size**3 / best <= seconds:
            tried.append(_time_size(size, seconds / len(sizes)))
    highest = max(tried, key=lambda each: each["flops_per_second"])
    return {
        **{name: value for name, value in highest.items() if name not in ("products", "seconds")},
        "sizes": tried,
        "dtype": DTYPE,
        "threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "device": "gpu" if on_gpu else "cpu",
        "tensor_float_32": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
    }


def involution(size: int) -> np.ndarray:
    """Returns the cosine transform of type IV, float64 of shape (size, size).

    It is symmetric, orthogonal and its own inverse, with no pattern of zeros: products with it
    can be chained without end, and every second one gives back what the chain began with.
    """
    places = np.arange(size) + 0.5
    return math.sqrt(2 / size) * np.cos(np.pi / size * np.outer(places, places))


@tf.function(autograph=False, reduce_retracing=True)
def chain(matrix: tf.Tensor, start: tf.Tensor, products: tf.Tensor) -> tf.Tensor:
    """Returns matrix^products start, as one graph."""
    # Each product needs the last one's, so none can be left out, moved or run beside it.
    _, last = tf.while_loop(
        lambda done, _: done < products,
        lambda done, last: (done + 1, tf.matmul(matrix, last)),
        (tf.constant(0), start),
        parallel_iterations=1,
    )
    return last


def _time_size(size: int, seconds: float) -> dict[str, Any]:
    matrix = tf.constant(involution(size), DTYPE)
    start = tf.constant(np.random.default_rng(0).standard_normal((size, size)), DTYPE)

    def block(products: int) -> float:
        count = tf.constant(products)
        begun = time.perf_counter()
        # The read waits for the device, and the sum of one row stays out of the way.
        value = float(tf.reduce_sum(chain(matrix, start, count)[0]))
        taken = time.perf_counter() - begun
        if not math.isfinite(value):
            raise ArithmeticError(f"The products of size {size} gave {value}.")
        return taken

    block(1)
    # A call has a cost of its own, so a block holds as many products as its time allows.
    products, taken = 1, block(1)
    while 2 * taken < seconds / MOST:
        products *= 2
        taken = block(products)
    times: list[float] = []
    while len(times) < FEWEST or (len(times) < MOST and sum(times) < seconds):
        times.append(block(products))
    rates = products * 2 * size**3 / np.array(times)
    low, median, high = np.percentile(rates, [25, 50, 75]).tolist()
    return {
        "size": size,
        "flops_per_second": median,
        "flops_per_second_q1": low,
        "flops_per_second_q3": high,
        "products": products,
        "seconds": times,
    }
