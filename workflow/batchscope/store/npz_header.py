"""Headers of the arrays in an npz file, and large arrays mapped into memory."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

_BLOCK = 2**24  # bytes of a large array that are read at once

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


def mapped(path: Path, name: str, larger_than: float) -> np.memmap | None:
    """Map an array of more than `larger_than` bytes, read-only.

    Return None for a smaller array and for a compressed one. The checksum is tested as NumPy does.
    A damaged file raises nearly any exception.
    Source: APPNOTE.TXT of the ZIP format, section 4.3.7.
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
