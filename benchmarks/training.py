"""Our training loop beside Keras fit, a hand-written loop and PyTorch.

    python benchmarks/training.py [--networks campbell_cnn tiny_transformer]
                                  [--batch-sizes 4 32 256] [--blocks 21]

One process, one thread: `campbell_cnn` with plain SGD on images of random bytes as large as MNIST's
and `tiny_transformer` with Adam on NumPy's docstrings. By hand is what one would write with
TensorFlow: a `tf.function` for an update and a Python loop that calls it. PyTorch is the loop of
`batchscope.frameworks`, where it is installed and has the network. A block is the same number of
steps of every contender. Printed: examples per second, ours over theirs.
"""

from __future__ import annotations

import importlib.util

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

from batchscope.catalogue import run_factors
from batchscope.datasets import Examples, looks
from batchscope.host import tensorflow_start

BLOCK_SECONDS = 1.0
# Network -> its optimizer and its learning rate.
OPTIMIZERS = {"campbell_cnn": ("SGD", 0.01), "tiny_transformer": ("Adam", 0.001)}


def examples_of(network: str) -> tuple[Examples, looks.Look]:
    """Returns what a network trains on."""
    if network == "campbell_cnn":
        shape, classes = (28, 28, 1), 10
        return random_images(shape, classes, 20_000), looks.Look(shape, classes)
    data = dataset("numpy_docs")
    return data.examples("train"), data.look


def built(network: str, look: looks.Look):
    """Returns the network and its optimizer, as Keras has them."""
    import keras

    from batchscope.training import models

    name, rate = OPTIMIZERS[network]
    return models.build(network, look, seed=0), getattr(keras.optimizers, name)(rate)


def as_floats(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs as a network takes them, and labels."""
    inputs, labels = np.asarray(examples.images), np.asarray(examples.labels, np.int32)
    if inputs.dtype != np.int32:
        inputs = inputs.astype(np.float32) * np.float32(examples.scale)
    return inputs, labels


def ours(network: str, look: looks.Look, examples: Examples, batch_size: int) -> Contender:
    from batchscope.training import optimizers

    births = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    name, rate = OPTIMIZERS[network]
    given = {"batch_size": batch_size, "optimizer": name.lower(), "learning_rate": rate}
    optimizer = optimizers.make_optimizer(births | given)
    return our_loop(built(network, look)[0], optimizer, examples, batch_size)


def keras_fit(network: str, look: looks.Look, examples: Examples, batch_size: int) -> Contender:
    model, optimizer = built(network, look)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    inputs, labels = as_floats(examples)
    return lambda: model.fit(inputs, labels, batch_size=batch_size, epochs=1, verbose=0)


def by_hand(network: str, look: looks.Look, examples: Examples, batch_size: int) -> Contender:
    import keras
    import tensorflow as tf

    model, optimizer = built(network, look)
    inputs, labels = as_floats(examples)
    generator = np.random.default_rng(0)

    @tf.function
    def update(batch: tf.Tensor, wanted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(wanted, outputs))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss, tf.math.count_nonzero(tf.equal(tf.argmax(outputs, -1, tf.int32), wanted))

    def block() -> None:
        total, hits = 0.0, 0
        order = generator.permutation(len(labels))
        for start in range(0, len(labels), batch_size):
            batch = order[start : start + batch_size]
            loss, right = update(inputs[batch], labels[batch])
            # What the others report too: the epoch's loss and accuracy.
            total, hits = total + loss * len(batch), hits + right
        float(total), int(hits)

    return block


def pytorch(network: str, look: looks.Look, examples: Examples, batch_size: int) -> Contender:
    from batchscope.frameworks import pytorch as torch_loop

    torch_loop.start(threads=1, device="cpu")
    name, rate = OPTIMIZERS[network]
    given = network, look.classes, name.lower(), examples, "cpu", rate
    runner = torch_loop.Runner(*given)
    return lambda: runner.run(batch_size, runner.per_epoch(batch_size))


def compare(network: str, batch_sizes: list[int], blocks: int) -> None:
    """Prints the table of a network."""
    examples, look = examples_of(network)
    there = importlib.util.find_spec("torch") and network == "campbell_cnn"
    peers = {"Keras fit": keras_fit, "by hand": by_hand} | ({"PyTorch": pytorch} if there else {})
    print(f"\n{network}, {OPTIMIZERS[network][0]}:\n")
    header("batch size", "examples/s, ours", *peers, "ours to itself")
    for batch_size in batch_sizes:
        probe = ours(network, look, first(examples, 8 * batch_size), batch_size)
        probe()
        begun = now()
        probe()
        most = len(examples.labels) // batch_size
        steps = min(most, max(8, round(8 * BLOCK_SECONDS / (now() - begun)[0])))
        given = (network, look, first(examples, steps * batch_size), batch_size)
        contenders = {"ours": ours(*given), "again": ours(*given)}
        contenders |= {name: peer(*given) for name, peer in peers.items()}
        taken = interleave(contenders, blocks)
        speed = steps * batch_size / np.median(taken["ours"][:, 0])
        ratios = [ratio(taken[name], taken["ours"]) for name in (*peers, "again")]
        row(batch_size, f"{speed:.0f}", *ratios)


def main() -> None:
    given = parser(__doc__, blocks=21)
    given.add_argument("--networks", nargs="+", default=[*OPTIMIZERS], choices=OPTIMIZERS)
    given.add_argument("--batch-sizes", type=int, nargs="+", default=[4, 32, 256])
    given = given.parse_args()
    tensorflow_start.start(threads=1)
    for network in given.networks:
        compare(network, given.batch_sizes, given.blocks)


if __name__ == "__main__":
    main()
