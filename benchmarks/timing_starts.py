"""Whether a timing job may start in a copy of a process that has TensorFlow imported.

    python benchmarks/timing_starts.py [--batch-sizes 8 64 256] [--threads 1] [--turns 20]

Times the same configuration (`small_cnn` on the digits) by `time_epoch` in a process of its own and
in a new copy of the warm process, turn by turn, in an order shuffled anew. Printed for each batch
size: images per second of the copy over those of the process, as the geometric mean of the turns
with its 95 % t-interval; the same for two processes of their own, which is what two equal things
differ by; and the wall seconds of a job.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from batchscope.catalogue import run_factors, run_names
from batchscope.host import job, warm_process

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = "bl=3+bsec=0.1"
OWN, OTHER, COPY = "own", "other", "copy"


def main() -> None:
    import numpy as np

    from batchscope import datasets
    from batchscope.analysis import intervals
    from batchscope.catalogue import dataset_definitions

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        definition = dataset_definitions.resolve({"source": "digits"})
        token = dataset_definitions.token("digits", definition)
        datasets.prepare(token, definition, folder)
        warm_process.launch(ROOT / "workflow")
        print("| batch size | copy / process | process / process | s, copy | s, process |")
        print("|---|---|---|---|---|")
        for size in arguments.batch_sizes:
            name = timing(token, size, arguments.threads)
            speeds: dict[str, list[float]] = {OWN: [], OTHER: [], COPY: []}
            walls: dict[str, list[float]] = {OWN: [], OTHER: [], COPY: []}
            for _ in range(arguments.turns):
                for how in random.sample(list(speeds), 3):
                    seconds, speed = run(Path(folder), name, how)
                    speeds[how].append(speed)
                    walls[how].append(seconds)
            ratios = []
            for how in (COPY, OTHER):
                ratio = intervals.ratio_interval(speeds[how], speeds[OWN])
                ratios.append(f"{ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
            times = [f"{np.median(walls[how]):.2f}" for how in (COPY, OWN)]
            print(f"| {size} | {' | '.join([*ratios, *times])} |", flush=True)


def timing(token: str, batch_size: int, threads: int) -> str:
    births = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    given = {"dataset": token, "model": "small_cnn", "optimizer": "sgd"}
    return run_names.timing_name(
        {**births, **given, "batch_size": batch_size, "threads": threads, "device": "cpu"}
    )


def run(folder: Path, name: str, how: str) -> tuple[float, float]:
    """Returns the seconds of a job, and the images per second that it found."""
    output = folder / f"{how}.json"
    words = ["time_epoch", "--results", str(folder), "--timing", name, "--settings", SETTINGS]
    environment = dict(os.environ)
    if how != COPY:
        environment.pop(job.VARIABLE, None)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, str(ROOT / "workflow" / "run.py"), *words, "--output", str(output)],
        check=True,
        env=environment,
    )
    seconds = time.perf_counter() - began
    return seconds, json.loads(output.read_text())["values"]["images_per_second"]


if __name__ == "__main__":
    main()
