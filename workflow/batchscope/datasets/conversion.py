"""Check the examples and labels of a source, and convert them to the types of their kind and task.

`kind_of_arrays` and `label_examples` decide kind and task if the definition does not. A new task is
a branch of `label_examples`, with its constant prediction in `preparation.baselines`.
"""

import numpy as np

from batchscope.core import display
from batchscope.core.errors import unexpected
from batchscope.datasets.source import Pair
from batchscope.study import tasks
from batchscope.study.tasks import IMAGES, ROWS, SEQUENCES, TOKENS

MAX_NUMBER = float(np.finfo(np.float32).max)  # Networks train in float32.
# Above this token, float32 does not distinguish neighbours.
_MAX_TOKEN = 2**24 - 1
_EXPECTED_LABEL = "a whole number, a word or a one-hot row"
# Whole numbers may be quantities if they have more than _MAX_CLASSES different values, or more than
# _MAX_DISTINCT if most rows differ.
_MAX_CLASSES, _MAX_DISTINCT = 100, 10

# Map of a part to the place of its labels, for errors, and its labels or None.
Labels = dict[str, tuple[str, np.ndarray | None]]


def kind_of_arrays(
    shape: tuple[int, ...],
    letter: str,
    label_shape: tuple[int, ...] | None,
    explicit_kind: str | None,
) -> str | None:
    """Return the kind of examples by their array and their labels; None if no kind fits.

    Args:
        shape: Shape of the examples, (n, ...).
        letter: NumPy's letter for the kind of their numbers: `f` for floats, `i` and `u` for
            integers.
        label_shape: Shape of the labels; None without labels.
        explicit_kind: Kind in the definition, or None.
    """
    kind_of_vectors = {"i": TOKENS, "u": TOKENS, "f": ROWS}.get(letter)
    kind = explicit_kind or {2: kind_of_vectors, 3: IMAGES, 4: IMAGES}.get(len(shape))
    # If sequences have one token, a label per sequence is a label per position.
    has_label_per_example = label_shape != shape and label_shape in (shape[:1], (*shape[:1], 1))
    return SEQUENCES if kind == TOKENS and has_label_per_example else kind


def convert_examples(kind: str, place: str, examples: np.ndarray) -> np.ndarray:
    """Check examples and return them in the type of their kind.

    Images get an axis of channels, as uint8 or float32. Rows become float64, not yet standardised.
    Tokens become int32.

    Raises:
        UserError: If shape, type or values do not fit the kind.
    """
    dimensions, shape = {
        IMAGES: ((3, 4), "(n, height, width[, channels])"),
        ROWS: ((2,), "(n, features)"),
    }.get(kind, ((2,), "(n, length)"))
    if examples.ndim not in dimensions or 0 in examples.shape:
        raise unexpected(place, f"shape {examples.shape}", shape)
    if kind == IMAGES:
        return _convert_images(place, examples[..., None] if examples.ndim == 3 else examples)
    letters, expected = ("uifb", "numbers") if kind == ROWS else ("ui", "whole numbers")
    if examples.dtype.kind not in letters:
        raise unexpected(place, str(examples.dtype), f"an array of {expected}")
    if kind == ROWS:
        expected, examples = f"a finite number up to {MAX_NUMBER:.2g}", examples.astype(np.float64)
        _check_values(place, examples, np.abs(examples) <= MAX_NUMBER, expected)
        return examples
    is_token = (examples >= 0) & (examples <= _MAX_TOKEN)
    _check_values(place, examples, is_token, f"a token from 0 to {_MAX_TOKEN}")
    return examples.astype(np.int32)


def _convert_images(place: str, images: np.ndarray) -> np.ndarray:
    if images.dtype.kind == "f":
        with np.errstate(over="ignore"):
            floats = images.astype(np.float32, copy=False)
        if not np.isfinite([floats.min(), floats.max()]).all():
            received = "NaN, infinity or a number beyond float32"
            raise unexpected(place, received, "a finite number of each pixel")
        return floats
    if images.dtype.kind not in "ui":
        raise unexpected(place, str(images.dtype), "an array of bytes or floats")
    if images.min() < 0 or images.max() > 255:
        received = f"integers {images.min()} to {images.max()}"
        raise unexpected(place, received, "an array of bytes from 0 to 255, or of floats,")
    return images.astype(np.uint8, copy=False)


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
            pairs[part] = tokens, convert_examples(TOKENS, place, labels)
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
    if labels.dtype.kind not in "uif":
        return tasks.CLASSIFICATION
    finite = labels[np.isfinite(labels)]
    if (finite != np.floor(finite)).any():
        return tasks.REGRESSION
    if finite.size < labels.size:
        return tasks.CLASSIFICATION
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
        _check_values(place, labels, values[index] == labels, "a class of the training part")
        classes[part] = index.astype(np.int32)
    return classes, [display.printable(str(value)) for value in values.tolist()]


def _flat_labels(place: str, labels: np.ndarray) -> np.ndarray:
    """Return labels of shape (n,): integers or words."""
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "backslashreplace")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    dimensions = 1 if labels.dtype.kind == "U" else 2
    if labels.ndim > dimensions or labels.dtype.kind not in "uifbU":
        raise unexpected(place, f"{labels.dtype} labels of shape {labels.shape}", _EXPECTED_LABEL)
    if labels.dtype.kind == "U":
        _check_values(place, labels, np.char.strip(labels) != "", "a word")
        return labels
    if labels.ndim == 2:
        one_hot = ((labels == 0) | (labels == 1)).all(axis=1) & (labels.sum(axis=1) == 1)
        _check_values(place, labels, one_hot, _EXPECTED_LABEL)
        return labels.argmax(axis=1)
    with np.errstate(invalid="ignore"):
        integers = labels.astype(np.int64)
    _check_values(place, labels, integers == labels, _EXPECTED_LABEL)
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
        is_valid = np.abs(labels.astype(np.float64)) <= MAX_NUMBER  # In float16 it is infinite.
        expected, dtype = f"a number up to {MAX_NUMBER:.2g}", np.float64
        if task == tasks.MULTI_LABEL:
            is_valid, expected, dtype = np.isin(labels, (0, 1)), "0 or 1", np.int32
        _check_values(place, labels, is_valid, expected)
        numbers[part] = labels.reshape(len(labels), -1).astype(dtype)
        if numbers[part].shape[1:] != (shape := numbers["train"].shape[1:]):
            received = f"labels of shape {labels.shape}"
            raise unexpected(place, received, f"(n, {shape[0]}), as in the training part,")
    if (numbers["train"] == numbers["train"][0]).all():
        raise unexpected(part_labels["train"][0], "one value", "more than one")
    return numbers, [str(output) for output in range(numbers["train"].shape[1])]


def _check_values(place: str, values: np.ndarray, is_valid: np.ndarray, expected: str) -> None:
    """Raise a `UserError` with the first invalid value, its row and, if any, its column."""
    if not is_valid.all():
        row, *column = np.argwhere(~is_valid)[0].tolist()
        location = f"row {row}" + "".join(f", column {index}" for index in column)
        value = repr(values[(row, *column)].tolist())[:100]
        raise unexpected(place, f"{value} in {location}", expected)
