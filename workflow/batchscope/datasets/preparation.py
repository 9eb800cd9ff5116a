"""Prepare a data set: read it, divide it into parts, and write its folder below `results/data`.

Features and targets are standardised by the training part alone, because training must not use
other parts. The record of the data set has the fitted numbers.
"""

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchscope.core import disk, display
from batchscope.core.errors import UserError, unexpected
from batchscope.datasets import splits
from batchscope.datasets.source import DataSource, Raw, Request
from batchscope.store import paths, records
from batchscope.store.paths import ARRAYS, RECORD
from batchscope.study import dataset_definitions, names, tasks

SKIPPED_LISTED = 100  # largest number of skipped files that a record lists
_BLOCK_ROWS = 1024  # number of images that are copied at once


class DividedData(NamedTuple):
    """A data set in memory, divided into parts.

    Attributes:
        parts: Map of a part to the array that contains its examples, and the rows of the part in
            this array.
        labels: Labels of each part, as in `Raw`.
        record: Entries of the record.
    """

    raw: Raw
    parts: dict[str, tuple[np.ndarray, np.ndarray]]
    labels: dict[str, np.ndarray]
    record: dict[str, Any]


def prepare(token: str, definition: dict[str, Any], results: Path | str) -> list[str]:
    """Read or download a data set, split it and write its folder; return warnings.

    The complete folder replaces an older one. Downloads are kept in `results/downloads`.
    """
    place = f"datasets.{names.split_token(token)[0]}"
    source = dataset_definitions.read(definition)
    folder = paths.dataset_folder(results, token)
    try:
        with disk.atomic_folder(folder) as scratch:
            request = Request(place, scratch, Path(results) / "downloads")
            record = {
                "dataset": token,
                "definition": source.resolved(),
                **_write_arrays(source, request),
            }
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


def divide(source: DataSource, request: Request) -> DividedData:
    """Read a data set and divide it.

    Raises:
        UserError: If it cannot be prepared.
    """
    raw = source.read(request)
    groups, class_counts = [np.arange(len(raw.labels))], {}
    # Tokens have a class per position, so that an example has no single class.
    has_classes = raw.task == tasks.CLASSIFICATION and raw.kind != tasks.TOKENS
    if raw.stratified and has_classes:
        groups = [np.flatnonzero(raw.labels == label) for label in range(len(raw.class_names))]
    drawn = [part for part in paths.SPLITS[1:] if part not in raw.fixed_parts]
    assigned = splits.draw_parts(request.place, groups, source.shares(), drawn)
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
    features = {}
    if raw.kind == tasks.SEQUENCES:
        tokens = (int(array[rows].max()) for array, rows in parts.values())
        features = {"largest_token": max(tokens)}
    if raw.kind == tasks.ROWS:
        import pandas

        frames = {part: pandas.DataFrame(rows).iloc[at] for part, (rows, at) in parts.items()}
        transformer = fit_features(request.place, frames["train"])
        with np.errstate(over="ignore"):
            for part, frame in frames.items():
                array = transformer.transform(frame).astype(np.float32)
                parts[part] = array, np.arange(len(array))
        features = features_record(transformer)
    record = {
        "classes": len(raw.class_names),
        "class_names": raw.class_names,
        "input_shape": list(parts["train"][0].shape[1:]),
        **({} if raw.kind == tasks.IMAGES else {"kind": raw.kind}),
        **features,
        **_task_record(raw.task, labels),
        "counts": {part: len(labels[part]) for part in paths.SPLITS},
        "class_counts": class_counts,
    }
    return DividedData(raw, parts, labels, record)


def fit_features(place: str, train: Any) -> Any:
    """Return a `ColumnTransformer` that is fitted on the training part.

    A missing number becomes the median, and every number is standardised. A column of words becomes
    one feature of 0 and 1 for each word of the training part. A missing or new word gives zeros.

    Args:
        place: Place of the data set, for errors.
        train: Data frame of numbers and words, which can have missing values.
    """
    from pandas.api.types import is_numeric_dtype
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    are_numbers = train.dtypes.map(is_numeric_dtype)
    for name in train.columns[are_numbers & train.isna().all()]:
        received = f"no value of {name} to train on"
        raise unexpected(place, received, "at least one", "`ignore` leaves it out")
    steps = []
    # Adjacent columns of one type share a step, so the features keep the order of the columns.
    for is_number, group in itertools.groupby(train, are_numbers.get):
        columns = list(group)
        step: Any = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
        if not is_number:
            step = OneHotEncoder(
                categories=[np.sort(train[name].dropna().unique()) for name in columns],
                feature_name_combiner=lambda name, word: f"{name}={word}",
                handle_unknown="ignore",
                sparse_output=False,
            )
        steps.append((str(columns[0]), step, columns))
    return ColumnTransformer(steps, verbose_feature_names_out=False).fit(train)


def features_record(transformer: Any) -> dict[str, Any]:
    """Return the numbers of a fitted transformer, with the names of the features of a table.

    A feature is (column - mean) / deviation; the features of words have mean 0 and deviation 1.
    """
    means: list[float] = []
    deviations: list[float] = []
    medians: dict[str, float] = {}
    categories: dict[str, list[str]] = {}
    for _, step, columns in transformer.transformers_:
        if hasattr(step, "categories_"):
            words = [values.tolist() for values in step.categories_]
            categories |= dict(zip(columns, words, strict=True))
            means += [0.0] * sum(map(len, words))
            deviations += [1.0] * sum(map(len, words))
        else:
            imputer, scaler = step
            medians |= dict(zip(columns, imputer.statistics_.tolist(), strict=True))
            means += scaler.mean_.tolist()
            deviations += scaler.scale_.tolist()
    record: dict[str, Any] = {"feature_means": means, "feature_deviations": deviations}
    if hasattr(transformer, "feature_names_in_"):  # The columns of an array have numbers.
        names = transformer.get_feature_names_out().tolist()
        record |= {"feature_names": names, "feature_medians": medians, "categories": categories}
    return record


def _task_record(task: str, labels: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the entries of a record about the task; {} for a classification.

    A regression has the mean and the standard deviation of each target in the training part.
    """
    if task == tasks.CLASSIFICATION:
        return {}
    record: dict[str, Any] = {"task": task}
    if task == tasks.REGRESSION:
        deviation = labels["train"].std(axis=0)
        record["target_means"] = labels["train"].mean(axis=0).tolist()
        record["target_deviations"] = np.where(deviation > 0, deviation, 1.0).tolist()
    return {**record, "baselines": baselines(task, labels)}


def baselines(task: str, labels: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return the metrics of the best constant prediction on validation and test.

    A regression predicts the training mean of each target. A multi-label task predicts the set of
    labels with the best micro-F1 on the training part.
    """
    from sklearn import metrics

    def score(metric: Callable[..., float], part: str, constant: np.ndarray) -> float:
        return float(metric(labels[part], np.broadcast_to(constant, labels[part].shape)))

    if task == tasks.MULTI_LABEL:
        f1 = functools.partial(metrics.f1_score, average="micro", zero_division=0.0)
        rank = np.argsort(np.argsort(-labels["train"].sum(axis=0), kind="stable"))
        most_frequent = [(rank < count).astype(int) for count in range(1, len(rank) + 1)]
        constant = max(most_frequent, key=functools.partial(score, f1, "train"))
        scores = {"f1": f1}
    else:
        constant = labels["train"].mean(axis=0)
        scores = {
            "r2": metrics.r2_score,
            "mse": metrics.mean_squared_error,
            "mae": metrics.mean_absolute_error,
        }
    return {
        part: {name: score(metric, part, constant) for name, metric in scores.items()}
        for part in ("validation", "test")
    }


def _write_arrays(source: DataSource, request: Request) -> dict[str, Any]:
    """Write the arrays of a data set; return the entries of its record."""
    raw, parts, labels, record = divide(source, request)
    total = 0
    for part in paths.SPLITS:
        part_labels = labels[part]
        if "target_means" in record:
            centred = part_labels - np.array(record["target_means"])
            part_labels = (centred / np.array(record["target_deviations"])).astype(np.float32)
        np.save(request.scratch / f"{part}_labels.npy", part_labels)
        total += _write_images(request.scratch / f"{part}_images.npy", *parts[part])
    skipped = [
        {key: display.printable(text) for key, text in entry.items()}
        for entry in raw.skipped[:SKIPPED_LISTED]
    ]
    return {
        "scale": float(getattr(source, "scale", None) or source.default_scale(raw)),
        **record,
        "source": getattr(source, "path", None) or raw.origin,
        "source_sha256": {
            display.printable(path.name): disk.file_sha256(path) for path in raw.files
        },
        "split_seed": source.shares().get("seed", 0),
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
