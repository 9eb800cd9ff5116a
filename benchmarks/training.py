"""Images per second of our training loop beside Keras fit and a plain PyTorch loop.

    pip install torch==2.13.0        # for this benchmark only; left out where it is missing
    python benchmarks/training.py --mnist FOLDER_OR_NPZ [--batch-sizes 4 32 256] [--blocks 21]

One process, one thread, `campbell_cnn` on MNIST, plain SGD. The contenders take turns, block by
block, in an order shuffled anew; each block is the same number of steps of the same batch size.
Printed: the ratio of images per second, ours over theirs, as the median over the blocks with a
95 % t-interval of the mean log ratio, and the ratio of our loop to itself: the noise floor. Also
the CPU seconds that the training process pays for its imports.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from batchscope.host import tensorflow_start

BLOCK_SECONDS = 1.0
RATE = 0.01


def ours(images, labels, batch_size: int, steps: int) -> Callable[[], None]:
    import keras

    from batchscope.training import models, step_loop

    model = models.build("campbell_cnn", (28, 28, 1), 10, seed=0)
    count = min(len(images), steps * batch_size)
    optimizer = keras.optimizers.SGD(RATE)
    steps_loop = step_loop.StepLoop(
        model,
        optimizer,
        step_loop.Examples(images[:count], labels[:count], 1 / 255),
        step_loop.Batches(batch_size),
    )
    steps_loop.compile()
    epoch = iter(range(10**9))

    def block() -> None:
        order = step_loop.epoch_order(0, next(epoch), count)
        steps_loop.run(order, 0, step_loop.steps_per_epoch(count, batch_size), step_loop.Totals())

    return block


def keras_fit(images, labels, batch_size: int, steps: int) -> Callable[[], None]:
    import keras
    import numpy as np

    from batchscope.training import models

    model = models.build("campbell_cnn", (28, 28, 1), 10, seed=0)
    model.compile(
        optimizer=keras.optimizers.SGD(RATE),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    count = min(len(images), steps * batch_size)
    floats = np.asarray(images[:count], np.float32) / 255

    def block() -> None:
        model.fit(floats, labels[:count], batch_size=batch_size, epochs=1, verbose=0)

    return block


def pytorch(images, labels, batch_size: int, steps: int, channels_last: bool) -> Callable[[], None]:
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(512, 500),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(500, 10),
    )
    assert sum(p.numel() for p in model.parameters()) == 270_006
    memory = torch.channels_last if channels_last else torch.contiguous_format
    model = model.to(memory_format=memory)
    count = min(len(images), steps * batch_size)
    floats = torch.tensor(np.asarray(images[:count], np.float32).transpose(0, 3, 1, 2) / 255)
    floats = floats.contiguous(memory_format=memory)
    targets = torch.tensor(np.asarray(labels[:count], np.int64))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    loss_function = nn.CrossEntropyLoss()

    def block() -> None:
        model.train()
        total, hits = 0.0, 0
        order = torch.randperm(count)
        for start in range(0, count, batch_size):
            batch = order[start : start + batch_size]
            x, y = floats[batch], targets[batch]
            optimizer.zero_grad()
            outputs = model(x)
            loss = loss_function(outputs, y)
            loss.backward()
            optimizer.step()
            # What the others report too: the epoch's loss and accuracy.
            total += loss.detach() * len(batch)
            hits += (outputs.argmax(1) == y).sum()
        float(total), int(hits)

    return block


def seconds(call: Callable[[], None]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def interleave(contenders: dict[str, Callable[[], None]], blocks: int) -> dict[str, list[float]]:
    import numpy as np

    generator = np.random.default_rng(0)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()  # tracing, memory pools
    for _ in range(blocks):
        for name in generator.permutation(list(contenders)):
            taken[name].append(seconds(contenders[name]))
    return taken


def ratio(theirs: list[float], own: list[float]) -> str:
    import numpy as np

    from batchscope.analysis import intervals

    logs = np.log(np.asarray(theirs) / np.asarray(own))
    interval = intervals.t_interval(logs)
    low, high = np.exp([interval.low, interval.high])
    return f"{np.exp(np.median(logs)):.2f} [{low:.2f}, {high:.2f}]"


def load_mnist(path: str):
    from batchscope import datasets
    from batchscope.catalogue import dataset_definitions

    definition = dataset_definitions.resolve({"source": "mnist", "path": path})
    token = dataset_definitions.token("mnist", definition)
    with tempfile.TemporaryDirectory() as folder:
        datasets.prepare(token, definition, folder)
        data = datasets.load(folder, token)
        return data.images("train")[:], data.labels("train")[:]


def import_seconds() -> str:
    code = (
        "import sys, time; sys.path.insert(0, 'workflow');"
        "from batchscope.host import tensorflow_start; tensorflow_start.start();"
        "from batchscope.training import trainer;"
        "print(time.process_time())"
    )
    plain = "import time, tensorflow, keras; print(time.process_time())"
    root = Path(__file__).resolve().parents[1]
    taken = []
    for text in (code, plain):
        runs = []
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", text], cwd=root, capture_output=True, text=True, check=True
            )
            runs.append(float(done.stdout.split()[-1]))
        taken.append(sorted(runs)[1])
    return f"{taken[0]:.1f} s; a plain `import tensorflow, keras`: {taken[1]:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", required=True, help="folder of the four idx files, or mnist.npz")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[4, 32, 256])
    parser.add_argument("--blocks", type=int, default=21)
    arguments = parser.parse_args()
    print(f"CPU time until the training process can train: {import_seconds()}")
    tensorflow_start.start(threads=1)
    images, labels = load_mnist(arguments.mnist)
    print("| batch size | images/s, ours | Keras fit | PyTorch, better format | ours to itself |")
    print("|---|---|---|---|---|")
    for batch_size in arguments.batch_sizes:
        probe = ours(images, labels, batch_size, 20)
        probe()
        steps = max(8, round(20 * BLOCK_SECONDS / seconds(probe)))
        given = (images, labels, batch_size, steps)
        contenders = {
            "ours": ours(*given),
            "again": ours(*given),
            "keras": keras_fit(*given),
        }
        formats = ("torch", "torch, channels last") if importlib.util.find_spec("torch") else ()
        for name in formats:
            contenders[name] = pytorch(*given, channels_last=name != "torch")
        taken = interleave(contenders, arguments.blocks)
        torch = "not installed"
        if formats:
            better = min(formats, key=lambda name: sorted(taken[name])[len(taken[name]) // 2])
            torch = f"{ratio(taken[better], taken['ours'])} ({better})"
        count = min(len(images), steps * batch_size)
        speed = count / sorted(taken["ours"])[len(taken["ours"]) // 2]
        print(
            f"| {batch_size} | {speed:.0f} | {ratio(taken['keras'], taken['ours'])} "
            f"| {torch} | {ratio(taken['again'], taken['ours'])} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
