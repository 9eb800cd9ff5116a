"""What the examples of a data set look like, as far as it is known before they are prepared."""

from __future__ import annotations

import zipfile
from typing import IO, Any

import numpy as np

from batchscope.catalogue import dataset_definitions, npz_header
from batchscope.datasets import arrays, photographs
from batchscope.datasets import labels as own_labels
from batchscope.errors import UserError

# Shape of an example (height, width, channels; or features) and number of classes.
Look = tuple[tuple[int, ...], int]


def known(definition: dict[str, Any]) -> Look | None:
    """Returns the shape of an example and the number of classes, without reading any example.

    None where only its preparation finds it, or finds an error.

    Args:
        definition: A resolved definition.
    """
    ways = {"image_folder": _image_folder, "npz": _npz, "csv": _unknown}
    find = ways.get(definition["source"], _constant)
    return find(definition)


def _constant(definition: dict[str, Any]) -> Look | None:
    if definition["source"] == "mnist" and definition["path"]:
        return None  # files of the user's own may hold another data set of its kind
    size = definition.get("image_size")
    return dataset_definitions.examples(definition) or ((size, size, 3), 2)


def _unknown(definition: dict[str, Any]) -> None:
    return None


def _image_folder(definition: dict[str, Any]) -> Look | None:
    try:
        folders = photographs.class_folders(dataset_definitions.expanded(definition["path"]))
    except OSError:
        return None
    size = definition["image_size"]
    return ((size, size, definition["channels"]), len(folders)) if len(folders) > 1 else None


def _npz(definition: dict[str, Any]) -> Look | None:
    try:
        with zipfile.ZipFile(dataset_definitions.expanded(definition["path"])) as archive:
            names = archive.namelist()
            key = next((key for key in npz_header.EXAMPLES if f"{key}.npy" in names), "")
            with archive.open(f"{'y_train' if key == 'x_train' else 'labels'}.npy") as file:
                labels = np.lib.format.read_array(file, allow_pickle=False)
            with archive.open(f"{key}.npy") as file:
                shape, letter = _header(file)
        classes = len(own_labels.numbered(("labels", labels), {})[2])
    except (*arrays.DAMAGED, UserError):
        return None
    kind = definition.get("kind") or dataset_definitions.kind_of_array(len(shape), letter)
    if kind == dataset_definitions.ROWS and len(shape) == 2:
        return shape[1:], classes
    if kind != dataset_definitions.IMAGES or len(shape) not in (3, 4):
        return None
    return (*shape[1:], 1)[:3], classes


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], str]:
    """Returns the shape of an array in a file, whose numbers are not read, and their kind."""
    version = np.lib.format.read_magic(file)
    first = version == (1, 0)
    formats = np.lib.format
    read = formats.read_array_header_1_0 if first else formats.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype.kind
