"""Images of the user in a list: a CSV file with their file names, labels and parts."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from batchscope.datasets import folder_parts, kinds, targets
from batchscope.datasets.folder_parts import NOTES, PART_OF
from batchscope.datasets.photographs import Listing, Photo
from batchscope.datasets.raw import Request, local_file, reading
from batchscope.datasets.source import FileSha256, expanded
from batchscope.datasets.sources.image_folder import ImageFolder
from batchscope.datasets.table_files import MISSING
from batchscope.errors import unexpected
from batchscope.store.paths import SPLITS
from batchscope.study import tasks
from batchscope.study.model import FilePath, Text


class ImageList(ImageFolder):
    """Your own images, with file names and labels in a CSV file; its column `split` has parts."""

    fixed_task = None
    path_is = (Path.is_file, "an existing file")
    source: Literal["image_list"]
    path: FilePath
    """The CSV file; its first line names the columns."""
    sha256: FileSha256 = None
    folder: FilePath | None = None
    """Folder of the file names. Default: the folder of the CSV file."""
    file: Text = "file"
    """Column of the file names."""
    label: Text = "label"
    """Column of the labels."""
    task: Literal["classification", "regression"] | None = None
    """Task, as in `npz`."""

    def parts(self) -> Collection[str]:
        return folder_parts.NAMES

    def listing(self, request: Request) -> Listing:
        """Return the images that the file names, in its order."""
        import pandas

        path = local_file(request)
        place = f"{request.place}: {path}"
        file, label = self.file, self.label
        table = _table(place, path)
        if missing := [name for name in (file, label) if name not in table.columns]:
            expected = (
                f"columns of the file ({', '.join(table.columns)[:200]}) as `file` and `label`"
            )
            raise unexpected(place, ", ".join(missing), expected)
        names, labels = table[file], table[label]
        parts = table["split"] if "split" in table.columns else labels.map(lambda _: "train")
        parts = parts.str.casefold().map(PART_OF)
        folder = expanded(self.folder or str(path.parent))
        paths, several = _files(folder, names)
        files = pandas.Series(paths, names.index, dtype=object)
        real_paths = files.map(os.path.realpath, na_action="ignore")
        repeated = real_paths.duplicated() & files.notna()
        lines = "line " + (table.index + 2).astype(str).to_series(table.index)
        faulty = Listing([])
        for text, wrong, places in (
            (f"received no file of this name in {folder}; one is expected.", files.isna(), names),
            ("received again; each file once is expected.", repeated, names),
            ("received a name that several files have; its ending is expected.", several, names),
            (f"received no {label}; one is expected.", _gaps(labels), lines),
            ("received no part; train, validation or test is expected.", parts.isna(), lines),
        ):
            faulty.faults[text] += places[wrong].tolist()
        if "train" not in parts.values:
            faulty.faults["received no image to train on; one at least is expected."] = [""]
        if any(faulty.faults.values()):
            return faulty
        numbers = pandas.to_numeric(labels, errors="coerce")
        values = labels.to_numpy(str) if numbers.isna().any() else numbers.to_numpy()
        labelled: kinds.Labels = {}
        images: dict[str, list[tuple[str, Path]]] = {}
        for part in SPLITS:
            if (rows := parts == part).any():
                labelled[part] = f"{place}: {label} ({part})", values[rows]
                images[part] = [*zip(names[rows], files[rows], strict=True)]
        numbers = {part: np.arange(len(listed)) for part, listed in images.items()}
        pairs, classes, task = targets.labelled(
            request.place, self.fixed_kind, self.task, numbers, labelled
        )
        photos = []
        for part, listed in images.items():
            for (name, image), value in zip(listed, pairs[part][1], strict=True):
                group = f"{part} {classes[value]}" if task == tasks.CLASSIFICATION else part
                photos.append(Photo(part, group, value, name, functools.partial(open, image, "rb")))
        return Listing(classes, photos, files=[path], task=task)


def _table(place: str, path: Path) -> Any:
    """Return a data frame of the cells as texts, without blanks around them."""
    import pandas

    lost = pandas.errors.ParserWarning  # for lines with more cells than columns
    with (
        reading(place, "a CSV file in UTF-8", OSError, ValueError, lost),
        warnings.catch_warnings(action="error", category=lost),
        open(path, encoding="utf-8-sig", newline="") as file,
    ):
        delimiter = max(",;\t", key=file.readline().count)
        file.seek(0)
        read = pandas.read_csv(file, sep=delimiter, dtype=str, na_filter=False, index_col=False)
    table = read.fillna("").map(str.strip).rename(columns=str.strip)
    return table[(table != "").any(axis=1)]


def _gaps(labels: Any) -> Any:
    """Return which labels are missing; among numbers, texts such as NA are missing too."""
    import pandas

    missing = labels.isin(MISSING)
    numbers = pandas.to_numeric(labels[~missing].drop_duplicates(), errors="coerce").notna()
    return missing if len(numbers) > 1 and numbers.all() else labels == ""


def _files(folder: Path, names: Iterable[str]) -> tuple[list[Path | None], list[bool]]:
    """Return the path of each name, or None, and whether several files have the name.

    A name may lack the ending of its file.
    """
    paths = [path if (path := folder / name).is_file() else None for name in names]
    stems: dict[str, list[Path]] = {}
    if None in paths and folder.is_dir():
        images = (
            image for image in folder_parts.visible_entries(folder) if image.suffix not in NOTES
        )
        for image in filter(Path.is_file, images):
            stems.setdefault(image.stem, []).append(image)
    matches = [
        [path] if path else stems.get(name, []) for path, name in zip(paths, names, strict=True)
    ]
    files = [next(iter(candidates), None) for candidates in matches]
    return files, [len(candidates) > 1 for candidates in matches]
