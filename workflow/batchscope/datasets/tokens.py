"""Sequences of tokens: arrays of whole numbers, and texts cut into windows of characters.

Every position is predicted: its label is the next token, or one that the user gives for it. The
classes are the tokens.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import numpy as np

from batchscope import disk
from batchscope.catalogue import dataset_definitions
from batchscope.datasets import download
from batchscope.datasets.raw import Raw, Request, reading
from batchscope.errors import UserError
from batchscope.store import records

# Largest number of a token: beyond it float32 no longer distinguishes neighbours.
LARGEST = 2**24 - 1
_TEXT = ("_core", "_add_newdocs.py")  # in NumPy's folder

Pair = tuple[np.ndarray, np.ndarray]


def built_in_text() -> Path:
    """Returns the text that comes with NumPy: the docstrings of its compiled functions.

    216,000 ASCII characters of English prose and short examples in NumPy 2.4, under NumPy's own
    licence (BSD 3-Clause). NumPy's version is pinned, and so is this text.
    """
    spec = importlib.util.find_spec("numpy")
    return Path(spec.origin or "" if spec else "").parent.joinpath(*_TEXT)


def text_path(path: str | None) -> Path:
    """Returns the file of a definition's `path`; without one, the built-in text."""
    return dataset_definitions.expanded(path) if path else built_in_text()


def text(request: Request) -> Raw:
    """Returns a text as windows of characters that do not overlap, each with its next characters.

    The text is divided by position: training part first, then validation, then test. Each part is
    cut into windows from its first character on, and a window's last label is the character after
    it in the same part; so no character of a window, nor what it is to predict, lies in another
    part. A rest that fills no window is left out. Classes are the characters of the whole text in
    the order of their code points.

    Raises:
        UserError: If the file is no UTF-8 text, or a part would have no window.
    """
    given = request.path()
    path = given or built_in_text()
    download.check_local(request, path)
    where = f"{request.where}: {path}"
    with reading(where, "a text in UTF-8", OSError, UnicodeDecodeError):
        content = path.read_bytes().decode("utf-8-sig")
    characters = np.frombuffer(content.encode("utf-32-le"), "<u4")
    vocabulary, tokens = np.unique(characters, return_inverse=True)
    if len(vocabulary) < 2:
        raise UserError(
            f"{where}: received {len(vocabulary)} different characters; two or more are expected."
        )
    length, split = request.definition["length"], request.split
    sizes = dataset_definitions.split_counts(split, len(tokens))
    parts, start = {}, 0
    for part, size in zip(records.SPLITS, sizes, strict=True):
        parts[part] = windows(tokens[start : start + size], length)
        start += size
        if not len(parts[part][0]):
            raise UserError(
                f"{request.where}.split.{part}: received {split[part]}, which is {size} of "
                f"{len(tokens)} characters; at least {length + 1} are expected, for one window."
            )
    release = importlib.metadata.version("numpy")
    return Raw(
        *parts.pop("train"),
        [chr(code) for code in vocabulary],
        str(request.definition["path"]) if given else f"numpy {release}, {'/'.join(_TEXT)}",
        {path.name: disk.file_sha256(path)},
        given=parts,
        kind=dataset_definitions.TOKENS,
    )


def windows(tokens: np.ndarray, length: int) -> Pair:
    """Returns windows of tokens that do not overlap, and for each position the token after it.

    Both are int32 of shape ((n - 1) // length, length).
    """
    count = max(0, (len(tokens) - 1) // length)
    used = tokens[: count * length + 1].astype(np.int32)
    return used[:-1].reshape(count, length), used[1:].reshape(count, length)


def from_arrays(request: Request, path: Path, parts: dict[str, Pair]) -> Raw:
    """Returns the user's sequences, as `pairs` returns their parts, as a data set."""
    classes = count(parts)
    ready = {
        part: (tokens.astype(np.int32), labels.astype(np.int32))
        for part, (tokens, labels) in parts.items()
    }
    return Raw(
        *ready.pop("train"),
        [str(index) for index in range(classes)],
        str(request.definition["path"]),
        {path.name: disk.file_sha256(path)},
        given=ready,
        kind=dataset_definitions.TOKENS,
    )


def count(parts: dict[str, Pair]) -> int:
    """Returns the number of classes: one more than the largest token or label of all parts."""
    return 1 + max(int(array.max()) for pair in parts.values() for array in pair)


def pairs(given: dict[str, tuple[str, np.ndarray, str, np.ndarray | None]]) -> dict[str, Pair]:
    """Returns the tokens that are predicted from, and what each position is to predict.

    Without labels that is the next token, so that the last token of a sequence is a label alone;
    labels have shape (n, length).

    Args:
        given: Part -> place of the sequences in the file, the sequences, place of the labels, and
            the labels or None.

    Raises:
        UserError: If an array is not what it should be; it names the row.
    """
    parts = {}
    for part, (where, tokens, label_where, labels) in given.items():
        checked(where, tokens)
        if labels is None:
            if tokens.shape[1] < 2:
                raise UserError(
                    f"{where}: received shape {tokens.shape}; two or more tokens are expected, "
                    "where each is to predict the next."
                )
            parts[part] = tokens[:, :-1], tokens[:, 1:]
            continue
        if labels.shape != tokens.shape:
            raise UserError(
                f"{label_where}: received labels of shape {labels.shape} for tokens of shape "
                f"{tokens.shape}; a label for each position or one for each sequence is expected, "
                "or none: then the next tokens are predicted. Rows of whole numbers have "
                "`kind: rows`."
            )
        checked(label_where, labels)
        parts[part] = tokens, labels
    first = given["train"][0]
    length = parts["train"][0].shape[1]
    for part, (tokens, _) in parts.items():
        if tokens.shape[1] != length:
            raise UserError(
                f"{given[part][0]}: received sequences of {tokens.shape[1]} tokens to predict "
                f"from; {length} are expected, as in {first}."
            )
    if count(parts) < 2:
        raise UserError(f"{first}: received one token; two or more are expected.")
    return parts


def checked(where: str, tokens: np.ndarray) -> None:
    """Raises a `UserError` where shape, type or a number, named by its row, is none of tokens."""
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise UserError(f"{where}: received shape {tokens.shape}; (n, length) is expected.")
    if tokens.dtype.kind not in "ui":
        raise UserError(f"{where}: received {tokens.dtype}; whole numbers are expected.")
    wrong = np.argwhere((tokens < 0) | (tokens > LARGEST))
    if len(wrong):
        row, position = wrong[0]
        raise UserError(
            f"{where}: received {tokens[row, position]} in row {row}, position {position}; tokens "
            f"from 0 to {LARGEST} are expected."
        )
