"""Image files: listed, read and decoded. Several sources have them.

Photographs are read in memory (nothing of an archive is ever unpacked to disk), turned upright by
their EXIF orientation, then to RGB (or grey), and stretched to a square with Pillow's bilinear
filter, without regard to their proportions, as Keras's image loading does. A file that is no image,
or a damaged one, is skipped, counted and named. What the disk or the memory refuses ends the
preparation: which examples there are depends on the files alone. So does an image with more than 8
bits per channel where no `scale` says that its numbers are to be kept.

All that ends a preparation is said at once; `problems` finds it by names and headers alone.
"""

from __future__ import annotations

import contextlib
import errno
import functools
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
from batchscope.catalogue import tasks
from batchscope.datasets import splits
from batchscope.datasets.raw import Pair, Raw, Request, on_disk
from batchscope.errors import ConfigError, UserError
from batchscope.host import tensorflow_start
from batchscope.store.paths import SPLITS

_LARGEST = 100 * 2**20  # bytes of one image file
_NOWHERE = (errno.ENOENT, errno.ELOOP)  # what a link that leads to no file raises
# What numbers of more than 8 bits are multiplied by to lie in 0 to 1, as one types it.
_SCALES = {"u": "0.0000152590218966964", "i": "0.0000152590218966964", "f": "1"}


class Photo(NamedTuple):
    """An image file that is not read yet."""

    part: str  # of `SPLITS`; `train` where the parts are still to be drawn
    group: str  # what needs an image, as messages name it: a class of a part
    label: Any  # number of its class, or the numbers to predict
    name: str  # as messages name it
    open: Callable[[], IO[bytes]]


@dataclass
class Listing:
    """The images of a data set, and what is learned of them, before any is read."""

    names: list[str]  # of the classes, or of a regression's targets
    photos: list[Photo] = field(default_factory=list)  # by part; of a class in the order of use
    task: str = tasks.CLASSIFICATION
    files: list[Path] = field(default_factory=list)  # that were read
    # What is wrong by names alone: what was received and is expected -> places.
    faults: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[dict[str, str]] = field(default_factory=list)  # `file` and `reason` of each


class _Damaged(Exception):
    """A file that is skipped: it is no image, or a damaged one."""


class _Refused(Exception):
    """A file that ends the preparation: what was received and what is expected."""


def read(request: Request, listing: Listing) -> Raw:
    """Returns listed images, the first readable ones of each class, in one array on disk."""
    size, channels = request.definition["image_size"], request.definition.get("channels", 3)
    scale = request.definition.get("scale")
    kept: list[Photo] = []

    def pixels() -> Iterator[np.ndarray]:
        def look(file: IO[bytes]) -> np.ndarray:
            return decode(file.read(), size, channels, scale)

        for photo, found in _looked_at(request, listing, look):
            kept.append(photo)
            yield found

    images = on_disk(request, pixels(), (size, size, channels))
    dtype = np.float64 if listing.task == tasks.REGRESSION else np.int32
    pairs: dict[str, Pair] = {}
    for part in SPLITS:
        if rows := [row for row, photo in enumerate(kept) if photo.part == part]:
            labels = np.array([kept[row].label for row in rows], dtype)
            pairs[part] = images[rows[0] : rows[-1] + 1], labels
    more = {"given": pairs, "skipped": listing.skipped, "task": listing.task}
    return Raw(*pairs.pop("train"), listing.names, listing.files, **more)


def problems(request: Request, listing: Listing) -> list[str]:
    """Returns a line for each thing that would end the preparation, by headers alone."""
    look = functools.partial(_header, scale=request.definition.get("scale"))
    try:
        kept = [photo for photo, _ in _looked_at(request, listing, look)]
        drawn = [part for part in SPLITS[1:] if part not in {photo.part for photo in kept}]
        classified = listing.task == tasks.CLASSIFICATION
        keys = np.array([classified and photo.label for photo in kept if photo.part == "train"])
        groups = [np.flatnonzero(keys == key) for key in np.unique(keys)]
        splits.assign(request.where, groups, request.split, drawn)
    except UserError as error:
        return str(error).splitlines()
    return []


def _looked_at(
    request: Request, listing: Listing, look: Callable[[IO[bytes]], np.ndarray]
) -> Iterator[tuple[Photo, np.ndarray]]:
    """Yields the first readable images of each class, and what a look at each finds.

    Ends with a `ConfigError`, a line for each kind of fault. Notes in the listing what is skipped.
    """
    limit = request.definition.get("per_class") or 0
    least = {each.group: limit if each.part == "train" else 0 for each in listing.photos}
    counts, by_type = dict.fromkeys(least, 0), defaultdict(list)
    for photo in listing.photos:
        if counts[photo.group] == (least[photo.group] or -1):
            continue
        try:
            found = _looked(photo, look)
        except _Damaged as error:
            listing.skipped.append({"file": photo.name, "reason": str(error)})
            continue
        except _Refused as error:
            listing.faults[str(error)].append(photo.name)
        else:
            by_type[found.dtype].append(photo.name)
            yield photo, found
        counts[photo.group] += 1
    if len(by_type) > 1:
        fault = "received 8 bits per channel beside images of more; the same of all is expected."
        listing.faults[fault] += by_type[np.dtype(np.uint8)]
    for group, count in counts.items():
        if count < (wanted := least[group] or 1):
            fault = f"received {count} readable images; {wanted} or more are expected."
            listing.faults[fault].append(group)
    if any(listing.faults.values()):
        skipped = [f"{each['file']} ({each['reason']})" for each in listing.skipped]
        listing.faults["received no image of a class; such files are skipped."] += skipped
        named = [(wording.some(each), text) for text, each in listing.faults.items() if each]
        raise ConfigError([": ".join(filter(None, (request.where, *line))) for line in named])


def _looked(photo: Photo, look: Callable[[IO[bytes]], np.ndarray]) -> np.ndarray:
    try:
        with photo.open() as file:
            if file.seek(0, io.SEEK_END) > _LARGEST:
                raise _Damaged(f"larger than {_LARGEST >> 20} MB")
            file.seek(0)
            return look(file)
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
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damaged tags in files that read well
        with Image.open(file) as image:
            yield image


def _kept_as(image: Any, scale: float | None) -> type[np.generic]:
    """Returns the type of number that an image is kept as; raises `_Refused` where there is none.

    Of 16 bits in each colour Pillow reads the upper 8, which are enough where no scale is stated.
    """
    from PIL import ImageMode

    number = np.dtype(ImageMode.getmode(image.mode).typestr)
    cut = number.itemsize == 1 and ";16" in repr(image.tile[:1])
    if number.itemsize == 1 and not (cut and scale):
        return np.uint8
    if cut and image.format != "PNG":
        raise _Refused(
            f"received 16 bits in each colour ({image.format}); 8 bits, PNG, or the images as an "
            "npz are expected."
        )
    if not scale:
        raise _Refused(
            f"received pixels of {number.name} (mode {image.mode}); 8 bits per channel, or the "
            f"line `scale: {_SCALES[number.kind]}`, are expected."
        )
    return np.float32


def _header(file: IO[bytes], scale: float | None) -> np.ndarray:
    with _image(file) as image:
        return np.empty(0, _kept_as(image, scale))


def decode(data: bytes, size: int, channels: int = 3, scale: float | None = None) -> np.ndarray:
    """Returns an image file's pixels, upright, shape (size, size, channels).

    They are bytes, or float32 of the stored numbers where a channel has more than 8 bits.
    """
    from PIL import ExifTags, Image, ImageOps

    square = (size, size), Image.Resampling.BILINEAR
    with _image(io.BytesIO(data)) as image:
        if _kept_as(image, scale) == np.uint8:
            plain = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
            return np.asarray(plain.resize(*square)).reshape(size, size, channels)
        found = []
        for numbers in _numbers(image, data, channels):
            plane = Image.fromarray(numbers)
            plane.getexif()[ExifTags.Base.Orientation] = image.getexif().get(
                ExifTags.Base.Orientation, 1
            )
            found.append(np.asarray(ImageOps.exif_transpose(plane).resize(*square)))
    return np.stack(found, axis=-1)


def _numbers(image: Any, data: bytes, channels: int) -> np.ndarray:
    """Returns the stored numbers of an image with more than 8 bits, channel by channel."""
    if len(image.getbands()) == 1:
        grey = np.asarray(image).astype(np.float32)
        if not np.isfinite(grey).all():
            raise _Damaged("NaN or infinite pixels")
        return np.broadcast_to(grey, (channels, *grey.shape))
    tensorflow_start.start()
    import tensorflow as tf  # Pillow would cut the numbers of colours off

    pixels = tf.io.decode_png(data, channels, tf.uint16).numpy()
    return np.moveaxis(pixels.astype(np.float32), -1, 0)
