"""Sources that are arrays of images already: scikit-learn's digits, MNIST."""

from __future__ import annotations

import contextlib
import gzip
import importlib.metadata
import importlib.util
import itertools
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from batchscope import disk
from batchscope.datasets import download, splits
from batchscope.datasets.raw import Raw, Request, reading
from batchscope.errors import UserError

MNIST_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
MNIST_SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"

_MOST_RATIO = 1032  # of bytes to what deflate makes of them
# What a file that is no whole npz, idx or gzip raises when it is read.
DAMAGED = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


def digits(request: Request) -> Raw:
    """Returns the 1,797 handwritten digits that come with scikit-learn.

    8x8 pixels of 0 to 16, kept as bytes and scaled by 1/16. The file that its `load_digits`
    reads is read here, since importing that function takes seconds. Source: E. Alpaydin and
    C. Kaynak, "Optical recognition of handwritten digits", UCI, test set.

    Raises:
        UserError: If scikit-learn is not installed, or without its data.
    """
    path = scikit_learn_data() / "data" / "digits.csv.gz"
    with reading_scikit_learn(request.where, "digits"):
        table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    return Raw(
        table[:, :-1].reshape(-1, 8, 8, 1),
        table[:, -1].astype(np.int32),
        [str(digit) for digit in range(10)],
        f"scikit-learn {importlib.metadata.version('scikit-learn')}, digits",
        {path.name: disk.file_sha256(path)},
        scale=1 / 16,
    )


def scikit_learn_data() -> Path:
    """Returns the folder of the data that come with scikit-learn, without importing it."""
    spec = importlib.util.find_spec("sklearn")
    folder = Path(spec.origin or "").parent if spec else Path()
    return folder / "datasets"


@contextlib.contextmanager
def reading_scikit_learn(where: str, what: str) -> Iterator[None]:
    """Says what to do where data that come with scikit-learn cannot be read."""
    try:
        yield
    except DAMAGED as error:
        raise UserError(
            f"{where}: scikit-learn's {what} cannot be read ({error}); install the project's "
            "dependencies again."
        ) from None


def mnist(request: Request) -> Raw:
    """Returns MNIST: 60,000 images to train with, and the official 10,000 to test with.

    From Keras's `mnist.npz` (downloaded, or the user's copy) or from a folder with the four
    idx files, gzipped or not. Of the 60,000, `per_class` keeps the first so many of each class,
    in the file's order. `split.validation` is a number of images in all, not per class; they are
    drawn from what is kept of the 60,000, or from the 10,000 where `split.validation_from` is
    `test`.

    Raises:
        UserError: If it cannot be had, its files are no MNIST, or a class has too few images.
    """
    path = download.local_or_downloaded(request, MNIST_URL, MNIST_SHA256)
    reader = _idx_folder if path.is_dir() else _mnist_npz
    sets, checksums = reader(request.where, path)
    for name, (images, labels) in sets.items():
        check_images(f"{request.where}: {path}: {name}", images)
        _check_labels(f"{request.where}: {path}: {name}", labels, len(images))
    (images, labels), (test_images, test_labels) = sets["train"], sets["test"]
    classes = _classes(f"{request.where}: {path}: train", labels, test_labels)
    rows = _first_of_each_class(request, labels, classes)
    test = (stored(test_images, str(path)), test_labels.astype(np.int32))
    from_test = request.split.get("validation_from") == "test"
    return Raw(
        stored(images[rows], str(path)),
        labels[rows].astype(np.int32),
        [str(index) for index in range(classes)],
        str(request.definition.get("path") or MNIST_URL),
        checksums,
        given=splits.divided(request.where, *test, request.split) if from_test else {"test": test},
        stratified=False,
    )


def _first_of_each_class(request: Request, labels: np.ndarray, classes: int) -> np.ndarray | slice:
    """Returns which examples the definition's `per_class` keeps, in the order that they have."""
    wanted = request.definition.get("per_class")
    if wanted is None:
        return slice(None)
    kept = [np.flatnonzero(labels == index)[:wanted] for index in range(classes)]
    for index, rows in enumerate(kept):
        if len(rows) < wanted:
            raise UserError(
                f"{request.where}.per_class: received {wanted}, but {index} has only {len(rows)} "
                "training images."
            )
    return np.sort(np.concatenate(kept))


def _mnist_npz(where: str, path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    arrays = read_npz(where, path)
    keys = ("x_train", "y_train", "x_test", "y_test")
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise UserError(
            f"{where}: {path}: missing {', '.join(missing)}; Keras's mnist.npz is expected."
        )
    sets = {name: (arrays[f"x_{name}"], arrays[f"y_{name}"]) for name in ("train", "test")}
    return sets, {path.name: disk.file_sha256(path)}


def _idx_folder(where: str, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    sets, checksums = {}, {}
    for name, prefix in (("train", "train"), ("test", "t10k")):
        pair = []
        for what, dimensions in (("images", 3), ("labels", 1)):
            path = _idx_path(where, folder, f"{prefix}-{what}", dimensions)
            pair.append(_read_idx(where, path, dimensions))
            checksums[path.name] = disk.file_sha256(path)
        sets[name] = tuple(pair)
    return sets, checksums


def _idx_path(where: str, folder: Path, stem: str, dimensions: int) -> Path:
    for dot, ending in itertools.product("-.", ("", ".gz")):
        path = folder / f"{stem}{dot}idx{dimensions}-ubyte{ending}"
        if path.is_file():
            return path
    raise UserError(
        f"{where}.path: {folder} has no {stem}-idx{dimensions}-ubyte (or .gz); MNIST's four idx "
        "files are expected."
    )


def _read_idx(where: str, path: Path, dimensions: int) -> np.ndarray:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        magic, *shape = struct.unpack_from(f">{1 + dimensions}I", data)
    except (*DAMAGED, struct.error) as error:
        raise UserError(f"{where}: {path}: cannot be read ({error}).") from None
    start = 4 * (1 + dimensions)
    if magic != 0x0800 + dimensions or len(data) - start != math.prod(shape):
        raise UserError(
            f"{where}: {path}: received {len(data)} bytes with shape {tuple(shape)}; a whole idx "
            f"file of bytes in {dimensions} dimension(s) is expected."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_npz(where: str, path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of an npz; raises `UserError` if it is none, or holds Python objects."""
    with reading(f"{where}: {path}", "an npz of plain arrays", *DAMAGED):
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array")
        with archive:
            _check_members(archive.zip, path.stat().st_size)
            return {key: archive[key] for key in archive.files}


def _check_members(archive: zipfile.ZipFile, stored: int) -> None:
    """Raises `ValueError` where a header claims more than a file of so many bytes can hold."""
    for info in archive.infolist():
        with archive.open(info) as member:
            if member.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
                continue  # no array
            member.seek(0)
            shape, dtype = header(member, info.filename)
        size = math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and size > min(info.file_size, _MOST_RATIO * stored):
            raise ValueError(f"{info.filename} claims {size} bytes and has fewer")


def header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Returns shape and type of an npy by its header; raises `ValueError` if that is damaged."""
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(file)
    if version not in read:
        raise ValueError(f"{name} has version {version} of the format")
    shape, _, dtype = read[version](file)
    return shape, dtype


def check_images(where: str, images: np.ndarray) -> None:
    """Raises a `UserError` where shape, type or a number is none of an image's."""
    if images.ndim not in (3, 4) or 0 in images.shape:
        raise UserError(
            f"{where}: received shape {images.shape}; (n, height, width[, channels]) is expected."
        )
    if images.dtype.kind not in "uif":
        raise UserError(f"{where}: received {images.dtype}; bytes or floats are expected.")
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise UserError(f"{where}: received NaN or infinity; finite numbers are expected.")


def _check_labels(where: str, labels: np.ndarray, count: int) -> None:
    if labels.shape != (count,):
        raise UserError(
            f"{where}: received labels of shape {labels.shape}; ({count},) is expected."
        )
    if labels.dtype.kind not in "ui":
        raise UserError(f"{where}: received {labels.dtype} labels; integers are expected.")
    if labels.min() < 0:
        raise UserError(f"{where}: received label {labels.min()}; 0 or more is expected.")


def _classes(where: str, labels: np.ndarray, tested: np.ndarray) -> int:
    """Returns the number of classes of the training labels, which must be 0, 1, 2 and so on."""
    present = np.unique(labels)
    if len(present) < 2:
        raise UserError(f"{where}: received one class; at least two are expected.")
    if present[-1] != len(present) - 1:
        absent = np.setdiff1d(np.arange(len(present)), present)[0]
        raise UserError(
            f"{where}: received labels {present[0]} to {present[-1]} without {absent}; every "
            "class from 0 on is expected."
        )
    if tested.max() > present[-1]:
        raise UserError(
            f"{where}: received labels 0 to {present[-1]}, but {tested.max()} in another split; "
            "the classes of the training set are expected."
        )
    return len(present)


def stored(images: np.ndarray, where: str) -> np.ndarray:
    """Returns images as they are kept: with channels, as bytes or float32."""
    if images.ndim == 3:
        images = images[..., None]
    if images.dtype.kind == "f":
        with np.errstate(over="ignore"):
            stored = images.astype(np.float32, copy=False)
        if not np.isfinite(stored).all():
            raise UserError(f"{where}: received numbers beyond float32; smaller ones are expected.")
        return stored
    if images.min() < 0 or images.max() > 255:
        raise UserError(
            f"{where}: received integers {images.min()} to {images.max()}; bytes from 0 to 255, "
            "or floats, are expected."
        )
    return images.astype(np.uint8, copy=False)
