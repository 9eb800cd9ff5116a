"""Read image files with Pillow: a `Listing` of files in, arrays of pixels and labels out.

Photographs are decoded in memory; archives are not unpacked to disk. They are turned upright by
their EXIF orientation, converted to RGB or grey, and stretched to a square with Pillow's bilinear
filter. Like Keras's image loading, this ignores their proportions. Unreadable files are skipped,
counted and listed. Errors of disk or memory end the preparation, so that the set of examples
depends only on the files.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from batchscope.core import display, errors
from batchscope.core.errors import UserError
from batchscope.datasets import splits
from batchscope.datasets.raw import Pair, Raw, Request, array_on_disk
from batchscope.store.paths import SPLITS


class Photo(NamedTuple):
    """An image file before it is read."""

    part: str  # one of `SPLITS`; `train` before the parts are drawn
    group: str  # name of the image's class and part, for messages
    label: int  # number of the class
    name: str  # name of the file, for messages
    open: Callable[[], IO[bytes]]


@dataclass
class Listing:
    """The images of a data set, before any image is read."""

    names: list[str]  # names of the classes
    groups: list[str] = field(default_factory=list)  # groups that need at least one image
    photos: list[Photo] = field(default_factory=list)  # sorted by part, then in the order of use
    files: list[Path] = field(default_factory=list)  # files of the user, for the record
    skipped: list[dict[str, str]] = field(default_factory=list)  # `file` and `reason` of each


def read(request: Request, listing: Listing) -> Raw:
    """Return the first readable images of each class in one array on disk."""
    size, channels = request.definition["image_size"], request.definition.get("channels", 3)
    kept: list[Photo] = []
    images = array_on_disk(
        request, _decode_photos(request, listing, kept, size, channels), (size, size, channels)
    )
    pairs: dict[str, Pair] = {}
    for part in SPLITS:
        if rows := [row for row, photo in enumerate(kept) if photo.part == part]:
            labels = np.array([kept[row].label for row in rows], np.int32)
            pairs[part] = images[rows[0] : rows[-1] + 1], labels
    names = [display.printable(name) for name in listing.names]
    train = pairs.pop("train")
    return Raw(*train, names, listing.files, fixed_parts=pairs, skipped=listing.skipped)


def _decode_photos(
    request: Request, listing: Listing, kept: list[Photo], size: int, channels: int
) -> Iterator[np.ndarray]:
    """Yield the first readable images of each class, and append their photos to `kept`."""
    check_listing(request, listing)
    limit, counts = request.definition.get("per_class"), Counter()
    for photo in listing.photos:
        if photo.part == "train" and counts[photo.group] == limit:
            continue
        try:
            with photo.open() as file:
                image = decode(file, size, channels)
        except MemoryError:
            raise
        except Exception as error:  # Pillow's readers raise many types of errors.
            if isinstance(error, OSError) and not errors.is_content_error(error):
                text = f"{request.place}: {photo.name}: cannot be read ({error.strerror})."
                raise UserError(text) from None
            reason = re.sub(r" ?<[\w.]+ (?:object|name).*>", "", str(error))
            listing.skipped.append({"file": photo.name, "reason": reason or type(error).__name__})
            continue
        kept.append(photo)
        counts[photo.group] += 1
        yield image
    _check_counts(request, listing, kept)


def check_listing(request: Request, listing: Listing) -> None:
    """Check the counts of the images and their split before any image is read.

    Raises:
        UserError: If the images cannot be prepared.
    """
    _check_counts(request, listing, listing.photos)
    drawn = [part for part in SPLITS[1:] if part not in {photo.part for photo in listing.photos}]
    counts = Counter(photo.group for photo in listing.photos if photo.part == "train")
    groups = [np.arange(count) for count in counts.values()]
    splits.draw_parts(request.place, groups, request.split, drawn)


def _check_counts(request: Request, listing: Listing, photos: list[Photo]) -> None:
    """Raise a `ConfigError` with the groups that have too few images, and the skipped files."""
    counts, limit = Counter(photo.group for photo in photos), request.definition.get("per_class")
    limited = {photo.group for photo in listing.photos if photo.part == "train"} if limit else ()
    lacking: dict[str, list[str]] = defaultdict(list)
    for group in listing.groups:
        min_count = limit if group in limited else 1
        if counts[group] < min_count:
            text = f"received {counts[group]} readable images; {min_count} or more are expected."
            lacking[text].append(group)
    problems = [f"{display.short_list(groups)}: {text}" for text, groups in lacking.items()]
    if problems and listing.skipped:
        files = [f"{entry['file']} ({entry['reason']})" for entry in listing.skipped]
        problems.append(f"skipped files: {display.short_list(files)}.")
    errors.raise_problems([f"{request.place}: {problem}" for problem in problems], request.place)


def decode(file: IO[bytes], size: int, channels: int = 3) -> np.ndarray:
    """Return an image file's pixels, upright, as bytes of shape (size, size, channels)."""
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Readable files can have damaged tags.
        with Image.open(file) as image:
            if image.mode[0] in "IF":  # Pillow would cut such pixels at 255.
                raise ValueError(f"more than 8 bits per channel, mode {image.mode}")
            plain = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
    square = plain.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(square).reshape(size, size, channels)
