"""What the examples of a data set look like, as far as it is known before they are prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from batchscope.catalogue import dataset_definitions
from batchscope.datasets import arrays, csv_file, photographs, tokens
from batchscope.datasets.raw import Request
from batchscope.errors import UserError

# Sources of files that are read, as when they are prepared.
_READ = {"npz": arrays.npz, "csv": csv_file.csv_file, "text": tokens.text, "mnist": arrays.mnist}


class Look(NamedTuple):
    """What a model is built for."""

    input_shape: tuple[int, ...]  # height, width, channels; features; or length of a sequence
    classes: int
    kind: str = dataset_definitions.IMAGES  # of `dataset_definitions.KINDS`
    largest: int = 1  # token of sequences with one class each, which `classes` do not give


def known(definition: dict[str, Any]) -> Look | None:
    """Returns what is known without a download and without decoding photographs.

    None where only its preparation finds it, or finds an error.
    """
    source, size = definition["source"], definition.get("image_size")
    try:
        if source in ("cats_vs_dogs", "patches"):
            return Look((size, size, 3), 2)
        if source == "image_folder":
            folders = photographs.class_folders(dataset_definitions.expanded(definition["path"]))
            classes = len(folders)
            return Look((size, size, definition["channels"]), classes) if classes > 1 else None
        if source not in _READ or (source == "mnist" and not definition["path"]):
            stated = dataset_definitions.read(definition)
            return Look(*stated.examples(), stated.kind_of_examples())
        raw = _READ[source](Request("", definition, Path(), Path()))
    except (OSError, UserError):
        return None
    look = Look(raw.images.shape[1:], len(raw.class_names), raw.kind)
    if raw.kind != dataset_definitions.SEQUENCES:
        return look
    parts = (raw.images, *(examples for examples, _ in raw.given.values()))
    return look._replace(largest=max(int(part.max()) for part in parts))
