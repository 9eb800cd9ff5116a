"""What a source of data is asked for, the files that it reads, and what it gives.

Files are the user's, or from the network and kept; both are checked by their SHA-256.
"""

import contextlib
import math
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchscope import disk
from batchscope.datasets.source import expanded
from batchscope.errors import UserError, unexpected
from batchscope.study import example_kinds, tasks

_TIMEOUT = 60.0  # seconds without a byte

Pair = tuple[np.ndarray, np.ndarray]  # examples and their labels


@dataclass(frozen=True)
class Request:
    """A data set to be read."""

    place: str  # place in the configuration, for errors: `datasets.digits`
    definition: dict[str, Any]  # resolved
    scratch: Path  # folder for files that are needed until the data set is written
    downloads: Path

    @property
    def split(self) -> dict[str, Any]:
        return self.definition["split"] or {}

    def path(self) -> Path | None:
        text = self.definition.get("path")
        return expanded(text) if text else None


class Columns(NamedTuple):
    """The columns of a table, whose features are made after the split by the training part."""

    names: list[str]
    categories: dict[int, list[str]]  # position of a categorical column -> what its codes mean
    dropped: int  # rows that lack a cell


@dataclass(frozen=True)
class Raw:
    """A data set as its source gives it, not yet split.

    Images have the shape (n, height, width, channels), uint8 or float32; rows of numbers (n,
    features), float64, not yet standardised; tokens (n, length), int32. Labels are int32 of shape
    (n,); of tokens one for each position, (n, length). Of a regression they are the numbers to
    predict, float64 of shape (n, targets), not yet standardised; of several labels each 0 or 1,
    int32 of shape (n, labels).
    """

    images: np.ndarray  # in memory or mapped
    labels: np.ndarray
    class_names: list[str]  # of a regression the targets' names
    files: list[Path]  # that were read; the record has their SHA-256
    origin: str = ""  # where they come from, for people, if the definition has no path
    fixed_parts: dict[str, Pair] = field(default_factory=dict)  # parts that the source itself fixes
    scale: float | None = None  # of the images, where it is not the usual one
    stratified: bool = True  # whether the split is drawn class by class
    skipped: list[dict[str, str]] = field(default_factory=list)  # `file` and `reason` of each
    kind: str = example_kinds.IMAGES  # one of `example_kinds.KINDS`
    task: str = tasks.CLASSIFICATION  # one of `tasks.TASKS`
    columns: Columns | None = (
        None  # of a table: its rows have NaN and codes; else they are features
    )

    @property
    def usual_scale(self) -> float:
        return self.scale or (1 / 255 if self.images.dtype == np.uint8 else 1.0)


@contextlib.contextmanager
def reading(place: str, expected: str, *errors: type[Exception]) -> Iterator[None]:
    """Turns errors of reading a user's file into a `UserError` that says what is expected."""
    try:
        yield
    except errors as error:
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"{place}: cannot be read ({why}); {expected} is expected.") from None


def on_disk(request: Request, images: Iterable[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return images of bytes as one array in a file without a name, which goes with it."""
    with tempfile.TemporaryFile(dir=request.scratch) as pool:
        for image in images:
            pool.write(image.tobytes())
        pool.flush()
        return np.memmap(pool, np.uint8, "r", shape=(pool.tell() // math.prod(shape), *shape))


def local_file(request: Request) -> Path | None:
    """Returns the user's file or folder, or None; raises `UserError` where it is another file."""
    path, sha256 = request.path(), request.definition.get("sha256")
    if path is not None and sha256:
        if path.is_dir():
            raise unexpected(f"{request.place}.path", f"the folder {path} with a sha256", "a file")
        _check(f"{request.place}.path: {path}", path, sha256)
    return path


def local_or_downloaded(request: Request, url: str, sha256: str) -> Path:
    """Returns the user's file or folder, else the download of a public one, which is kept."""
    import http.client
    import urllib.request

    if (path := local_file(request)) is not None:
        return path
    place, target = request.place, request.downloads / url.rpartition("/")[2]
    if target.is_file():
        try:
            _check(f"{place}: {target}", target, sha256)
            return target
        except UserError as error:
            print(f"{error} It is removed and downloaded again.")
            target.unlink()
    hint = f"download it yourself and name the file as {place}.path."
    try:
        with disk.atomic_path(target) as temporary:
            with (
                urllib.request.urlopen(url, timeout=_TIMEOUT) as response,
                open(temporary, "wb") as file,
            ):
                shutil.copyfileobj(response, file, 1 << 20)
                kind = response.headers.get("Content-Type", "unknown type")
            sent = f" The server sent {temporary.stat().st_size} bytes of {kind}; try again, or "
            _check(f"{place}: {url}", temporary, sha256, sent + hint)
    except (OSError, http.client.HTTPException) as error:
        # In one line, whatever a server or a proxy sent.
        reason = repr(error)[:200] if isinstance(error, http.client.HTTPException) else str(error)
        raise UserError(f"{place}: {url} cannot be downloaded ({reason}); {hint}") from None
    return target


def _check(place: str, path: Path, sha256: str, hint: str = "") -> None:
    if (received := disk.file_sha256(path)) != sha256.lower():
        raise UserError(f"{place}: received SHA-256 {received}; {sha256} is expected.{hint}")
