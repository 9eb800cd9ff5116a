"""What the examples of a data set look like, as far as it is known before they are prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from batchscope.catalogue import dataset_definitions, tasks
from batchscope.datasets.photographs import class_folders
from batchscope.datasets.preparation import divided, of_system
from batchscope.datasets.raw import Request

_READ = ("npz", "mnist", "csv", "text")  # sources of files that are read, as when preparing


class Look(NamedTuple):
    """What a model is built for."""

    input_shape: tuple[int, ...]  # height, width, channels; features; or length of a sequence
    classes: int  # or targets of a regression
    kind: str = dataset_definitions.IMAGES  # of `dataset_definitions.KINDS`
    largest: int = 1  # token of sequences with one class each, which `classes` do not give
    task: str = tasks.CLASSIFICATION  # of `tasks.TASKS`


def known(definition: dict[str, Any], where: str = "") -> Look | None:
    """Returns what is known without a download and without decoding photographs.

    Args:
        where: Place of the data set, for errors: `datasets.mine`.

    Raises:
        UserError: Of all that keeps it from being prepared, where its files are read.
    """
    source = definition["source"]
    try:
        if source == "image_folder":
            classes = len(class_folders(dataset_definitions.expanded(definition["path"])))
            size = definition["image_size"]
            return Look((size, size, definition["channels"]), classes) if classes > 1 else None
        if source not in _READ or (source == "mnist" and not definition["path"]):
            stated = dataset_definitions.read(definition)
            return Look(*stated.examples(), stated.kind_of_examples(), task=stated.task_of_labels())
        found = divided(Request(where, definition, Path(), Path()))
    except OSError as error:
        raise of_system(where, error) from None
    record, kind = found.record, found.raw.kind
    look = Look(tuple(record["input_shape"]), record["classes"], kind, task=found.raw.task)
    if kind != dataset_definitions.SEQUENCES:
        return look
    return look._replace(largest=max(int(part.max()) for part, _ in found.parts.values()))
