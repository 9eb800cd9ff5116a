"""Load a prepared data set from its folder below `results/data`, and check its files.

A check compares the SHA-256 of the arrays with the record, then writes the sizes and times of the
files to `verified.json` next to the record. The next check hashes only files that differ from it.
So every change is noticed, and an unchanged file costs one `stat`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.core import disk, errors
from batchscope.core.errors import UserError
from batchscope.datasets.model_inputs import ImageScaling, ModelInput, input_and_size
from batchscope.store import paths, records
from batchscope.study import example_kinds, names, tasks

_VERIFIED = "verified.json"
_RECORD_KEYS = ("scale", "classes", "input_shape", "counts", "sha256")  # keys of a record


@dataclass(frozen=True)
class TaskInfo:
    """The task of a data set, and the scale of its targets."""

    task: str = tasks.CLASSIFICATION  # one of `tasks.TASKS`
    deviations: tuple[float, ...] = ()  # standard deviations of a regression's targets


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples to train on or to evaluate: arrays in memory or on disk, or tensors."""

    images: Any  # examples of any kind, shape (n, *input_shape); tokens are int32
    labels: Any  # as in `Dataset.labels`
    scale: float  # factor of the images before they enter a network
    task_info: TaskInfo = TaskInfo()

    def rows(self, chosen: np.ndarray) -> Examples:
        return replace(self, images=self.images[chosen], labels=self.labels[chosen])


@dataclass(frozen=True)
class Dataset:
    """A prepared data set. Its methods map the arrays from disk, read-only."""

    folder: Path
    record: dict[str, Any]

    @property
    def scale(self) -> float:
        return float(self.record["scale"])

    @property
    def classes(self) -> int:
        return int(self.record["classes"])

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.record["input_shape"])

    @property
    def task(self) -> str:
        return self.record.get("task", tasks.CLASSIFICATION)

    @property
    def model_input(self) -> ModelInput:
        """Shape, classes and task. `complete_model_input` adds the largest token of sequences."""
        kind = self.record.get("kind", example_kinds.IMAGES)
        model_input = ModelInput(self.input_shape, self.classes, kind, task=self.task)
        definition = self.record.get("definition")
        if kind != example_kinds.IMAGES or not definition:
            return model_input
        name = names.split_token(self.folder.name)[0]
        return model_input._replace(
            scaling=ImageScaling.from_definition(name, definition, self.scale)
        )

    def examples(self, split: str) -> Examples:
        deviations = tuple(self.record.get("target_deviations", ()))
        task_info = TaskInfo(self.task, deviations)
        return Examples(self.images(split), self.labels(split), self.scale, task_info)

    def images(self, split: str) -> np.ndarray:
        """Return the examples of a split, shape (n, *input_shape)."""
        return self._array(split, "images", self.input_shape)

    def labels(self, split: str) -> np.ndarray:
        """Return the labels of a split.

        Classes are int32 of shape (n,), or one per token. Several labels are int32 of shape
        (n, labels). The targets of a regression are float32 of shape (n, targets).
        """
        shape = self.input_shape if self.model_input.kind == example_kinds.TOKENS else ()
        if self.task != tasks.CLASSIFICATION:
            shape = (self.classes,)
        return self._array(split, "labels", shape)

    def _array(self, split: str, array: str, shape: tuple[int, ...]) -> np.ndarray:
        path, count = self.folder / f"{split}_{array}.npy", int(self.record["counts"][split])
        return disk.map_array(path, (count, *shape), path_to_delete=self.folder)


def load(results: Path | str, token: str) -> Dataset:
    """Load a prepared data set.

    Raises:
        UserError: If its files do not fit its record.
    """
    folder = paths.dataset_folder(results, token)
    dataset = Dataset(folder, disk.read_json(folder / "record.json", *_RECORD_KEYS))
    for split in paths.SPLITS:
        dataset.examples(split)
    _check_files(folder, dataset.record["sha256"])
    return dataset


def _check_files(folder: Path, sha256: dict[str, str]) -> None:
    """Hash the arrays that changed since the last check.

    Raises:
        UserError: If a file is missing or differs from the record.
    """
    # The states are read before hashing, so that the next check sees later changes.
    states = {}  # map of a file to its SHA-256, size, and times of content and inode in ns
    for file, expected in sha256.items():
        with errors.reading(folder / file, "a prepared array", path_to_delete=folder):
            stat = (folder / file).stat()
        states[file] = [expected, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    verified: dict[str, Any] = {}
    with contextlib.suppress(UserError):  # Before the first check, there is no file.
        verified = disk.read_json(folder / _VERIFIED)
    if states == verified:
        return
    for file, state in states.items():
        if state != verified.get(file):
            disk.check_sha256(folder / file, sha256[file], path_to_delete=folder)
    with contextlib.suppress(OSError):  # Read-only results are hashed every time.
        disk.write_json(folder / _VERIFIED, states)


def complete_model_input(
    results: Path | str, token: str, definition: dict[str, Any]
) -> ModelInput | None:
    """Return the shape, classes and task of a data set, with the largest token of sequences.

    If the data set is not prepared, they come from its definition and the user's files.

    Raises:
        UserError: If the files of the prepared data set or of the user are invalid.
    """
    if records.data_record(results, token) is None:
        return input_and_size(names.split_token(token)[0], definition)[0]
    dataset = load(results, token)
    if dataset.model_input.kind != example_kinds.SEQUENCES:
        return dataset.model_input
    largest = max(int(dataset.images(split).max()) for split in paths.SPLITS)
    return dataset.model_input._replace(largest=largest)
