"""Base class of the definitions and readers in `sources`, and the types of their common fields."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from batchscope.core.problems import Place, Problem, missing_key, received, why_unmet
from batchscope.study import names, setting, tasks
from batchscope.study.example_kinds import IMAGES
from batchscope.study.model import Integer, Model, Positive, Sha256

if TYPE_CHECKING:
    from batchscope.datasets.photographs import Listing
    from batchscope.datasets.raw import Raw, Request


def integer_if_whole(value: float) -> int | float:
    return int(value) if value == int(value) else value


def is_none(value: Any) -> bool:
    return value is None


ImageSize = Annotated[
    Integer, Field(ge=4, le=2048, description="Height and width of the images in pixels.")
]
PerClass = Annotated[
    Annotated[Integer, Field(ge=3)] | None,
    Field(description="Images of each class to use (MNIST: to train with). Default: all."),
]
FileSha256 = Annotated[
    Sha256 | None,
    Field(description="SHA-256 of the local file. It identifies the contents: the file may move."),
]
Scale = Annotated[
    Annotated[Positive, AfterValidator(integer_if_whole)] | None,
    Field(
        exclude_if=is_none,
        description="Factor that the stored numbers of images are multiplied by. Default: 1/255 "
        "for 8 bits per channel; other images need it.",
    ),
]
# The labels decide if a definition has no task.
Task = Annotated[
    Literal["classification", "regression", "multi_label"] | None, Field(exclude_if=is_none)
]


class DataSource(Model):
    """Source and split of a data set.

    Attributes:
        built_in: Name of the data set that exists without a definition; empty if none does.
        fixed_kind: Kind of the examples, one of `KINDS`; None if the file decides.
        fixed_shape: Shape of an example; None if the file decides.
        fixed_task: Task, one of `tasks.TASKS`; None if the labels decide.
        members: Number of examples of each class in the whole source; empty if the file decides.
        path_check: Test that the path must pass, and the expected kind of path for messages.
        has_overlapping_parts: Whether the parts overlap, so that a loss on them is meaningless.
        usual_scale: Factor of images of bytes if the definition has no `scale`.
    """

    built_in: ClassVar[str] = ""
    fixed_kind: ClassVar[str | None] = IMAGES
    fixed_shape: ClassVar[tuple[int, ...] | None] = None
    fixed_task: ClassVar[str | None] = tasks.CLASSIFICATION
    members: ClassVar[tuple[int, ...]] = ()
    path_check: ClassVar[tuple[Callable[[Path], bool], str]] = (Path.is_file, "an existing file")
    has_overlapping_parts: ClassVar[bool] = False
    usual_scale: ClassVar[float] = 1 / 255

    def read(self, request: Request) -> Raw:
        """Read the examples.

        Raises:
            UserError: If the files of the source are invalid.
        """
        raise NotImplementedError

    def listing(self, request: Request) -> Listing | None:
        """Return the image files without reading them; None if the source has no list of files."""
        return None

    def default_scale(self, raw: Raw) -> float:
        are_bytes = raw.kind == IMAGES and raw.images.dtype == np.uint8
        return self.usual_scale if are_bytes else 1.0

    def resolved(self) -> dict[str, Any]:
        return self.model_dump()

    def token(self, name: str) -> str:
        """Return the id of the data set: its name and the digest of its definition.

        If a SHA-256 identifies the contents, the digest omits the path. It also omits keys that are
        None, so that a new key of a source does not change existing ids.
        """
        keys = {key: value for key, value in self.resolved().items() if value is not None}
        if "sha256" in keys:
            keys.pop("path", None)
        return names.token(name, setting.digest(keys))

    def kind_of_examples(self) -> str | None:
        return self.fixed_kind

    def task_of_labels(self) -> str | None:
        return getattr(self, "task", None) or self.fixed_task

    def shape(self) -> tuple[int, ...] | None:
        """Return the shape of an example; None if it depends on the files."""
        if side := getattr(self, "image_size", None):
            return side, side, getattr(self, "channels", 3)
        return None if getattr(self, "path", None) else self.fixed_shape

    def examples(self) -> tuple[tuple[int, ...], int] | None:
        """Return the shape of an example and the number of outputs; None before files are read."""
        shape = self.shape()
        outputs = 1 if self.fixed_task == tasks.REGRESSION else len(self.members)
        return (shape, outputs) if shape and outputs else None

    def class_members(self) -> tuple[int, ...]:
        """Return the used examples of each class before the split; empty if the files decide."""
        path, per_class = getattr(self, "path", None), getattr(self, "per_class", None)
        if not per_class:
            return () if path else self.members
        return tuple(per_class if path else min(per_class, count) for count in self.members)

    def training_size(self) -> int | None:
        """Return the number of training examples; None if it depends on the files.

        It includes the unreadable photographs of an archive.
        """
        members = self.class_members()
        return self.split.training_size(members) if members else None

    def problems(self, place: Place) -> Iterator[Problem]:
        """Yield the problems of a definition that its types do not show, such as a missing file."""
        path, per_class = getattr(self, "path", None), getattr(self, "per_class", None)
        if path is not None:
            is_expected, expected = self.path_check
            if (why := why_unmet(expanded_path(path), is_expected)) is not None:
                yield received((*place, "path"), path, expected, why=why)
        elif getattr(self, "sha256", None) is not None:
            yield missing_key((*place, "path"), "the local file that the sha256 belongs to")
        if path is None and per_class and self.members and per_class > min(self.members):
            expected = f"at most {min(self.members)}, the members of the smallest class,"
            yield received((*place, "per_class"), per_class, expected)
        if self.split is not None:
            members = self.class_members() if self.members or not per_class else (per_class,)
            has_classes = self.task_of_labels() in (None, tasks.CLASSIFICATION)
            yield from self.split.problems((*place, "split"), members, has_classes)


def expanded_path(path: str) -> Path:
    """Return a path with the user's home for `~`. Digests use the unexpanded path."""
    return Path(os.path.expanduser(path))  # `Path.expanduser` would raise for an unknown user.
