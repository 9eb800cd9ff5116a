"""What a loss surface costs beyond the forward passes that it must do.

Prints the time of a whole surface (`measures.landscape.measure`: directions, moving the weights,
rows kept on disk) over that of as many bare losses at fixed weights of the same objective; at
most 1.15 is the aim. They take turns, point by point; the median ratio over the rows and its
95 % t-interval are shown. CPU time of one thread: what a clock would show on an idle machine,
and hardly moved by what else runs. The clock's ratio is beside.

    python benchmarks/landscape.py [--points 9] [--networks chang_vgg small_cnn]

Images are random bytes of the networks' usual shapes: the time does not depend on them. Surfaces
are small here, so that the directions weigh more than in one of 51 x 51 points.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

import numpy as np
import tensorflow as tf

from batchscope.analysis import intervals
from batchscope.catalogue import run_names
from batchscope.datasets import Examples, looks
from batchscope.measures import finished_run, landscape
from batchscope.training import losses, models

# Network -> shape of the images, classes, examples.
NETWORKS = {
    "chang_vgg": ((64, 64, 3), 2, 512),
    "small_cnn": ((8, 8, 1), 10, 1437),
    "keskar_f1": ((28, 28, 1), 10, 2000),
}


def now() -> np.ndarray:
    """Returns CPU seconds of this process and the clock's seconds."""
    return np.array([time.process_time(), time.perf_counter()])


class Rows(landscape.Kept):
    """Finished rows, with the times at which each was there and what bare losses took of them."""

    def __init__(self, path: Path, objective: losses.Objective) -> None:
        super().__init__(path, "benchmark")
        self.objective = objective
        self.bare = np.zeros(2)
        self.row_bare: list[np.ndarray] = []
        self.row_ends = [now()]

    def save(self, found: np.ndarray, done: np.ndarray) -> None:
        """Keeps a row as a job does, then notes the times."""
        super().save(found, done)
        self.row_bare.append(self.bare)
        self.bare = np.zeros(2)
        self.row_ends.append(now())

    def plane(self, plane: landscape.Plane) -> landscape.Plane:
        """Returns the plane with a bare loss after each one of its own."""

        def spanned(first: landscape.Arrays, second: landscape.Arrays) -> landscape.Loss:
            loss = plane(first, second)

            def point(a: float, b: float) -> float:
                found = loss(a, b)
                start = now()
                self.objective.loss_and_accuracy()
                self.bare = self.bare + (now() - start)
                return found

            return point

        return spanned


def report(network: str, points: int) -> None:
    """Prints a network's row."""
    shape, classes, count = NETWORKS[network]
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (count, *shape), np.uint8)
    labels = random.integers(0, classes, count)
    model = models.build(network, looks.Look(shape, classes), seed=0)
    chunk = finished_run.even_chunk(count, losses.chunk_size(shape))
    objective = losses.Objective(model, Examples(images, labels, 1 / 255), chunk)
    weights, _ = models.weights(model)
    plane = landscape.plane_of(objective)
    still = {key: np.zeros_like(array) for key, array in weights.items()}
    for _ in range(2):  # tracing and first touches
        plane(still, still)(0.0, 0.0)
    settings = run_names.parse_settings("landscape", "default")
    settings |= {"points": points, "pairs": 1, "lines": 1}
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(Path(folder, "rows.npz"), objective)
        landscape.measure(rows.plane(plane), weights, settings, rows)
    bare = np.array(rows.row_bare)
    ratios = np.diff(rows.row_ends, axis=0) / bare - 1
    (cpu, clock), logs = np.median(ratios, 0), np.log(ratios[:, 0])
    interval = intervals.t_interval(logs)
    print(
        f"| {network} | {objective.size:,} | {count:,} | {points} x {points} |"
        f" {1e3 * np.median(bare[:, 0]) / points:.1f} | {cpu:.3f} |"
        f" {np.exp(interval.low):.3f} to {np.exp(interval.high):.3f} | {clock:.3f} |",
        flush=True,
    )


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=9)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS)[:2], choices=NETWORKS)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    print("one thread; interleaved, point by point")
    print(
        "| network | weights | examples | points | CPU ms a loss | CPU ratio |"
        " 95 % interval | clock ratio |\n|---|---|---|---|---|---|---|---|"
    )
    for network in arguments.networks:
        report(network, arguments.points)


if __name__ == "__main__":
    main()
