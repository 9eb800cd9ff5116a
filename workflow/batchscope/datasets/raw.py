"""What a source receives, a `Request`, and returns, `Raw` arrays; and the files that it reads.

Files belong to the user, or are downloaded and kept. Both are checked by SHA-256.
"""

import contextlib
import math
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.core import disk
from batchscope.core.errors import UserError, unexpected
from batchscope.datasets.source import expanded_path
from batchscope.study import example_kinds, tasks

_TIMEOUT = 60.0  # longest time without data, in seconds

Pair = tuple[np.ndarray, np.ndarray]  # examples and their labels


@dataclass(frozen=True)
class Request:
    """A data set to be read."""

    place: str  # place of the definition for errors, such as `datasets.digits`
    definition: dict[str, Any]  # with all defaults
    scratch: Path  # folder for temporary files
    downloads: Path

    @property
    def split(self) -> dict[str, Any]:
        return self.definition["split"] or {}

    def path(self) -> Path | None:
        text = self.definition.get("path")
        return expanded_path(text) if text else None


@dataclass(frozen=True)
class Raw:
    """A data set from its source, before the split.

    Examples are called `images` for all kinds. Images are uint8 or float32 of shape (n, height,
    width, channels), tokens int32 of shape (n, length). Rows of numbers are float64 of shape
    (n, features), or the data frame of a table, not yet standardised. Classes are int32 of shape
    (n,), or (n, length) for tokens. The targets of a regression are float64 of shape (n, targets),
    not yet standardised. Several labels are 0 or 1, int32 of shape (n, labels).
    """

    images: np.ndarray  # in memory or mapped from disk
    labels: np.ndarray
    class_names: list[str]  # printable except for tokens; names of the targets for a regression
    files: list[Path]  # files that were read; the record has their SHA-256
    origin: str = ""  # origin of the files in words, if the definition has no path
    fixed_parts: dict[str, Pair] = field(default_factory=dict)  # parts that the files define
    stratified: bool = True  # whether the split is drawn class by class
    skipped: list[dict[str, str]] = field(default_factory=list)  # `file` and `reason`
    kind: str = example_kinds.IMAGES  # one of `example_kinds.KINDS`
    task: str = tasks.CLASSIFICATION  # one of `tasks.TASKS`


@contextlib.contextmanager
def reading_file(place: str, expected: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors of reading a user's file into a `UserError` with the expected contents."""
    try:
        yield
    except errors as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"{place}: cannot be read ({reason}); {expected} is expected.") from None


def array_on_disk(
    request: Request, images: Iterable[np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    """Return images of bytes as one array in a temporary file, which is deleted with the array."""
    with tempfile.TemporaryFile(dir=request.scratch) as pool:
        for image in images:
            pool.write(image.tobytes())
        pool.flush()
        return np.memmap(pool, np.uint8, "r", shape=(pool.tell() // math.prod(shape), *shape))


def local_file(request: Request) -> Path | None:
    """Return the path of the definition's file or folder; None if it has no path.

    Raises:
        UserError: If its SHA-256 differs from the definition.
    """
    path, sha256 = request.path(), request.definition.get("sha256")
    if path is not None and sha256:
        if path.is_dir():
            raise unexpected(f"{request.place}.path", f"the folder {path} with a sha256", "a file")
        _check_sha256(f"{request.place}.path: {path}", path, sha256)
    return path


def local_or_downloaded(request: Request, url: str, sha256: str) -> Path:
    """Return the path of the definition, else of the public file after its download."""
    import http.client
    import urllib.request

    if (path := local_file(request)) is not None:
        return path
    place, target = request.place, request.downloads / url.rpartition("/")[2]
    if target.is_file():
        _check_sha256(f"{place}: {target}", target, sha256, " Delete it to download it again.")
        return target
    hint = f"download it yourself and name the file as {place}.path."
    try:
        with disk.atomic_path(target) as temporary:
            with (
                urllib.request.urlopen(url, timeout=_TIMEOUT) as response,
                open(temporary, "wb") as file,
            ):
                shutil.copyfileobj(response, file, 1 << 20)
            _check_sha256(f"{place}: {url}", temporary, sha256, f" Try again, or {hint}")
    except (OSError, http.client.HTTPException) as error:
        raise UserError(f"{place}: {url} cannot be downloaded ({error!r:.200}); {hint}") from None
    return target


def _check_sha256(place: str, path: Path, sha256: str, hint: str = "") -> None:
    if (received := disk.file_sha256(path)) != sha256.lower():
        raise UserError(f"{place}: received SHA-256 {received}; {sha256} is expected.{hint}")
