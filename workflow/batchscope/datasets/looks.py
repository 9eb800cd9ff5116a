"""What the examples of a data set look like, as far as it is known before they are prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from batchscope.catalogue import dataset_definitions, tasks
from batchscope.datasets.photographs import class_folders
from batchscope.datasets.preparation import SOURCES
from batchscope.datasets.raw import Request
from batchscope.errors import UserError

# Sources of files that are read, as when preparing.
_READ = ("digits", "npz", "mnist", "csv", "text")


class Scaling(NamedTuple):
    """What images are multiplied by before a model gets them."""

    factor: float
    stated: bool  # in their definition
    key: str  # where it can be stated, as `datasets.mine.scale`; empty of a source without it

    @classmethod
    def of(cls, name: str, definition: dict[str, Any], usual: float) -> Scaling:
        """Returns that of a data set, given what it is where the definition says nothing."""
        stated = definition.get("scale")
        known = "scale" in dataset_definitions.SOURCES[definition["source"]].model_fields
        return cls(stated or usual, stated is not None, f"datasets.{name}.scale" if known else "")


class Look(NamedTuple):
    """What a model is built for."""

    input_shape: tuple[int, ...]  # height, width, channels; features; or length of a sequence
    classes: int  # or targets of a regression
    kind: str = dataset_definitions.IMAGES  # of `dataset_definitions.KINDS`
    largest: int = 1  # token of sequences with one class each, which `classes` do not give
    task: str = tasks.CLASSIFICATION  # of `tasks.TASKS`
    scaling: Scaling | None = None  # of images


def known(name: str, definition: dict[str, Any]) -> Look | None:
    """Returns what is known without a download and without decoding photographs.

    None where only its preparation finds it, or finds an error.
    """
    source = definition["source"]
    of_bytes = Scaling.of(name, definition, 1 / 255)
    try:
        if source == "image_folder":
            classes = len(class_folders(dataset_definitions.expanded(definition["path"])))
            size = definition["image_size"]
            shape = size, size, definition["channels"]
            return Look(shape, classes, scaling=of_bytes) if classes > 1 else None
        if source not in _READ or (source == "mnist" and not definition["path"]):
            stated = dataset_definitions.read(definition)
            kind = stated.kind_of_examples()
            scaling = of_bytes if kind == dataset_definitions.IMAGES else None
            task = stated.task_of_labels()
            return Look(*stated.examples(), kind, task=task, scaling=scaling)
        raw = SOURCES[source](Request("", definition, Path(), Path()))
    except (OSError, UserError):
        return None
    look = Look(raw.images.shape[1:], len(raw.class_names), raw.kind, task=raw.task)
    if raw.kind == dataset_definitions.IMAGES:
        return look._replace(scaling=Scaling.of(name, definition, raw.usual_scale))
    if raw.kind != dataset_definitions.SEQUENCES:
        return look
    parts = (raw.images, *(examples for examples, _ in raw.given.values()))
    return look._replace(largest=max(int(part.max()) for part in parts))
