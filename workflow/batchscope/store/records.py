"""What records hold: status words, columns, readers, weights. Where they lie is in `paths`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from batchscope import disk, wording
from batchscope.store import paths
from batchscope.study import example_kinds, names, tasks
from batchscope.study.versions import VERSIONS

# A run's status. The first three are results; the others are what is shown: `off_target` of a
# finished run that missed its target_train_loss, `missing` where no record is.
FINISHED = "finished"
DIVERGED = "diverged"
OUT_OF_MEMORY = "out_of_memory"
CRASHED = "failed"  # of an external run
FITS = "fits"  # of a try of a batch size
OFF_TARGET = "off_target"
MISSING = "missing"
FAILED = (DIVERGED, OUT_OF_MEMORY, CRASHED)
UNSUCCESSFUL = (*FAILED, OFF_TARGET)  # ran, and got nowhere; all but these and FINISHED did not run


def history_columns(task: str) -> tuple[str, ...]:
    evaluated = *tasks.columns(task, "train"), *tasks.columns(task, "validation")
    distances = ("epoch_distance", "weight_distance")
    return ("epoch", "step", "learning_rate", *evaluated, "seconds", *distances)


def trajectory_columns(task: str) -> tuple[str, ...]:
    evaluated = *tasks.columns(task, "validation"), *tasks.columns(task, "test")
    return ("examples", "updates", "epoch", "train_loss", *evaluated)


def data_record(results: Path | str, dataset: str) -> dict[str, Any] | None:
    path = paths.dataset_record(results, dataset)
    return disk.read_json(path) if path.exists() else None


def task(results: Path | str, dataset: str) -> str | None:
    record = data_record(results, dataset)
    return None if record is None else record.get("task", tasks.CLASSIFICATION)


def data_warnings(dataset: str, record: dict[str, Any]) -> Iterator[str]:
    """Yields a sentence for each kind of thing to know about a data set, by its record."""
    where = f"datasets.{names.split_token(dataset)[0]}"
    if count := record.get("skipped_count"):
        files = [f"{entry['file']} ({entry['reason']})" for entry in record.get("skipped") or []]
        text = wording.count(count, "file was", "files were")
        yield f"{where}: {text} skipped: {wording.some(files, count)}."
    if count := record.get("dropped"):
        yield f"{where}: {wording.count(count, 'row was', 'rows were')} dropped for a missing cell."
    for column, values in (record.get("unseen") or {}).items():
        words = wording.some([f"{value} ({count})" for value, count in values.items()])
        text = wording.count(
            sum(values.values()), "row of the other parts has", "rows of the other parts have"
        )
        yield f"{where}: column {column}: {text} a value that the training part lacks: {words}."
    counts, lacking = record.get("class_counts") or {}, []
    by_class = zip(*counts.values(), strict=True)
    for name, found in zip(record.get("class_names") or (), by_class, strict=False):
        if not all(found):
            by_split = (f"{split} {count}" for split, count in zip(counts, found, strict=True))
            lacking.append(f"{name} ({', '.join(by_split)})")
    if lacking:
        text = wording.count(len(lacking), "class has", "classes have")
        named = wording.some(lacking)
        yield f"{where}: {text} no example in the validation or test set: {named}."


def training_images(results: Path | str, dataset: str) -> int | None:
    counts = (data_record(results, dataset) or {}).get("counts")
    train = counts.get("train") if isinstance(counts, dict) else None
    return train if isinstance(train, int) else None


def sequence_length(results: Path | str, dataset: str) -> int | None:
    record = data_record(results, dataset) or {}
    return record["input_shape"][0] if record.get("kind") in example_kinds.OF_TOKENS else None


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
    found = {f"trainable:{name}": value for name, value in trainable.items()}
    return found | {f"state:{name}": value for name, value in state.items()}


def read_weights(path: Path | str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Reads what `write_weights` wrote of a run; raises as `disk.read_arrays` does."""
    folder = Path(path).parent
    # Weights after an epoch are made by themselves, all others with their run.
    delete = None if folder.name == "epochs" else paths.run_record(folder)
    trainable, state = {}, {}
    for key, value in disk.read_arrays(path, delete=delete).items():
        kind, _, name = key.partition(":")
        (trainable if kind == "trainable" else state)[name] = value
    return trainable, state


def layer_of(variable: str) -> str:
    """Returns the layer of a variable's path: `conv_1` of `conv_1/kernel`."""
    return variable.rpartition("/")[0] or variable


def other_version(step: str, record: dict[str, Any]) -> str | None:
    version = record.get("version")
    return version if version != VERSIONS[step] else None


def measure_record(
    measure: str,
    run: str,
    settings: dict[str, Any],
    status: str,
    values: dict[str, float | None],
    **details: Any,
) -> dict[str, Any]:
    """Returns the record of a measure; the tables read its values alone.

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
