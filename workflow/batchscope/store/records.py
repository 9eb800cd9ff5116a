"""The files of finished work: where they lie, their keys, status words, and weights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from batchscope import disk
from batchscope.catalogue import dataset_definitions
from batchscope.catalogue.run_names import VERSIONS

# A run's status. The first three are results; the others are what is shown: `off_target` of a
# finished run that missed its target_train_loss, `missing` where no record is.
FINISHED = "finished"
DIVERGED = "diverged"
OUT_OF_MEMORY = "out_of_memory"
FITS = "fits"  # of a try of a batch size
OFF_TARGET = "off_target"
MISSING = "missing"
FAILED = (DIVERGED, OUT_OF_MEMORY)
UNSUCCESSFUL = (*FAILED, OFF_TARGET)  # ran, and got nowhere; all but these and FINISHED did not run

SPLITS = ("train", "validation", "test")
HISTORY_COLUMNS = (
    "epoch",
    "step",
    "learning_rate",
    "train_loss",
    "train_accuracy",
    "validation_loss",
    "validation_accuracy",
    "seconds",
    "epoch_distance",
    "weight_distance",
)
TRAJECTORY_COLUMNS = (
    "examples",
    "updates",
    "epoch",
    "train_loss",
    "validation_loss",
    "validation_accuracy",
    "test_loss",
    "test_accuracy",
)


def dataset_folder(results: Path | str, dataset: str) -> Path:
    """Returns the folder of prepared arrays of a data set's token."""
    return Path(results) / "data" / dataset


def data_record(results: Path | str, dataset: str) -> dict[str, Any] | None:
    """Returns the record of a data set; None where it is not prepared."""
    path = dataset_folder(results, dataset) / "record.json"
    return disk.read_json(path) if path.exists() else None


def training_images(results: Path | str, dataset: str) -> int | None:
    """Returns the training examples of a prepared data set; None where none is prepared."""
    counts = (data_record(results, dataset) or {}).get("counts")
    train = counts.get("train") if isinstance(counts, dict) else None
    return train if isinstance(train, int) else None


def sequence_length(results: Path | str, dataset: str) -> int | None:
    """Returns the tokens of an example of a prepared data set; None where it has no sequences."""
    record = data_record(results, dataset) or {}
    return record["input_shape"][0] if record.get("kind") in dataset_definitions.OF_TOKENS else None


def run_folder(results: Path | str, run: str) -> Path:
    """Returns the folder of one training run."""
    return Path(results) / "runs" / run


def initial_name(model: str, input_shape: Iterable[int], classes: int) -> str:
    """Returns what the files in `results/initial` are called, of a model for such examples."""
    return f"{model}+{'x'.join(map(str, input_shape))}+{classes}"


def run_record(folder: Path | str) -> Path:
    """Returns the record in a run's folder: what to delete, whatever is damaged there.

    Snakemake misses no other file of a run.
    """
    return Path(folder) / "record.json"


def measure_path(results: Path | str, run: str, measure: str, settings: str) -> Path:
    """Returns the file of one measure of a run, by the name of its settings."""
    return run_folder(results, run) / measure / f"{settings}.json"


def pair_path(results: Path | str, run: str, other: str, measure: str, settings: str) -> Path:
    """Returns the file of one measure of two runs, by the name of its settings."""
    return run_folder(results, run) / f"{measure}_to" / other / f"{settings}.json"


def timing_path(
    results: Path | str, machine: str, timing: str, settings: str, measure: str
) -> Path:
    """Returns the file of one timing measure, by machine and timing configuration."""
    return Path(results) / "timing" / machine / timing / measure / f"{settings}.json"


def write_weights(
    path: Path | str, trainable: dict[str, np.ndarray], state: dict[str, np.ndarray]
) -> None:
    """Writes a model's weights atomically as an npz, variable's path (`conv_1/kernel`) -> array.

    Args:
        state: What is no parameter, such as moving statistics.
    """
    disk.write_arrays(path, weight_members(trainable, state))


def weight_members(
    trainable: dict[str, np.ndarray], state: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns weights under the names that they have in a file: `trainable:...`, `state:...`."""
    groups = {"trainable": trainable, "state": state}
    return {f"{key}:{name}": value for key, of in groups.items() for name, value in of.items()}


def read_weights(path: Path | str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Reads what `write_weights` wrote of a run; raises as `disk.read_arrays` does."""
    folder = Path(path).parent
    # Weights after an epoch are made by themselves, all others with their run.
    delete = None if folder.name == "epochs" else run_record(folder)
    trainable, state = {}, {}
    for key, value in disk.read_arrays(path, delete=delete).items():
        kind, _, name = key.partition(":")
        (trainable if kind == "trainable" else state)[name] = value
    return trainable, state


def layer_of(variable: str) -> str:
    """Returns the layer of a variable's path: `conv_1` of `conv_1/kernel`."""
    return variable.rpartition("/")[0] or variable


def measure_record(
    measure: str,
    run: str,
    settings: dict[str, Any],
    status: str,
    values: dict[str, float | None],
    **details: Any,
) -> dict[str, Any]:
    """Returns the record of a measure, of which the tables read the values alone.

    The status is the run's own where there is nothing to measure.
    """
    return {
        "measure": measure,
        "version": VERSIONS[measure],
        "run": run,
        "settings": settings,
        "status": status,
        "values": values,
        **details,
    }
