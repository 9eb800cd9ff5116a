"""Examples per second of our training loop beside Keras fit and a plain PyTorch loop.

    python benchmarks/training.py [--mnist FOLDER_OR_NPZ] [--batch-sizes 4 32 256] [--blocks 21]
                                  [--cpu]

One process, one thread: `tiny_transformer` on the docstrings that come with NumPy, Adam, and with
`--mnist` `campbell_cnn` on its images, plain SGD. PyTorch takes part where it is there
(`pip install torch==2.13.0`, for this benchmark only), and it is reported where it is not. The
contenders take turns, block by block, in an order shuffled anew; each block is the same number of
steps of the same batch size. Printed: the ratio of examples per second, ours over theirs, as the
median over the blocks with a 95 % t-interval of the mean log ratio, and the ratio of our loop to
itself: the noise floor. Also the CPU seconds that the training process pays for its imports.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from batchscope.host import tensorflow_start

BLOCK_SECONDS = 1.0
CPU_HELP = "CPU seconds in place of the clock's, where others use the machine"
# Network -> its optimizer in Keras and in PyTorch, and its learning rate.
OPTIMIZERS = {"campbell_cnn": ("SGD", 0.01), "tiny_transformer": ("Adam", 0.001)}


def built(network: str, data):
    """Returns the network and its optimizer, as Keras has them."""
    import keras

    from batchscope.training import models

    name, rate = OPTIMIZERS[network]
    return models.build(network, data.look, seed=0), getattr(keras.optimizers, name)(rate)


def ours(network: str, data, batch_size: int, count: int) -> Callable[[], None]:
    from batchscope.catalogue import run_factors
    from batchscope.datasets import Examples
    from batchscope.training import optimizers, step_loop

    births = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    name, rate = OPTIMIZERS[network]
    given = {"batch_size": batch_size, "optimizer": name.lower(), "learning_rate": rate}
    inputs, labels = data.images("train")[:count], data.labels("train")[:count]
    steps = step_loop.StepLoop(
        built(network, data)[0],
        optimizers.make_optimizer(births | given),
        Examples(inputs, labels, data.scale),
        step_loop.Batches(batch_size),
    )
    steps.compile()
    epoch = iter(range(10**9))

    def block() -> None:
        order = step_loop.epoch_order(0, next(epoch), count)
        steps.run(order, 0, step_loop.steps_per_epoch(count, batch_size), step_loop.Totals())

    return block


def keras_fit(network: str, data, batch_size: int, count: int) -> Callable[[], None]:
    import numpy as np

    model, optimizer = built(network, data)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    inputs, labels = data.images("train")[:count], data.labels("train")[:count]
    if inputs.dtype != np.int32:
        inputs = inputs.astype(np.float32) * np.float32(data.scale)

    def block() -> None:
        model.fit(inputs, labels, batch_size=batch_size, epochs=1, verbose=0)

    return block


def torch_cnn(data):
    from torch import nn

    return nn.Sequential(
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


def torch_transformer(data):
    import torch
    from torch import nn

    (length,), tokens, width, heads = data.input_shape, data.classes, 96, 4

    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vectors = nn.Parameter(torch.empty(length, width).uniform_(-0.05, 0.05))

        def forward(self, x):
            return x + self.vectors

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width, eps=1e-3)
            self.inwards, self.outwards = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            parts = self.inwards(self.norm(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            return x + self.outwards(y.transpose(1, 2).flatten(2))

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.Sequential(
                nn.LayerNorm(width, eps=1e-3),
                nn.Linear(width, 4 * width),
                nn.GELU(),
                nn.Linear(4 * width, width),
            )

        def forward(self, x):
            return x + self.parts(x)

    class Last(nn.Module):
        def forward(self, x):
            return x.transpose(1, 2)  # classes second, as its cross-entropy has them

    return nn.Sequential(
        nn.Embedding(tokens, width),
        Positions(),
        *(Attention(), Dense(), Attention(), Dense()),
        nn.LayerNorm(width, eps=1e-3),
        nn.Linear(width, tokens),
        Last(),
    )


# Network -> PyTorch's, and the formats of memory that it is tried in.
TORCH = {
    "campbell_cnn": (torch_cnn, ("torch", "torch, channels last")),
    "tiny_transformer": (torch_transformer, ("torch",)),
}


def pytorch(
    network: str, data, batch_size: int, count: int, channels_last: bool
) -> Callable[[], None]:
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = TORCH[network][0](data)
    weights = sum(weight.size for weight in built(network, data)[0].get_weights())
    assert sum(parameter.numel() for parameter in model.parameters()) == weights
    memory = torch.channels_last if channels_last else torch.contiguous_format
    model = model.to(memory_format=memory)
    inputs = torch.tensor(np.asarray(data.images("train")[:count]))
    if inputs.dtype != torch.int32:
        inputs = inputs.permute(0, 3, 1, 2).to(torch.float32) * data.scale
        inputs = inputs.contiguous(memory_format=memory)
    targets = torch.tensor(np.asarray(data.labels("train")[:count], np.int64))
    name, rate = OPTIMIZERS[network]
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=rate)
    loss_function = torch.nn.CrossEntropyLoss()

    def block() -> None:
        model.train()
        total, hits = 0.0, 0
        order = torch.randperm(count)
        for start in range(0, count, batch_size):
            batch = order[start : start + batch_size]
            x, y = inputs[batch], targets[batch]
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


def seconds(call: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    begun = clock()
    call()
    return clock() - begun


def interleave(
    contenders: dict[str, Callable[[], None]],
    blocks: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    import numpy as np

    generator = np.random.default_rng(0)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()  # tracing, memory pools
    for _ in range(blocks):
        for name in generator.permutation(list(contenders)):
            taken[name].append(seconds(contenders[name], clock))
    return taken


def ratio(theirs: list[float], own: list[float]) -> str:
    import numpy as np

    from batchscope.analysis import intervals

    logs = np.log(np.asarray(theirs) / np.asarray(own))
    interval = intervals.t_interval(logs)
    low, high = np.exp([interval.low, interval.high])
    return f"{np.exp(np.median(logs)):.2f} [{low:.2f}, {high:.2f}]"


def prepared(name: str, definition: dict):
    """Returns a data set, prepared in a folder that goes when the program ends."""
    from batchscope import datasets
    from batchscope.catalogue import dataset_definitions

    definition = dataset_definitions.resolve(definition)
    token = dataset_definitions.token(name, definition)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    datasets.prepare(token, definition, folder)
    return datasets.load(folder, token)


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


def compare(
    network: str, data, batch_sizes: list[int], blocks: int, clock: Callable[[], float]
) -> None:
    """Prints the table of a network."""
    total = len(data.labels("train"))
    print(f"\n{network}, {OPTIMIZERS[network][0]}:\n")
    print("| batch size | examples/s, ours | Keras fit | PyTorch | ours to itself |")
    print("|---|---|---|---|---|")
    for batch_size in batch_sizes:
        some = min(total, 8 * batch_size)
        probe = ours(network, data, batch_size, some)
        probe()
        steps = max(8, round(8 * BLOCK_SECONDS / seconds(probe)))
        given = (network, data, batch_size, min(total, steps * batch_size))
        contenders = {"ours": ours(*given), "again": ours(*given), "keras": keras_fit(*given)}
        formats = TORCH[network][1] if importlib.util.find_spec("torch") else ()
        for name in formats:
            contenders[name] = pytorch(*given, channels_last=name != "torch")
        taken = interleave(contenders, blocks, clock)
        torch = "not installed"
        if formats:
            better = min(formats, key=lambda name: sorted(taken[name])[len(taken[name]) // 2])
            torch = f"{ratio(taken[better], taken['ours'])} ({better})"
        speed = given[-1] / sorted(taken["ours"])[len(taken["ours"]) // 2]
        print(
            f"| {batch_size} | {speed:.0f} | {ratio(taken['keras'], taken['ours'])} "
            f"| {torch} | {ratio(taken['again'], taken['ours'])} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="folder of the four idx files, or mnist.npz")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[4, 32, 256])
    parser.add_argument("--blocks", type=int, default=21)
    parser.add_argument("--cpu", action="store_true", help=CPU_HELP)
    arguments = parser.parse_args()
    print(f"CPU time until the training process can train: {import_seconds()}")
    tensorflow_start.start(threads=1)
    from batchscope.catalogue import dataset_definitions

    data = {
        "tiny_transformer": prepared(
            "numpy_docs", dataset_definitions.BUILT_IN["numpy_docs"].resolved()
        )
    }
    if arguments.mnist:
        data["campbell_cnn"] = prepared("mnist", {"source": "mnist", "path": arguments.mnist})
    for network, given in data.items():
        clock = time.process_time if arguments.cpu else time.perf_counter
        compare(network, given, arguments.batch_sizes, arguments.blocks, clock)


if __name__ == "__main__":
    main()
