"""Updates in pieces by our loop beside the same pieces written by hand, and beside whole batches.

    python benchmarks/accumulation.py [--batch-size 256] [--pieces 8 32 128 256] [--blocks 15]

One process, one thread, `small_cnn` on the built-in digits, Adam. By hand: a `tf.function` takes
the gradient of a piece and adds it to variables, another one applies their sum; a Python loop
calls both. The contenders take turns, block by block, in an order shuffled anew; each block is an
epoch. Printed: seconds over ours, as the median over the blocks with a 95 % t-interval of the mean
log ratio.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from batchscope.host import tensorflow_start
from training import interleave, ratio

RATE = 0.001


def built(data):
    from batchscope.training import models

    return models.build("small_cnn", data.input_shape, data.classes, seed=0)


def ours(data, batch_size: int, piece: int) -> Callable[[], None]:
    import keras

    from batchscope.training import step_loop

    images, labels = data.images("train")[:], data.labels("train")[:]
    steps = step_loop.StepLoop(
        built(data),
        keras.optimizers.Adam(RATE),
        step_loop.Examples(images, labels, data.scale),
        step_loop.Batches(batch_size, piece=piece),
    )
    steps.compile()
    count = step_loop.steps_per_epoch(len(labels), batch_size)
    epoch = iter(range(10**9))

    def block() -> None:
        order = step_loop.epoch_order(0, next(epoch), len(labels))
        steps.run(order, 0, count, step_loop.Totals())

    return block


def by_hand(data, batch_size: int, piece: int) -> Callable[[], None]:
    import keras
    import tensorflow as tf

    from batchscope.training import losses, step_loop

    model, optimizer = built(data), keras.optimizers.Adam(RATE)
    optimizer.build(model.trainable_variables)
    images = tf.constant(data.images("train")[:])
    labels = tf.constant(data.labels("train")[:].astype("int32"))
    sums = [tf.Variable(tf.zeros_like(each.value)) for each in model.trainable_variables]
    loss_of = losses.example_losses(model)

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.float32)],
        autograph=False,
    )
    def accumulate(examples: tf.Tensor, share: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            batch = losses.scaled(tf.gather(images, examples), data.scale)
            example, hits = loss_of(tf.gather(labels, examples), model(batch, training=True))
            loss = share * tf.reduce_mean(example)
        values = [each.value for each in model.trainable_variables]
        for total, gradient in zip(sums, tape.gradient(loss, values), strict=True):
            total.assign_add(gradient)
        return loss, tf.math.count_nonzero(hits)

    @tf.function(autograph=False)
    def apply() -> None:
        optimizer.apply([tf.identity(total) for total in sums], model.trainable_variables)
        for total in sums:
            total.assign(tf.zeros_like(total))

    count = len(labels)
    epoch = iter(range(10**9))

    def block() -> None:
        order = tf.constant(step_loop.epoch_order(0, next(epoch), count))
        loss, hits = 0.0, 0
        for start in range(0, count, batch_size):
            batch = order[start : start + batch_size]
            size = len(batch)
            for first in range(0, size, piece):
                examples = batch[first : first + piece]
                more = accumulate(examples, tf.constant(len(examples) / size))
                loss, hits = loss + more[0], hits + more[1]
            apply()
        float(loss), int(hits)

    return block


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--pieces", type=int, nargs="+", default=[8, 32, 128, 256])
    parser.add_argument("--blocks", type=int, default=15)
    arguments = parser.parse_args()
    tensorflow_start.start(threads=1)
    from batchscope import datasets
    from batchscope.catalogue import dataset_definitions

    definition = dataset_definitions.resolve(dataset_definitions.BUILT_IN["digits"])
    token = dataset_definitions.token("digits", definition)
    with tempfile.TemporaryDirectory() as folder:
        datasets.prepare(token, definition, folder)
        data = datasets.load(folder, token)
        print("| batch size | piece | by hand / ours | whole batches / ours | ours to itself |")
        print("|---|---|---|---|---|")
        for piece in arguments.pieces:
            contenders = {
                "ours": ours(data, arguments.batch_size, piece),
                "again": ours(data, arguments.batch_size, piece),
                "by hand": by_hand(data, arguments.batch_size, piece),
                "whole": ours(data, arguments.batch_size, 0),
            }
            taken = interleave(contenders, arguments.blocks)
            told = [ratio(taken[name], taken["ours"]) for name in ("by hand", "whole", "again")]
            print(f"| {arguments.batch_size} | {piece} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
