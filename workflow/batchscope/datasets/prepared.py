"""Load a prepared data set from its folder below `results/data`, check its files, and describe it.

`ModelInput` is what a model must know of a data set: shape, outputs and task, from its record, or
from its definition and the user's files if it is not prepared.

A check compares the SHA-256 of the arrays with the record, then writes the sizes and times of the
files to `verified.json` next to the record. The next check hashes only files that differ from it.
So every change is noticed, and an unchanged file costs one `stat`.
"""

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from batchscope.core import disk, errors
from batchscope.core.errors import UserError
from batchscope.datasets.preparation import divide, system_error
from batchscope.datasets.source import Request
from batchscope.store import paths, records
from batchscope.study import dataset_definitions, names, tasks

_VERIFIED = "verified.json"
_RECORD_KEYS = ("scale", "classes", "input_shape", "counts", "sha256")  # keys of a record


class ImageScaling(NamedTuple):
    """Factor of the images before they enter a model."""

    factor: float
    explicit: bool  # whether the definition of the images states the factor
    key: str  # key of the study, such as `datasets.mine.scale`; empty if the source has none

    @classmethod
    def from_definition(cls, name: str, definition: dict[str, Any], usual: float) -> Self:
        scale = definition.get("scale")
        has_scale = "scale" in dataset_definitions.SOURCES[definition["source"]].model_fields
        return cls(scale or usual, scale is not None, f"datasets.{name}.scale" if has_scale else "")


class ModelInput(NamedTuple):
    """Shape, outputs and task of a data set, which decide the layers of a model."""

    input_shape: tuple[int, ...]  # height, width, channels; features; or length of a sequence
    classes: int  # or targets of a regression
    kind: str = tasks.IMAGES  # one of `tasks.KINDS`
    largest: int = 1  # largest token of sequences with one class each
    task: str = tasks.CLASSIFICATION  # one of `tasks.TASKS`
    scaling: ImageScaling | None = None  # None unless the examples are images

    @classmethod
    def from_record(
        cls, name: str, record: dict[str, Any], definition: dict[str, Any] | None, scale: float
    ) -> Self:
        """Return the input that the record of a data set describes."""
        kind, scaling = record.get("kind", tasks.IMAGES), None
        if kind == tasks.IMAGES and definition:
            scaling = ImageScaling.from_definition(name, definition, scale)
        shape, task = tuple(record["input_shape"]), record.get("task", tasks.CLASSIFICATION)
        return cls(shape, record["classes"], kind, record.get("largest_token", 1), task, scaling)


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

    def rows(self, chosen: np.ndarray) -> Self:
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
    def model_input(self) -> ModelInput:
        name = names.split_token(self.folder.name)[0]
        return ModelInput.from_record(name, self.record, self.record.get("definition"), self.scale)

    @property
    def classes(self) -> int:
        return self.model_input.classes

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.model_input.input_shape

    @property
    def task(self) -> str:
        return self.model_input.task

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
        shape = self.input_shape if self.model_input.kind == tasks.TOKENS else ()
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


def input_and_size(
    results: Path | str, token: str, definition: dict[str, Any]
) -> tuple[ModelInput, int | None]:
    """Return the input of a model and the number of training examples of a data set.

    If it is not prepared, both come from its definition and the user's files.

    Raises:
        UserError: If the files of the prepared data set or of the user are invalid.
    """
    if records.data_record(results, token) is None:
        return input_and_size_from_definition(names.split_token(token)[0], definition)
    dataset = load(results, token)
    return dataset.model_input, dataset.record["counts"]["train"]


def input_and_size_from_definition(
    name: str, definition: dict[str, Any]
) -> tuple[ModelInput, int | None]:
    """Return the input of a model and the number of training examples, without downloads.

    Photographs are not decoded, so the number includes unreadable ones. It is None if a download
    decides it.

    Raises:
        UserError: If the user's files cannot be prepared; it lists all problems.
    """
    source, request = dataset_definitions.read(definition), Request(f"datasets.{name}")
    try:
        if outline := source.outline(request):
            shape, outputs, count = outline
            record = {"kind": source.fixed_kind, "task": source.fixed_task}
            record |= {"input_shape": shape, "classes": outputs}
            scale = source.usual_scale
        else:
            raw, _, _, record = divide(source, request)
            count, scale = record["counts"]["train"], source.default_scale(raw)
    except OSError as error:
        raise system_error(request.place, error) from None
    return ModelInput.from_record(name, record, definition, scale), count
