"""What a source of data is asked for, and what it gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.catalogue import dataset_definitions
from batchscope.errors import UserError

Pair = tuple[np.ndarray, np.ndarray]  # examples and their labels


@dataclass(frozen=True)
class Request:
    """A data set to be read."""

    where: str  # place in the configuration, for errors: `datasets.digits`
    definition: dict[str, Any]  # resolved
    scratch: Path  # folder for files that are needed until the data set is written
    downloads: Path

    @property
    def split(self) -> dict[str, Any]:
        """The `split` of the definition; empty where there is none."""
        return self.definition["split"] or {}

    def path(self) -> Path | None:
        """Returns the user's file or folder, or None."""
        text = self.definition.get("path")
        return dataset_definitions.expanded(text) if text else None


@dataclass(frozen=True)
class Raw:
    """A data set as its source gives it, not yet split.

    Attributes:
        images: Examples to be split, in memory or mapped: images of shape (n, height, width,
            channels), uint8 or float32; rows of numbers of shape (n, features), float64 and not
            yet standardised; or tokens of shape (n, length), int32.
        labels: Their classes, int32 of shape (n,); of tokens one for each position, (n, length).
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: list[str]
    files: list[Path]  # that were read; the record has their SHA-256
    origin: str = ""  # where they come from, for people, if the definition has no path
    given: dict[str, Pair] = field(default_factory=dict)  # parts that the source itself fixes
    scale: float | None = None  # of the images, where it is not the usual one
    stratified: bool = True  # whether the split is drawn class by class
    skipped: list[dict[str, str]] = field(default_factory=list)  # `file` and `reason` of each
    kind: str = dataset_definitions.IMAGES  # one of `dataset_definitions.KINDS`


def refused(where: str, received: str, expected: str) -> UserError:
    """Returns the error of something that was received at a place, in place of another thing."""
    return UserError(f"{where}: received {received}; {expected} is expected.")


@contextlib.contextmanager
def reading(where: str, expected: str, *errors: type[Exception]) -> Iterator[None]:
    """Turns errors of reading a user's file into a `UserError` that says what is expected."""
    try:
        yield
    except errors as error:
        raise UserError(f"{where}: cannot be read ({error}); {expected} is expected.") from None
