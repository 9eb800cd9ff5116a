"""Image files of several sources: list, read and decode them.

Photographs are decoded in memory; archives are not unpacked to disk. They are turned upright by
their EXIF orientation, converted to RGB or grey, and stretched to a square with Pillow's bilinear
filter. Like Keras's image loading, this ignores their proportions. Damaged files and files that are
not images are skipped, counted and listed. Errors of disk or memory end the preparation, so that
the set of examples depends only on the files. An image with more than 8 bits per channel ends it
too.

A preparation reports all problems at once. `problems` finds them by names and headers alone.
"""

import contextlib
import errno
import io
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from batchscope import errors, wording
from batchscope.datasets import splits
from batchscope.datasets.raw import Pair, Raw, Request, on_disk
from batchscope.errors import ConfigError, UserError
from batchscope.store.paths import SPLITS
from batchscope.study import tasks

_LARGEST = 100 * 2**20  # largest image file, bytes
_NOWHERE = (errno.ENOENT, errno.ELOOP)  # errors of a link without a target


class Photo(NamedTuple):
    """An image file that is not read yet."""

    part: str  # one of `SPLITS`; `train` before the parts are drawn
    group: str  # name of its class and part in messages; a group needs an image
    label: Any  # number of its class, or the numbers to predict
    name: str  # name in messages
    open: Callable[[], IO[bytes]]


@dataclass
class Listing:
    """The images of a data set and their task, before any image is read."""

    names: list[str]  # names of the classes, or of a regression's targets
    photos: list[Photo] = field(default_factory=list)  # by part; within a class in the order of use
    task: str = tasks.CLASSIFICATION
    files: list[Path] = field(default_factory=list)  # files with the list or the images
    # Problems that the names alone show: text of the message -> places.
    faults: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[dict[str, str]] = field(default_factory=list)  # `file` and `reason`


class _Damaged(Exception):
    """The file is skipped: it is damaged or not an image."""


class _Refused(Exception):
    """The file ends the preparation; the message has received and expected values."""


def read(request: Request, listing: Listing) -> Raw:
    """Return the first readable images of each class in one array on disk."""
    size, channels = request.definition["image_size"], request.definition.get("channels", 3)
    kept: list[Photo] = []

    def pixels() -> Iterator[np.ndarray]:
        def decoded(file: IO[bytes]) -> np.ndarray:
            return decode(file.read(), size, channels)

        for photo, image in _readable_photos(request, listing, decoded):
            kept.append(photo)
            yield image

    images = on_disk(request, pixels(), (size, size, channels))
    dtype = np.float64 if listing.task == tasks.REGRESSION else np.int32
    pairs: dict[str, Pair] = {}
    for part in SPLITS:
        if rows := [row for row, photo in enumerate(kept) if photo.part == part]:
            labels = np.array([kept[row].label for row in rows], dtype)
            pairs[part] = images[rows[0] : rows[-1] + 1], labels
    facts = {"fixed_parts": pairs, "skipped": listing.skipped, "task": listing.task}
    return Raw(*pairs.pop("train"), listing.names, listing.files, **facts)


def problems(request: Request, listing: Listing) -> list[str]:
    """Return a line for each problem that would end the preparation, by headers alone."""
    try:
        kept = [photo for photo, _ in _readable_photos(request, listing, _check)]
        drawn = [part for part in SPLITS[1:] if part not in {photo.part for photo in kept}]
        classified = listing.task == tasks.CLASSIFICATION
        keys = np.array([classified and photo.label for photo in kept if photo.part == "train"])
        groups = [np.flatnonzero(keys == key) for key in np.unique(keys)]
        splits.assign(request.place, groups, request.split, drawn)
    except UserError as error:
        return str(error).splitlines()
    return []


def _readable_photos(
    request: Request, listing: Listing, process: Callable[[IO[bytes]], Any]
) -> Iterator[tuple[Photo, Any]]:
    """Yield the first readable images of each class, each with the result of `process`.

    Skipped files are added to the listing.

    Raises:
        ConfigError: At the end, with a line for each kind of problem.
    """
    limit = request.definition.get("per_class") or 0
    least = {photo.group: limit if photo.part == "train" else 0 for photo in listing.photos}
    counts = dict.fromkeys(least, 0)
    for photo in listing.photos:
        if counts[photo.group] == (least[photo.group] or -1):
            continue
        try:
            result = _processed(photo, process)
        except _Damaged as error:
            listing.skipped.append({"file": photo.name, "reason": str(error)})
            continue
        except _Refused as error:
            listing.faults[str(error)].append(photo.name)
        else:
            yield photo, result
        counts[photo.group] += 1
    for group, count in counts.items():
        if count < (minimum := least[group] or 1):
            fault = f"received {count} readable images; {minimum} or more are expected."
            listing.faults[fault].append(group)
    if any(listing.faults.values()):
        skipped = [f"{entry['file']} ({entry['reason']})" for entry in listing.skipped]
        listing.faults["received no image of a class; such files are skipped."] += skipped
        lines = [
            (request.place, wording.some(places), fault)
            for fault, places in listing.faults.items()
            if places
        ]
        raise ConfigError([": ".join(filter(None, line)) for line in lines])


def _processed(photo: Photo, process: Callable[[IO[bytes]], Any]) -> Any:
    try:
        with photo.open() as file:
            if file.seek(0, io.SEEK_END) > _LARGEST:
                raise _Damaged(f"larger than {_LARGEST >> 20} MB")
            file.seek(0)
            return process(file)
    except (_Damaged, _Refused, MemoryError):
        raise
    except Exception as error:  # Pillow's readers raise nearly anything
        text = re.sub(r" ?<[\w.]+ (?:object|name).*>", "", str(error))
        if isinstance(error, OSError) and not errors.of_content(error):
            text = error.strerror
            if error.errno not in _NOWHERE:
                raise _Refused(f"cannot be read ({text}).") from None
        raise _Damaged(text or type(error).__name__) from None


@contextlib.contextmanager
def _image(file: IO[bytes]) -> Iterator[Any]:
    """Open an image; raise `_Refused` if Pillow does not read bytes."""
    from PIL import Image, ImageMode

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damaged tags in files that read well
        with Image.open(file) as image:
            number = np.dtype(ImageMode.getmode(image.mode).typestr)
            if number.itemsize > 1:
                raise _Refused(
                    f"received pixels of {number.name} (mode {image.mode}); 8 bits per channel, or "
                    "the images as an npz, are expected."
                )
            yield image


def _check(file: IO[bytes]) -> None:
    with _image(file):
        pass


def decode(data: bytes, size: int, channels: int = 3) -> np.ndarray:
    """Return an image file's pixels, upright, as bytes of shape (size, size, channels)."""
    from PIL import Image, ImageOps

    with _image(io.BytesIO(data)) as image:
        plain = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
        square = plain.resize((size, size), Image.Resampling.BILINEAR)
        return np.asarray(square).reshape(size, size, channels)
