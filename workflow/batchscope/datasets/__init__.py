"""Data sets on disk: read or download them, check, split and load them.

No model is built here and nothing trained.

`prepare` makes one folder per data set, whose name carries the digest of its definition, and
`load` maps its arrays into memory. The keys of a definition are those of a data set in
`workflow/schemas/config.schema.yaml`; its `source` is one of `SOURCES`. What it leaves out has the
default of `batchscope.catalogue.dataset_definitions`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from batchscope import disk
from batchscope.catalogue import dataset_definitions, run_names
from batchscope.datasets import (
    arrays,
    checksums,
    csv_file,
    looks,
    own_arrays,
    patches,
    photographs,
    rows,
    splits,
    tokens,
)
from batchscope.datasets.raw import Images, Raw, Request
from batchscope.errors import UserError
from batchscope.store import data_warnings, records

# A new source is one function and one line here.
SOURCES: dict[str, Callable[[Request], Raw]] = {
    "digits": arrays.digits,
    "mnist": arrays.mnist,
    "cats_vs_dogs": photographs.cats_vs_dogs,
    "image_folder": photographs.image_folder,
    "npz": own_arrays.npz,
    "csv": csv_file.csv_file,
    "breast_cancer": rows.breast_cancer,
    "wine": rows.wine,
    "text": tokens.text,
    "patches": patches.patches,
}

_NEEDED = ("scale", "classes", "input_shape", "counts", "sha256")  # of a record
SKIPPED_LISTED = 100  # skipped files named in a record; all are counted
_ROWS = 1024  # images copied at once
_STALE = 24 * 3600.0  # seconds after which a killed process's scratch folder is removed


@dataclass(frozen=True, eq=False)
class Examples:
    """What is trained on, or evaluated: arrays, in memory or mapped from disk, or tensors."""

    images: Any  # shape (n, *input_shape), any dtype; tokens are int32
    labels: Any  # classes, shape (n,), or (n, length) where each position has one
    scale: float  # factor that turns the images into what a network sees

    def rows(self, chosen: np.ndarray) -> Examples:
        """Returns copies of the chosen examples, by their indices."""
        return Examples(self.images[chosen], self.labels[chosen], self.scale)


@dataclass(frozen=True)
class Dataset:
    """A prepared data set; its arrays are mapped from disk when they are asked for."""

    folder: Path
    record: dict[str, Any]

    @cached_property
    def scale(self) -> float:
        """Factor that turns stored images into what a network sees."""
        return float(self.record["scale"])

    @cached_property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.record["classes"])

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """Height, width, channels of images; features of rows; length of sequences of tokens."""
        return tuple(self.record["input_shape"])

    @cached_property
    def kind(self) -> str:
        """What its examples are, of `dataset_definitions.KINDS`."""
        return self.record.get("kind", dataset_definitions.IMAGES)

    @property
    def look(self) -> looks.Look:
        """What a model is built for; without the largest token of sequences, which `look` finds."""
        return looks.Look(self.input_shape, self.classes, self.kind)

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the labels of an example: () for one, (length,) for one of each position."""
        return self.input_shape if self.kind == dataset_definitions.TOKENS else ()

    def examples(self, split: str) -> Examples:
        """Returns a split as it is trained on."""
        return Examples(self.images(split), self.labels(split), self.scale)

    def images(self, split: str) -> np.ndarray:
        """Returns the examples of a split, shape (n, *input_shape), read-only."""
        return self._array(split, "images", self.input_shape)

    def labels(self, split: str) -> np.ndarray:
        """Returns classes of a split, int32 of shape (n, *label_shape), read-only."""
        return self._array(split, "labels", self.label_shape)

    def _array(self, split: str, what: str, shape: tuple[int, ...]) -> np.ndarray:
        path, count = self.folder / f"{split}_{what}.npy", int(self.record["counts"][split])
        return disk.map_array(path, (count, *shape), delete=self.folder)


def load(results: Path | str, token: str, verify: bool = False) -> Dataset:
    """Returns a prepared data set; raises `UserError` if its files do not fit its record."""
    folder = records.dataset_folder(results, token)
    record = disk.read_json(folder / "record.json", *_NEEDED)
    dataset = Dataset(folder, record)
    for split in records.SPLITS:
        dataset.images(split)
        dataset.labels(split)
    checksums.check(folder, record["sha256"], verify)
    return dataset


def look(results: Path | str, token: str, definition: dict[str, Any]) -> looks.Look | None:
    """Returns what the examples of a data set look like; raises as `load` does.

    Where it is not prepared yet, what its definition and its files' headers state, or None.
    """
    if records.data_record(results, token) is None:
        return looks.known(definition)
    dataset = load(results, token)
    if dataset.kind != dataset_definitions.SEQUENCES:
        return dataset.look
    largest = max(int(dataset.images(split).max()) for split in records.SPLITS)
    return dataset.look._replace(largest=largest)


def prepare(token: str, definition: dict[str, Any], results: Path | str) -> list[str]:
    """Reads or downloads a data set, splits it and writes its folder.

    The arrays are made in a scratch folder beside it; the record is written last, so that a
    folder with a record is whole, whatever dies before.

    Args:
        token: Name of the folder under `results/data`; downloads are kept in `results/downloads`.

    Returns:
        What people should know of it, in sentences.

    Raises:
        UserError: If the source cannot be had or does not hold what it should.
    """
    where = f"datasets.{run_names.split_token(token)[0]}"
    if definition.get("source") not in SOURCES:
        known = ", ".join(SOURCES)
        raise UserError(
            f"{where}.source: received {definition.get('source')!r}; expected one of {known}."
        )
    definition = dataset_definitions.resolve(definition)
    folder = records.dataset_folder(results, token)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(folder)
    scratch = Path(tempfile.mkdtemp(prefix=f".{token}.", suffix=".tmp", dir=folder.parent))
    try:
        request = Request(where, definition, scratch, Path(results) / "downloads")
        raw = SOURCES[definition["source"]](request)
        record = _write_splits(request, raw)
        again = _publish(scratch, folder, {"dataset": token, "definition": definition, **record})
    except OSError as error:
        place = f" {error.filename}" if error.filename else ""
        raise UserError(f"{where}: {error.strerror or error}{place}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    found = data_warnings.read(results, token)
    runs = list((Path(results) / "runs").glob(f"{token}+*"))
    if again and runs:
        found.append(
            f"{where}: its arrays are no longer those that {len(runs)} run(s) in "
            f"{results}/runs may have read; delete {results}/runs/{token}+* to train them again."
        )
    return found


def _remove_stale(folder: Path) -> None:
    for scratch in folder.parent.glob(f".{folder.name}.*.tmp"):
        if time.time() - scratch.stat().st_mtime > _STALE:
            shutil.rmtree(scratch, ignore_errors=True)


def _write_splits(request: Request, raw: Raw) -> dict[str, Any]:
    sequences = raw.kind == dataset_definitions.TOKENS
    drawn = splits.assign(
        request.where,
        # Sequences have no class by which they could be drawn.
        np.zeros(len(raw.labels), np.int32) if sequences else raw.labels,
        1 if sequences else len(raw.class_names),
        request.split,
        [part for part in splits.PARTS[1:] if part not in raw.given],
        raw.stratified and not sequences,
    )
    chosen = {part: (raw.images, raw.labels, picked) for part, picked in drawn.items()}
    chosen |= {part: (*arrays, None) for part, arrays in raw.given.items()}
    standard = {}
    if raw.kind == dataset_definitions.ROWS:
        mean, deviation = rows.moments(raw.images[drawn["train"]])
        standard = {"feature_means": mean.tolist(), "feature_deviations": deviation.tolist()}
        chosen = {
            split: (rows.standardised(examples, mean, deviation), labels, picked)
            for split, (examples, labels, picked) in chosen.items()
        }
    scale = request.definition.get("scale")
    if scale is None:
        scale = raw.scale or (1 / 255 if raw.images.dtype == np.uint8 else 1.0)
    counts, class_counts, total = {}, {}, 0
    for split in records.SPLITS:
        images, labels, picked = chosen[split]
        labels = labels if picked is None else labels[picked]
        counts[split] = len(labels)
        if not sequences:
            class_counts[split] = np.bincount(labels, minlength=len(raw.class_names)).tolist()
        np.save(request.scratch / f"{split}_labels.npy", labels.astype(np.int32))
        total += _write_images(request.scratch / f"{split}_images.npy", images, picked)
    return {
        "scale": float(scale),
        "classes": len(raw.class_names),
        "class_names": list(raw.class_names),
        "input_shape": list(raw.images.shape[1:]),
        **({} if raw.kind == dataset_definitions.IMAGES else {"kind": raw.kind}),
        **standard,
        "counts": counts,
        "class_counts": class_counts,
        "source": raw.source,
        "source_sha256": raw.source_sha256,
        "split_seed": request.split_seed,
        "skipped": raw.skipped[:SKIPPED_LISTED],
        "skipped_count": len(raw.skipped),
        "bytes": total,
    }


def _write_images(path: Path, images: Images, rows: np.ndarray | None) -> int:
    """Writes chosen images (or all), a part at a time; returns their bytes.

    Plain writes, not a map of the file: a full disk is then an error, not a signal.
    """
    rows = np.arange(len(images)) if rows is None else rows
    descr, shape = np.lib.format.dtype_to_descr(images.dtype), (len(rows), *images.shape[1:])
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        parts = (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))
        return sum(file.write(np.ascontiguousarray(images[part]).data) for part in parts)


def _publish(scratch: Path, folder: Path, record: dict[str, Any]) -> bool:
    """Moves the arrays to their folder; returns whether others were there before."""
    files = [f"{split}_{what}.npy" for split in records.SPLITS for what in ("images", "labels")]
    sha256 = record["sha256"] = {file: disk.file_sha256(scratch / file) for file in files}
    folder.mkdir(exist_ok=True)
    before = [file for file in files if (folder / file).exists()]
    others = any(disk.file_sha256(folder / file) != sha256[file] for file in before)
    (folder / "record.json").unlink(missing_ok=True)
    for file in files:
        with disk.atomic_path(folder / file) as target:
            (scratch / file).replace(target)
    checksums.note(folder, sha256)
    disk.write_json(folder / "record.json", record)
    return others
