"""What the sharpness search costs beyond its loss-and-gradient evaluations.

Prints, per network, the time of the whole search (`measures.sharpness.measure`: both spaces,
both epsilons, every start) over that of as many bare evaluations of the same objective as
L-BFGS-B reports; at most 1.1 is the aim. They take turns, evaluation by evaluation; the median
ratio and its interval over the repeats are shown. The time is CPU time of one thread: what a clock
would show on an idle machine, and hardly moved by what else runs. The clock's ratio is beside.

    python benchmarks/sharpness.py [--repeats 5] [--networks small_cnn chang_vgg]

Images are random bytes of the networks' usual shapes: the time does not depend on them. With
BATCHSCOPE_DATA set to a folder of results, the prepared data sets in it are used where their
shape fits.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

import numpy as np
import tensorflow as tf

from batchscope import datasets
from batchscope.catalogue import run_names
from batchscope.datasets import Examples, looks
from batchscope.measures import finished_run, sharpness
from batchscope.training import losses, models

# Network -> shape of the images, classes, examples, settings beside the defaults. What the
# search adds to an evaluation depends on the weights alone, so that the ratio falls with the
# number of examples: it is the default number here, and slow networks get fewer searches.
FEW = {"starts": 2, "epsilons": (1e-3,)}
NETWORKS = {
    "small_cnn": ((8, 8, 1), 10, 1437, {}),
    "chang_vgg": ((64, 64, 3), 2, 2000, FEW),
    "chang_vgg_128": ((128, 128, 3), 2, 2000, FEW),
    "keskar_f1": ((28, 28, 1), 10, 2000, {}),
    "keskar_f1_all": ((28, 28, 1), 10, 60_000, FEW),  # as its study asks for
}


def examples(shape: tuple[int, int, int], classes: int, count: int) -> tuple:
    """Returns images, labels, scale, source: prepared ones that fit, else random bytes."""
    folder = Path(os.environ.get("BATCHSCOPE_DATA", ""), "data")
    for record in sorted(folder.glob("*/record.json")) if folder.is_dir() else ():
        dataset = datasets.load(folder.parent, record.parent.name)
        if dataset.input_shape == shape and dataset.classes == classes:
            rows = finished_run.subset(len(dataset.labels("train")), count)
            labels = dataset.labels("train")[rows]
            return dataset.images("train")[rows], labels, dataset.scale, record.parent.name
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (count, *shape), np.uint8)
    return images, random.integers(0, classes, count), 1 / 255, "random bytes"


def now() -> np.ndarray:
    """Returns CPU seconds of this process and the clock's seconds."""
    return np.array([time.process_time(), time.perf_counter()])


def once(
    objective: losses.Objective, x: np.ndarray, settings: dict
) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns the seconds of one search, of as many evaluations, and their number.

    A bare evaluation follows each one of the search, off the search's clock.
    """
    bare, calls = np.zeros(2), 0

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal bare, calls
        found = objective.loss_and_gradient(flat)
        start = now()
        objective.loss_and_gradient(flat)
        bare, calls = bare + (now() - start), calls + 1
        return found

    start = now()
    details = sharpness.measure(loss_and_gradient, x, settings).details
    search = now() - start - bare
    evaluations = sum(found["total_evaluations"] for found in details["searches"].values())
    # L-BFGS-B also counts y = 0 of every box, which the search computes once.
    return search, bare * evaluations / calls, evaluations


def report(network: str, repeats: int) -> None:
    """Prints a network's row."""
    shape, classes, count, changed = NETWORKS[network]
    images, labels, scale, source = examples(shape, classes, count)
    model = models.build(
        network.removesuffix("_128").removesuffix("_all"), looks.Look(shape, classes), seed=0
    )
    chunk = finished_run.even_chunk(len(images), losses.chunk_size(shape))
    objective = losses.Objective(model, Examples(images, labels, scale), chunk)
    x = objective.weights()
    for _ in range(2):  # tracing and first touches
        objective.loss_and_gradient(x)
    settings = run_names.parse_settings("sharpness", "default") | changed
    rows = [once(objective, x, settings) for _ in range(repeats)]
    evaluations = rows[0][2]
    ratios = np.log([search / bare for search, bare, _ in rows])
    each = 1e3 * np.median([bare[0] / number for _, bare, number in rows])
    (cpu, clock), (low, high) = np.exp(np.median(ratios, 0)), np.exp(interval(ratios[:, 0]))
    print(
        f"| {network} | {objective.size:,} | {len(images):,} ({source}) | {evaluations} |"
        f" {each:.1f} | {cpu:.3f} | {low:.3f} to {high:.3f} | {clock:.3f} |",
        flush=True,
    )


def interval(values: np.ndarray) -> tuple[float, float]:
    """Returns the 95 % t-interval of the mean, or the only value twice."""
    if len(values) < 2:
        return float(values[0]), float(values[0])
    from scipy import stats

    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS)[:2], choices=NETWORKS)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    print(f"one thread, {arguments.repeats} interleaved repeats")
    print(
        "| network | weights | examples | evaluations | CPU ms each | CPU ratio |"
        " 95 % interval | clock ratio |\n|---|---|---|---|---|---|---|---|"
    )
    for network in arguments.networks:
        report(network, arguments.repeats)


if __name__ == "__main__":
    main()
