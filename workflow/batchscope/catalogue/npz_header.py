"""What an npz file holds, by the headers of its arrays: no array is read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

# The training examples, under any of the names that they may have.
EXAMPLES = ("x_train", "images", "inputs")

Shape = tuple[int, ...]


def headers(path: Path) -> dict[str, tuple[Shape, np.dtype]]:
    """Returns array -> shape and type, in the file's order; raises nearly anything if damaged.

    Names are in lower case.
    """
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as file:
                    shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
                found[member.removesuffix(".npy").casefold()] = shape, dtype
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
    labels, _ = found.get(label_key(key), (None, None))
    return found[key][0], found[key][1].kind, labels


def label_key(key: str) -> str:
    """Returns the name of the labels of training examples that have this one."""
    return "y_train" if key == "x_train" else "labels"
