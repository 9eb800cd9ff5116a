"""Sources that are image files: Microsoft's cats and dogs, the user's class folders.

Photographs are read in memory (nothing of an archive is ever unpacked to disk), turned upright by
their EXIF orientation, then to RGB (or grey), and stretched to a square with Pillow's bilinear
filter, without regard to their proportions, as Keras's image loading does. A file that is no image,
or a damaged one, is skipped, counted and named. What the disk or the memory refuses ends the
preparation: which examples there are depends on the files alone. So does an image of numbers that
Pillow does not read as bytes.

All that ends a preparation is said at once; `problems` finds it by names and headers alone.
"""

import contextlib
import dataclasses
import errno
import functools
import io
import re
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from batchscope import errors, wording
from batchscope.catalogue import folder_parts, tasks
from batchscope.datasets import splits
from batchscope.datasets.raw import Pair, Raw, Request, local_or_downloaded, on_disk, reading
from batchscope.errors import ConfigError, UserError
from batchscope.store.paths import SPLITS

CATS_URL = (
    "https://download.microsoft.com/download/3/E/1/"
    "3E1C3F21-ECDB-4869-8368-6DEBA77B919F/kagglecatsanddogs_5340.zip"
)
# Microsoft publishes none; this is the one in GoMLX, examples/dogsvscats.
CATS_SHA256 = "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"

_CATS_MEMBER = re.compile(r"(?:.*/)?PetImages/(Cat|Dog)/([^/]+\.jpg)", re.IGNORECASE)
_LARGEST = 100 * 2**20  # bytes of one image file
_NOWHERE = (errno.ENOENT, errno.ELOOP)  # what a link that leads to no file raises


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


def cats_vs_dogs(request: Request) -> Raw:
    path = local_or_downloaded(request, CATS_URL, CATS_SHA256)
    with (
        reading(f"{request.where}: {path}", "a zip file", zipfile.BadZipFile, NotImplementedError),
        zipfile.ZipFile(path) as archive,
    ):
        found: dict[str, dict[str, zipfile.ZipInfo]] = {"Cat": {}, "Dog": {}}
        for info in archive.infolist():
            if match := _CATS_MEMBER.fullmatch(info.filename):
                found[match[1].capitalize()][match[2]] = info
        listing = Listing([*found], files=[path])
        for label, (pet, members) in enumerate(found.items()):
            for name in sorted(members, key=lambda name: (folder_parts.numeric_order(name), name)):
                opens = functools.partial(archive.open, members[name])
                listing.photos.append(Photo("train", pet, label, f"{pet}/{name}", opens))
            if not members:
                listing.faults["received no file; images are expected."].append(pet)
        return dataclasses.replace(read(request, listing), origin=CATS_URL)


def image_folder(request: Request) -> Raw:
    """Returns the user's own images: one folder per class, classes in the order of names.

    Every file that is not hidden is taken for an image, in any format that Pillow reads. Where the
    class folders lie in folders `train`, `validation` and `test`, these are the parts.
    """
    return read(request, class_folders(request))


def class_folders(request: Request) -> Listing:
    path = request.path()
    parts = folder_parts.parts_of_classes(path) or {"train": path}
    classes = folder_parts.folders(parts["train"])
    listing = Listing([each.name for each in classes])
    if len(classes) < 2:
        files = sum(map(Path.is_file, folder_parts.shown(parts["train"])))
        # An archive's own folder around the class folders, perhaps.
        inner = [each for each in classes if len(folder_parts.folders(each)) > 1]
        received = f"received {path} with {len(classes)} folder(s) and {files} file(s); "
        fix = f" (`path: {inner[0]}`)" if inner else ""
        listing.faults[f"{received}a folder per class, at least two, is expected{fix}."] = [""]
    for part, folder in parts.items():
        lead = "" if folder == path else f"{folder.name}/"
        for entry in folder_parts.shown(folder):
            if not entry.is_dir():
                name = f"{lead}{entry.name}"
                listing.skipped.append({"file": name, "reason": "in no class folder"})
            elif entry.name not in listing.names:
                fault = "received a class that is none of train; the same classes are expected."
                listing.faults[fault].append(f"{lead}{entry.name}")
        for label, name in enumerate(listing.names):
            _add(listing, part, f"{lead}{name}", label, folder / name)
    return listing


def _add(listing: Listing, part: str, place: str, label: int, folder: Path) -> None:
    """Adds the files of a class folder, also links that lead nowhere."""
    try:
        entries = folder_parts.shown(folder)
        received = "folders alone" if entries else "no file"
    except OSError as error:
        entries, received = [], f"no folder ({error.strerror})"
    files = [each for each in entries if each.is_file() or not each.exists()]
    for inner in filter(Path.is_dir, entries if files else ()):
        reason = "a folder in a class folder, whose files are not read"
        listing.skipped.append({"file": f"{place}/{inner.name}", "reason": reason})
    for file in files:
        opens = functools.partial(open, file, "rb")
        listing.photos.append(Photo(part, place, label, f"{place}/{file.name}", opens))
    if not files:
        listing.faults[f"received {received}; images of the class are expected."].append(place)


def read(request: Request, listing: Listing) -> Raw:
    """Returns listed images, the first readable ones of each class, in one array on disk."""
    size, channels = request.definition["image_size"], request.definition.get("channels", 3)
    kept: list[Photo] = []

    def pixels() -> Iterator[np.ndarray]:
        def look(file: IO[bytes]) -> np.ndarray:
            return decode(file.read(), size, channels)

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
    try:
        kept = [photo for photo, _ in _looked_at(request, listing, _check)]
        drawn = [part for part in SPLITS[1:] if part not in {photo.part for photo in kept}]
        classified = listing.task == tasks.CLASSIFICATION
        keys = np.array([classified and photo.label for photo in kept if photo.part == "train"])
        groups = [np.flatnonzero(keys == key) for key in np.unique(keys)]
        splits.assign(request.where, groups, request.split, drawn)
    except UserError as error:
        return str(error).splitlines()
    return []


def _looked_at(
    request: Request, listing: Listing, look: Callable[[IO[bytes]], Any]
) -> Iterator[tuple[Photo, Any]]:
    """Yields the first readable images of each class, and what a look at each finds.

    Ends with a `ConfigError`, a line for each kind of fault. Notes in the listing what is skipped.
    """
    limit = request.definition.get("per_class") or 0
    least = {each.group: limit if each.part == "train" else 0 for each in listing.photos}
    counts = dict.fromkeys(least, 0)
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
            yield photo, found
        counts[photo.group] += 1
    for group, count in counts.items():
        if count < (wanted := least[group] or 1):
            fault = f"received {count} readable images; {wanted} or more are expected."
            listing.faults[fault].append(group)
    if any(listing.faults.values()):
        skipped = [f"{each['file']} ({each['reason']})" for each in listing.skipped]
        listing.faults["received no image of a class; such files are skipped."] += skipped
        named = [(wording.some(each), text) for text, each in listing.faults.items() if each]
        raise ConfigError([": ".join(filter(None, (request.where, *line))) for line in named])


def _looked(photo: Photo, look: Callable[[IO[bytes]], Any]) -> Any:
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
