"""Prepare a data set: read it, divide it into parts, and write its folder below `results/data`."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchscope.core import disk, display
from batchscope.core.errors import UserError, unexpected
from batchscope.datasets import labels as task_labels
from batchscope.datasets import splits
from batchscope.datasets.features import Features
from batchscope.datasets.raw import Raw, Request
from batchscope.datasets.source import DataSource
from batchscope.store import paths, records
from batchscope.store.paths import ARRAYS, RECORD
from batchscope.study import dataset_definitions, example_kinds, names, tasks

SKIPPED_LISTED = 100  # largest number of skipped files that a record lists
_BLOCK_ROWS = 1024  # number of images that are copied at once

# Map of a part to the array that contains its examples, and the rows of the part in this array.
Parts = dict[str, tuple[np.ndarray, np.ndarray]]


def prepare(token: str, definition: dict[str, Any], results: Path | str) -> list[str]:
    """Read or download a data set, split it and write its folder; return warnings.

    The complete folder replaces an older one. Downloads are kept in `results/downloads`.
    """
    place = f"datasets.{names.split_token(token)[0]}"
    definition = dataset_definitions.resolve(definition)
    folder = paths.dataset_folder(results, token)
    try:
        with disk.atomic_folder(folder) as scratch:
            request = Request(place, definition, scratch, Path(results) / "downloads")
            record = {"dataset": token, "definition": definition, **_write_arrays(request)}
            sha256 = record["sha256"] = {file: disk.file_sha256(scratch / file) for file in ARRAYS}
            before = [file for file in ARRAYS if (folder / file).exists()]
            has_changed = any(disk.file_sha256(folder / file) != sha256[file] for file in before)
            disk.write_json(scratch / RECORD, record)
    except OSError as error:
        raise system_error(place, error) from error
    warnings = [*records.data_warnings(token, records.data_record(results, token) or {})]
    runs = list((Path(results) / "runs").glob(f"{token}+*"))
    if has_changed and runs:
        warnings.append(
            f"{place}: its arrays are no longer those that {len(runs)} run(s) in "
            f"{results}/runs may have read; delete {results}/runs/{token}+* to train them again."
        )
    return warnings


def system_error(place: str, error: OSError) -> UserError:
    file = f" {error.filename}" if error.filename else ""
    return UserError(f"{place}: {error.strerror or error}{file}.")


class DividedData(NamedTuple):
    """A data set in memory, divided into parts."""

    source: DataSource
    raw: Raw
    parts: Parts
    labels: dict[str, np.ndarray]  # labels of each part, as in `Raw`
    record: dict[str, Any]  # entries of the record


def divide(request: Request) -> DividedData:
    """Read a data set and divide it.

    Raises:
        UserError: If it cannot be prepared.
    """
    source = dataset_definitions.read(request.definition)
    raw = source.read(request)
    groups, class_counts = [np.arange(len(raw.labels))], {}
    # Tokens have a class per position, so that an example has no single class.
    has_classes = raw.task == tasks.CLASSIFICATION and raw.kind != example_kinds.TOKENS
    if raw.stratified and has_classes:
        groups = [np.flatnonzero(raw.labels == label) for label in range(len(raw.class_names))]
    drawn = [part for part in paths.SPLITS[1:] if part not in raw.fixed_parts]
    assigned = splits.draw_parts(request.place, groups, request.split, drawn)
    parts = {part: (raw.images, rows) for part, rows in assigned.items()}
    labels = {part: raw.labels[rows] for part, rows in assigned.items()}
    for part, (images, part_labels) in raw.fixed_parts.items():
        parts[part], labels[part] = (images, np.arange(len(part_labels))), part_labels
    if has_classes:
        count = len(raw.class_names)
        for part in paths.SPLITS:
            class_counts[part] = np.bincount(labels[part], minlength=count).tolist()
        if 0 in class_counts["train"]:
            name = raw.class_names[class_counts["train"].index(0)]
            raise unexpected(request.place, f"no example of {name} to train on", "at least one")
    features_record = {}
    if raw.kind == example_kinds.ROWS:
        parts, features_record = _standardise_features(request.place, parts)
    record = {
        "classes": len(raw.class_names),
        "class_names": raw.class_names,
        "input_shape": list(parts["train"][0].shape[1:]),
        **({} if raw.kind == example_kinds.IMAGES else {"kind": raw.kind}),
        **features_record,
        **task_labels.task_record(raw, labels),
        "counts": {part: len(labels[part]) for part in paths.SPLITS},
        "class_counts": class_counts,
    }
    return DividedData(source, raw, parts, labels, record)


def _standardise_features(place: str, parts: Parts) -> tuple[Parts, dict[str, Any]]:
    """Return the features of rows by part, and their entries in the record."""
    import pandas

    frames = {part: pandas.DataFrame(rows).iloc[chosen] for part, (rows, chosen) in parts.items()}
    # The features are fitted on the training part, because training must not use other parts.
    features = Features(place, frames["train"])
    arrays = {part: features.transform(frame) for part, frame in frames.items()}
    return {
        part: (array, np.arange(len(array))) for part, array in arrays.items()
    }, features.record()


def _write_arrays(request: Request) -> dict[str, Any]:
    source, raw, parts, labels, record = divide(request)
    total = 0
    for part in paths.SPLITS:
        part_labels = task_labels.training_labels(labels[part], record)
        np.save(request.scratch / f"{part}_labels.npy", part_labels)
        total += _write_images(request.scratch / f"{part}_images.npy", *parts[part])
    skipped = [
        {key: display.printable(text) for key, text in entry.items()}
        for entry in raw.skipped[:SKIPPED_LISTED]
    ]
    return {
        "scale": float(request.definition.get("scale") or source.default_scale(raw)),
        **record,
        "source": request.definition.get("path") or raw.origin,
        "source_sha256": {
            display.printable(path.name): disk.file_sha256(path) for path in raw.files
        },
        "split_seed": request.split.get("seed", 0),
        "skipped": skipped,
        "skipped_count": len(raw.skipped),
        "bytes": total,
    }


def _write_images(path: Path, images: np.ndarray, rows: np.ndarray) -> int:
    """Write rows of images in blocks; return their bytes.

    A full disk is an error of these writes. With a memory map, it would be a signal.
    """
    header = {
        "descr": np.lib.format.dtype_to_descr(images.dtype),
        "fortran_order": False,
        "shape": (len(rows), *images.shape[1:]),
    }
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        blocks = (rows[start : start + _BLOCK_ROWS] for start in range(0, len(rows), _BLOCK_ROWS))
        return sum(file.write(np.ascontiguousarray(images[block]).data) for block in blocks)
