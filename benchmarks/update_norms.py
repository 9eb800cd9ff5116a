"""What it costs a training to keep the norm of every update.

    python benchmarks/update_norms.py [--shapes 64x64x3 128x128x3] [--batch-size 32] [--blocks 41]

One process, one thread, `chang_vgg` with two classes on random bytes, plain SGD. Loops that keep
the norms and loops that do not take turns, block by block, in an order shuffled anew; each block
is the same number of steps. Printed: the time of a step with norms over that without, as the
median over the blocks with a 95 % t-interval of the mean log ratio, and the ratio of two loops
without norms: the noise floor.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from batchscope.host import tensorflow_start
from training import interleave, ratio, seconds

BLOCK_SECONDS, RATE = 0.5, 0.01


def block(
    shape: tuple[int, int, int], batch_size: int, steps: int, norms: bool
) -> Callable[[], None]:
    """Returns a function that trains on `steps` batches of random images."""
    import keras
    import numpy as np

    from batchscope.datasets import Examples, looks
    from batchscope.training import models, step_loop

    model = models.build("chang_vgg", looks.Look(shape, 2), seed=0)
    generator = np.random.default_rng(0)
    count = steps * batch_size
    images = generator.integers(0, 256, (count, *shape), np.uint8)
    labels = generator.integers(0, 2, count)
    optimizer = keras.optimizers.SGD(RATE)
    examples = Examples(images, labels, 1 / 255)
    batches = step_loop.Batches(batch_size)
    steps_loop = step_loop.StepLoop(model, optimizer, examples, batches, norms)
    steps_loop.compile()
    order = step_loop.epoch_order(0, 0, count)
    return lambda: steps_loop.run(order, 0, steps, step_loop.Totals())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["64x64x3", "128x128x3"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=41)
    arguments = parser.parse_args()
    tensorflow_start.start(threads=1)
    print("| images | ms per step, without norms | with norms / without | without / without |")
    print("|---|---|---|---|")
    for text in arguments.shapes:
        height, width, channels = map(int, text.split("x"))
        shape, batch_size = (height, width, channels), arguments.batch_size
        probe = block(shape, batch_size, 4, norms=False)
        probe()
        steps = max(4, round(4 * BLOCK_SECONDS / seconds(probe)))
        contenders = {
            "without": block(shape, batch_size, steps, norms=False),
            "again": block(shape, batch_size, steps, norms=False),
            "with": block(shape, batch_size, steps, norms=True),
        }
        taken = interleave(contenders, arguments.blocks)
        step = 1000 * sorted(taken["without"])[arguments.blocks // 2] / steps
        print(
            f"| {text} | {step:.1f} | {ratio(taken['with'], taken['without'])} "
            f"| {ratio(taken['again'], taken['without'])} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
