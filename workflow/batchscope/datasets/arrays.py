"""Arrays in files: MNIST, and the user's own images, rows of numbers or sequences of tokens."""

import dataclasses
import gzip
import itertools
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

from batchscope.catalogue import dataset_sources, npz_header
from batchscope.catalogue.folder_parts import PART_OF
from batchscope.datasets import kinds, splits, targets
from batchscope.datasets.raw import (
    Raw,
    Request,
    local_file,
    local_or_downloaded,
    reading,
)
from batchscope.errors import unexpected
from batchscope.host import control_groups
from batchscope.store.paths import SPLITS

MNIST_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
MNIST_SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"

# What a file that is no whole npz, idx or gzip raises when it is read: `MemoryError` where the
# header of an array claims more than there is.
_DAMAGED = (
    *(OSError, EOFError, ValueError, KeyError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
_ARRAYS = "images (or inputs) and labels, or x_train and y_train,"
_USED = {"images", "inputs", "labels", *(f"{of}_{part}" for of in "xy" for part in PART_OF)}
_MNIST = ("x_train", "y_train", "x_test", "y_test")
_SHAPES = "images of (n, height, width[, channels]), or rows or tokens of (n, length): one of these"


def mnist(request: Request) -> Raw:
    """Returns MNIST: 60,000 images to train with, and the official 10,000 to test with.

    `per_class` keeps the first so many of each class. `split.validation` is a number of images in
    all, not per class.
    """
    path = local_or_downloaded(request, MNIST_URL, MNIST_SHA256)
    where, files = f"{request.where}: {path}", [path]
    if path.is_dir():
        files = [_idx_path(where, path, key) for key in _MNIST]
        found = {
            key: _read_idx(f"{request.where}: {file}", file)
            for key, file in zip(_MNIST, files, strict=True)
        }
    else:
        found = _read_npz(where, path)
    if missing := [key for key in _MNIST if key not in found]:
        raise unexpected(where, f"no {', '.join(missing)}", "Keras's mnist.npz")
    found = {key: found[key] for key in _MNIST}
    raw = from_arrays(request, where, found, dataset_sources.IMAGES)
    if request.split.get("validation_from") == "test":
        given = splits.divided(request.where, raw.given["test"], request.split)
        raw = dataclasses.replace(raw, given=given)
    if (wanted := request.definition["per_class"]) is not None:
        rows = _first_of_each_class(request.where, raw, wanted)
        raw = dataclasses.replace(raw, images=raw.images[rows], labels=raw.labels[rows])
    return dataclasses.replace(raw, files=files, origin=MNIST_URL, stratified=False)


def _first_of_each_class(where: str, raw: Raw, wanted: int) -> np.ndarray:
    kept = [np.flatnonzero(raw.labels == label)[:wanted] for label in range(len(raw.class_names))]
    for name, rows in zip(raw.class_names, kept, strict=True):
        if len(rows) < wanted:
            received = f"{wanted}, for {len(rows)} training images of {name}"
            raise unexpected(f"{where}.per_class", received, "a smaller number")
    return np.sort(np.concatenate(kept))


def _idx_path(where: str, folder: Path, key: str) -> Path:
    what, dimensions = ("images", 3) if key.startswith("x") else ("labels", 1)
    stem = f"{'train' if key.endswith('train') else 't10k'}-{what}"
    for dot, ending in itertools.product("-.", ("", ".gz")):
        path = folder / f"{stem}{dot}idx{dimensions}-ubyte{ending}"
        if path.is_file():
            return path
    received = f"no {stem}-idx{dimensions}-ubyte (or .gz)"
    raise unexpected(where, received, "a folder with MNIST's four idx files")


def _read_idx(where: str, path: Path) -> np.ndarray:
    with reading(where, "a whole idx file of bytes", *_DAMAGED):
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if data[:3] != b"\0\0\x08":
            raise ValueError(f"it begins with {data[:3]}")
        (dimensions,) = struct.unpack_from("B", data, 3)
        shape = struct.unpack_from(f">{dimensions}I", data, 4)
        return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _read_npz(where: str, path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of an npz that may be used, by their names in lower case."""
    with reading(where, "an npz of plain arrays", *_DAMAGED):
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array")
    found = {}
    with archive:
        for key in archive.files:
            if key.casefold() in _USED:
                with reading(f"{where}: {key}", "a plain array", *_DAMAGED):
                    array = npz_header.mapped(path, key, control_groups.most_held())
                    found[key.casefold()] = array = archive[key] if array is None else array
                    if not isinstance(array, np.ndarray):
                        raise ValueError("a file of another kind")
        if not found:
            raise unexpected(where, ", ".join(archive.files) or "nothing", _ARRAYS)
    return found


def npz(request: Request) -> Raw:
    """Returns the user's own arrays; a part that is not in the file is drawn from `x_train`."""
    path = local_file(request)
    where = f"{request.where}: {path}"
    raw = from_arrays(request, where, _read_npz(where, path), request.definition.get("kind"))
    return dataclasses.replace(raw, files=[path])


def from_arrays(
    request: Request, where: str, found: dict[str, np.ndarray], stated: str | None
) -> Raw:
    """Returns arrays of one kind, the stated one or that of their shape and type."""
    keys = _keys(where, found)
    key, label_key = keys["train"]
    first, label_shape = found[key], found[label_key].shape if label_key in found else None
    kind = dataset_sources.kind_of_arrays(first.shape, first.dtype.kind, label_shape, stated)
    if kind is None:
        received = f"{first.dtype} of shape {first.shape}"
        raise unexpected(f"{where}: {key}", received, _SHAPES)
    scale = request.definition.get("scale")
    if scale is not None and kind != dataset_sources.IMAGES:
        raise unexpected(f"{request.where}.scale", f"{scale} for {kind}", "a scale of images alone")
    examples, given = {}, {}
    for part, (key, label_key) in keys.items():
        examples[part] = kinds.stored(kind, f"{where}: {key}", found[key])
        given[part] = f"{where}: {label_key}", found.get(label_key)
    stated = request.definition.get("task")
    pairs, names, task = targets.labelled(request.where, kind, stated, examples, given)
    train = pairs["train"][0]
    for part, (other, _) in pairs.items():
        if (other.shape[1:], other.dtype) != (train.shape[1:], train.dtype):
            received = f"{other.dtype} of shape {other.shape}"
            expected = f"the shape and type of {keys['train'][0]}, {train.dtype} {train.shape},"
            raise unexpected(f"{where}: {keys[part][0]}", received, expected)
    return Raw(*pairs.pop("train"), names, [], given=pairs, kind=kind, task=task)


def _keys(where: str, found: dict[str, np.ndarray]) -> dict[str, tuple[str, str]]:
    whole = [key for key in ("images", "inputs") if key in found]
    if bool(whole) == ("x_train" in found):
        raise unexpected(where, ", ".join(found), f"{_ARRAYS} and not both,")
    if whole:
        return {"train": (whole[0], "labels")}
    keys = [key for key in found if key.startswith("x_")]
    named = {PART_OF[key[2:]]: (key, f"y_{key[2:]}") for key in keys}
    if len(named) < len(keys):
        raise unexpected(where, ", ".join(keys), "one name of each part")
    return {part: named[part] for part in SPLITS if part in named}
