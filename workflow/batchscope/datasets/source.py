"""The base class of the sources, what `read` receives and returns, and the files that it reads.

A user's files are checked by SHA-256 if the definition states it, downloads always.
"""

import contextlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from batchscope.core import disk
from batchscope.core.errors import UserError, unexpected
from batchscope.core.problems import Place, Problem, received, why_unmet
from batchscope.study import model, names, tasks
from batchscope.study.model import Integer, Model, Positive, Sha256

_TIMEOUT = 60.0  # longest time of a download without data, in seconds

Pair = tuple[np.ndarray, np.ndarray]  # examples and their labels


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


@dataclass(frozen=True)
class Request:
    """The place of a definition, for errors, and the folders that its source may write in."""

    place: str  # such as `datasets.digits`
    scratch: Path = Path()  # folder for temporary files
    downloads: Path = Path()


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
    kind: str = tasks.IMAGES  # one of `tasks.KINDS`
    task: str = tasks.CLASSIFICATION  # one of `tasks.TASKS`


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
    fixed_kind: ClassVar[str | None] = tasks.IMAGES
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

    def outline(self, request: Request) -> tuple[tuple[int, ...], int, int | None] | None:
        """Return the facts that a model needs, without reading an example.

        Returns:
            Shape of an example, number of outputs, and training examples, which are None if a
            download decides them. The result is None if the examples must be read.

        Raises:
            UserError: If the files of the source cannot be prepared.
        """
        shape = self.shape()
        outputs = 1 if self.fixed_task == tasks.REGRESSION else len(self.members)
        return (shape, outputs, self.training_size()) if shape and outputs else None

    def default_scale(self, raw: Raw) -> float:
        are_bytes = raw.kind == tasks.IMAGES and raw.images.dtype == np.uint8
        return self.usual_scale if are_bytes else 1.0

    def resolved(self) -> dict[str, Any]:
        return self.model_dump()

    def shares(self) -> dict[str, Any]:
        return dict(self.split or {})

    def token(self, name: str) -> str:
        """Return the id of the data set: its name and the digest of its definition.

        If a SHA-256 identifies the contents, the digest omits the path. It also omits keys that are
        None, so that a new key of a source does not change existing ids.
        """
        keys = {key: value for key, value in self.resolved().items() if value is not None}
        if "sha256" in keys:
            keys.pop("path", None)
        return names.token(name, model.digest(keys))

    def kind_of_examples(self) -> str | None:
        return self.fixed_kind

    def task_of_labels(self) -> str | None:
        return getattr(self, "task", None) or self.fixed_task

    def shape(self) -> tuple[int, ...] | None:
        """Return the shape of an example; None if it depends on the files."""
        if side := getattr(self, "image_size", None):
            return side, side, getattr(self, "channels", 3)
        return None if getattr(self, "path", None) else self.fixed_shape

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
            yield Problem((*place, "path"), "Missing key. Expected the file with this sha256.")
        if path is None and per_class and self.members and per_class > min(self.members):
            expected = f"at most {min(self.members)}, the members of the smallest class,"
            yield received((*place, "per_class"), per_class, expected)
        if self.split is not None:
            members = self.class_members() if self.members or not per_class else (per_class,)
            has_classes = self.task_of_labels() in (None, tasks.CLASSIFICATION)
            yield from self.split.problems((*place, "split"), members, has_classes)

    def local_file(self, place: str) -> Path | None:
        """Return the path of the definition's file or folder; None if it has no path.

        Raises:
            UserError: If its SHA-256 differs from the definition.
        """
        if self.path is None:
            return None
        path = expanded_path(self.path)
        if self.sha256 and path.is_dir():
            raise unexpected(f"{place}.path", f"the folder {path} with a sha256", "a file")
        if self.sha256:
            _check_sha256(f"{place}.path: {path}", path, self.sha256)
        return path

    def local_or_downloaded(self, request: Request, url: str, sha256: str) -> Path:
        """Return the path of the definition, else of the public file after its download."""
        import http.client
        import urllib.request

        if (path := self.local_file(request.place)) is not None:
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
            text = f"{place}: {url} cannot be downloaded ({error!r:.200}); {hint}"
            raise UserError(text) from None
        return target


def expanded_path(path: str) -> Path:
    """Return a path with the user's home for `~`. Digests use the unexpanded path."""
    return Path(os.path.expanduser(path))  # `Path.expanduser` would raise for an unknown user.


def _check_sha256(place: str, path: Path, sha256: str, hint: str = "") -> None:
    if (digest := disk.file_sha256(path)) != sha256.lower():
        raise UserError(f"{place}: received SHA-256 {digest}; {sha256} is expected.{hint}")


@contextlib.contextmanager
def reading_file(place: str, expected: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors of reading a user's file into a `UserError` with the expected contents."""
    try:
        yield
    except errors as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"{place}: cannot be read ({reason}); {expected} is expected.") from None


def array_on_disk(folder: Path, images: Iterable[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return images of bytes as one array in a temporary file, which is deleted with the array."""
    with tempfile.TemporaryFile(dir=folder) as pool:
        for image in images:
            pool.write(image.tobytes())
        pool.flush()
        return np.memmap(pool, np.uint8, "r", shape=(pool.tell() // math.prod(shape), *shape))
