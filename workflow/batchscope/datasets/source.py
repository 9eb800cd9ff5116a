"""Base class of the definitions of data sets, and the types of their common fields."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from batchscope.core.problems import Place, Problem, missing, received, unmet
from batchscope.study import names, setting, tasks
from batchscope.study.example_kinds import IMAGES
from batchscope.study.model import Integer, Model, Positive, Sha256

if TYPE_CHECKING:
    from batchscope.datasets.photographs import Listing
    from batchscope.datasets.raw import Raw, Request


def exact(value: float) -> int | float:
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
    Annotated[Positive, AfterValidator(exact)] | None,
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
        members: Largest number of examples of each class; empty if the file decides.
        path_is: Test of the path, and the expected value for messages.
        overlapping: Whether the parts overlap, so that a loss on them is meaningless.
        usual_scale: Factor of images of bytes if the definition has no `scale`.
    """

    built_in: ClassVar[str] = ""
    fixed_kind: ClassVar[str | None] = IMAGES
    fixed_shape: ClassVar[tuple[int, ...] | None] = None
    fixed_task: ClassVar[str | None] = tasks.CLASSIFICATION
    members: ClassVar[tuple[int, ...]] = ()
    path_is: ClassVar[tuple[Callable[[Path], bool], str]] = (Path.is_file, "an existing file")
    overlapping: ClassVar[bool] = False
    usual_scale: ClassVar[float] = 1 / 255

    def read(self, request: Request) -> Raw:
        """Read the examples.

        Raises:
            UserError: If its files are not as expected.
        """
        raise NotImplementedError

    def listing(self, request: Request) -> Listing | None:
        """Return the image files by names alone; None if the source is not a list of files."""
        return None

    def scale_of(self, raw: Raw) -> float:
        """Return the factor of the examples if the definition has no `scale`."""
        are_bytes = raw.kind == IMAGES and raw.images.dtype == np.uint8
        return self.usual_scale if are_bytes else 1.0

    def resolved(self) -> dict[str, Any]:
        return self.model_dump()

    def token(self, name: str) -> str:
        """Return the id of the data set: its name and the digest of its definition.

        A SHA-256 identifies the contents: the digest then leaves the path out. It also leaves out
        every key that is None, so that a source can gain keys.
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
        """Return the shape of an example; None if only the files know."""
        if side := getattr(self, "image_size", None):
            return side, side, getattr(self, "channels", 3)
        return None if getattr(self, "path", None) else self.fixed_shape

    def examples(self) -> tuple[tuple[int, ...], int] | None:
        """Return the shape of an example and the number of outputs; None before files are read."""
        shape = self.shape()
        outputs = 1 if self.fixed_task == tasks.REGRESSION else len(self.members)
        return (shape, outputs) if shape and outputs else None

    def class_members(self) -> tuple[int, ...]:
        """Return the members of each class before the split; empty if only the files know."""
        path, per_class = getattr(self, "path", None), getattr(self, "per_class", None)
        if not per_class:
            return () if path else self.members
        return tuple(per_class if path else min(per_class, most) for most in self.members)

    def training_size(self) -> int | None:
        """Return the number of training examples; None if only the files know.

        All photographs of an archive count, readable or not.
        """
        members = self.class_members()
        return self.split.training_size(members) if members else None

    def problems(self, place: Place) -> Iterator[Problem]:
        """Yield the problems of a definition with valid values, such as a missing file."""
        path, per_class = getattr(self, "path", None), getattr(self, "per_class", None)
        if path is not None:
            is_expected, expected = self.path_is
            if (why := unmet(expanded(path), is_expected)) is not None:
                yield received((*place, "path"), path, expected, why=why)
        elif getattr(self, "sha256", None) is not None:
            yield missing((*place, "path"), "the local file that the sha256 belongs to")
        if path is None and per_class and self.members and per_class > min(self.members):
            expected = f"at most {min(self.members)}, the members of the smallest class,"
            yield received((*place, "per_class"), per_class, expected)
        if self.split is not None:
            members = self.class_members() if self.members or not per_class else (per_class,)
            has_classes = self.task_of_labels() in (None, tasks.CLASSIFICATION)
            yield from self.split.problems((*place, "split"), members, has_classes)


def expanded(path: str) -> Path:
    """Return a path with the user's home for `~`. The digest has the path as written."""
    return Path(os.path.expanduser(path))  # unlike Path's own, no error for an unknown user
