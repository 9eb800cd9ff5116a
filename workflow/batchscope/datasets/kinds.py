"""Check and convert examples (images, rows of numbers, tokens) and their labels."""

import numpy as np

from batchscope import wording
from batchscope.datasets.raw import Pair
from batchscope.errors import raise_problems, unexpected
from batchscope.study import tasks
from batchscope.study.example_kinds import IMAGES, ROWS, TOKENS

# Largest number of a token: beyond it float32 no longer distinguishes neighbours.
LARGEST_TOKEN = 2**24 - 1
# Kind of number -> limit above which two labels may become one class. Floats skip whole numbers
# above it. Classes are sorted as int64.
_LIMITS = {"f": 2**53, "i": 2**63, "u": 2**63}
_LABEL = "a whole number, a word or a one-hot row"
# Labels with more than _MANY different whole numbers may be quantities. If most rows differ, more
# than _FEW suffice.
_MANY, _FEW = 100, 10
_ROWS = 4096  # examples that are checked together, because all may not fit into memory
LARGEST = float(np.finfo(np.float32).max)  # largest number that a network can train on

# Part -> place in the file, for errors, and labels or None.
Labels = dict[str, tuple[str, np.ndarray | None]]


def stored(kind: str, place: str, examples: np.ndarray) -> np.ndarray:
    """Return examples in the type of their kind.

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
        return _images(place, examples[..., None] if examples.ndim == 3 else examples)
    return _rows(place, examples) if kind == ROWS else _tokens(place, examples)


def _images(place: str, images: np.ndarray) -> np.ndarray:
    if images.dtype.kind == "f":
        with np.errstate(over="ignore"):
            floats = images.astype(np.float32, copy=False)
        parts = range(0, len(floats), _ROWS)
        if not all(np.isfinite(floats[start : start + _ROWS]).all() for start in parts):
            received = "NaN, infinity or a number beyond float32"
            raise unexpected(place, received, "a finite number of each pixel")
        return floats
    if images.dtype.kind not in "ui":
        raise unexpected(place, str(images.dtype), "an array of bytes or floats")
    if images.min() < 0 or images.max() > 255:
        received = f"integers {images.min()} to {images.max()}"
        raise unexpected(place, received, "an array of bytes from 0 to 255, or of floats,")
    return images.astype(np.uint8, copy=False)


def _rows(place: str, rows: np.ndarray) -> np.ndarray:
    if rows.dtype.kind not in "uifb":
        raise unexpected(place, str(rows.dtype), "an array of numbers")
    wrong = np.argwhere(~(np.abs(rows) <= LARGEST))
    if len(wrong):
        row, feature = wrong[0]
        received = f"{rows[row, feature]} in row {row}, column {feature}"
        raise unexpected(place, received, f"a finite number up to {LARGEST:.2g}")
    return rows.astype(np.float64)


def _tokens(place: str, tokens: np.ndarray) -> np.ndarray:
    if tokens.dtype.kind not in "ui":
        raise unexpected(place, str(tokens.dtype), "an array of whole numbers")
    wrong = np.argwhere((tokens < 0) | (tokens > LARGEST_TOKEN))
    if len(wrong):
        row, position = wrong[0]
        received = f"{tokens[row, position]} in row {row}, position {position}"
        raise unexpected(place, received, f"a token from 0 to {LARGEST_TOKEN}")
    return tokens.astype(np.int32)


def predicted(
    examples: dict[str, np.ndarray], part_labels: Labels
) -> tuple[dict[str, Pair], list[str]]:
    """Return tokens and the label of each position, and the names of the classes: the tokens.

    Without labels, each position predicts the next token, so the last token is only a label.
    """
    pairs = {}
    for part, (place, labels) in part_labels.items():
        tokens = examples[part]
        if labels is None:
            if tokens.shape[1] < 2:
                received = f"none, for tokens of shape {tokens.shape}"
                raise unexpected(place, received, "a label, or a next token,")
            pairs[part] = tokens[:, :-1], tokens[:, 1:]
            continue
        if labels.shape != tokens.shape:
            received = f"labels of shape {labels.shape} for tokens of shape {tokens.shape}"
            expected = "one of each position, one of each sequence, none at all, or `kind: rows`"
            raise unexpected(place, received, expected)
        pairs[part] = tokens, stored(TOKENS, place, labels)
    largest = max(int(array.max()) for pair in pairs.values() for array in pair)
    if largest == 0:
        raise unexpected(part_labels["train"][0], "one token", "more than one")
    return pairs, [str(token) for token in range(largest + 1)]


def task_of(
    place: str, labels: np.ndarray | None, explicit_task: str | None, quantities: bool
) -> str:
    """Return the task: the explicit one, or regression if some labels are not whole numbers.

    Args:
        quantities: Whether whole numbers may be quantities.

    Raises:
        UserError: If many different whole numbers need an explicit task.
    """
    if explicit_task or labels is None or labels.dtype.kind not in "uif" or not labels.size:
        return explicit_task or tasks.CLASSIFICATION
    if not np.isfinite(labels).all():  # `classified` refuses them
        return tasks.CLASSIFICATION
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        return tasks.REGRESSION
    distinct, count = len(np.unique(labels)), len(labels)
    if quantities and (distinct > _MANY or distinct > max(_FEW, count / 2)):
        received = f"{distinct} different whole numbers in {count} rows, and no task"
        raise unexpected(place, received, "`task: regression` or `task: classification`")
    return tasks.CLASSIFICATION


def classified(
    examples: dict[str, np.ndarray], part_labels: Labels
) -> tuple[dict[str, Pair], list[str]]:
    """Return examples with their classes 0, 1, 2, ... as int32, and the names of the classes.

    Labels are words, any whole numbers, or one-hot rows: shape (n,), (n, 1), or (n, classes). The
    labels of `train` are the classes, in the order of their values.
    """
    plain = {
        part: _plain(place, labels, len(examples[part]))
        for part, (place, labels) in part_labels.items()
    }
    train_place = part_labels["train"][0]
    values, counts = np.unique(plain["train"], return_counts=True)
    if len(values) < 2:
        raise unexpected(train_place, "one class", "more than one")
    if values.dtype.kind == "U":
        _check_spellings(train_place, dict(zip(values.tolist(), counts.tolist(), strict=True)))
    pairs = {}
    for part, labels in plain.items():
        place = part_labels[part][0]
        if labels.dtype.kind != values.dtype.kind:
            received = f"{labels.dtype} labels beside {values.dtype} ones in {train_place}"
            raise unexpected(place, received, "one type")
        index = np.minimum(np.searchsorted(values, labels), len(values) - 1)
        _check(place, labels, values[index] == labels, "a class of the training part")
        pairs[part] = examples[part], index.astype(np.int32)
    return pairs, [str(value) for value in values.tolist()]


def _check_spellings(place: str, counts: dict[str, int]) -> None:
    """Refuse labels that differ only by blanks, a final dot or, beyond one letter, case."""
    spellings: dict[str, list[str]] = {}
    for word in counts:
        plain = " ".join(word.split()).removesuffix(".").rstrip()
        spellings.setdefault(plain.casefold() if len(plain) > 1 else plain, []).append(word)
    listed = (
        wording.listed(f"{word!r} ({wording.count(counts[word], 'row')})" for word in texts)
        for texts in spellings.values()
        if len(texts) > 1
    )
    problems = [str(unexpected(place, texts, "one spelling of each class")) for texts in listed]
    raise_problems(problems, place)


def _plain(place: str, labels: np.ndarray | None, count: int) -> np.ndarray:
    """Return labels of shape (n,): integers or words."""
    labels = labels_per_example(place, labels, count)
    several = labels.ndim == 2 and labels.dtype.kind in "US" and labels.shape[1] > 1
    if labels.ndim > 2 or labels.dtype.kind not in "uifbUS" or several:
        raise unexpected(place, f"{labels.dtype} labels of shape {labels.shape}", _LABEL)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    if labels.dtype.kind == "U":
        _check(place, labels, np.char.strip(labels) != "", "a word")
        return labels
    if labels.ndim == 2:
        one_hot = ((labels == 0) | (labels == 1)).all(axis=1) & (labels.sum(axis=1) == 1)
        _check(place, labels, one_hot, _LABEL)
        return labels.argmax(axis=1)
    if labels.dtype.kind == "f":
        _check(place, labels, np.isfinite(labels) & (labels == np.floor(labels)), _LABEL)
    if limit := _LIMITS.get(labels.dtype.kind):
        with np.errstate(over="ignore"):  # float16 has no number of this size
            small = (labels < limit) & (labels > -limit)
        expected = f"a whole number below 2^{limit.bit_length() - 1}, or a word,"
        _check(place, labels, small, expected)
    return labels.astype(np.int64)


def labels_per_example(place: str, labels: np.ndarray | None, count: int) -> np.ndarray:
    if labels is None or labels.shape[:1] != (count,):
        received = "nothing" if labels is None else f"labels of shape {labels.shape}"
        raise unexpected(place, received, f"a label of each of {count} examples")
    return labels


def _check(place: str, labels: np.ndarray, right: np.ndarray, expected: str) -> None:
    if not right.all():
        row = right.argmin()
        raise unexpected(place, f"{repr(labels[row].tolist())[:100]} in row {row}", expected)
