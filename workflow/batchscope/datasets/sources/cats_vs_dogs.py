"""Read Microsoft's photographs of cats and dogs, downloaded or from a local archive."""

from __future__ import annotations

import dataclasses
import functools
import re
import zipfile
from typing import Literal

from batchscope.datasets import photographs
from batchscope.datasets.photographs import Listing, Photo
from batchscope.datasets.raw import Raw, Request, local_or_downloaded, reading_file
from batchscope.datasets.source import DataSource, FileSha256, ImageSize, PerClass, Scale
from batchscope.datasets.sources.image_folder import numeric_order
from batchscope.datasets.splits import Split
from batchscope.study.model import FilePath

URL = (
    "https://download.microsoft.com/download/3/E/1/"
    "3E1C3F21-ECDB-4869-8368-6DEBA77B919F/kagglecatsanddogs_5340.zip"
)
# Microsoft publishes no SHA-256. This one is from GoMLX, examples/dogsvscats.
SHA256 = "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"
_CLASSES = ["Cat", "Dog"]
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

    def read(self, request: Request) -> Raw:
        path = local_or_downloaded(request, URL, SHA256)
        archive_errors = zipfile.BadZipFile, NotImplementedError
        with (
            reading_file(f"{request.place}: {path}", "a zip file", *archive_errors),
            zipfile.ZipFile(path) as archive,
        ):
            photos = []
            for match in filter(None, map(_MEMBER.fullmatch, archive.namelist())):
                pet, name = match[1].capitalize(), match[2]
                opens = functools.partial(archive.open, match[0])
                photos.append(Photo("train", pet, _CLASSES.index(pet), f"{pet}/{name}", opens))
            photos.sort(key=lambda photo: (photo.label, numeric_order(photo.name), photo.name))
            listing = Listing(_CLASSES, _CLASSES, photos, files=[path])
            return dataclasses.replace(photographs.read(request, listing), origin=URL)
