"""What an npz file holds, by the headers of its arrays: no array is read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO

import numpy as np

# The training examples, under any of the names that they may have.
EXAMPLES = ("x_train", "images", "inputs")

Shape = tuple[int, ...]


def headers(path: Path) -> dict[str, tuple[Shape, np.dtype]]:
    """Returns array -> shape and type, in the file's order; raises nearly anything if damaged."""
    with zipfile.ZipFile(path) as archive:
        found = {}
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as file:
                    found[member.removesuffix(".npy")] = _header(file)
    return found


def read(path: Path) -> tuple[Shape, str, Shape | None] | None:
    """Returns shape and kind of a file's training examples, and the shape of their labels or None.

    None alone where that is unknown. The kind is NumPy's letter for that of their numbers.
    """
    try:
        found = headers(path)
        key = next(key for key in EXAMPLES if key in found)
    except Exception:  # zipfile, zlib and ast raise nearly anything
        return None  # preparing it says what is wrong
    shape, dtype = found[key]
    labels = found.get(label_key(key))
    return shape, dtype.kind, labels[0] if labels else None


def label_key(key: str) -> str:
    """Returns the name of the labels of training examples that have this one."""
    return "y_train" if key == "x_train" else "labels"


def _header(file: IO[bytes]) -> tuple[Shape, np.dtype]:
    if np.lib.format.read_magic(file) == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    return shape, dtype
