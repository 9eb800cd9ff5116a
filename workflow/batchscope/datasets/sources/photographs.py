"""Read image files with Pillow: a user's class folders, and Microsoft's cats and dogs.

Photographs are decoded in memory; archives are not unpacked to disk. They are turned upright by
their EXIF orientation, converted to RGB or grey, and stretched to a square with Pillow's bilinear
filter. Like Keras's image loading, this ignores their proportions. Unreadable files are skipped,
counted and listed. Errors of disk or memory end the preparation, so that the set of examples
depends only on the files.
"""

import dataclasses
import functools
import re
import warnings
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Literal, NamedTuple

import numpy as np

from batchscope.core import display, errors
from batchscope.core.errors import UserError, unexpected
from batchscope.datasets import splits
from batchscope.datasets.source import (
    DataSource,
    FileSha256,
    ImageSize,
    PerClass,
    Raw,
    Request,
    Scale,
    array_on_disk,
    expanded_path,
    reading_file,
)
from batchscope.datasets.splits import PART_OF_NAME, PartialSplit, Split
from batchscope.store.paths import SPLITS
from batchscope.study.model import FilePath

URL = (
    "https://download.microsoft.com/download/3/E/1/"
    "3E1C3F21-ECDB-4869-8368-6DEBA77B919F/kagglecatsanddogs_5340.zip"
)
# Microsoft publishes no SHA-256. This one is from GoMLX, examples/dogsvscats.
SHA256 = "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"
_PETS = ["Cat", "Dog"]
_PET_MEMBER = re.compile(r"(?:.*/)?PetImages/(Cat|Dog)/([^/]+\.jpg)", re.IGNORECASE)
# Files and folders that operating systems add, in lower case.
_CLUTTER = ("thumbs.db", "desktop.ini", "__macosx", "@eadir")


class Photo(NamedTuple):
    """An image file before it is read."""

    part: str  # one of `SPLITS`; `train` before the parts are drawn
    group: str  # name of the image's class and part, for messages
    label: int  # number of the class
    name: str  # name of the file, for messages
    open: Callable[[], IO[bytes]]


@dataclasses.dataclass
class Listing:
    """The images of a data set, before any image is read."""

    names: list[str]  # names of the classes
    groups: list[str] = dataclasses.field(default_factory=list)  # each needs at least one image
    photos: list[Photo] = dataclasses.field(default_factory=list)  # by part, in the order of use
    skipped: list[dict[str, str]] = dataclasses.field(default_factory=list)  # `file` and `reason`


class _Photographs(DataSource):
    """A source of image files, with the keys `image_size` and `per_class`."""

    def _read_photos(self, request: Request, listing: Listing) -> Raw:
        """Return the first readable images of each class, in one array on disk."""
        # `_decode` is a generator: `kept` grows while `array_on_disk` consumes it.
        kept: list[Photo] = []
        pixels = self._decode(request, listing, kept)
        images = array_on_disk(request.scratch, pixels, self.shape())
        pairs = {}
        for part in SPLITS:
            if rows := [row for row, photo in enumerate(kept) if photo.part == part]:
                labels = np.array([kept[row].label for row in rows], np.int32)
                pairs[part] = images[rows[0] : rows[-1] + 1], labels
        names = [display.printable(name) for name in listing.names]
        train = pairs.pop("train")
        return Raw(*train, names, [], fixed_parts=pairs, skipped=listing.skipped)

    def _decode(
        self, request: Request, listing: Listing, kept: list[Photo]
    ) -> Iterator[np.ndarray]:
        """Yield the first readable images of each class, and append their photos to `kept`."""
        self._check_listing(request.place, listing)
        size, _, channels = self.shape()
        counts: Counter[str] = Counter()
        for photo in listing.photos:
            if photo.part == "train" and counts[photo.group] == self.per_class:
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
                skipped = {"file": photo.name, "reason": reason or type(error).__name__}
                listing.skipped.append(skipped)
                continue
            kept.append(photo)
            counts[photo.group] += 1
            yield image
        self._check_counts(request.place, listing, kept)

    def _check_listing(self, place: str, listing: Listing) -> int:
        """Check the counts of the images and their split before any image is read.

        Returns:
            Number of training examples if every image is readable.
        """
        self._check_counts(place, listing, listing.photos)
        fixed_parts = {photo.part for photo in listing.photos}
        drawn = [part for part in SPLITS[1:] if part not in fixed_parts]
        counts = Counter(photo.group for photo in listing.photos if photo.part == "train")
        groups = [np.arange(min(count, self.per_class or count)) for count in counts.values()]
        return len(splits.draw_parts(place, groups, self.shares(), drawn)["train"])

    def _check_counts(self, place: str, listing: Listing, photos: list[Photo]) -> None:
        """Raise a `ConfigError` with the groups that have too few images, and the skipped files."""
        counts = Counter(photo.group for photo in photos)
        training_groups = {photo.group for photo in listing.photos if photo.part == "train"}
        lacking: dict[str, list[str]] = defaultdict(list)
        for group in listing.groups:
            min_count = (self.per_class or 1) if group in training_groups else 1
            if counts[group] < min_count:
                text = f"received {counts[group]} readable images; {min_count} or more are expected"
                lacking[text].append(group)
        problems = [f"{display.short_list(groups)}: {text}." for text, groups in lacking.items()]
        if problems and listing.skipped:
            files = [f"{entry['file']} ({entry['reason']})" for entry in listing.skipped]
            problems.append(f"skipped files: {display.short_list(files)}.")
        errors.raise_problems([f"{place}: {problem}" for problem in problems], place)


class ImageFolder(_Photographs):
    """Your own images, one folder per class, or such folders in `train`, `val` and `test`."""

    path_check = (Path.is_dir, "an existing folder")
    split: PartialSplit | None = None
    """Shares of the training part that become the missing parts."""
    source: Literal["image_folder"]
    path: FilePath
    """The folder with the class folders, or with the folders of the parts."""
    image_size: ImageSize
    channels: Literal[1, 3] = 3
    """3 for colour, 1 for grey."""
    per_class: PerClass = None
    scale: Scale = None

    def parts(self) -> Collection[str]:
        return _part_folders(expanded_path(self.path))

    def read(self, request: Request) -> Raw:
        return self._read_photos(request, self._listing(request.place))

    def outline(self, request: Request) -> tuple[tuple[int, ...], int, int | None]:
        listing = self._listing(request.place)
        count = self._check_listing(request.place, listing)
        return self.shape(), len(listing.names), count

    def _listing(self, place: str) -> Listing:
        """Return the images of the class folders, by part if the folder has parts.

        Classes are in the order of their names. Every file that is not hidden counts as an image,
        in any format that Pillow reads.
        """
        path = expanded_path(self.path)
        parts = _part_folders(path) or {"train": path}
        classes = _subfolders(parts["train"])
        if len(classes) < 2:
            files = sum(map(Path.is_file, _visible_entries(parts["train"])))
            # Unpacked archives often have a folder around the class folders.
            inner = [folder for folder in classes if len(_subfolders(folder)) > 1]
            received = f"{path} with {len(classes)} folder(s) and {files} file(s)"
            fix = f"`path: {inner[0]}`" if inner else ""
            raise unexpected(place, received, "a folder per class, at least two,", fix)
        listing = Listing([folder.name for folder in classes])
        for part, folder in parts.items():
            lead = "" if folder == path else f"{folder.name}/"
            for entry in _visible_entries(folder):
                file = f"{lead}{entry.name}"
                if not entry.is_dir():
                    listing.skipped.append({"file": file, "reason": "in no class folder"})
                elif entry.name not in listing.names:
                    expected = "a class of the training part"
                    raise unexpected(f"{place}: {path}", file, expected)
            for label, name in enumerate(listing.names):
                listing.groups.append(f"{lead}{name}")
                for entry in _visible_entries(folder / name) if (folder / name).is_dir() else ():
                    file = f"{lead}{name}/{entry.name}"
                    if entry.is_file():
                        opens = functools.partial(open, entry, "rb")
                        listing.photos.append(Photo(part, f"{lead}{name}", label, file, opens))
                    else:
                        listing.skipped.append({"file": file, "reason": "not a file"})
        return listing


class CatsVsDogs(_Photographs):
    """Microsoft's Cats vs Dogs; unreadable images are skipped and counted."""

    members = (12_500, 12_500)
    source: Literal["cats_vs_dogs"]
    path: FilePath | None = None
    """The archive as a local zip; downloaded if left out."""
    sha256: FileSha256 = None
    image_size: ImageSize
    per_class: PerClass = None
    scale: Scale = None
    split: Split

    def training_size(self) -> int | None:
        are_counts = self.split.train >= 1
        return 2 * self.split.train if are_counts else super().training_size()

    def read(self, request: Request) -> Raw:
        path = self.local_or_downloaded(request, URL, SHA256)
        archive_errors = zipfile.BadZipFile, NotImplementedError
        with (
            reading_file(f"{request.place}: {path}", "a zip file", *archive_errors),
            zipfile.ZipFile(path) as archive,
        ):
            photos = []
            for match in filter(None, map(_PET_MEMBER.fullmatch, archive.namelist())):
                pet, name = match[1].capitalize(), match[2]
                opens = functools.partial(archive.open, match[0])
                photos.append(Photo("train", pet, _PETS.index(pet), f"{pet}/{name}", opens))
            photos.sort(key=lambda photo: (photo.label, _numeric_order(photo.name), photo.name))
            raw = self._read_photos(request, Listing(_PETS, _PETS, photos))
        return dataclasses.replace(raw, files=[path], origin=URL)


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


def _numeric_order(name: str) -> list[tuple[int, int | str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def _visible_entries(folder: Path) -> list[Path]:
    """Return the entries of a folder sorted by name, without hidden files and system files."""
    entries = (
        entry
        for entry in folder.iterdir()
        if not entry.name.startswith(".") and entry.name.casefold() not in _CLUTTER
    )
    # The name is the second key, because 1 and 01 are equal numbers.
    return sorted(entries, key=lambda entry: (_numeric_order(entry.name), entry.name))


def _subfolders(path: Path) -> list[Path]:
    return [entry for entry in _visible_entries(path) if entry.is_dir()]


def _part_folders(path: Path) -> dict[str, Path]:
    """Return the folder of each part if `train` and another part have class folders, else {}."""
    named = [folder for folder in _subfolders(path) if folder.name.casefold() in PART_OF_NAME]
    folders = {PART_OF_NAME[folder.name.casefold()]: folder for folder in named}
    if "train" not in folders or not 1 < len(folders) == len(named):
        return {}
    if not _subfolders(folders["train"]):  # The folders are classes with names of parts.
        return {}
    return {part: folders[part] for part in SPLITS if part in folders}
