"""Preparation of a data set: read it, split it, write its folder below `results/data`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchscope import disk
from batchscope.datasets import labels as task_labels
from batchscope.datasets import splits, verification
from batchscope.datasets.features import Features
from batchscope.datasets.raw import Raw, Request
from batchscope.errors import UserError, unexpected
from batchscope.store import paths, records
from batchscope.store.paths import ARRAYS, RECORD
from batchscope.study import dataset_definitions, example_kinds, names, tasks

SKIPPED_LISTED = 100  # largest number of skipped files in a record; all are counted
_ROWS = 1024  # images that are copied at once


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
            record = {"dataset": token, "definition": definition, **_write(request)}
            sha256 = record["sha256"] = {file: disk.file_sha256(scratch / file) for file in ARRAYS}
            before = [file for file in ARRAYS if (folder / file).exists()]
            has_changed = any(disk.file_sha256(folder / file) != sha256[file] for file in before)
            verification.note(scratch, sha256)
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


class Divided(NamedTuple):
    """A data set in memory, divided into parts."""

    raw: Raw
    parts: dict[str, tuple[np.ndarray, np.ndarray]]  # array that contains the part, and its rows
    labels: dict[str, np.ndarray]  # labels of the rows, as in `Raw`
    features: Features | None  # None unless the examples are rows
    record: dict[str, Any]  # entries of its record


def divided(request: Request) -> Divided:
    """Read a data set and divide it.

    Raises:
        UserError: If it cannot be prepared.
    """
    raw = dataset_definitions.read(request.definition).read(request)
    groups, class_counts = [np.arange(len(raw.labels))], {}
    # Tokens have a class per position.
    has_classes = raw.task == tasks.CLASSIFICATION and raw.kind != example_kinds.TOKENS
    if raw.stratified and has_classes:
        groups = [np.flatnonzero(raw.labels == label) for label in range(len(raw.class_names))]
    drawn = [part for part in paths.SPLITS[1:] if part not in raw.fixed_parts]
    assigned = splits.assign(request.place, groups, request.split, drawn)
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
    features = None
    if raw.kind == example_kinds.ROWS:
        # Features are fitted on the training part, because training must not use the others.
        features = Features(request.place, raw.images[assigned["train"]], raw.columns)
    record = {
        "classes": len(raw.class_names),
        "class_names": raw.class_names,
        "input_shape": [features.count] if features else list(raw.images.shape[1:]),
        **({} if raw.kind == example_kinds.IMAGES else {"kind": raw.kind}),
        **(features.record() if features else {}),
        **task_labels.record(raw, labels),
        "counts": {part: len(labels[part]) for part in paths.SPLITS},
        "class_counts": class_counts,
    }
    return Divided(raw, parts, labels, features, record)


def _write(request: Request) -> dict[str, Any]:
    raw, parts, labels, features, record = divided(request)
    total, stored = 0, features.transform if features else np.asarray
    for part in paths.SPLITS:
        np.save(request.scratch / f"{part}_labels.npy", task_labels.stored(labels[part], record))
        total += _write_images(request.scratch / f"{part}_images.npy", *parts[part], stored)
    return {
        "scale": float(request.definition.get("scale") or raw.usual_scale),
        **record,
        "source": request.definition.get("path") or raw.origin,
        "source_sha256": {path.name: disk.file_sha256(path) for path in raw.files},
        "split_seed": request.split.get("seed", 0),
        "skipped": raw.skipped[:SKIPPED_LISTED],
        "skipped_count": len(raw.skipped),
        "bytes": total,
    }


def _write_images(
    path: Path, images: np.ndarray, rows: np.ndarray, stored: Callable[[np.ndarray], np.ndarray]
) -> int:
    """Write rows of images in blocks; return their bytes.

    Plain writes turn a full disk into an error. With a memory map it would be a signal.
    """
    like = stored(images[rows[:0]])
    header = {
        "descr": np.lib.format.dtype_to_descr(like.dtype),
        "fortran_order": False,
        "shape": (len(rows), *like.shape[1:]),
    }
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        parts = (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))
        return sum(file.write(np.ascontiguousarray(stored(images[part])).data) for part in parts)
