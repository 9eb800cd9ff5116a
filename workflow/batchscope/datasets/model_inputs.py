"""Shape, classes and task of a data set, which a model needs, before the data are prepared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from batchscope.datasets import photographs
from batchscope.datasets.preparation import divide, system_error
from batchscope.datasets.raw import Request
from batchscope.datasets.source import DataSource
from batchscope.store import paths
from batchscope.study import dataset_definitions, example_kinds, tasks


class ImageScaling(NamedTuple):
    """Factor of the images before they enter a model."""

    factor: float
    explicit: bool  # whether the definition of the images states the factor
    key: str  # key of the study, such as `datasets.mine.scale`; empty if the source has none

    @classmethod
    def from_definition(cls, name: str, definition: dict[str, Any], usual: float) -> ImageScaling:
        scale = definition.get("scale")
        has_scale = "scale" in dataset_definitions.SOURCES[definition["source"]].model_fields
        return cls(scale or usual, scale is not None, f"datasets.{name}.scale" if has_scale else "")


class ModelInput(NamedTuple):
    """Shape, outputs and task of a data set, which decide the layers of a model."""

    input_shape: tuple[int, ...]  # height, width, channels; features; or length of a sequence
    classes: int  # or targets of a regression
    kind: str = example_kinds.IMAGES  # one of `example_kinds.KINDS`
    largest: int = 1  # largest token of sequences with one class each
    task: str = tasks.CLASSIFICATION  # one of `tasks.TASKS`
    scaling: ImageScaling | None = None  # None unless the examples are images


def input_and_size(name: str, definition: dict[str, Any]) -> tuple[ModelInput, int | None]:
    """Return the input of a model and the number of training examples, without downloads.

    Photographs are not decoded, so the number includes unreadable ones. It is None if a download
    decides it.

    Raises:
        UserError: If the user's files cannot be prepared; it lists all problems.
    """
    source = dataset_definitions.read(definition)
    request = Request(f"datasets.{name}", definition, Path(), Path())
    usual_scale = source.usual_scale
    try:
        if listing := source.listing(request):
            photographs.check_listing(request, listing)
            model_input = ModelInput(source.shape(), len(listing.names))
            count = _training_photos(source, listing)
        elif examples := source.examples():
            kind, task = source.kind_of_examples(), source.task_of_labels()
            model_input, count = ModelInput(*examples, kind, task=task), source.training_size()
        else:
            _, raw, parts, _, record = divide(request)
            usual_scale = source.default_scale(raw)
            model_input = ModelInput(
                tuple(record["input_shape"]), record["classes"], raw.kind, task=raw.task
            )
            if raw.kind == example_kinds.SEQUENCES:
                largest = max(int(tokens.max()) for tokens, _ in parts.values())
                model_input = model_input._replace(largest=largest)
            count = record["counts"]["train"]
    except OSError as error:
        raise system_error(request.place, error) from None
    if model_input.kind == example_kinds.IMAGES:
        scaling = ImageScaling.from_definition(name, definition, usual_scale)
        model_input = model_input._replace(scaling=scaling)
    return model_input, count


def _training_photos(source: DataSource, listing: photographs.Listing) -> int:
    members = Counter(photo.group for photo in listing.photos if photo.part == "train")
    counts, split = tuple(members.values()), dict(source.split or {})
    is_complete = all(split.get(part) for part in paths.SPLITS)
    return source.split.training_size(counts) if is_complete else sum(counts)
