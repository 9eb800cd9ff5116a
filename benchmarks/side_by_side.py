"""What the benchmarks share: contenders that take turns, and tables of their ratios.

Every time is measured twice: by the clock, and as CPU seconds of this process and of those that it
waited for, which others on the machine disturb less. Importing this makes `batchscope` importable.
"""

from __future__ import annotations

import argparse
import atexit
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
    """Returns a parser with the option that all of them have."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument("--blocks", type=int, default=blocks, help="turns of each contender")
    return made


def now() -> np.ndarray:
    """Returns seconds of the clock, and CPU seconds of this process and of its children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = time.process_time() + children.ru_utime + children.ru_stime
    return np.array([time.perf_counter(), cpu])


def interleave(
    contenders: dict[str, Contender], blocks: int, warm_up: bool = True
) -> dict[str, np.ndarray]:
    """Returns seconds of each contender, shape (blocks, 2), in turns whose order is shuffled."""
    generator = np.random.default_rng(0)
    taken: dict[str, list[np.ndarray]] = {name: [] for name in contenders}
    for call in contenders.values() if warm_up else ():
        call()  # tracing, memory pools, caches of files
    for _ in range(blocks):
        for name in generator.permutation(list(contenders)):
            begun = now()
            contenders[name]()
            taken[name].append(now() - begun)
    return {name: np.array(found) for name, found in taken.items()}


def ratio(these: np.ndarray, those: np.ndarray) -> str:
    """Returns the median ratio with a 95 % t-interval of the mean log ratio, by clock and CPU."""
    cells = []
    for logs in np.log(these / those).T:
        _, low, high, n = intervals.t_interval(logs)
        ends = f" [{np.exp(low):.2f}, {np.exp(high):.2f}]" if n > 1 else ""
        cells.append(f"{np.exp(np.median(logs)):.2f}{ends}")
    return "; CPU ".join(cells)


def header(*columns: str) -> None:
    """Prints the head of a Markdown table."""
    row(*columns)
    print("|---" * len(columns) + "|", flush=True)


def row(*cells: Any) -> None:
    """Prints a row of a Markdown table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def clone(folder: Path) -> None:
    """Copies the project, without results, into a folder."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def dataset(name: str) -> datasets.Dataset:
    """Returns a built-in data set, prepared in a folder that goes when the program ends."""
    definition = dataset_definitions.BUILT_IN[name].resolved()
    token = dataset_definitions.token(name, definition)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    datasets.prepare(token, definition, folder)
    return datasets.load(folder, token)


def random_images(shape: tuple[int, int, int], classes: int, count: int) -> datasets.Examples:
    """Returns images of random bytes: no step's time depends on what they show."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (count, *shape), np.uint8)
    return datasets.Examples(images, generator.integers(0, classes, count), 1 / 255)


def first(examples: datasets.Examples, count: int) -> datasets.Examples:
    """Returns the first of some examples."""
    return datasets.Examples(examples.images[:count], examples.labels[:count], examples.scale)


def our_loop(
    model: Any, optimizer: Any, examples: datasets.Examples, batch_size: int, micro_batch: int = 0
) -> Contender:
    """Returns an epoch of training by our loop; each call is the next one."""
    from batchscope.training import step_loop

    batches = step_loop.Batches(batch_size, micro_batch=micro_batch)
    loop = step_loop.StepLoop(model, optimizer, examples, batches)
    epoch, count = iter(range(10**9)), len(examples.labels)

    def block() -> None:
        order = step_loop.epoch_order(0, next(epoch), count)
        steps = step_loop.steps_per_epoch(count, batch_size)
        loop.run(order, 0, steps, step_loop.Totals())

    return block
