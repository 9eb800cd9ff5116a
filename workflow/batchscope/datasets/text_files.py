"""The source that is a text, cut into windows."""

import importlib.metadata
from pathlib import Path

import numpy as np

from batchscope.catalogue import dataset_sources, dataset_splits
from batchscope.datasets.raw import Pair, Raw, Request, local_file, reading
from batchscope.errors import unexpected
from batchscope.store.paths import SPLITS

_TEXT = ("_core", "_add_newdocs.py")  # in NumPy's folder


def built_in_text() -> Path:
    """Returns the text that comes with NumPy: the docstrings of its compiled functions.

    216,000 ASCII characters of English prose and short examples in NumPy 2.4, under NumPy's own
    licence (BSD 3-Clause). NumPy's version is pinned, and so is this text.
    """
    return Path(np.__file__).parent.joinpath(*_TEXT)


def text(request: Request) -> Raw:
    """Returns a text as windows of characters that do not overlap, each with its next characters.

    The text is divided by position, in the order of the parts: no character of a window, nor what
    it is to predict, lies in another part. Classes are the characters of the whole text in the
    order of their code points.
    """
    path = local_file(request) or built_in_text()
    where = f"{request.where}: {path}"
    with reading(where, "a text in UTF-8", OSError, UnicodeDecodeError):
        content = path.read_bytes().decode("utf-8-sig")
    characters = np.frombuffer(content.encode("utf-32-le"), "<u4")
    vocabulary, tokens = np.unique(characters, return_inverse=True)
    if len(vocabulary) < 2:
        raise unexpected(where, f"{len(vocabulary)} different characters", "a text of two or more")
    length, split = request.definition["length"], request.split
    sizes = dataset_splits.split_counts(split, len(tokens))
    parts = {}
    for part, size, end in zip(SPLITS, sizes, np.cumsum(sizes), strict=True):
        if size <= length:
            received = f"{split[part]}, which is {size} of {len(tokens)} characters"
            expected = f"a window's {length + 1} at least"
            raise unexpected(f"{request.where}.split.{part}", received, expected)
        parts[part] = windows(tokens[end - size : end], length)
    origin = f"numpy {importlib.metadata.version('numpy')}, {'/'.join(_TEXT)}"
    names = [chr(code) for code in vocabulary]
    kind = dataset_sources.TOKENS
    return Raw(*parts.pop("train"), names, [path], origin, given=parts, kind=kind)


def windows(tokens: np.ndarray, length: int) -> Pair:
    """Returns windows of tokens that do not overlap, and for each position the token after it.

    Both are int32 of shape ((n - 1) // length, length).
    """
    count = max(0, (len(tokens) - 1) // length)
    used = tokens[: count * length + 1].astype(np.int32)
    return used[:-1].reshape(count, length), used[1:].reshape(count, length)
