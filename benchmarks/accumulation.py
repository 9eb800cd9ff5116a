"""Compare accumulated gradients with a hand-written loop and with whole batches.

    python benchmarks/accumulation.py [--batch-size 256] [--micro-batches 8 32 128 256]
                                      [--blocks 15]

One process, one thread, `small_cnn` on the built-in digits, Adam, no smaller last batch. The
hand-written update is a `tf.function` that sums the gradients of the micro-batches, either unrolled
or in a `tf.while_loop`. A block is four epochs. The table has the seconds divided by ours.
"""

from __future__ import annotations

from side_by_side import Contender, dataset, first, header, interleave, our_loop, parser, ratio, row

from batchscope.datasets import Dataset, Examples
from batchscope.host import tensorflow_start

RATE, EPOCHS = 0.001, 4


def ours(data: Dataset, examples: Examples, batch_size: int, micro_batch: int) -> Contender:
    import keras

    from batchscope.training import models

    model = models.build("small_cnn", data.model_input, seed=0)
    epoch = our_loop(model, keras.optimizers.Adam(RATE), examples, batch_size, micro_batch)
    return lambda: [epoch() for _ in range(EPOCHS)]


def by_hand(
    data: Dataset, examples: Examples, batch_size: int, micro_batch: int, unrolled: bool
) -> Contender:
    import keras
    import numpy as np
    import tensorflow as tf

    from batchscope.training import models

    model = models.build("small_cnn", data.model_input, seed=0)
    weights, optimizer = model.trainable_variables, keras.optimizers.Adam(RATE)
    optimizer.build(weights)
    images = tf.constant(np.asarray(examples.images, np.float32) * examples.scale)
    labels = tf.constant(np.asarray(examples.labels, np.int32))
    losses_of = keras.losses.sparse_categorical_crossentropy

    def part(chosen: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        targets = tf.gather(labels, chosen)
        with tf.GradientTape() as tape:
            outputs = model(tf.gather(images, chosen), training=True)
            loss = tf.reduce_sum(losses_of(targets, outputs)) / batch_size
        hits = tf.equal(tf.argmax(outputs, 1, tf.int32), targets)
        return loss, tf.math.count_nonzero(hits), tape.gradient(loss, weights)

    @tf.function(autograph=False)
    def update(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def body(start: tf.Tensor, loss: tf.Tensor, hits: tf.Tensor, *sums: tf.Tensor) -> tuple:
            more, right, gradients = part(batch[start : start + micro_batch])
            sums = [one + other for one, other in zip(sums, gradients, strict=True)]
            return start + micro_batch, loss + more, hits + right, *sums

        zeros = [tf.zeros(weight.shape) for weight in weights]
        state = (tf.constant(0), tf.constant(0.0), tf.constant(0, tf.int64), *zeros)
        if unrolled:
            for _ in range(0, batch_size, micro_batch):
                state = body(*state)
        else:
            state = tf.while_loop(lambda start, *_: start < batch_size, body, state)
        _, loss, hits, *sums = state
        optimizer.apply(sums, weights)
        return loss, hits

    generator, count = np.random.default_rng(0), len(examples.labels)

    def block() -> None:
        for _ in range(EPOCHS):
            order = tf.constant(generator.permutation(count).astype(np.int32))
            loss, hits = 0.0, 0
            for start in range(0, count, batch_size):
                more = update(order[start : start + batch_size])
                loss, hits = loss + more[0], hits + more[1]
            float(loss), int(hits)

    return block


def main() -> None:
    arguments = parser(__doc__, blocks=15)
    arguments.add_argument("--batch-size", type=int, default=256)
    arguments.add_argument("--micro-batches", type=int, nargs="+", default=[8, 32, 128, 256])
    options = arguments.parse_args()
    tensorflow_start.start(threads=1)
    data, size = dataset("digits"), options.batch_size
    examples = data.examples("train")
    examples = first(examples, len(examples.labels) // size * size)
    others = {
        "unrolled": "by hand, unrolled / ours",
        "loop": "by hand, loop / ours",
        "whole": "whole batches / ours",
        "again": "ours to itself",
    }
    header("batch size", "micro-batch", *others.values())
    for part in options.micro_batches:
        contenders = {
            "ours": ours(data, examples, size, part),
            "again": ours(data, examples, size, part),
            "unrolled": by_hand(data, examples, size, part, unrolled=True),
            "loop": by_hand(data, examples, size, part, unrolled=False),
            "whole": ours(data, examples, size, 0),
        }
        timings = interleave(contenders, options.blocks)
        row(size, part, *(ratio(timings[name], timings["ours"]) for name in others))


if __name__ == "__main__":
    main()
