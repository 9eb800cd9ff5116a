"""Read a text and cut it into windows of characters. Each position predicts the next character."""

import importlib.metadata
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from batchscope.core.errors import unexpected
from batchscope.datasets.source import DataSource, FileSha256, Pair, Raw, Request, reading_file
from batchscope.datasets.splits import Shares, split_counts
from batchscope.store.paths import SPLITS
from batchscope.study.model import FilePath, Integer, Share
from batchscope.study.tasks import TOKENS

# In NumPy's folder: the docstrings of its compiled functions, 216,000 ASCII characters of English
# prose and short examples in NumPy 2.4, under NumPy's licence (BSD 3-Clause). NumPy's version is
# pinned, and so is this text.
_BUILT_IN = ("_core", "_add_newdocs.py")


class TextSplit(Shares):
    """Three fractions by position: the first part trains, the next validates, the last tests.

    No window belongs to two parts.
    """

    train: Share
    validation: Share
    test: Share


class Text(DataSource):
    """A text, cut into windows of characters that do not overlap.

    Each position predicts the next character. Without a path the docstrings that come with NumPy
    (BSD 3-Clause).
    """

    built_in = "numpy_docs"
    fixed_kind = TOKENS
    source: Literal["text"]
    path: FilePath | None = None
    """The text in UTF-8; NumPy's docstrings if left out."""
    sha256: FileSha256 = None
    length: Annotated[Integer, Field(ge=1, le=65_536)] = 32
    """Characters of a window."""
    split: TextSplit = TextSplit(train=0.8, validation=0.1, test=0.1)

    def read(self, request: Request) -> Raw:
        """Read the windows, each with its next characters.

        The text is divided by position, in the order of the parts. No part contains a character
        that another part reads or predicts. Classes are the characters of the whole text in the
        order of their code points.
        """
        path = self.local_file(request.place) or Path(np.__file__).parent.joinpath(*_BUILT_IN)
        place = f"{request.place}: {path}"
        with reading_file(place, "a text in UTF-8", OSError, UnicodeDecodeError):
            content = path.read_bytes().decode("utf-8-sig")
        characters = np.frombuffer(content.encode("utf-32-le"), "<u4")
        vocabulary, tokens = np.unique(characters, return_inverse=True)
        if len(vocabulary) < 2:
            received = f"{len(vocabulary)} different characters"
            raise unexpected(place, received, "a text of two or more")
        shares = self.shares()
        sizes = split_counts(shares, len(tokens))
        parts = {}
        for part, size, end in zip(SPLITS, sizes, np.cumsum(sizes), strict=True):
            if size <= self.length:
                received = f"{shares[part]}, which is {size} of {len(tokens)} characters"
                expected = f"a window's {self.length + 1} at least"
                raise unexpected(f"{request.place}.split.{part}", received, expected)
            parts[part] = windows(tokens[end - size : end], self.length)
        origin = f"numpy {importlib.metadata.version('numpy')}, {'/'.join(_BUILT_IN)}"
        names = [chr(code) for code in vocabulary]
        return Raw(*parts.pop("train"), names, [path], origin, fixed_parts=parts, kind=TOKENS)


def windows(tokens: np.ndarray, length: int) -> Pair:
    """Return windows of tokens that do not overlap, and the token after each position.

    Both are int32 of shape ((n - 1) // length, length).
    """
    count = max(0, (len(tokens) - 1) // length)
    used = tokens[: count * length + 1].astype(np.int32)
    return used[:-1].reshape(count, length), used[1:].reshape(count, length)
