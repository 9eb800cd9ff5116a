"""Headers of the arrays in an npz file."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO

import numpy as np

Shape = tuple[int, ...]


def headers(path: Path) -> dict[str, tuple[Shape, np.dtype]]:
    """Return the shape and type of each array, in the file's order; names are in lower case.

    A damaged file raises nearly any exception.
    """
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as file:
                    shape, _, dtype = _header(file)
                found[member.removesuffix(".npy").casefold()] = shape, dtype
    return found


def _header(file: IO[bytes]) -> tuple[Shape, bool, np.dtype]:
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    return readers[np.lib.format.read_magic(file)](file)
