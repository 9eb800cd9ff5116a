"""Compare our replacements of library functions with these functions, in cases of shipped studies.

    python benchmarks/speedups.py [--cases adam_text ...] [--blocks 5]

One process, one thread. The table has the seconds of the library divided by ours. A replacement
that is not faster by a factor of 1.2 in any case is not worth its lines.

- `imports`: TensorFlow and Keras as jobs import them; a plain import.
- `adam_*`: an epoch of updates; with `keras.optimizers.Adam`.
- `hessian_*`: the largest eigenvalue; by one call of `scipy.sparse.linalg.eigsh`, to the same
  tolerance. Its products with the Hessian are not limited.
"""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
from side_by_side import (
    ROOT,
    Contender,
    dataset,
    first,
    header,
    interleave,
    our_loop,
    parser,
    random_images,
    ratio,
    row,
)

from batchscope.datasets import Examples, prepared
from batchscope.host import tensorflow_start
from batchscope.study import names, run_factors

Pair = tuple[Contender, Contender]  # ours, and the library's
DIGITS, MNIST, PHOTOGRAPHS = ((8, 8, 1), 10), ((28, 28, 1), 10), ((64, 64, 3), 2)


def imports() -> Pair:
    start = (
        "import sys; sys.path.insert(0, 'workflow');"
        "from batchscope.host import tensorflow_start; tensorflow_start.start()"
    )

    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)

    return lambda: run(start), lambda: run("import tensorflow, keras")


def objective(network: str, model_input: tuple, count: int):
    from batchscope.measures import measure_job
    from batchscope.training import losses, models

    examples = random_images(*model_input, count)
    chunk = measure_job.even_chunk(count, losses.chunk_size(model_input[0]))
    return losses.Objective(
        models.build(network, prepared.ModelInput(*model_input), seed=0), examples, chunk
    )


def adam(
    network: str, model_input: prepared.ModelInput, examples: Examples, batch_size: int
) -> Pair:
    import keras

    from batchscope.training import models, optimizers

    defaults = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    changed = {"batch_size": batch_size, "optimizer": "adam", "learning_rate": 0.001}
    fused, plain = optimizers.make_optimizer(defaults | changed), keras.optimizers.Adam(0.001)
    ours, theirs = (
        our_loop(models.build(network, model_input, seed=0), optimizer, examples, batch_size)
        for optimizer in (fused, plain)
    )
    return ours, theirs


def adam_on_images(network: str, batch_size: int, steps: int) -> Pair:
    examples = random_images(*MNIST, steps * batch_size)
    return adam(network, prepared.ModelInput(*MNIST), examples, batch_size)


def adam_on_text(batch_size: int, steps: int) -> Pair:
    data = dataset("numpy_docs")
    examples = first(data.examples("train"), steps * batch_size)
    return adam("tiny_transformer", data.model_input, examples, batch_size)


def hessian(network: str, model_input: tuple, count: int, **changed) -> Pair:
    from scipy.sparse import linalg

    from batchscope.measures import hessian as measure

    loss = objective(network, model_input, count)
    settings = names.parse_settings("hessian", "default") | changed
    start = np.random.default_rng(measure.START_SEED).standard_normal(loss.size)

    def theirs() -> None:
        matrix = linalg.LinearOperator((loss.size, loss.size), loss.hessian_times, dtype=float)
        linalg.eigsh(matrix, k=1, which="LA", v0=start, tol=measure.TOLERANCE)

    def ours() -> None:
        measure.top_eigenvalue(loss.hessian_times, loss.size, settings["iterations"])

    return ours, theirs


CASES = {
    "imports": imports,
    "adam_text": functools.partial(adam_on_text, 32, 100),
    "adam_keskar2017": functools.partial(adam_on_images, "keskar_f1", 256, 20),
    "adam_mini_batches2025": functools.partial(adam_on_images, "tutorial_cnn", 16, 60),
    "hessian_chang2020": functools.partial(hessian, "chang_vgg", PHOTOGRAPHS, 250, iterations=30),
}


def main() -> None:
    arguments = parser(__doc__, blocks=5)
    arguments.add_argument("--cases", nargs="+", default=[*CASES], choices=CASES)
    options = arguments.parse_args()
    tensorflow_start.start(threads=1)
    header("case", "ours", "the library's / ours")
    for case in options.cases:
        ours, theirs = CASES[case]()
        timings = interleave({"ours": ours, "theirs": theirs}, options.blocks)
        seconds = np.median(timings["ours"][:, 0])
        row(case, f"{seconds:.2f} s", ratio(timings["theirs"], timings["ours"]))


if __name__ == "__main__":
    main()
