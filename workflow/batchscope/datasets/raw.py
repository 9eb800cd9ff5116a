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


@contextlib.contextmanager
def reading(where: str, expected: str, *errors: type[Exception]) -> Iterator[None]:
    """Turns errors of reading a user's file into a `UserError` that says what is expected."""
    try:
        yield
    except errors as error:
        message = f"{where}: cannot be read ({error}); {expected} is expected."
        raise UserError(message) from None


@dataclass(frozen=True)
class Request:
    """A data set to be read."""

    where: str  # place in the configuration, for errors: `datasets.digits`
    definition: dict[str, Any]  # see `batchscope.datasets`
    scratch: Path  # folder for files that are needed until the data set is written
    downloads: Path

    @property
    def split(self) -> dict[str, Any]:
        """The `split` of the definition; empty where there is none."""
        return self.definition.get("split") or {}

    @property
    def split_seed(self) -> int:
        """Seed of the split."""
        return int(self.split.get("seed", 0))

    @property
    def sha256(self) -> str | None:
        """SHA-256 that the user expects of the file."""
        text = self.definition.get("sha256")
        return str(text).lower() if text else None

    def path(self) -> Path | None:
        """Returns the user's file or folder, or None; raises `UserError` if it does not exist."""
        text = self.definition.get("path")
        if not text:
            return None
        path = dataset_definitions.expanded(str(text))
        if not path.exists():
            raise UserError(f"{self.where}.path: received {text!r}, which does not exist.")
        return path

    def needed_path(self, what: str) -> Path:
        """Returns the user's file or folder; raises `UserError` if there is no such one."""
        path = self.path()
        if path is None:
            raise UserError(f"{self.where}.path: missing; {what} is expected.")
        return path


@dataclass(frozen=True)
class OnDisk:
    """Images of bytes in a file without a header, read by row numbers.

    The file is mapped for one read at a time, so that a data set larger than the memory never
    fills it.
    """

    path: Path
    shape: tuple[int, int, int, int]  # number, height, width, channels
    dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        """Returns the number of images."""
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Returns a copy of the chosen images."""
        return np.array(np.memmap(self.path, self.dtype, "r", shape=self.shape)[rows])


Images = np.ndarray | OnDisk


@dataclass(frozen=True)
class Raw:
    """A data set as its source gives it, not yet split.

    Attributes:
        images: Examples to be split: images of shape (n, height, width, channels), uint8 or
            float32; rows of numbers of shape (n, features), float64 and not yet standardised; or
            tokens of shape (n, length), int32.
        labels: Their classes, integers of shape (n,); of tokens one for each position, (n, length).
    """

    images: Images
    labels: np.ndarray
    class_names: list[str]
    source: str  # where they come from, for people
    source_sha256: dict[str, str] = field(default_factory=dict)  # of each file that was read
    # Splits that the source itself fixes: images and labels.
    given: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    scale: float | None = None  # of the images, where it is not the usual one
    stratified: bool = True  # whether the split is drawn class by class
    skipped: list[dict[str, str]] = field(default_factory=list)  # `file` and `reason` of each
    kind: str = dataset_definitions.IMAGES  # one of `dataset_definitions.KINDS`
