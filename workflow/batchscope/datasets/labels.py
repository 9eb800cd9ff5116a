"""Classes from labels as people have them: words, numbers that start anywhere, one-hot rows."""

from __future__ import annotations

import numpy as np

from batchscope.datasets.raw import refused

# Type -> the number from which on two labels may become one class: floats do not have every whole
# number beyond it, and int64, in which classes are sorted, has none.
_LIMITS = {"f": 2**53, "i": 2**63, "u": 2**63}
_EXPECTED = "a whole number, a word or a one-hot row"


def numbered(
    labels: dict[str, tuple[str, np.ndarray]],
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns labels as classes 0, 1, 2, ... in the order of their values, and the classes' names.

    Args:
        labels: Part -> its place in the file, for errors, and its labels: shape (n,), (n, 1), or
            (n, classes) where each row has one 1 and else zeros. The classes are those of `train`.

    Returns:
        Classes of each part, int32 of shape (n,); the name of each class.
    """
    where = labels["train"][0]
    plain = {part: _plain(place, given) for part, (place, given) in labels.items()}
    values = np.unique(plain["train"])
    if len(values) < 2:
        raise refused(where, "one class", "more than one")
    classes = {}
    for part, found in plain.items():
        place = labels[part][0]
        if found.dtype.kind != values.dtype.kind:
            received = f"{found.dtype} labels beside {values.dtype} ones in {where}"
            raise refused(place, received, "one type")
        index = np.minimum(np.searchsorted(values, found), len(values) - 1)
        _check(place, found, values[index] == found, "a class of the training part")
        classes[part] = index.astype(np.int32)
    return classes, [str(value) for value in values.tolist()]


def _plain(where: str, labels: np.ndarray) -> np.ndarray:
    """Returns labels of shape (n,): integers or words."""
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "uifbUS":
        raise refused(where, f"{labels.dtype} labels of shape {labels.shape}", _EXPECTED)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    if labels.dtype.kind == "U":
        _check(where, labels, np.char.strip(labels) != "", "a word")
        return labels
    if labels.ndim == 2:
        one_hot = ((labels == 0) | (labels == 1)).all(axis=1) & (labels.sum(axis=1) == 1)
        _check(where, labels, one_hot, _EXPECTED)
        return labels.argmax(axis=1)
    if labels.dtype.kind == "f":
        _check(where, labels, np.isfinite(labels) & (labels == np.floor(labels)), _EXPECTED)
    if limit := _LIMITS.get(labels.dtype.kind):
        with np.errstate(over="ignore"):  # of float16, which has no number so large
            small = (labels < limit) & (labels > -limit)
        expected = f"a whole number below 2^{limit.bit_length() - 1}, or a word,"
        _check(where, labels, small, expected)
    return labels.astype(np.int64)


def _check(where: str, labels: np.ndarray, right: np.ndarray, expected: str) -> None:
    """Raises a `UserError` with the first row that is not right."""
    if not right.all():
        row = right.argmin()
        raise refused(where, f"{repr(labels[row].tolist())[:100]} in row {row}", expected)
