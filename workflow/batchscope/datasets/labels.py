"""Classes from labels as people have them: words, numbers that start anywhere, one-hot rows."""

from __future__ import annotations

import numpy as np

from batchscope.errors import UserError

# Type -> the number from which on two labels may become one class: floats do not have every whole
# number beyond it, and int64, in which classes are sorted, has none.
LIMITS = {"f": 2**53, "i": 2**63, "u": 2**63}
_EXPECTED = "whole numbers, words or one-hot rows are expected"


def numbered(
    labels: tuple[str, np.ndarray], others: dict[str, tuple[str, np.ndarray]]
) -> tuple[np.ndarray, dict[str, np.ndarray], list[str]]:
    """Returns labels as classes 0, 1, 2, ... in the order of their values, and the classes' names.

    Args:
        labels: Place in the file, for errors, and the labels of the training part: shape (n,),
            (n, 1), or (n, classes) where each row has one 1 and else zeros.
        others: The same of each other part.

    Returns:
        Classes, int32 of shape (n,); those of the others; the name of each class.

    Raises:
        UserError: If labels are quantities, mixed with missing ones, too large to be told apart,
            or of one class, or if another part has a class that is not trained on.
    """
    where, given = labels
    trained = _plain(where, given)
    values, classes = np.unique(trained, return_inverse=True)
    if len(values) < 2:
        raise UserError(f"{where}: received one class; at least two are expected.")
    found = {}
    for name, (place, array) in others.items():
        other = _plain(place, array)
        if other.dtype.kind != trained.dtype.kind:
            raise UserError(
                f"{place}: received {other.dtype} labels beside {trained.dtype} ones in {where}; "
                "labels of one type are expected."
            )
        index = np.minimum(np.searchsorted(values, other), len(values) - 1)
        unknown = np.flatnonzero(values[index] != other)
        if len(unknown):
            row, value = unknown[0], other[unknown[0]]
            shown = repr(str(value)) if isinstance(value, str) else str(value)
            raise UserError(
                f"{place}: received {shown} in row {row}, a class of no training "
                "example; the classes of the training part are expected."
            )
        found[name] = index.astype(np.int32)
    return classes.astype(np.int32).reshape(-1), found, [str(value) for value in values.tolist()]


def check_count(where: str, labels: np.ndarray, count: int) -> None:
    """Raises `UserError` where labels are neither one nor one one-hot row per example."""
    flat = labels.ndim == 1 or (labels.ndim == 2 and labels.shape[1] >= 1)
    if not flat or len(labels) != count:
        raise UserError(
            f"{where}: received labels of shape {labels.shape}; ({count},), or ({count}, classes) "
            "of one-hot rows, is expected."
        )


def _plain(where: str, labels: np.ndarray) -> np.ndarray:
    """Returns labels of shape (n,): integers or words."""
    if labels.ndim == 2:
        labels = labels[:, 0] if labels.shape[1] == 1 else _from_one_hot(where, labels)
    kind = labels.dtype.kind
    if kind == "f":
        wrong = np.flatnonzero(~np.isfinite(labels) | (labels != np.floor(labels)))
        if len(wrong):
            row = wrong[0]
            raise UserError(f"{where}: received {labels[row]:g} in row {row}; {_EXPECTED}.")
    if limit := LIMITS.get(kind):
        with np.errstate(over="ignore"):  # of float16, which has no number so large
            wrong = np.flatnonzero((labels >= limit) | (labels <= -limit))
        if len(wrong):
            row = wrong[0]
            raise UserError(
                f"{where}: received {labels[row]} in row {row}; of {labels.dtype} whole numbers "
                f"below 2^{limit.bit_length() - 1} are expected. Larger ones may be words."
            )
    if kind == "S":
        labels, kind = np.char.decode(labels, "utf-8", "replace"), "U"
    if kind == "U":
        empty = np.flatnonzero(np.char.strip(labels) == "")
        if len(empty):
            raise UserError(
                f"{where}: received an empty label in row {empty[0]}; a word is expected."
            )
        return labels
    if kind not in "uifb":
        raise UserError(f"{where}: received {labels.dtype} labels; {_EXPECTED}.")
    return labels.astype(np.int64)


def _from_one_hot(where: str, labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind not in "uifb":
        raise UserError(f"{where}: received {labels.dtype} of shape {labels.shape}; {_EXPECTED}.")
    wrong = np.flatnonzero(((labels != 0) & (labels != 1)).any(axis=1) | (labels.sum(axis=1) != 1))
    if len(wrong):
        raise UserError(
            f"{where}: received row {wrong[0]}, which is not one 1 among zeros; {_EXPECTED}."
        )
    return labels.argmax(axis=1)
