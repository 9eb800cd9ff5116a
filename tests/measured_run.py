"""A results folder with one tiny data set and one run, for the tests of the measures."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.core import disk
from batchscope.datasets.prepared import ModelInput
from batchscope.store import paths, records
from batchscope.study import names, run_factors

DATASET = "tiny-0123abcd"
RUN = names.run_name(
    {
        "dataset": DATASET,
        "model": "small_cnn",
        "batch_size": 16,
        "learning_rate": 0.1,
        "optimizer": "sgd",
        "epochs": 1,
        "seed": 3,
    }
)
COUNTS = {"train": 70, "validation": 20, "test": 30}


def measured(
    measure: str,
    results: Path,
    folder: Path,
    settings: dict[str, Any] | None = None,
    name: str = "out.json",
) -> dict[str, Any]:
    """Measures the run and returns the record, which is written into a folder under a name."""
    from batchscope.measures import measure_job
    from batchscope.measures.measure_job import FinishedRun

    given = names.settings_name(measure, settings or {})
    measure_job.write(measure, [FinishedRun(results, RUN)], given, folder / name)
    return disk.read_json(folder / name)


def timing_factors(**factors: Any) -> dict[str, Any]:
    """Return the factors of a timing, with the defaults of those that are not given."""
    every = {**run_factors.FACTORS, **run_factors.TIMING_ONLY_FACTORS}
    defaults = {
        name: factor.default for name, factor in every.items() if factor.default is not None
    }
    return {**defaults, "device": "cpu", **factors}


def write_dataset(
    results: Path,
    classes: int = 3,
    shape: tuple[int, ...] = (8, 8, 1),
    counts: dict[str, int] = COUNTS,
) -> None:
    """Writes a prepared data set of noise."""
    folder = paths.dataset_folder(results, DATASET)
    folder.mkdir(parents=True)
    random = np.random.default_rng(5)
    for split, count in counts.items():
        images = random.integers(0, 17, (count, *shape), np.uint8)
        np.save(folder / f"{split}_images.npy", images)
        np.save(folder / f"{split}_labels.npy", random.integers(0, classes, count).astype(np.int32))
    sha256 = {path.name: disk.file_sha256(path) for path in folder.glob("*.npy")}
    record = {"dataset": DATASET, "scale": 1 / 16, "classes": classes, "sha256": sha256}
    disk.write_json(folder / "record.json", record | {"input_shape": [*shape], "counts": counts})


def write_record(results: Path, run: str = RUN, **found: Any) -> None:
    """Writes what measures read of the record of a run, `finished` after one epoch if no other."""
    record = {"run": run, "status": "finished", "epochs_run": 1, "sha256": {}}
    disk.write_json(paths.run_record(paths.run_folder(results, run)), record | found)


def write_run_of_four_epochs(results: Path, early: str, which: str) -> None:
    """Writes the data set and a run that has some of its weights after an epoch, too."""
    write_dataset(results)
    write_run(results)
    write_record(results, epochs_run=4)
    folder = paths.run_folder(results, RUN)
    (folder / "epochs").mkdir()
    shutil.copy(folder / f"{which}.npz", folder / "epochs" / f"{early}.npz")


def write_run(results: Path) -> None:
    """Writes a run whose trained weights are the initial ones, moved."""
    folder = paths.run_folder(results, RUN)
    write_record(results)
    from batchscope.training import models

    model = models.build("small_cnn", ModelInput((8, 8, 1), 3), 3)
    trainable, state = models.weights(model)
    records.write_weights(folder / "initial.npz", trainable, state)
    random = np.random.default_rng(6)
    moved = {
        key: (array + 0.05 * random.standard_normal(array.shape)).astype(np.float32)
        for key, array in trainable.items()
    }
    for which in ("final", "best"):
        records.write_weights(folder / f"{which}.npz", moved, state)
