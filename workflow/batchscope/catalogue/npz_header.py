"""What an npz file holds, by the headers of its arrays: read when planning, so without NumPy."""

from __future__ import annotations

import ast
import struct
import zipfile
from pathlib import Path
from typing import IO

# The training examples, under any of the names that they may have.
EXAMPLES = ("x_train", "images", "inputs")
_MOST = 1 << 16  # bytes of a header

Shape = tuple[int, ...]


def read(path: Path) -> tuple[Shape, str, Shape | None] | None:
    """Returns shape and kind of a file's training examples, and the shape of their labels or None.

    None alone where that is unknown. The kind is NumPy's letter for that of their numbers.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            key = next(key for key in EXAMPLES if f"{key}.npy" in names)
            with archive.open(f"{key}.npy") as member:
                shape, letter = _header(member)
            labels = f"{label_key(key)}.npy"
            if labels not in names:
                return shape, letter, None
            with archive.open(labels) as member:
                return shape, letter, _header(member)[0]
    except Exception:  # zipfile, zlib and ast raise nearly anything
        return None  # preparing it says what is wrong


def label_key(key: str) -> str:
    """Returns the name of the labels of training examples that have this one."""
    return "y_train" if key == "x_train" else "labels"


def _header(member: IO[bytes]) -> tuple[Shape, str]:
    """Returns shape and kind of an array, by its header (NumPy Enhancement Proposal 1)."""
    magic = member.read(8)
    if magic[:6] != b"\x93NUMPY":
        raise ValueError("no array")
    length = "<H" if magic[6] == 1 else "<I"
    (size,) = struct.unpack(length, member.read(struct.calcsize(length)))
    found = ast.literal_eval(member.read(min(size, _MOST)).decode("utf-8"))
    shape, descr = found["shape"], found["descr"]
    if not isinstance(shape, tuple) or not isinstance(descr, str):
        raise ValueError("no plain array")
    return shape, descr.lstrip("<>|=")[:1]
