"""Headers of the arrays in an npz file, and large arrays mapped into memory."""

from __future__ import annotations

import math
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
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as file:
                    shape, _, dtype = _header(file)
                arrays[member.removesuffix(".npy").casefold()] = shape, dtype
    return arrays


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
        with archive.open(info) as member:
            shape, fortran, dtype = _header(member)
            header_bytes = member.tell()
            while member.read(_BLOCK):  # zipfile compares the checksum at the end
                pass
    if dtype.hasobject:
        return None
    if header_bytes + math.prod(shape) * dtype.itemsize > info.file_size:
        raise ValueError("fewer numbers than its header says")
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        name_bytes, extra_bytes = struct.unpack("<26x2H", file.read(30))
    offset = info.header_offset + 30 + name_bytes + extra_bytes + header_bytes
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")


def _header(file: IO[bytes]) -> tuple[Shape, bool, np.dtype]:
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    return readers[np.lib.format.read_magic(file)](file)
