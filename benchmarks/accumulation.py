"""Updates in pieces by our loop beside the same pieces written by hand, and beside whole batches.

    python benchmarks/accumulation.py [--batch-size 256] [--pieces 8 32 128 256] [--blocks 15]
                                      [--cpu]

One process, one thread, `small_cnn` on the built-in digits, Adam, whole batches alone. By hand: a
`tf.function` makes an update, adding up the gradients of its pieces, which a Python loop unrolls or
`tf.while_loop` goes through; a Python loop calls it. The contenders take turns, block by block, in
an order shuffled anew; each block is four epochs. Printed: seconds over ours, as the median over
the blocks with a 95 % t-interval of the mean log ratio.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from batchscope.host import tensorflow_start
from training import CPU_HELP, interleave, ratio

RATE, EPOCHS = 0.001, 4


def built(data):
    from batchscope.training import models

    return models.build("small_cnn", data.look, seed=0)


def whole(data, batch_size: int) -> int:
    """Returns the examples of the whole batches."""
    return len(data.labels("train")) // batch_size * batch_size


def ours(data, batch_size: int, piece: int) -> Callable[[], None]:
    import keras

    from batchscope.datasets import Examples
    from batchscope.training import step_loop

    count = whole(data, batch_size)
    images, labels = data.images("train")[:count], data.labels("train")[:count]
    steps = step_loop.StepLoop(
        built(data),
        keras.optimizers.Adam(RATE),
        Examples(images, labels, data.scale),
        step_loop.Batches(batch_size, micro_batch=piece),
    )
    steps.compile()
    epoch = iter(range(10**9))

    def block() -> None:
        for _ in range(EPOCHS):
            order = step_loop.epoch_order(0, next(epoch), count)
            steps.run(order, 0, count // batch_size, step_loop.Totals())

    return block


def by_hand(data, batch_size: int, piece: int, unrolled: bool) -> Callable[[], None]:
    import keras
    import tensorflow as tf

    from batchscope.training import losses, step_loop

    model, optimizer = built(data), keras.optimizers.Adam(RATE)
    optimizer.build(model.trainable_variables)
    images = tf.constant(data.images("train")[:])
    labels = tf.constant(data.labels("train")[:].astype("int32"))
    values = [each.value for each in model.trainable_variables]
    loss_of = losses.example_losses(model)

    def parts(examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            batch = losses.scaled(tf.gather(images, examples), data.scale)
            example, hits = loss_of(tf.gather(labels, examples), model(batch, training=True))
            loss = tf.reduce_sum(example) / batch_size
        return loss, tf.math.count_nonzero(hits), tape.gradient(loss, values)

    @tf.function(
        input_signature=[tf.TensorSpec([batch_size], tf.int32)],
        autograph=False,
    )
    def update(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        zeros = [tf.zeros_like(each) for each in values]

        def body(first: tf.Tensor, loss: tf.Tensor, hits: tf.Tensor, *sums: tf.Tensor) -> tuple:
            more, right, gradients = parts(batch[first : first + piece])
            sums = [one + other for one, other in zip(sums, gradients, strict=True)]
            return first + piece, loss + more, hits + right, *sums

        state = (tf.constant(0), tf.constant(0.0), tf.constant(0, tf.int64), *zeros)
        if unrolled:
            for _ in range(0, batch_size, piece):
                state = body(*state)
        else:
            state = tf.while_loop(lambda first, *_: first < batch_size, body, state)
        _, loss, hits, *sums = state
        optimizer.apply(sums, model.trainable_variables)
        return loss, hits

    count = whole(data, batch_size)
    epoch = iter(range(10**9))

    def block() -> None:
        for _ in range(EPOCHS):
            order = tf.constant(step_loop.epoch_order(0, next(epoch), count))
            loss, hits = 0.0, 0
            for start in range(0, count, batch_size):
                more = update(order[start : start + batch_size])
                loss, hits = loss + more[0], hits + more[1]
            float(loss), int(hits)

    return block


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--pieces", type=int, nargs="+", default=[8, 32, 128, 256])
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--cpu", action="store_true", help=CPU_HELP)
    arguments = parser.parse_args()
    tensorflow_start.start(threads=1)
    from batchscope import datasets
    from batchscope.catalogue import dataset_definitions

    definition = dataset_definitions.BUILT_IN["digits"].resolved()
    token = dataset_definitions.token("digits", definition)
    with tempfile.TemporaryDirectory() as folder:
        datasets.prepare(token, definition, folder)
        data = datasets.load(folder, token)
        print(
            "| batch size | piece | by hand, unrolled / ours | by hand, loop / ours "
            "| whole batches / ours | ours to itself |"
        )
        print("|---|---|---|---|---|---|")
        for piece in arguments.pieces:
            given = (data, arguments.batch_size, piece)
            contenders = {
                "ours": ours(*given),
                "again": ours(*given),
                "unrolled": by_hand(*given, unrolled=True),
                "loop": by_hand(*given, unrolled=False),
                "whole": ours(data, arguments.batch_size, 0),
            }
            clock = time.process_time if arguments.cpu else time.perf_counter
            taken = interleave(contenders, arguments.blocks, clock)
            others = ("unrolled", "loop", "whole", "again")
            ratios = [ratio(taken[name], taken["ours"]) for name in others]
            print(f"| {arguments.batch_size} | {piece} | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
