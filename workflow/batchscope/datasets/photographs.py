"""Sources that are image files: Microsoft's cats and dogs, the user's class folders.

Photographs are read in memory (nothing of an archive is ever unpacked to disk), turned upright by
their EXIF orientation, then to RGB (or grey), and stretched to a square with Pillow's bilinear
filter, without regard to their proportions, as Keras's image loading does. A file that is no image,
or a damaged one, is skipped, counted and named. What the disk or the memory refuses ends the
preparation: which examples there are depends on the files alone. So does an image with more than 8
bits per channel, since bytes would hold little of it.
"""

from __future__ import annotations

import functools
import io
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from batchscope import disk, errors
from batchscope.datasets import download
from batchscope.datasets.raw import OnDisk, Raw, Request, reading
from batchscope.errors import UserError

CATS_URL = (
    "https://download.microsoft.com/download/3/E/1/"
    "3E1C3F21-ECDB-4869-8368-6DEBA77B919F/kagglecatsanddogs_5340.zip"
)
# Microsoft publishes none; this is the one in GoMLX, examples/dogsvscats.
CATS_SHA256 = "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"
# In this order: a cat is 0, a dog is 1.
CATS_CLASSES = ("Cat", "Dog")

_CATS_MEMBER = re.compile(r"(?:.*/)?PetImages/(Cat|Dog)/([^/]+\.jpg)", re.IGNORECASE)
_LARGEST = 100 * 2**20  # bytes of one image file

# One image file: its name in the record, its bytes, and how to read them.
File = tuple[str, int, Callable[[], bytes]]


def numeric_order(name: str) -> list[tuple[int, int | str]]:
    """Returns a sort key under which 9.jpg comes before 10.jpg."""
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def cats_vs_dogs(request: Request) -> Raw:
    """Returns Microsoft's cats and dogs, from its archive or the user's copy of it."""
    path = download.local_or_downloaded(request, CATS_URL, CATS_SHA256)
    if path.is_dir():
        raise UserError(
            f"{request.where}.path: {path} is a folder; the zip file is expected (or source "
            "image_folder)."
        )
    unread = zipfile.BadZipFile, NotImplementedError
    with (
        reading(f"{request.where}: {path}", "a zip file", *unread),
        zipfile.ZipFile(path) as archive,
    ):
        files = {name: list(_members(archive, name)) for name in CATS_CLASSES}
        images, labels, skipped = _read(request, files)
    source = str(request.definition.get("path") or CATS_URL)
    checksums = {path.name: disk.file_sha256(path)}
    return Raw(images, labels, list(CATS_CLASSES), source, checksums, skipped=skipped)


def _members(archive: zipfile.ZipFile, class_name: str) -> Iterator[File]:
    found = {}
    for info in archive.infolist():
        match = _CATS_MEMBER.fullmatch(info.filename)
        if match and match[1].lower() == class_name.lower():
            found[match[2]] = info
    for name in sorted(found, key=numeric_order):
        info = found[name]
        yield f"{class_name}/{name}", info.file_size, functools.partial(archive.read, info)


def image_folder(request: Request) -> Raw:
    """Returns the user's own images: one folder per class, classes in the order of names.

    Every file that is not hidden is taken for an image, in any format that Pillow reads.
    """
    path = request.needed_path("a folder with one folder of images per class")
    if not path.is_dir():
        raise UserError(f"{request.where}.path: {path} is a file; a folder is expected.")
    folders = class_folders(path)
    if len(folders) < 2:
        raise UserError(
            f"{request.where}.path: {path} has {len(folders)} folder(s); one folder per class, "
            "at least two, is expected."
        )
    files = {folder.name: list(_folder_files(folder)) for folder in folders}
    images, labels, skipped = _read(request, files)
    source = str(request.definition["path"])
    return Raw(images, labels, [folder.name for folder in folders], source, skipped=skipped)


def class_folders(path: Path) -> list[Path]:
    """Returns the folders of classes in a folder, in the order of their classes."""
    entries = (entry for entry in path.iterdir() if not entry.name.startswith("."))
    folders = (entry for entry in entries if entry.is_dir())
    return sorted(folders, key=lambda entry: numeric_order(entry.name))


def _folder_files(folder: Path) -> Iterator[File]:
    paths = (path for path in folder.iterdir() if path.is_file())
    shown = (path for path in paths if not path.name.startswith("."))
    for path in sorted(shown, key=lambda path: numeric_order(path.name)):
        yield f"{folder.name}/{path.name}", path.stat().st_size, path.read_bytes


def _read(
    request: Request, files: dict[str, list[File]]
) -> tuple[OnDisk, np.ndarray, list[dict[str, str]]]:
    """Reads the first readable images of each class into one array on disk.

    Returns images of shape (n, size, size, channels), labels of shape (n,), and what was skipped.
    """
    size, channels = _size(request), int(request.definition.get("channels") or 3)
    limit = request.definition.get("per_class")
    path = request.scratch / "photographs"
    counts: list[int] = []
    skipped: list[dict[str, str]] = []
    with open(path, "wb") as pool:
        for class_name, found in files.items():
            counts.append(0)
            for name, length, read in found:
                if counts[-1] == limit:
                    break
                try:
                    if length > _LARGEST:
                        raise ValueError(f"larger than {_LARGEST >> 20} MB")
                    pixels = decode(read(), size, channels)
                except Unsuitable as error:
                    raise UserError(f"{request.where}: {name}: {error}") from None
                except MemoryError:
                    raise
                except Exception as error:  # Pillow's readers raise nearly anything
                    if isinstance(error, OSError) and not errors.of_content(error):
                        what = f"cannot be read ({error.strerror})"
                        raise UserError(f"{request.where}: {name}: {what}.") from None
                    skipped.append({"file": name, "reason": _reason(error)})
                else:
                    pool.write(pixels.tobytes())
                    counts[-1] += 1
            _check_count(request, class_name, counts[-1], limit)
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return OnDisk(path, (len(labels), size, size, channels)), labels, skipped


def _size(request: Request) -> int:
    size = request.definition.get("image_size")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UserError(
            f"{request.where}.image_size: received {size!r}; a positive number of pixels is "
            "expected."
        )
    return size


def _check_count(request: Request, class_name: str, count: int, limit: int | None) -> None:
    if limit is not None and count < limit:
        raise UserError(
            f"{request.where}.per_class: received {limit}, but {class_name} has only {count} "
            "readable images."
        )
    if count == 0:
        what = f"{class_name} has no readable image; at least one is expected."
        raise UserError(f"{request.where}: {what}")


class Unsuitable(Exception):
    """An image that reads well, but whose numbers bytes cannot hold."""


def decode(data: bytes, size: int, channels: int = 3) -> np.ndarray:
    """Returns an image file's pixels as bytes, upright, shape (size, size, channels).

    Raises `Unsuitable` where a channel has more than 8 bits.
    """
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damaged tags in files that read well
        with Image.open(io.BytesIO(data)) as image:
            _check_depth(image.mode)
            plain = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
        stretched = plain.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(stretched).reshape(size, size, channels)


def _check_depth(mode: str) -> None:
    """Refuses what Pillow would cut off at 255 in place of scaling it: 16 bits, 32, floats."""
    from PIL import ImageMode

    number = np.dtype(ImageMode.getmode(mode).typestr)
    if number.itemsize > 1:
        raise Unsuitable(
            f"received pixels of {number.name} (mode {mode}); 8 bits per channel are "
            "expected. Convert the images, or give their numbers as an npz of floats."
        )


def _reason(error: Exception) -> str:
    text = re.sub(r" ?<_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
    return text or type(error).__name__
