"""Run contenders in turns and print the ratios of their times.

Every time is measured twice: wall-clock seconds, and CPU seconds of this process and its children.
Other processes on the machine disturb the CPU seconds less. Importing this module adds `batchscope`
to the path.
"""

from __future__ import annotations

import argparse
import atexit
import math
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

import numpy as np

from batchscope import datasets
from batchscope.analysis import intervals
from batchscope.study import dataset_definitions

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("Snakefile", "config.yaml", "workflow", "profiles", "envs")
Contender = Callable[[], Any]


def parser(description: str, blocks: int) -> argparse.ArgumentParser:
    """Return a parser with the option that all benchmarks have."""
    result = argparse.ArgumentParser(description=description.splitlines()[0])
    result.add_argument("--blocks", type=int, default=blocks, help="turns of each contender")
    return result


def now() -> np.ndarray:
    """Return wall-clock seconds, and CPU seconds of this process and its children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = time.process_time() + children.ru_utime + children.ru_stime
    return np.array([time.perf_counter(), cpu])


def interleave(
    contenders: dict[str, Contender], blocks: int, warm_up: bool = True
) -> dict[str, np.ndarray]:
    """Return the seconds of each contender, shape (blocks, 2). Turns are in random order."""
    generator = np.random.default_rng(0)
    timings: dict[str, list[np.ndarray]] = {name: [] for name in contenders}
    for call in contenders.values() if warm_up else ():
        call()  # tracing, memory pools, caches of files
    for _ in range(blocks):
        for name in generator.permutation(list(contenders)):
            start = now()
            contenders[name]()
            timings[name].append(now() - start)
    return {name: np.array(seconds) for name, seconds in timings.items()}


def ratio(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return the median ratio of wall-clock and of CPU seconds, each with a 95 % interval.

    The interval is that of the mean log ratio, by Student's t.
    ."""
    cells = []
    for logs in np.log(ours / theirs).T:
        _, low, high, n = intervals.t_interval(logs)
        ends = f" [{np.exp(low):.2f}, {np.exp(high):.2f}]" if n > 1 else ""
        cells.append(f"{np.exp(np.median(logs)):.2f}{ends}")
    return "; CPU ".join(cells)


def header(*columns: str) -> None:
    """Print the head of a Markdown table."""
    row(*columns)
    print("|---" * len(columns) + "|", flush=True)


def row(*cells: Any) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def clone(folder: Path) -> None:
    """Copy the project, without results, into a folder."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def dataset(name: str) -> datasets.Dataset:
    """Return a built-in data set, prepared in a folder that is deleted at exit."""
    definition = dataset_definitions.BUILT_IN[name].resolved()
    token = dataset_definitions.read(definition).token(name)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    datasets.prepare(token, definition, folder)
    return datasets.load(folder, token)


def random_images(shape: tuple[int, int, int], classes: int, count: int) -> datasets.Examples:
    """Return random images. The time of a step does not depend on their content."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (count, *shape), np.uint8)
    return datasets.Examples(images, generator.integers(0, classes, count), 1 / 255)


def first(examples: datasets.Examples, count: int) -> datasets.Examples:
    """Return the first examples."""
    return datasets.Examples(examples.images[:count], examples.labels[:count], examples.scale)


def our_loop(
    model: Any, optimizer: Any, examples: datasets.Examples, batch_size: int, micro_batch: int = 0
) -> Contender:
    """Return an epoch of training by our loop; each call is the next one."""
    from batchscope.training import step_loop

    settings = step_loop.UpdateSettings(batch_size, micro_batch=micro_batch)
    loop = step_loop.StepLoop(model, optimizer, examples, settings)
    epoch, count = iter(range(10**9)), len(examples.labels)

    def block() -> None:
        order = step_loop.epoch_order(0, next(epoch), count)
        steps = math.ceil(count / batch_size)
        loop.run(order, 0, steps, step_loop.Totals())

    return block
