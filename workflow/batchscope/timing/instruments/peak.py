"""The machine's measured peak of a matrix product, and the throughput that it allows.

The roofline model's bound by computation (Williams, Waterman and Patterson 2009,
Communications of the ACM 52(4), section 3), with a measured peak in place of the data sheet's:
no training step can do its matrix products and convolutions faster than the machine does its
best matrix product. An algorithm that does a convolution in fewer operations (Winograd, FFT)
can go beyond.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

SIZES = (512, 1024, 2048)
GPU_SIZES = (*SIZES, 4096, 8192)  # the smaller ones are over before a GPU's units are filled
DTYPE = "float32"
FEWEST, MOST = 3, 7  # blocks of a size


def matmul_peak(seconds: float = 1.0, sizes: Sequence[int] | None = None) -> dict[str, Any]:
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
        if FEWEST * product_flops(size) / best <= seconds:
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


def product_flops(size: int) -> int:
    """Returns the operations of the product of two square matrices, 2 per multiply-add."""
    return 2 * size**3


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
    low, median, high = np.percentile(
        products * product_flops(size) / np.array(times), [25, 50, 75]
    )
    return {
        "size": size,
        "flops_per_second": float(median),
        "flops_per_second_q1": float(low),
        "flops_per_second_q3": float(high),
        "products": products,
        "seconds": times,
    }
