"""Images of the user in a list: a CSV file with their file names, labels and parts."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

import numpy as np

from batchscope import wording
from batchscope.datasets import labels
from batchscope.datasets.photographs import Listing, Photo
from batchscope.datasets.raw import Request, local_file
from batchscope.datasets.source import FileSha256, expanded
from batchscope.datasets.sources import csv
from batchscope.datasets.sources.image_folder import ImageFolder
from batchscope.datasets.splits import PART_OF
from batchscope.errors import raise_problems, unexpected
from batchscope.store.paths import SPLITS
from batchscope.study import tasks
from batchscope.study.model import FilePath, Text

_ENDINGS = ("", ".jpg", ".jpeg", ".png", ".JPG")


class ImageList(ImageFolder):
    """Your own images, with file names and labels in a CSV file; its column `split` has parts."""

    fixed_task = None
    path_is = (Path.is_file, "an existing file")
    source: Literal["image_list"]
    path: FilePath
    """The CSV file; its first line names the columns."""
    sha256: FileSha256 = None
    separator: csv.Separator = ","
    folder: FilePath | None = None
    """Folder of the file names. Default: the folder of the CSV file."""
    file: Text = "file"
    """Column of the file names."""
    label: Text = "label"
    """Column of the labels."""
    task: Literal["classification", "regression"] | None = None
    """Task, as in `npz`."""

    def listing(self, request: Request) -> Listing:
        """Return the images that the file names, in its order."""
        import pandas

        path = local_file(request)
        place = f"{request.place}: {path}"
        table = csv.read_csv(place, path, self.separator, dtype=str).rename(columns=str.strip)
        if absent := {self.file, self.label}.difference(table.columns):
            expected = "columns of the file as `file` and `label`, and its `separator`,"
            received = f"no {wording.listed(sorted(absent))} in {', '.join(table.columns)[:200]}"
            raise unexpected(place, received, expected)
        names, texts = table[self.file].fillna("").str.strip(), table[self.label].str.strip()
        parts = table["split"] if "split" in table.columns else names.map(lambda _: "train")
        parts = parts.str.strip().str.casefold().map(PART_OF)
        folder = expanded(self.folder or str(path.parent))
        files = names.map(lambda name: _file(folder, name))
        problems = []
        for received, expected, wrong in (
            ("no file of this name", f"one in {folder}", files.isna()),
            ("a file again", "each file once", files.dropna().map(Path.resolve).duplicated()),
            ("no label", "one", texts.isna()),
            ("no part", "train, validation or test", parts.isna()),
        ):
            if wrong.any():
                listed = wording.some(names[wrong[wrong].index].tolist())
                problems.append(str(unexpected(f"{request.place}: {listed}", received, expected)))
        if "train" not in parts.values:
            problems.append(str(unexpected(place, "no image to train on", "at least one")))
        raise_problems(problems, request.place)
        numbers = pandas.to_numeric(texts, errors="coerce")
        values = texts.to_numpy(str) if numbers.isna().any() else numbers.to_numpy()
        rows = {part: np.flatnonzero(parts == part) for part in SPLITS if part in parts.values}
        part_labels = {
            part: (f"{place}: {self.label} ({part})", values[indices])
            for part, indices in rows.items()
        }
        pairs, classes, task = labels.labelled(
            request.place, self.fixed_kind, self.task, rows, part_labels
        )
        photos = []
        for part, (indices, targets) in pairs.items():
            for row, target in zip(indices, targets, strict=True):
                group = f"{part} {classes[target]}" if task == tasks.CLASSIFICATION else part
                opens = functools.partial(open, files[row], "rb")
                photos.append(Photo(part, group, target, names[row], opens))
        groups = list(dict.fromkeys(photo.group for photo in photos))
        return Listing(classes, groups, photos, task, [path])


def _file(folder: Path, name: str) -> Path | None:
    """Return the file of a name, which may lack its ending; None without such a file."""
    paths = (folder / f"{name}{ending}" for ending in _ENDINGS)
    return next(filter(Path.is_file, paths), None)
