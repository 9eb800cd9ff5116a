"""What an npz file holds, by the headers of its arrays: read when planning."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

# The training examples, under any of the names that they may have.
EXAMPLES = ("x_train", "images", "inputs")

Shape = tuple[int, ...]


def read(path: Path) -> tuple[Shape, str, Shape | None] | None:
    """Returns shape and kind of a file's training examples, and the shape of their labels or None.

    None alone where that is unknown. The kind is NumPy's letter for that of their numbers.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            key = next(key for key in EXAMPLES if f"{key}.npy" in names)
            shape, dtype = header(archive, key)
            labels = label_key(key)
            label_shape = header(archive, labels)[0] if f"{labels}.npy" in names else None
            return shape, dtype.kind, label_shape
    except Exception:  # zipfile, zlib and NumPy raise nearly anything
        return None  # preparing it says what is wrong


def label_key(key: str) -> str:
    """Returns the name of the labels of training examples that have this one."""
    return "y_train" if key == "x_train" else "labels"


def header(archive: zipfile.ZipFile, key: str) -> tuple[Shape, np.dtype]:
    """Returns shape and type of an array; raises `ValueError` where its header is damaged."""
    formats = np.lib.format
    with archive.open(f"{key}.npy") as file:
        first = formats.read_magic(file) == (1, 0)
        read_header = formats.read_array_header_1_0 if first else formats.read_array_header_2_0
        shape, _, dtype = read_header(file)
    return shape, dtype
