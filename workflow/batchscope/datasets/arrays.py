"""Arrays of images, rows of numbers or tokens from npz files."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from batchscope.datasets import kinds, npz_header, targets
from batchscope.datasets.folder_parts import PART_OF
from batchscope.datasets.raw import Raw, Request, reading
from batchscope.errors import unexpected
from batchscope.host import memory_limits
from batchscope.store.paths import SPLITS
from batchscope.study.example_kinds import IMAGES, ROWS, SEQUENCES, TOKENS

# Errors of damaged npz, idx or gzip files. A damaged header can ask for more memory than there is.
DAMAGED = (
    *(OSError, EOFError, ValueError, KeyError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
_ARRAYS = "images (or inputs) and labels, or x_train and y_train,"
USED = {"images", "inputs", "labels", *(f"{letter}_{part}" for letter in "xy" for part in PART_OF)}
_SHAPES = "images of (n, height, width[, channels]), or rows or tokens of (n, length): one of these"


def kind_of_arrays(
    shape: tuple[int, ...],
    letter: str,
    label_shape: tuple[int, ...] | None,
    explicit_kind: str | None,
) -> str | None:
    """Return the kind of examples by their array and their labels; None if no kind fits.

    Args:
        shape: Shape of the examples, (n, ...).
        letter: NumPy's letter for the kind of their numbers: `f` for floats, `i` and `u` for
            integers.
        label_shape: Shape of the labels; None without labels.
        explicit_kind: Kind in the definition, or None.
    """
    flat = {"i": TOKENS, "u": TOKENS, "f": ROWS}.get(letter)
    kind = explicit_kind or {2: flat, 3: IMAGES, 4: IMAGES}.get(len(shape))
    # If sequences have one token, a label per sequence is a label per position.
    one_each = label_shape != shape and label_shape in (shape[:1], (*shape[:1], 1))
    return SEQUENCES if kind == TOKENS and one_each else kind


def read_npz(place: str, path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an npz with names in `USED`, by their names in lower case."""
    with reading(place, "an npz of plain arrays", *DAMAGED):
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array")
    arrays = {}
    with archive:
        for key in archive.files:
            if key.casefold() in USED:
                with reading(f"{place}: {key}", "a plain array", *DAMAGED):
                    array = npz_header.mapped(path, key, memory_limits.largest_array())
                    arrays[key.casefold()] = array = archive[key] if array is None else array
                    if not isinstance(array, np.ndarray):
                        raise ValueError("a file of another kind")
        if not arrays:
            raise unexpected(place, ", ".join(archive.files) or "nothing", _ARRAYS)
    return arrays


def from_arrays(
    request: Request, place: str, arrays: dict[str, np.ndarray], explicit_kind: str | None
) -> Raw:
    """Return examples and labels. Without an explicit kind, shape and type decide the kind."""
    keys = part_keys(place, arrays)
    key, label_key = keys["train"]
    first, label_shape = arrays[key], arrays[label_key].shape if label_key in arrays else None
    kind = kind_of_arrays(first.shape, first.dtype.kind, label_shape, explicit_kind)
    if kind is None:
        received = f"{first.dtype} of shape {first.shape}"
        raise unexpected(f"{place}: {key}", received, _SHAPES)
    scale = request.definition.get("scale")
    if scale is not None and kind != IMAGES:
        raise unexpected(f"{request.place}.scale", f"{scale} for {kind}", "a scale of images alone")
    examples, part_labels = {}, {}
    for part, (key, label_key) in keys.items():
        examples[part] = kinds.stored(kind, f"{place}: {key}", arrays[key])
        part_labels[part] = f"{place}: {label_key}", arrays.get(label_key)
    task = request.definition.get("task")
    pairs, names, task = targets.labelled(request.place, kind, task, examples, part_labels)
    train = pairs["train"][0]
    for part, (other, _) in pairs.items():
        if (other.shape[1:], other.dtype) != (train.shape[1:], train.dtype):
            received = f"{other.dtype} of shape {other.shape}"
            expected = f"the shape and type of {keys['train'][0]}, {train.dtype} {train.shape},"
            raise unexpected(f"{place}: {keys[part][0]}", received, expected)
    return Raw(*pairs.pop("train"), names, [], fixed_parts=pairs, kind=kind, task=task)


def part_keys(place: str, names: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the names of the examples and of the labels of each part."""
    single = [key for key in ("images", "inputs") if key in names]
    if bool(single) == ("x_train" in names):
        raise unexpected(place, ", ".join(names), f"{_ARRAYS} and not both,")
    if single:
        return {"train": (single[0], "labels")}
    keys = [key for key in names if key.startswith("x_")]
    named = {PART_OF[key[2:]]: (key, f"y_{key[2:]}") for key in keys}
    if len(named) < len(keys):
        raise unexpected(place, ", ".join(keys), "one name of each part")
    return {part: named[part] for part in SPLITS if part in named}
