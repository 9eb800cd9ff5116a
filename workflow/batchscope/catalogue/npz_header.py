"""What an npz file holds, by the headers of its arrays: no array is read."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

# The training examples, under any of the names that they may have.
EXAMPLES = ("x_train", "images", "inputs")

_BLOCK = 2**24  # bytes of a large array that are read at once

Shape = tuple[int, ...]


def headers(path: Path) -> dict[str, tuple[Shape, np.dtype]]:
    """Returns array -> shape and type, in the file's order; raises nearly anything if damaged.

    Names are in lower case.
    """
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as file:
                    shape, _, dtype = _header(file)
                found[member.removesuffix(".npy").casefold()] = shape, dtype
    return found


def mapped(path: Path, name: str, larger_than: float) -> np.memmap | None:
    """Returns an array of more bytes than a number, mapped read-only.

    None of a smaller one, and of one that is compressed. Raises nearly anything if it is damaged:
    its checksum is read as by NumPy. Source: APPNOTE.TXT of the ZIP format, section 4.3.7.
    """
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{name}.npy")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size <= larger_than:
            return None
        with archive.open(info) as file:
            while file.read(_BLOCK):
                pass
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        signature, name_length, extra_length = struct.unpack("<4s22x2H", file.read(30))
        if signature != b"PK\x03\x04":
            raise ValueError("no member where one is listed")
        first = file.seek(name_length + extra_length, os.SEEK_CUR)
        shape, fortran, dtype = _header(file)
        at = file.tell()
    if dtype.hasobject:
        return None
    if at + math.prod(shape) * dtype.itemsize > first + info.file_size:
        raise ValueError("fewer numbers than its header says")
    return np.memmap(path, dtype, "r", at, shape, "F" if fortran else "C")


def _header(file: IO[bytes]) -> tuple[Shape, bool, np.dtype]:
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    return readers[np.lib.format.read_magic(file)](file)


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
    return "y_train" if key == "x_train" else "labels"
