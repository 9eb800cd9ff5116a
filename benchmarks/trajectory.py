"""What it costs a training to be evaluated four times per epoch.

    python benchmarks/trajectory.py [--batch-sizes 16 32 256] [--epochs 40] [--blocks 11]

One process, one thread, `small_cnn` on the digits, plain SGD: trainings as the step `train` makes
them, with data, graphs and all files. Those with `evaluate_every` at a quarter of an epoch and
those without take turns, in an order shuffled anew. Printed: the time with over that without, as
the median over the blocks with a 95 % t-interval of the mean log ratio, and the ratio of two
trainings without: the noise floor. Beside both stands what the same costs of the updates and
evaluations alone, after all graphs are built. Times are of the CPU, which other processes disturb
less than the clock.

First is printed what the arithmetic alone would cost: an example evaluated is a forward pass, an
example trained on about three. Where updates are small, their fixed cost hides most of it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from batchscope.host import tensorflow_start
from training import ratio

SPLIT = {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 0}


def taken(run: str, results: Path) -> tuple[float, float]:
    """Trains a run anew; returns CPU seconds of it all, and of its updates and evaluations."""
    from batchscope.store import paths
    from batchscope.training import trainer

    shutil.rmtree(paths.run_folder(results, run), ignore_errors=True)
    begun = time.process_time()
    training = trainer.Training(trainer.Run(results, run))
    training._place()
    placed = time.process_time()
    training._resume()
    end = training._train_epochs(training.factors["epochs"])
    trained = time.process_time()
    trainer.write(training, end)
    return time.process_time() - begun, trained - placed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 32, 256])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=11)
    arguments = parser.parse_args()
    tensorflow_start.start(threads=1)
    import numpy as np

    from batchscope import datasets
    from batchscope.catalogue import dataset_definitions, run_names
    from batchscope.training import trajectory

    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        definition = dataset_definitions.resolve({"source": "digits", "split": SPLIT})
        token = dataset_definitions.token("digits", definition)
        datasets.prepare(token, definition, results)
        data = datasets.load(results, token)
        examples = {split: len(data.labels(split)) for split in ("train", "validation", "test")}
        quarter = examples["train"] // 4
        passed = examples["validation"] + examples["test"]
        passed += min(examples["train"], trajectory.MOST_EXAMPLES)
        print(f"arithmetic alone: {1 + passed / (3 * quarter):.2f}")
        factors = {"dataset": token, "model": "small_cnn", "learning_rate": 0.05, "seed": 0}
        factors |= {"optimizer": "sgd", "epochs": arguments.epochs}
        print("| batch size | with / without | without / without | updates and evaluations alone |")
        print("|---|---|---|---|")
        for size in arguments.batch_sizes:
            plain = run_names.run_name({**factors, "batch_size": size})
            every = {"evaluate_every": quarter}
            asked = run_names.run_name({**factors, "batch_size": size, **every})
            contenders = {"without": plain, "again": plain, "with": asked}
            whole: dict[str, list[float]] = {name: [] for name in contenders}
            alone: dict[str, list[float]] = {name: [] for name in contenders}
            for _ in range(arguments.blocks):
                for name in generator.permutation(list(contenders)):
                    total, inner = taken(contenders[name], results)
                    whole[name].append(total)
                    alone[name].append(inner)
            print(
                f"| {size} | {ratio(whole['with'], whole['without'])} "
                f"| {ratio(whole['again'], whole['without'])} "
                f"| {ratio(alone['with'], alone['without'])} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
