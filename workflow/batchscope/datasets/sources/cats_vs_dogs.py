"""Microsoft's photographs of cats and dogs, downloaded or from a local archive."""

from __future__ import annotations

import dataclasses
import functools
import re
import zipfile
from typing import Literal

from batchscope.datasets import photographs
from batchscope.datasets.folder_parts import numeric_order
from batchscope.datasets.photographs import Listing, Photo
from batchscope.datasets.raw import Raw, Request, local_or_downloaded, reading
from batchscope.datasets.source import DataSource, FileSha256, ImageSize, PerClass, Scale
from batchscope.datasets.splits import Split
from batchscope.study.model import FilePath

URL = (
    "https://download.microsoft.com/download/3/E/1/"
    "3E1C3F21-ECDB-4869-8368-6DEBA77B919F/kagglecatsanddogs_5340.zip"
)
# Microsoft publishes none; this is the one in GoMLX, examples/dogsvscats.
SHA256 = "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"

_MEMBER = re.compile(r"(?:.*/)?PetImages/(Cat|Dog)/([^/]+\.jpg)", re.IGNORECASE)


class CatsVsDogs(DataSource):
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

    def prepared_bytes(self) -> float | None:
        members = self.class_members() or self.members
        return self.image_size**2 * 3 * self.split.size(members)

    def read(self, request: Request) -> Raw:
        path = local_or_downloaded(request, URL, SHA256)
        place = f"{request.place}: {path}"
        with (
            reading(place, "a zip file", zipfile.BadZipFile, NotImplementedError),
            zipfile.ZipFile(path) as archive,
        ):
            pets: dict[str, dict[str, zipfile.ZipInfo]] = {"Cat": {}, "Dog": {}}
            for info in archive.infolist():
                if match := _MEMBER.fullmatch(info.filename):
                    pets[match[1].capitalize()][match[2]] = info
            listing = Listing([*pets], files=[path])
            for label, (pet, members) in enumerate(pets.items()):
                for name in sorted(members, key=lambda name: (numeric_order(name), name)):
                    opens = functools.partial(archive.open, members[name])
                    listing.photos.append(Photo("train", pet, label, f"{pet}/{name}", opens))
                if not members:
                    listing.faults["received no file; images are expected."].append(pet)
            return dataclasses.replace(photographs.read(request, listing), origin=URL)
