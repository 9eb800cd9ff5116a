"""What the examples of a data set look like, as far as it is known before they are prepared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from batchscope.catalogue import dataset_definitions, dataset_sources, tasks
from batchscope.datasets import image_lists, photographs
from batchscope.datasets.preparation import divided, of_system
from batchscope.datasets.raw import Request
from batchscope.errors import ConfigError
from batchscope.store import paths

# Sources of image files -> what lists them.
_LISTED = {
    "image_folder": photographs.class_folders,
    "image_list": image_lists.listing,
}
# Sources of files that are read, as when preparing.
_READ = ("digits", "npz", "mnist", "csv", "text")


class Scaling(NamedTuple):
    """What images are multiplied by before a model gets them."""

    factor: float
    stated: bool  # in their definition
    key: str  # where it can be stated, as `datasets.mine.scale`; empty of a source without it

    @classmethod
    def of(cls, name: str, definition: dict[str, Any], usual: float) -> Scaling:
        stated = definition.get("scale")
        known = "scale" in dataset_definitions.SOURCES[definition["source"]].model_fields
        return cls(stated or usual, stated is not None, f"datasets.{name}.scale" if known else "")


class Look(NamedTuple):
    """What a model is built for."""

    input_shape: tuple[int, ...]  # height, width, channels; features; or length of a sequence
    classes: int  # or targets of a regression
    kind: str = dataset_sources.IMAGES  # of `dataset_sources.KINDS`
    largest: int = 1  # token of sequences with one class each, which `classes` do not give
    task: str = tasks.CLASSIFICATION  # of `tasks.TASKS`
    scaling: Scaling | None = None  # of images


def known(name: str, definition: dict[str, Any]) -> Look:
    return sized(name, definition)[0]


def sized(name: str, definition: dict[str, Any]) -> tuple[Look, int | None]:
    """Returns what is known without a download and without decoding photographs.

    Beside it the training examples; None where a download tells. Of images they are counted as if
    each could be read.

    Raises:
        UserError: Of all that keeps it from being prepared, where its files are the user's.
    """
    stated = dataset_definitions.read(definition)
    source, request = definition["source"], Request(f"datasets.{name}", definition, Path(), Path())
    of_bytes = Scaling.of(name, definition, 1 / 255)
    try:
        if source in _LISTED:
            listing = _LISTED[source](request)
            if problems := photographs.problems(request, listing):
                raise ConfigError(problems)
            size = definition["image_size"]
            shape = size, size, definition["channels"]
            look = Look(shape, len(listing.names), task=listing.task, scaling=of_bytes)
            return look, stated.training_size() or _training_photos(stated, listing)
        if source not in _READ or (source == "mnist" and not definition["path"]):
            kind = stated.kind_of_examples()
            scaling = of_bytes if kind == dataset_sources.IMAGES else None
            task = stated.task_of_labels()
            look = Look(*stated.examples(), kind, task=task, scaling=scaling)
            return look, stated.training_size()
        found = divided(request)
    except OSError as error:
        raise of_system(request.where, error) from None
    raw, record = found.raw, found.record
    look = Look(tuple(record["input_shape"]), record["classes"], raw.kind, task=raw.task)
    if raw.kind == dataset_sources.IMAGES:
        look = look._replace(scaling=Scaling.of(name, definition, raw.usual_scale))
    if raw.kind == dataset_sources.SEQUENCES:
        look = look._replace(largest=max(int(part.max()) for part, _ in found.parts.values()))
    return look, record["counts"]["train"]


def _training_photos(stated: dataset_sources.Source, listing: photographs.Listing) -> int:
    members = Counter(photo.group for photo in listing.photos if photo.part == "train")
    counts, split = tuple(members.values()), dict(stated.split or {})
    whole = all(split.get(part) for part in paths.SPLITS)
    return stated.split.training_size(counts) if whole else sum(counts)
