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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from batchscope import errors
from batchscope.datasets.raw import (
    Raw,
    Request,
    local_or_downloaded,
    on_disk,
    reading,
    refused,
)
from batchscope.errors import UserError

CATS_URL = (
    "https://download.microsoft.com/download/3/E/1/"
    "3E1C3F21-ECDB-4869-8368-6DEBA77B919F/kagglecatsanddogs_5340.zip"
)
# Microsoft publishes none; this is the one in GoMLX, examples/dogsvscats.
CATS_SHA256 = "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"

_CATS_MEMBER = re.compile(r"(?:.*/)?PetImages/(Cat|Dog)/([^/]+\.jpg)", re.IGNORECASE)
_LARGEST = 100 * 2**20  # bytes of one image file

# Class -> file name -> its bytes, and how to read them; classes in their order.
Files = dict[str, dict[str, tuple[int, Callable[[], bytes]]]]


def numeric_order(name: str) -> list[tuple[int, int | str]]:
    """Returns a sort key under which 9.jpg comes before 10.jpg."""
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def cats_vs_dogs(request: Request) -> Raw:
    """Returns Microsoft's cats and dogs, from its archive or the user's copy of it."""
    path = local_or_downloaded(request, CATS_URL, CATS_SHA256)
    with (
        reading(f"{request.where}: {path}", "a zip file", zipfile.BadZipFile, NotImplementedError),
        zipfile.ZipFile(path) as archive,
    ):
        files: Files = {"Cat": {}, "Dog": {}}
        for info in archive.infolist():
            if match := _CATS_MEMBER.fullmatch(info.filename):
                read = functools.partial(archive.read, info)
                files[match[1].capitalize()][match[2]] = info.file_size, read
        return _read(request, files, [path], CATS_URL)


def image_folder(request: Request) -> Raw:
    """Returns the user's own images: one folder per class, classes in the order of names.

    Every file that is not hidden is taken for an image, in any format that Pillow reads.
    """
    folders = class_folders(request.path())
    if len(folders) < 2:
        received = f"{request.path()} with {len(folders)} folder(s)"
        raise refused(f"{request.where}.path", received, "one per class, at least two,")
    files = {
        folder.name: {
            path.name: (path.stat().st_size, path.read_bytes)
            for path in _shown(folder)
            if path.is_file()
        }
        for folder in folders
    }
    return _read(request, files, [], "")


def class_folders(path: Path) -> list[Path]:
    """Returns the folders of classes in a folder, in the order of their classes."""
    folders = (entry for entry in _shown(path) if entry.is_dir())
    return sorted(folders, key=lambda entry: numeric_order(entry.name))


def _shown(folder: Path) -> Iterable[Path]:
    return (entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _read(request: Request, files: Files, read_from: list[Path], origin: str) -> Raw:
    """Reads the first readable images of each class into one array on disk."""
    size, channels = request.definition["image_size"], request.definition.get("channels", 3)
    limit = request.definition["per_class"]
    counts = dict.fromkeys(files, 0)
    skipped: list[dict[str, str]] = []

    def readable() -> Iterator[np.ndarray]:
        for class_name, found in files.items():
            for name in sorted(found, key=numeric_order):
                if counts[class_name] == limit:
                    break
                place = f"{class_name}/{name}"
                try:
                    pixels = _decoded(f"{request.where}: {place}", *found[name], size, channels)
                except _Damaged as error:
                    skipped.append({"file": place, "reason": str(error)})
                else:
                    counts[class_name] += 1
                    yield pixels
            if counts[class_name] < (limit or 1):
                received = f"{counts[class_name]} readable images of {class_name}"
                raise refused(request.where, received, f"a number of {limit or 1} or more")

    images = on_disk(request, readable(), (size, size, channels))
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), list(counts.values()))
    return Raw(images, labels, list(counts), read_from, origin, skipped=skipped)


class _Damaged(Exception):
    """A file that is skipped: it is no image, or a damaged one."""


class Unsuitable(Exception):
    """An image that reads well, but whose numbers bytes cannot hold."""


def _decoded(
    where: str, length: int, read: Callable[[], bytes], size: int, channels: int
) -> np.ndarray:
    if length > _LARGEST:
        raise _Damaged(f"larger than {_LARGEST >> 20} MB")
    try:
        return decode(read(), size, channels)
    except Unsuitable as error:
        raise UserError(f"{where}: {error}") from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow's readers raise nearly anything
        if isinstance(error, OSError) and not errors.of_content(error):
            raise UserError(f"{where}: cannot be read ({error.strerror}).") from None
        text = re.sub(r" ?<_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
        raise _Damaged(text or type(error).__name__) from None


def decode(data: bytes, size: int, channels: int = 3) -> np.ndarray:
    """Returns an image file's pixels as bytes, upright, shape (size, size, channels).

    Raises `Unsuitable` where a channel has more than 8 bits: Pillow would cut them off at 255.
    """
    from PIL import Image, ImageMode, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damaged tags in files that read well
        with Image.open(io.BytesIO(data)) as image:
            number = np.dtype(ImageMode.getmode(image.mode).typestr)
            if number.itemsize > 1:
                raise Unsuitable(
                    f"received pixels of {number.name} (mode {image.mode}); 8 bits per channel are "
                    "expected. Convert the images, or give their numbers as an npz of floats."
                )
            plain = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
        stretched = plain.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(stretched).reshape(size, size, channels)
