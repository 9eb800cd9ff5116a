"""Read MNIST, downloaded or from local files."""

import dataclasses
import gzip
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from batchscope.core.errors import unexpected
from batchscope.core.problems import Place, Problem, received
from batchscope.datasets import splits
from batchscope.datasets.source import (
    DataSource,
    FileSha256,
    Pair,
    PerClass,
    Raw,
    Request,
    Scale,
    reading_file,
)
from batchscope.datasets.sources import npz
from batchscope.study.model import FilePath, Integer, Model, Seed

URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"

_TEST_IMAGES = 10_000
# Map of an array to the name of its idx file, which may end in `.gz`.
_IDX_FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


class MnistSplit(Model):
    """Number of images that validate, and the part that contains them.

    From `train`, the 60,000 training images (or those that `per_class` keeps), or from `test`, the
    10,000 test images: then all training images train, and fewer images test.
    """

    validation: Annotated[Integer, Field(ge=1, le=59_999)] = 10_000
    """Images that validate, in all."""
    validation_from: Annotated[
        Literal["train", "test"], Field(exclude_if=lambda value: value == "train")
    ] = "train"
    """Part that contains them."""
    seed: Seed = 0

    def training_size(self, members: tuple[int, ...]) -> int:
        return sum(members) - (self.validation if self.validation_from == "train" else 0)

    def problems(
        self, place: Place, members: tuple[int, ...], has_classes: bool = True
    ) -> Iterator[Problem]:
        """Yield a problem if `validation` is not below the number of images."""
        part = self.validation_from
        images = sum(members) if part == "train" else _TEST_IMAGES
        if members and self.validation >= images:
            expected = f"at most {images - 1} of the {images} {part} images"
            yield received((*place, "validation"), self.validation, expected)


class Mnist(DataSource):
    """MNIST; its 10,000 test images are the test set, or validation and test set.

    A local file is Keras's mnist.npz, or a folder of the four idx files.
    """

    built_in = "mnist"
    fixed_shape = (28, 28, 1)
    members = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    path_check = (Path.exists, "an existing file or folder")
    source: Literal["mnist"]
    path: FilePath | None = None
    """The local file or folder; downloaded if left out."""
    sha256: FileSha256 = None
    per_class: PerClass = None
    scale: Scale = None
    split: MnistSplit = MnistSplit()

    def class_members(self) -> tuple[int, ...]:
        return () if self.path else super().class_members()

    def read(self, request: Request) -> Raw:
        """Read the 60,000 training images and the official 10,000 test images.

        `per_class` keeps the first images of each class. `split.validation` is a number of images
        in all, not per class.
        """
        path = self.local_or_downloaded(request, URL, SHA256)
        place, files = f"{request.place}: {path}", [path]
        if path.is_dir():
            candidates = {key: sorted(path.glob(f"{name}*")) for key, name in _IDX_FILES.items()}
            idx_files = {key: paths[0] for key, paths in candidates.items() if paths}
            arrays = {key: _read_idx(request.place, file) for key, file in idx_files.items()}
            files = [*idx_files.values()]
        else:
            arrays = npz.read_npz(place, path)
        if missing := [key for key in _IDX_FILES if key not in arrays]:
            received = f"no {' or '.join([missing[0], _IDX_FILES[missing[0]]])}"
            raise unexpected(place, received, "Keras's mnist.npz, or a folder of the idx files,")
        arrays = {key: arrays[key] for key in _IDX_FILES}
        raw = npz.from_arrays(self, request.place, place, arrays, self.fixed_kind)
        if self.split.validation_from == "test":
            fixed_parts = _divide_test_set(request.place, raw.fixed_parts["test"], self.shares())
            raw = dataclasses.replace(raw, fixed_parts=fixed_parts)
        if self.per_class is not None:
            rows = _first_of_each_class(request.place, raw, self.per_class)
            raw = dataclasses.replace(raw, images=raw.images[rows], labels=raw.labels[rows])
        return dataclasses.replace(raw, files=files, origin=URL, stratified=False)


def _divide_test_set(place: str, test_set: Pair, split: dict[str, Any]) -> dict[str, Pair]:
    """Divide a test set into `split.validation` examples for validation and the rest for test."""
    examples, labels = test_set
    count = split["validation"]
    if count >= len(labels):
        received = f"{count}, for {len(labels)} test examples"
        raise unexpected(f"{place}.split.validation", received, "a smaller number")
    rows = splits.order_generator(split, "validation").permutation(len(labels))
    parts = {"validation": rows[:count], "test": rows[count:]}
    return {part: (examples[rows], labels[rows]) for part, rows in parts.items()}


def _first_of_each_class(place: str, raw: Raw, count: int) -> np.ndarray:
    classes = range(len(raw.class_names))
    rows_by_class = [np.flatnonzero(raw.labels == label)[:count] for label in classes]
    for name, rows in zip(raw.class_names, rows_by_class, strict=True):
        if len(rows) < count:
            received = f"{count}, for {len(rows)} training images of {name}"
            raise unexpected(f"{place}.per_class", received, "a smaller number")
    return np.sort(np.concatenate(rows_by_class))


def _read_idx(place: str, path: Path) -> np.ndarray:
    opens = gzip.open if path.suffix == ".gz" else open
    with (
        reading_file(f"{place}: {path}", "a whole idx file of bytes", IndexError, *npz.DAMAGED),
        opens(path, "rb") as file,
    ):
        data = file.read()
        if data[:3] != b"\0\0\x08":
            raise ValueError(f"it begins with {data[:3]}")
        shape = struct.unpack_from(f">{data[3]}I", data, 4)
        return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)
