"""What every source of data has: the kinds of examples, the keys that several share, the parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from batchscope.catalogue import names, setting, tasks
from batchscope.catalogue.dataset_splits import exact
from batchscope.catalogue.fields import Positive, Section, Sha256, one_of, whole
from batchscope.catalogue.parameters import MOST, Parameter
from batchscope.catalogue.readers import number, read_items
from batchscope.problems import Place, Problem, missing, received, unmet

# What the examples of a data set are; each built-in network takes some of them.
# Each position of tokens is predicted; a sequence has one class.
IMAGES, ROWS, TOKENS, SEQUENCES = "images", "rows", "tokens", "sequences"
KINDS = {
    IMAGES: "images",
    ROWS: "rows of numbers",
    TOKENS: "sequences of tokens",
    SEQUENCES: "sequences of tokens with one class each",
}
OF_TOKENS = (TOKENS, SEQUENCES)


class _ColumnName(Parameter):
    """A column as it is written; a text that spells a number is meant as one."""

    def read(self, raw: Any) -> str | int:
        """Returns the name or number as written."""
        value = number(raw)
        if not isinstance(raw, str) or not raw or (value is not None and value == int(value)):
            super().read(raw)
        return raw

    def json_schema(self) -> dict[str, Any]:
        return {"type": ["string", "integer"], "minLength": 1, "minimum": 1}


class _ColumnNames(_ColumnName):
    """A column, or a list of columns."""

    def read(self, raw: Any) -> Any:
        """Returns the name or number, or a list of them."""
        return (
            list(read_items(super().read, raw))
            if raw and isinstance(raw, list)
            else super().read(raw)
        )

    def json_schema(self) -> dict[str, Any]:
        one = super().json_schema()
        return {"if": {"type": "array"}, "then": {"minItems": 1, "items": one}, "else": one}


_COLUMN = {"kind": "int", "minimum": 1, "wanted": "the name of a column, or its number from 1"}
Column = Annotated[str | int, _ColumnName(**_COLUMN)]
Columns = Annotated[str | int | list[str | int], _ColumnNames(**_COLUMN)]
AUTO = "auto"  # as `categorical`: every column of words
# What is learned; left out of a definition where its labels say so.
Task = one_of(*tasks.TASKS)
Channels = Annotated[int, Parameter(kind="int", wanted="1 or 3", choices=(1, 3))]
ImageSize = Annotated[whole(4, 2048), Field(description="Side of the square images.")]
PerClass = Annotated[
    whole(3, MOST) | None,
    Field(description="Images per class to use, of MNIST to train with; all if left out or null."),
]
FileSha256 = Annotated[
    Sha256, Field(description="Digest of the local file; pins its contents, so that it may move.")
]
Scale = Annotated[
    Positive,
    AfterValidator(exact),
    Field(
        None,
        exclude_if=lambda value: value is None,
        description="What the stored numbers of images are multiplied by; if left out, 1/255 of "
        "8 bits per channel, and others are refused.",
    ),
]


class Source(Section):
    """Where the examples come from and how they are divided."""

    fixed_kind: ClassVar[str | None] = IMAGES  # of `KINDS`; None where a file says so
    fixed_shape: ClassVar[tuple[int, ...] | None] = None  # of an example
    fixed_task: ClassVar[str | None] = tasks.CLASSIFICATION  # None where labels say so
    members: ClassVar[tuple[int, ...]] = ()  # of each class, the most; empty where a file says so
    path_is: ClassVar[tuple[Callable[[Path], bool], str]] = (Path.is_file, "an existing file")
    overlapping: ClassVar[bool] = False  # its parts, so that a loss on them means nothing

    def resolved(self) -> dict[str, Any]:
        return self.model_dump()

    def token(self, name: str) -> str:
        """Returns a data set's id, with the digest of its definition.

        A sha256 pins the contents: where the file lies is then no part of the digest. Neither is a
        key that is None, such as one that a source gains later.
        """
        pinned = {key: value for key, value in self.resolved().items() if value is not None}
        if "sha256" in pinned:
            pinned.pop("path", None)
        return names.token(name, setting.digest(pinned))

    def kind_of_examples(self) -> str | None:
        """Returns what they are, of `KINDS`; None where only a file that cannot be read knows."""
        return self.fixed_kind

    def task_of_labels(self) -> str | None:
        """Returns what is learned, of `tasks.TASKS`; None where only the labels know."""
        return self._value("task") or self.fixed_task

    def shape(self) -> tuple[int, ...] | None:
        """Returns the shape of an example; None where only the files know."""
        if side := self._value("image_size"):
            return side, side, self._value("channels") or 3
        return None if self._value("path") else self.fixed_shape

    def examples(self) -> tuple[tuple[int, ...], int] | None:
        """Returns the shape of an example and the number of outputs; None where files know."""
        shape = self.shape()
        outputs = 1 if self.fixed_task == tasks.REGRESSION else len(self.members)
        return (shape, outputs) if shape and outputs else None

    def class_members(self) -> tuple[int, ...]:
        """Returns the members of each class before the split; empty where only the files know."""
        path, per_class = self._value("path"), self._value("per_class")
        if not per_class:
            return () if path else self.members
        return tuple(per_class if path else min(per_class, most) for most in self.members)

    def training_size(self) -> int | None:
        """Returns the number of training examples; None where only the files know.

        Photographs of an archive are counted as if each could be read.
        """
        members = self.class_members()
        return self.split.training_size(members) if members else None

    def problems(self, place: Place) -> Iterator[Problem]:
        """Yields what is wrong with a definition whose keys are sound, each by itself."""
        path, per_class, members = self._value("path"), self._value("per_class"), self.members
        if path is not None:
            exists, wanted = self.path_is
            why = unmet(expanded(path), exists)
            if why is not None:
                yield received((*place, "path"), path, wanted, why=why)
        elif self._value("sha256") is not None:
            yield missing((*place, "path"), "the local file that the sha256 belongs to")
        if path is None and per_class and members and per_class > min(members):
            wanted = f"at most {min(members)}, the members of the smallest class,"
            yield received((*place, "per_class"), per_class, wanted)
        if self.split is not None:
            known = self.class_members() or ((per_class,) if per_class and not members else ())
            classes = self.task_of_labels() in (None, tasks.CLASSIFICATION)
            yield from self.split.problems((*place, "split"), known, classes)

    def _value(self, key: str) -> Any:
        """Returns the value of a key that not every source has; None without one."""
        return getattr(self, key, None)


def kind_of_arrays(
    shape: tuple[int, ...], letter: str, label_shape: tuple[int, ...] | None, given: str | None
) -> str | None:
    """Returns what arrays of examples and labels are, or None where they are nothing known.

    Args:
        shape: Of the examples, (n, ...).
        letter: NumPy's for the kind of their numbers: `f` for floats, `i` and `u` for whole ones.
        given: What the definition says they are, or None.
    """
    flat = {"i": TOKENS, "u": TOKENS, "f": ROWS}.get(letter)
    found = given or {2: flat, 3: IMAGES, 4: IMAGES}.get(len(shape))
    # The labels of sequences of one token are of their positions.
    one_each = label_shape != shape and label_shape in (shape[:1], (*shape[:1], 1))
    return SEQUENCES if found == TOKENS and one_each else found


def expanded(path: str) -> Path:
    """Returns the path of a definition, whose digest has it as written: `~` is a user's home."""
    return Path(os.path.expanduser(path))  # unlike Path's own, no error where nobody has the name
