"""Read a user's arrays from an npz file: images, rows of numbers or tokens, with labels.

A new name of an array goes into `_READ_NAMES` and `_part_keys`. `mnist` shares `read_npz` and
`from_arrays`.
"""

import dataclasses
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from batchscope.core.errors import unexpected
from batchscope.datasets import conversion
from batchscope.datasets.source import (
    DataSource,
    FileSha256,
    Raw,
    Request,
    Task,
    expanded_path,
    integer_if_whole,
    is_none,
    reading_file,
)
from batchscope.datasets.splits import PART_OF_NAME, PartialSplit
from batchscope.store.paths import SPLITS
from batchscope.study.model import FilePath, Positive
from batchscope.study.tasks import IMAGES

# Errors of damaged npz, idx or gzip files. A damaged header can request more memory than exists.
DAMAGED = (
    *(OSError, EOFError, ValueError, KeyError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
_EXPECTED_ARRAYS = "images (or inputs) and labels, or x_train and y_train,"
_READ_NAMES = {"images", "inputs", "labels"} | {
    f"{array}_{part}" for array in "xy" for part in PART_OF_NAME
}
_SHAPES = "images of (n, height, width[, channels]), or rows or tokens of (n, length): one of these"


class Npz(DataSource):
    """Your own arrays, in one npz file; images, rows of numbers, or sequences of tokens.

    Arrays: `images` (or `inputs`) and `labels`, or `x_train`, `y_train` and, each with its labels,
    `x_validation` and `x_test`. Labels are whole numbers, words or one-hot rows; tokens have one
    for each sequence or position; without labels they predict the next token. Targets of a
    regression are numbers, (n,) or (n, targets); with `task: multi_label` 0 and 1, (n, labels).
    """

    fixed_kind = None
    fixed_task = None
    source: Literal["npz"]
    path: FilePath
    """The npz file."""
    sha256: FileSha256 = None
    scale: Annotated[Positive, AfterValidator(integer_if_whole)] | None = None
    """Factor of the images. Default: 1/255 for integers, 1 for floats."""
    split: PartialSplit | None = None
    task: Task = None
    """Task. Default: regression if some labels are not whole numbers, else classification."""
    kind: Annotated[Literal["images", "rows", "tokens"] | None, Field(exclude_if=is_none)] = None
    """Kind of the examples. Default: images if an example has two or three dimensions; if it has
    one, rows of numbers for floats and tokens for integers.
    """

    def kind_of_examples(self) -> str | None:
        """Return the kind in the definition, or the kind that the headers of the arrays show."""
        try:
            headers = _headers(expanded_path(self.path))
            name, label_name = _part_keys(self.path, headers)["train"]
        except Exception:  # zipfile, zlib and ast raise many types of errors; `read` reports them.
            return self.kind
        shape, dtype = headers[name]
        label_shape, _ = headers.get(label_name, (None, None))
        return conversion.kind_of_arrays(shape, dtype.kind, label_shape, self.kind)

    def read(self, request: Request) -> Raw:
        """Read the arrays. A part that is not in the file is drawn from `x_train`."""
        path = self.local_file(request.place)
        place = f"{request.place}: {path}"
        raw = from_arrays(self, request.place, place, read_npz(place, path), self.kind)
        return dataclasses.replace(raw, files=[path])


def _headers(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Return the shape and type of each array with a name in `_READ_NAMES`, by its header."""
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if (name := member.removesuffix(".npy").casefold()) in _READ_NAMES:
                with archive.open(member) as file:
                    np.lib.format.read_magic(file)
                    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                headers[name] = shape, dtype
    return headers


def read_npz(place: str, path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an npz with names in `_READ_NAMES`, by their names in lower case."""
    with reading_file(place, "an npz of plain arrays", *DAMAGED):
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array")
    arrays = {}
    with archive:
        for name in archive.files:
            if (key := name.casefold()) in _READ_NAMES:
                with reading_file(f"{place}: {name}", "a plain array", *DAMAGED):
                    arrays[key] = archive[name]
                    if not isinstance(arrays[key], np.ndarray):
                        raise ValueError("a file of another kind")
    if not arrays:
        raise unexpected(place, ", ".join(archive.files) or "nothing", _EXPECTED_ARRAYS)
    return arrays


def from_arrays(
    source: DataSource,
    dataset: str,
    place: str,
    arrays: dict[str, np.ndarray],
    explicit_kind: str | None,
) -> Raw:
    """Return a data set from its arrays. Shape and type decide the kind if it is not explicit.

    Args:
        dataset: Place of the definition, for errors.
        place: Place of the arrays, for errors.
    """
    keys = _part_keys(place, arrays)
    key, label_key = keys["train"]
    first, label_shape = arrays[key], arrays[label_key].shape if label_key in arrays else None
    kind = conversion.kind_of_arrays(first.shape, first.dtype.kind, label_shape, explicit_kind)
    if kind is None:
        received = f"{first.dtype} of shape {first.shape}"
        raise unexpected(f"{place}: {key}", received, _SHAPES)
    if source.scale is not None and kind != IMAGES:
        received = f"{source.scale} for {kind}"
        raise unexpected(f"{dataset}.scale", received, "a scale of images alone")
    examples, part_labels = {}, {}
    for part, (key, label_key) in keys.items():
        examples[part] = conversion.convert_examples(kind, f"{place}: {key}", arrays[key])
        part_labels[part] = f"{place}: {label_key}", arrays.get(label_key)
    task = source.task_of_labels()
    pairs, names, task = conversion.label_examples(dataset, kind, task, examples, part_labels)
    train = pairs["train"][0]
    for part, (other, _) in pairs.items():
        if (other.shape[1:], other.dtype) != (train.shape[1:], train.dtype):
            received = f"{other.dtype} of shape {other.shape}"
            expected = f"the shape and type of {keys['train'][0]}, {train.dtype} {train.shape},"
            raise unexpected(f"{place}: {keys[part][0]}", received, expected)
    return Raw(*pairs.pop("train"), names, [], fixed_parts=pairs, kind=kind, task=task)


def _part_keys(place: str, names: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the names of the examples and of the labels of each part."""
    single = [key for key in ("images", "inputs") if key in names]
    if len(single) + ("x_train" in names) != 1:
        raise unexpected(place, ", ".join(names), f"{_EXPECTED_ARRAYS} and not both,")
    if single:
        return {"train": (single[0], "labels")}
    keys = [key for key in names if key.startswith("x_")]
    named = {PART_OF_NAME[key[2:]]: (key, f"y_{key[2:]}") for key in keys}
    if len(named) < len(keys):
        raise unexpected(place, ", ".join(keys), "one name of each part")
    return {part: named[part] for part in SPLITS if part in named}
