"""The user's own arrays: images, rows of numbers or sequences of tokens in an npz file."""

from __future__ import annotations

import numpy as np

from batchscope import disk
from batchscope.catalogue import dataset_definitions
from batchscope.datasets import arrays, download, rows, tokens
from batchscope.datasets import labels as classes
from batchscope.datasets.raw import Raw, Request
from batchscope.errors import UserError

# Part -> the names that its examples may have, and that of their labels.
_KEYS = {
    "both": (("images", "inputs"), "labels"),
    "train": (("x_train",), "y_train"),
    "validation": (("x_validation",), "y_validation"),
    "test": (("x_test",), "y_test"),
}


def npz(request: Request) -> Raw:
    """Returns the user's own arrays.

    Keys `images` (or `inputs`) and `labels`, or `x_train`, `y_train` and, each with its labels,
    `x_validation` and `x_test`; a split that is not in the file is drawn from the training
    part. Images have shape (n, height, width[, channels]) and are bytes, or floats kept as
    float32; rows of numbers have shape (n, features) and are standardised; sequences of tokens
    are whole numbers of shape (n, length). Labels are whole numbers, words or one-hot rows; those
    of tokens one for each sequence or one for each position, or none, where the next token is to be
    predicted.

    Raises:
        UserError: If the file is no npz, an array is missing or is not what it should be.
    """
    path = request.needed_path("an npz file")
    download.check_local(request, path)
    where = f"{request.where}: {path}"
    found = arrays.read_npz(request.where, path)
    keys = _keys(where, found)
    key, labels = keys["train"]
    kind = _kind(request, f"{where}: {key}", found[key], found.get(labels))
    if kind == dataset_definitions.TOKENS:
        return tokens.from_arrays(request, path, sequences(where, found))
    checked = {
        name: _examples(f"{where}: {key}", kind, found[key]) for name, (key, _) in keys.items()
    }
    _check_looks(where, keys, checked)
    given = {}
    for name, (key, label_key) in keys.items():
        if label_key not in found:
            raise UserError(f"{where}: {key} has no {label_key}; both are expected.")
        given[name] = f"{where}: {label_key}", found[label_key]
        classes.check_count(*given[name], len(checked[name]))
    labels, others, class_names = classes.numbered(given.pop("train"), given)
    return Raw(
        checked.pop("train"),
        labels,
        class_names,
        str(request.definition["path"]),
        {path.name: disk.file_sha256(path)},
        given={name: (examples, others[name]) for name, examples in checked.items()},
        kind=kind,
    )


def sequences(where: str, found: dict[str, np.ndarray]) -> dict[str, tokens.Pair]:
    """Returns the tokens and labels of each part of a file of sequences; see `tokens.pairs`."""
    given = {
        name: (f"{where}: {key}", found[key], f"{where}: {labels}", found.get(labels))
        for name, (key, labels) in _keys(where, found).items()
    }
    return tokens.pairs(given)


def _keys(where: str, found: dict[str, np.ndarray]) -> dict[str, tuple[str, str]]:
    """Returns the names of each part's examples and labels."""
    pairs = {}
    for name, (keys, labels) in _KEYS.items():
        if key := next((key for key in keys if key in found), None):
            pairs[name] = key, labels
    if "both" in pairs and "train" in pairs:
        raise UserError(f"{where}: received {pairs['both'][0]} and x_train; expected one of them.")
    if "both" in pairs:
        pairs = {"train": pairs["both"]}
    if "train" not in pairs:
        raise UserError(
            f"{where}: received {', '.join(found) or 'nothing'}; expected images (or inputs) and "
            "labels, or x_train and y_train."
        )
    return pairs


def _kind(request: Request, where: str, examples: np.ndarray, labels: np.ndarray | None) -> str:
    """Returns what the examples are: as the definition says, else by their shape and type."""
    label_shape = None if labels is None else labels.shape
    kind = dataset_definitions.kind_of_arrays(
        examples.shape, examples.dtype.kind, label_shape, request.definition.get("kind")
    )
    if kind is None:
        raise UserError(
            f"{where}: received {examples.dtype} of shape {examples.shape}; images of shape (n, "
            "height, width[, channels]), rows of numbers of shape (n, features) or tokens of shape "
            "(n, length) are expected."
        )
    if kind != dataset_definitions.IMAGES and request.definition.get("scale") is not None:
        raise UserError(
            f"{request.where}.scale: received {request.definition['scale']} for {kind}; it is "
            "expected of images alone."
        )
    return kind


def _examples(where: str, kind: str, examples: np.ndarray) -> np.ndarray:
    if kind == dataset_definitions.ROWS:
        return rows.checked(where, examples)
    if kind == dataset_definitions.SEQUENCES:
        tokens.checked(where, examples)
        return examples.astype(np.int32)
    arrays.check_images(where, examples)
    return arrays.stored(examples, where)


def _check_looks(
    where: str, keys: dict[str, tuple[str, str]], checked: dict[str, np.ndarray]
) -> None:
    """Refuses parts whose examples have another shape or type than those of the training part."""
    train = checked["train"]
    for name, other in checked.items():
        if other.shape[1:] != train.shape[1:] or other.dtype != train.dtype:
            raise UserError(
                f"{where}: {keys[name][0]}: received {_look(other)}; expected the look of "
                f"{keys['train'][0]}, {_look(train)}."
            )


def _look(examples: np.ndarray) -> str:
    return f"{examples.dtype} {examples.shape[1:]}"
