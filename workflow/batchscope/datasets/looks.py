"""What the examples of a data set look like, as far as it is known before they are prepared."""

from __future__ import annotations

import zipfile
from typing import Any, NamedTuple

import numpy as np

from batchscope.catalogue import dataset_definitions, npz_header
from batchscope.datasets import arrays, own_arrays, photographs, tokens
from batchscope.datasets import labels as own_labels
from batchscope.errors import UserError


class Look(NamedTuple):
    """What a model is built for."""

    input_shape: tuple[int, ...]  # height, width, channels; features; or length of a sequence
    classes: int
    kind: str = dataset_definitions.IMAGES  # of `dataset_definitions.KINDS`
    largest: int = 1  # token of sequences with one class each, which `classes` do not give


def known(definition: dict[str, Any]) -> Look | None:
    """Returns what is known without reading an example, but for tokens, which are the classes.

    None where only its preparation finds it, or finds an error.
    """
    ways = {"image_folder": _image_folder, "npz": _npz, "csv": lambda _: None, "text": _text}
    return ways.get(definition["source"], _constant)(definition)


def _constant(definition: dict[str, Any]) -> Look | None:
    known = dataset_definitions.read(definition)
    found = known.examples()
    return Look(*found, known.kind_of_examples()) if found else None


def _text(definition: dict[str, Any]) -> Look | None:
    try:
        characters = tokens.text_path(definition["path"]).read_text("utf-8-sig")
    except (OSError, ValueError):
        return None
    return Look((definition["length"],), len(set(characters)), dataset_definitions.TOKENS)


def _image_folder(definition: dict[str, Any]) -> Look | None:
    try:
        folders = photographs.class_folders(dataset_definitions.expanded(definition["path"]))
    except OSError:
        return None
    size = definition["image_size"]
    return Look((size, size, definition["channels"]), len(folders)) if len(folders) > 1 else None


def _npz(definition: dict[str, Any]) -> Look | None:
    path = dataset_definitions.expanded(definition["path"])
    kind = dataset_definitions.read(definition).kind_of_examples()
    try:
        if kind == dataset_definitions.TOKENS:
            parts = own_arrays.sequences("npz", arrays.read_npz("npz", path))
            return Look(parts["train"][0].shape[1:], tokens.count(parts), kind)
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            key = next((key for key in npz_header.EXAMPLES if f"{key}.npy" in names), "")
            with archive.open(f"{npz_header.label_key(key)}.npy") as file:
                labels = np.lib.format.read_array(file, allow_pickle=False)
            largest = 1
            with archive.open(f"{key}.npy") as file:
                shape, _ = arrays.header(file, key)
                if kind == dataset_definitions.SEQUENCES:
                    file.seek(0)
                    largest = int(np.lib.format.read_array(file, allow_pickle=False).max())
        classes = len(own_labels.numbered(("labels", labels), {})[2])
    except (*arrays.DAMAGED, UserError):
        return None
    if kind in (dataset_definitions.ROWS, dataset_definitions.SEQUENCES) and len(shape) == 2:
        return Look(shape[1:], classes, kind, largest)
    if kind != dataset_definitions.IMAGES or len(shape) not in (3, 4):
        return None
    return Look((*shape[1:], 1)[:3], classes)
