"""Compare our training loop with Keras fit, a hand-written loop and PyTorch.

    python benchmarks/training.py [--networks campbell_cnn tiny_transformer]
                                  [--batch-sizes 4 32 256] [--blocks 21]

One process, one thread: `campbell_cnn` with plain SGD on random images of the size of MNIST, and
`tiny_transformer` with Adam on the docstrings of NumPy. The hand-written loop calls a `tf.function`
per update. PyTorch, if installed, has the same networks and loop. A block has the same number of
steps for every contender. The table has our examples per second, divided by theirs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from side_by_side import (
    Contender,
    dataset,
    first,
    header,
    interleave,
    now,
    our_loop,
    parser,
    random_images,
    ratio,
    row,
)

from batchscope.datasets import Examples, prepared
from batchscope.host import tensorflow_start
from batchscope.study import run_factors

BLOCK_SECONDS = 1.0
TORCH = importlib.util.find_spec("torch") is not None
# Network -> its optimizer and its learning rate.
OPTIMIZERS = {"campbell_cnn": ("SGD", 0.01), "tiny_transformer": ("Adam", 0.001)}


def examples_of(network: str) -> tuple[Examples, prepared.ModelInput]:
    """Return the examples of a network, and their shape."""
    if network == "campbell_cnn":
        shape, classes = (28, 28, 1), 10
        return random_images(shape, classes, 20_000), prepared.ModelInput(shape, classes)
    data = dataset("numpy_docs")
    return data.examples("train"), data.model_input


def built(network: str, model_input: prepared.ModelInput):
    """Return a Keras model and its optimizer."""
    import keras

    from batchscope.training import models

    name, rate = OPTIMIZERS[network]
    return models.build(network, model_input, seed=0), getattr(keras.optimizers, name)(rate)


def as_floats(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Return scaled inputs and labels."""
    inputs, labels = np.asarray(examples.images), np.asarray(examples.labels, np.int32)
    if inputs.dtype != np.int32:
        inputs = inputs.astype(np.float32) * np.float32(examples.scale)
    return inputs, labels


def ours(
    network: str, model_input: prepared.ModelInput, examples: Examples, batch_size: int
) -> Contender:
    from batchscope.training import optimizers

    defaults = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    name, rate = OPTIMIZERS[network]
    changed = {"batch_size": batch_size, "optimizer": name.lower(), "learning_rate": rate}
    optimizer = optimizers.make_optimizer(defaults | changed)
    return our_loop(built(network, model_input)[0], optimizer, examples, batch_size)


def keras_fit(
    network: str, model_input: prepared.ModelInput, examples: Examples, batch_size: int
) -> Contender:
    model, optimizer = built(network, model_input)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    inputs, labels = as_floats(examples)
    return lambda: model.fit(inputs, labels, batch_size=batch_size, epochs=1, verbose=0)


def by_hand(
    network: str, model_input: prepared.ModelInput, examples: Examples, batch_size: int
) -> Contender:
    import keras
    import tensorflow as tf

    model, optimizer = built(network, model_input)
    inputs, labels = as_floats(examples)
    generator = np.random.default_rng(0)

    @tf.function
    def update(batch: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(targets, outputs))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss, tf.math.count_nonzero(tf.equal(tf.argmax(outputs, -1, tf.int32), targets))

    def block() -> None:
        total, hits = 0.0, 0
        order = generator.permutation(len(labels))
        for start in range(0, len(labels), batch_size):
            batch = order[start : start + batch_size]
            loss, right = update(inputs[batch], labels[batch])
            # Loss and accuracy of the epoch, which the other loops report too.
            total, hits = total + loss * len(batch), hits + right
        float(total), int(hits)

    return block


def pytorch(
    network: str, model_input: prepared.ModelInput, examples: Examples, batch_size: int
) -> Contender:
    import torch
    from torch.nn import functional

    model, logits = in_pytorch(network, model_input)
    name, rate = OPTIMIZERS[network]
    optimizer = getattr(torch.optim, name)(model.parameters(), rate)
    inputs, labels = map(torch.tensor, as_floats(examples))
    inputs, labels = inputs.movedim(-1, 1) if inputs.ndim == 4 else inputs, labels.long()

    def block() -> None:
        total, hits = torch.zeros(()), torch.zeros((), dtype=torch.int64)
        for batch in torch.randperm(len(labels)).split(batch_size):
            outputs, targets = logits(inputs[batch]).flatten(0, -2), labels[batch].flatten()
            loss = functional.cross_entropy(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(batch)
            hits += (outputs.argmax(-1) == targets).sum()
        float(total), int(hits)

    return block


def in_pytorch(network: str, model_input: prepared.ModelInput) -> tuple[Any, Callable[[Any], Any]]:
    """Return the network in PyTorch: a module, and a function that returns its logits."""
    import torch
    from torch import nn

    if network == "campbell_cnn":
        model = nn.Sequential(
            *(nn.Conv2d(1, 16, 4), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 4), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(0.25), nn.Linear(512, 500), nn.ReLU()),
            *(nn.Dropout(0.5), nn.Linear(500, model_input.classes)),
        )
        return model, model
    (length,), width = model_input.input_shape, 96
    block = nn.TransformerEncoderLayer(
        width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
    )
    parts = {
        "embedding": nn.Embedding(model_input.classes, width),
        "blocks": nn.TransformerEncoder(block, 2, nn.LayerNorm(width), enable_nested_tensor=False),
        "output": nn.Linear(width, model_input.classes),
    }
    model, positions = nn.ModuleDict(parts), nn.Parameter(0.05 * torch.randn(length, width))
    model.register_parameter("positions", positions)
    mask = nn.Transformer.generate_square_subsequent_mask(length)

    def logits(tokens: torch.Tensor) -> torch.Tensor:
        values = parts["embedding"](tokens) + positions
        return parts["output"](parts["blocks"](values, mask, is_causal=True))

    return model, logits


def compare(network: str, batch_sizes: list[int], blocks: int) -> None:
    """Print the table of a network."""
    examples, model_input = examples_of(network)
    peers = {"Keras fit": keras_fit, "by hand": by_hand} | ({"PyTorch": pytorch} if TORCH else {})
    print(f"\n{network}, {OPTIMIZERS[network][0]}:\n")
    header("batch size", "examples/s, ours", *peers, "ours to itself")
    for batch_size in batch_sizes:
        probe = ours(network, model_input, first(examples, 8 * batch_size), batch_size)
        probe()
        start_time = now()
        probe()
        most = len(examples.labels) // batch_size
        steps = min(most, max(8, round(8 * BLOCK_SECONDS / (now() - start_time)[0])))
        case = (network, model_input, first(examples, steps * batch_size), batch_size)
        contenders = {"ours": ours(*case), "again": ours(*case)}
        contenders |= {name: peer(*case) for name, peer in peers.items()}
        timings = interleave(contenders, blocks)
        speed = steps * batch_size / np.median(timings["ours"][:, 0])
        ratios = [ratio(timings[name], timings["ours"]) for name in (*peers, "again")]
        row(batch_size, f"{speed:.0f}", *ratios)


def main() -> None:
    arguments = parser(__doc__, blocks=21)
    arguments.add_argument("--networks", nargs="+", default=[*OPTIMIZERS], choices=OPTIMIZERS)
    arguments.add_argument("--batch-sizes", type=int, nargs="+", default=[4, 32, 256])
    options = arguments.parse_args()
    tensorflow_start.start(threads=1)
    if TORCH:
        import torch

        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)  # a second call raises
    for network in options.networks:
        compare(network, options.batch_sizes, options.blocks)


if __name__ == "__main__":
    main()
