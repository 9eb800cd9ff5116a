"""Read a user's images from class folders, optionally below folders of the parts."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from batchscope.core.errors import unexpected
from batchscope.datasets import photographs
from batchscope.datasets.photographs import Listing, Photo
from batchscope.datasets.raw import Raw, Request
from batchscope.datasets.source import DataSource, ImageSize, PerClass, Scale, expanded_path
from batchscope.datasets.splits import PART_OF_NAME, PartialSplit
from batchscope.store.paths import SPLITS
from batchscope.study.model import FilePath

# Files and folders that operating systems add, in lower case.
_CLUTTER = ("thumbs.db", "desktop.ini", "__macosx", "@eadir")


class ImageFolder(DataSource):
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
        return photographs.read(request, self.listing(request))

    def listing(self, request: Request) -> Listing:
        """Return the images of the class folders, by part if the folder has parts.

        Classes are in the order of their names. Every file that is not hidden counts as an image,
        in any format that Pillow reads.
        """
        path = expanded_path(self.path)
        parts = _part_folders(path) or {"train": path}
        classes = _subfolders(parts["train"])
        if len(classes) < 2:
            files = sum(map(Path.is_file, visible_entries(parts["train"])))
            # Unpacked archives often have a folder around the class folders.
            inner = [folder for folder in classes if len(_subfolders(folder)) > 1]
            received = f"{path} with {len(classes)} folder(s) and {files} file(s)"
            fix = f"`path: {inner[0]}`" if inner else ""
            raise unexpected(request.place, received, "a folder per class, at least two,", fix)
        listing = Listing([folder.name for folder in classes])
        for part, folder in parts.items():
            lead = "" if folder == path else f"{folder.name}/"
            for entry in visible_entries(folder):
                file = f"{lead}{entry.name}"
                if not entry.is_dir():
                    listing.skipped.append({"file": file, "reason": "in no class folder"})
                elif entry.name not in listing.names:
                    expected = "a class of the training part"
                    raise unexpected(f"{request.place}: {path}", file, expected)
            for label, name in enumerate(listing.names):
                listing.groups.append(f"{lead}{name}")
                for entry in visible_entries(folder / name) if (folder / name).is_dir() else ():
                    file = f"{lead}{name}/{entry.name}"
                    if entry.is_file():
                        opens = functools.partial(open, entry, "rb")
                        listing.photos.append(Photo(part, f"{lead}{name}", label, file, opens))
                    else:
                        listing.skipped.append({"file": file, "reason": "not a file"})
        return listing


def numeric_order(name: str) -> list[tuple[int, int | str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def visible_entries(folder: Path) -> list[Path]:
    """Return the entries of a folder sorted by name, without hidden files and system files."""
    entries = (
        entry
        for entry in folder.iterdir()
        if not entry.name.startswith(".") and entry.name.casefold() not in _CLUTTER
    )
    # The name is the second key, because 1 and 01 are equal numbers.
    return sorted(entries, key=lambda entry: (numeric_order(entry.name), entry.name))


def _subfolders(path: Path) -> list[Path]:
    return [entry for entry in visible_entries(path) if entry.is_dir()]


def _part_folders(path: Path) -> dict[str, Path]:
    """Return the folder of each part if `train` and another part have class folders, else {}."""
    named = [folder for folder in _subfolders(path) if folder.name.casefold() in PART_OF_NAME]
    folders = {PART_OF_NAME[folder.name.casefold()]: folder for folder in named}
    if "train" not in folders or not 1 < len(folders) == len(named):
        return {}
    if not _subfolders(folders["train"]):  # The folders are classes with names of parts.
        return {}
    return {part: folders[part] for part in SPLITS if part in folders}
