"""Arrays of the user in an npz file."""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from batchscope.datasets import arrays, npz_header
from batchscope.datasets.raw import Raw, Request, local_file
from batchscope.datasets.source import DataSource, FileSha256, Task, exact, expanded, is_none
from batchscope.datasets.splits import NpzSplit
from batchscope.study.model import FilePath, Positive


class Npz(DataSource):
    """Your own arrays, in one npz file; images, rows of numbers, or sequences of tokens.

    Arrays: `images` (or `inputs`) and `labels`, or `x_train`, `y_train` and, each with its labels,
    `x_validation` and `x_test`. Labels are whole numbers, words or one-hot rows; tokens have one
    for each sequence or position; without labels they predict the next token. Targets of a
    regression are numbers, (n,) or (n, targets); with `task: multi_label` 0 and 1, (n, labels).
    """

    fixed_kind = None
    fixed_task = None
    source: Literal["npz"]
    path: FilePath
    """The npz file."""
    sha256: FileSha256 = None
    scale: Annotated[Positive, AfterValidator(exact)] | None = None
    """Factor of the images. Default: 1/255 for integers, 1 for floats."""
    split: NpzSplit | None = None
    task: Task = None
    """Task. Default: regression if some labels are not whole numbers, else classification."""
    kind: Annotated[Literal["images", "rows", "tokens"] | None, Field(exclude_if=is_none)] = None
    """Kind of the examples. Default: images if an example has two or three dimensions; if it has
    one, rows of numbers for floats and tokens for integers.
    """

    def kind_of_examples(self) -> str | None:
        """Return the kind in the definition, or the kind that the headers of the arrays show."""
        try:
            headers = npz_header.headers(expanded(self.path))
            used = {name: headers[name] for name in headers if name in arrays.USED}
            name, label_name = arrays.part_keys(self.path, used)["train"]
        except Exception:  # zipfile, zlib and ast raise nearly anything
            return self.kind  # `read` reports the fault
        shape, dtype = used[name]
        label_shape, _ = used.get(label_name, (None, None))
        return arrays.kind_of_arrays(shape, dtype.kind, label_shape, self.kind)

    def prepared_bytes(self) -> float | None:
        return float(os.path.getsize(expanded(self.path)))

    def read(self, request: Request) -> Raw:
        """Read the arrays. A part that is not in the file is drawn from `x_train`."""
        path = local_file(request)
        place = f"{request.place}: {path}"
        raw = arrays.from_arrays(request, place, arrays.read_npz(place, path), self.kind)
        return dataclasses.replace(raw, files=[path])
