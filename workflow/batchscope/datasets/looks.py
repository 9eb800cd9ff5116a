"""What the images of a data set look like, as far as it is known before they are prepared."""

from __future__ import annotations

import zipfile
from typing import IO, Any

import numpy as np

from batchscope.catalogue import dataset_definitions
from batchscope.datasets import arrays, photographs

# Shape of an image (height, width, channels) and number of classes.
Look = tuple[tuple[int, int, int], int]


def known(definition: dict[str, Any]) -> Look | None:
    """Returns the shape of an image and the number of classes, without reading any image.

    None where only its preparation finds it, or finds an error.

    Args:
        definition: A resolved definition.
    """
    find = {"image_folder": _image_folder, "npz": _npz}.get(definition["source"], _constant)
    return find(definition)


def _constant(definition: dict[str, Any]) -> Look | None:
    source = definition["source"]
    if source == "digits":
        return (8, 8, 1), 10
    if source == "mnist":  # files of the user's own may hold another data set of its kind
        return None if definition["path"] else ((28, 28, 1), 10)
    size = definition["image_size"]
    return (size, size, 3), 2


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
            given = "x_train.npy" in archive.namelist()
            images, labels = ("x_train", "y_train") if given else ("images", "labels")
            with archive.open(f"{labels}.npy") as file:
                classes = len(np.unique(np.lib.format.read_array(file, allow_pickle=False)))
            with archive.open(f"{images}.npy") as file:
                shape = _shape(file)
    except arrays.DAMAGED:
        return None
    if len(shape) not in (3, 4) or classes < 2:
        return None
    height, width, *channels = shape[1:]
    return (height, width, channels[0] if channels else 1), classes


def _shape(file: IO[bytes]) -> tuple[int, ...]:
    """Returns the shape of an array in a file, whose numbers are not read."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)[0]
    return np.lib.format.read_array_header_2_0(file)[0]
