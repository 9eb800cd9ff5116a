"""Images of the user in class folders."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from batchscope import wording
from batchscope.datasets import folder_parts, photographs
from batchscope.datasets.photographs import Listing, Photo
from batchscope.datasets.raw import Raw, Request
from batchscope.datasets.source import DataSource, ImageSize, PerClass, Scale, expanded
from batchscope.datasets.splits import NpzSplit
from batchscope.problems import Place, Problem, missing
from batchscope.study.model import FilePath


class ImageFolder(DataSource):
    """Your own images, one folder per class, or such folders in `train`, `val` and `test`."""

    path_is = (Path.is_dir, "an existing folder")
    split: NpzSplit | None = None
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
        """Return the parts that the files have."""
        return folder_parts.parts_of_classes(expanded(self.path))

    def problems(self, place: Place) -> Iterator[Problem]:
        """Yield also the parts that neither exist nor are drawn."""
        yield from super().problems(place)
        with contextlib.suppress(OSError):  # reported as the problem of the path
            lacking = [part for part in ("validation", "test") if part not in self.parts()]
            if lacking and self.split is None:
                expected = f"a share for {wording.listed(lacking)} (or a folder of each part)"
                yield missing((*place, "split"), expected)
            for part in lacking if self.split else ():
                if getattr(self.split, part) is None:
                    yield missing((*place, "split", part), "a fraction or count per class")

    def read(self, request: Request) -> Raw:
        return photographs.read(request, self.listing(request))

    def listing(self, request: Request) -> Listing:
        """Return the images of the class folders, by part if there are parts.

        Classes are in the order of their names. Every file that is not hidden counts as an image,
        in any format that Pillow reads.
        """
        path = expanded(self.path)
        parts = folder_parts.parts_of_classes(path) or {"train": path}
        classes = folder_parts.folders(parts["train"])
        listing = Listing([folder.name for folder in classes])
        if len(classes) < 2:
            files = sum(map(Path.is_file, folder_parts.visible_entries(parts["train"])))
            # Archives often have a folder around the class folders.
            inner = [folder for folder in classes if len(folder_parts.folders(folder)) > 1]
            received = f"received {path} with {len(classes)} folder(s) and {files} file(s); "
            fix = f" (`path: {inner[0]}`)" if inner else ""
            listing.faults[f"{received}a folder per class, at least two, is expected{fix}."] = [""]
        for part, folder in parts.items():
            lead = "" if folder == path else f"{folder.name}/"
            for entry in folder_parts.visible_entries(folder):
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
    """Add the files of a class folder, including links without a target."""
    try:
        entries = folder_parts.visible_entries(folder)
        received = "folders alone" if entries else "no file"
    except OSError as error:
        entries, received = [], f"no folder ({error.strerror})"
    files = [entry for entry in entries if entry.is_file() or not entry.exists()]
    for inner in filter(Path.is_dir, entries if files else ()):
        reason = "a folder in a class folder, whose files are not read"
        listing.skipped.append({"file": f"{place}/{inner.name}", "reason": reason})
    for file in files:
        opens = functools.partial(open, file, "rb")
        listing.photos.append(Photo(part, place, label, f"{place}/{file.name}", opens))
    if not files:
        listing.faults[f"received {received}; images of the class are expected."].append(place)
