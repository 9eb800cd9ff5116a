"""What an npz file holds, by the headers of its arrays: read when planning, so without NumPy."""

from __future__ import annotations

import ast
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

# The training examples, under any of the names that they may have.
EXAMPLES = ("x_train", "images", "inputs")
_MOST = 1 << 16  # bytes of a header


def kind(path: Path, kind_of_array: Callable[[int, str], str | None]) -> str | None:
    """Returns what the training examples of a file are; None where that cannot be told.

    Args:
        kind_of_array: Gives it by the array's dimensions and the letter of its type's kind.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            name = next(f"{key}.npy" for key in EXAMPLES if f"{key}.npy" in names)
            with archive.open(name) as member:
                shape, letter = _header(member)
    except (OSError, EOFError, ValueError, KeyError, SyntaxError, StopIteration, struct.error):
        return None  # preparing it says what is wrong
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, MemoryError, RecursionError):
        return None
    return kind_of_array(len(shape), letter)


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], str]:
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
