"""Convert the labels of a source to the labels of a task, and describe them for the record.

`label_examples` returns classes, tokens, numbers to predict, or several labels. A new task is a
branch of it, with its constant prediction in `baselines`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from batchscope.core import display
from batchscope.core.errors import unexpected
from batchscope.datasets import kind_checks
from batchscope.datasets.raw import Pair, Raw
from batchscope.study import tasks
from batchscope.study.example_kinds import ROWS, TOKENS

_EXPECTED_LABEL = "a whole number, a word or a one-hot row"
# Whole numbers may be quantities if they have more than _MAX_CLASSES different values, or more than
# _MAX_DISTINCT if most rows differ.
_MAX_CLASSES, _MAX_DISTINCT = 100, 10

# Map of a part to the place of its labels, for errors, and its labels or None.
Labels = dict[str, tuple[str, np.ndarray | None]]


def label_examples(
    place: str, kind: str, task: str | None, examples: dict[str, np.ndarray], part_labels: Labels
) -> tuple[dict[str, Pair], list[str], str]:
    """Return examples with their labels by part, the names of the outputs, and the task.

    Args:
        place: Place of the data set, for errors.
        kind: Kind of the examples, one of `example_kinds.KINDS`.
        task: Task in the definition; None if the labels decide.
    """
    if kind == TOKENS:
        if task not in (None, tasks.CLASSIFICATION):
            raise unexpected(f"{place}.task", f"{task} for {kind}", "classification")
        return (*_token_labels(examples, part_labels), tasks.CLASSIFICATION)
    for part, (part_place, labels) in part_labels.items():
        count = len(examples[part])
        if labels is None or labels.shape[:1] != (count,):
            received = "nothing" if labels is None else f"labels of shape {labels.shape}"
            raise unexpected(part_place, received, f"a label of each of {count} examples")
    task = task or _task_of_labels(*part_labels["train"], may_be_quantities=kind == ROWS)
    if task == tasks.CLASSIFICATION:
        converted, names = _class_numbers(part_labels)
    else:
        converted, names = _numeric_labels(part_labels, task)
    return {part: (examples[part], labels) for part, labels in converted.items()}, names, task


def _token_labels(
    examples: dict[str, np.ndarray], part_labels: Labels
) -> tuple[dict[str, Pair], list[str]]:
    """Return tokens with a label per position by part, and the names of the classes, the tokens.

    Without labels, each position predicts the next token, so the last token is only a label.
    """
    pairs = {}
    for part, (place, labels) in part_labels.items():
        tokens = examples[part]
        if labels is None and tokens.shape[1] > 1:
            pairs[part] = tokens[:, :-1], tokens[:, 1:]
        elif labels is not None and labels.shape == tokens.shape:
            pairs[part] = tokens, kind_checks.convert_examples(TOKENS, place, labels)
        else:
            shape = "none" if labels is None else f"labels of shape {labels.shape}"
            expected = "one of each position, one of each sequence, none at all, or `kind: rows`"
            raise unexpected(place, f"{shape} for tokens of shape {tokens.shape}", expected)
    largest = max(int(array.max()) for pair in pairs.values() for array in pair)
    if largest == 0:
        raise unexpected(part_labels["train"][0], "one token", "more than one")
    return pairs, [str(token) for token in range(largest + 1)]


def _task_of_labels(place: str, labels: np.ndarray, may_be_quantities: bool) -> str:
    """Return the task that the labels show: regression if some are not whole numbers.

    Raises:
        UserError: If there are many different whole numbers, which need an explicit task.
    """
    if labels.dtype.kind not in "uif" or not np.isfinite(labels).all():
        return tasks.CLASSIFICATION
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        return tasks.REGRESSION
    distinct, count = len(np.unique(labels)), len(labels)
    if may_be_quantities and (distinct > _MAX_CLASSES or distinct > max(_MAX_DISTINCT, count / 2)):
        received = f"{distinct} different whole numbers in {count} rows, and no task"
        raise unexpected(place, received, "`task: regression` or `task: classification`")
    return tasks.CLASSIFICATION


def _class_numbers(part_labels: Labels) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the classes 0, 1, 2, ... of each part as int32, and the names of the classes.

    Labels are words, any whole numbers, or one-hot rows: shape (n,), (n, 1), or (n, classes). The
    labels of `train` are the classes, in the order of their values.
    """
    flat_labels = {part: _flat_labels(*labels) for part, labels in part_labels.items()}
    values = np.unique(flat_labels["train"])
    if len(values) < 2:
        raise unexpected(part_labels["train"][0], "one class", "more than one")
    # Single letters may be classes in both cases.
    plain = [str(value).strip().casefold() if len(str(value)) > 1 else value for value in values]
    respelled = [
        repr(str(name)) for name, key in zip(values, plain, strict=True) if plain.count(key) > 1
    ]
    if respelled:
        received = display.listed(respelled)
        raise unexpected(part_labels["train"][0], received, "one spelling of each class")
    classes = {}
    for part, labels in flat_labels.items():
        place = part_labels[part][0]
        if labels.dtype.kind != values.dtype.kind:
            received = f"{labels.dtype} labels, but {values.dtype} ones to train on"
            raise unexpected(place, received, "one type")
        index = np.minimum(np.searchsorted(values, labels), len(values) - 1)
        expected = "a class of the training part"
        kind_checks.check_values(place, labels, values[index] == labels, expected)
        classes[part] = index.astype(np.int32)
    return classes, [display.printable(str(value)) for value in values.tolist()]


def _flat_labels(place: str, labels: np.ndarray) -> np.ndarray:
    """Return labels of shape (n,): integers or words."""
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    dimensions = 1 if labels.dtype.kind == "U" else 2
    if labels.ndim > dimensions or labels.dtype.kind not in "uifbU":
        raise unexpected(place, f"{labels.dtype} labels of shape {labels.shape}", _EXPECTED_LABEL)
    if labels.dtype.kind == "U":
        kind_checks.check_values(place, labels, np.char.strip(labels) != "", "a word")
        return labels
    if labels.ndim == 2:
        one_hot = ((labels == 0) | (labels == 1)).all(axis=1) & (labels.sum(axis=1) == 1)
        kind_checks.check_values(place, labels, one_hot, _EXPECTED_LABEL)
        return labels.argmax(axis=1)
    with np.errstate(invalid="ignore"):
        integers = labels.astype(np.int64)
    kind_checks.check_values(place, labels, integers == labels, _EXPECTED_LABEL)
    return integers


def _numeric_labels(part_labels: Labels, task: str) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the numbers to predict (float64) or several labels (int32), and the outputs' names.

    Both have the shape (n, outputs).
    """
    numbers: dict[str, np.ndarray] = {}
    for part, (place, labels) in part_labels.items():
        if labels.dtype.kind not in "uifb" or labels.ndim > 2:
            received = f"{labels.dtype} labels of shape {labels.shape}"
            raise unexpected(place, received, "numbers of shape (n,) or (n, outputs)")
        is_valid = np.abs(labels) <= kind_checks.MAX_NUMBER
        expected = f"a number up to {kind_checks.MAX_NUMBER:.2g}"
        if task == tasks.MULTI_LABEL:
            is_valid, expected = np.isin(labels, (0, 1)), "0 or 1"
        kind_checks.check_values(place, labels, is_valid, expected)
        dtype = np.int32 if task == tasks.MULTI_LABEL else np.float64
        numbers[part] = labels.reshape(len(labels), -1).astype(dtype)
        if numbers[part].shape[1:] != (shape := numbers["train"].shape[1:]):
            received = f"labels of shape {labels.shape}"
            raise unexpected(place, received, f"(n, {shape[0]}), as in the training part,")
    if (numbers["train"] == numbers["train"][0]).all():
        raise unexpected(part_labels["train"][0], "one value", "more than one")
    return numbers, [str(output) for output in range(numbers["train"].shape[1])]


def training_labels(labels: np.ndarray, record: dict[str, Any]) -> np.ndarray:
    """Return the labels to train on. The targets of a regression are standardised, float32."""
    if "target_means" not in record:
        return labels
    centred = labels - np.array(record["target_means"])
    return (centred / np.array(record["target_deviations"])).astype(np.float32)


def task_record(raw: Raw, parts: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the entries of a data set's record about its task; {} for a classification.

    A regression has the mean and the standard deviation of each target in the training part.
    """
    if raw.task == tasks.CLASSIFICATION:
        return {}
    moments = {}
    if raw.task == tasks.REGRESSION:
        deviation = parts["train"].std(axis=0)
        moments = {
            "target_means": parts["train"].mean(axis=0).tolist(),
            "target_deviations": np.where(deviation > 0, deviation, 1.0).tolist(),
        }
    return {"task": raw.task, **moments, "baselines": baselines(raw.task, parts)}


def baselines(task: str, parts: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return the metrics of the best constant prediction on validation and test.

    A regression predicts the training mean of each target. A multi-label task predicts the set of
    labels with the best micro-F1 on the training part.
    """
    from sklearn import metrics

    def score(metric: Callable[..., float], part: str, constant: np.ndarray) -> float:
        return float(metric(parts[part], np.broadcast_to(constant, parts[part].shape)))

    train = parts["train"]
    if task == tasks.MULTI_LABEL:
        f1 = functools.partial(metrics.f1_score, average="micro", zero_division=0.0)
        rank = np.argsort(np.argsort(-train.sum(axis=0), kind="stable"))
        most_frequent = [(rank < count).astype(int) for count in range(1, len(rank) + 1)]
        constant = max(most_frequent, key=functools.partial(score, f1, "train"))
        scores = {"f1": f1}
    else:
        constant = train.mean(axis=0)
        scores = {
            "r2": metrics.r2_score,
            "mse": metrics.mean_squared_error,
            "mae": metrics.mean_absolute_error,
        }
    return {
        part: {name: score(metric, part, constant) for name, metric in scores.items()}
        for part in ("validation", "test")
    }
