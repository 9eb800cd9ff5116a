"""Tables that come with scikit-learn: digits, breast cancer, wine, diabetes.

Their files are read here, because importing scikit-learn takes seconds.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from batchscope.datasets import raw
from batchscope.datasets.raw import Raw, Request
from batchscope.datasets.source import DataSource
from batchscope.datasets.splits import FIFTHS, Split
from batchscope.study import tasks
from batchscope.study.example_kinds import IMAGES, ROWS


class _Table(DataSource):
    """A table of scikit-learn: rows with the class in the last column."""

    fixed_kind = ROWS
    file: ClassVar[str]

    def prepared_bytes(self) -> float | None:
        number = 1 if self.fixed_kind == IMAGES else 4
        return (math.prod(self.fixed_shape) * number + 4) * sum(self.members)

    def read(self, request: Request) -> Raw:
        """Read a file with the counts and the names of the classes in its first line."""
        path = folder() / "data" / self.file
        with reading(request, path), open(path, encoding="utf-8") as text:
            names = text.readline().strip().split(",")[2:]
            table = np.loadtxt(text, delimiter=",")
        rows, labels = table[:, :-1], table[:, -1].astype(np.int32)
        return Raw(rows, labels, names, [path], origin(self.source), kind=ROWS)


class Digits(_Table):
    """scikit-learn's 1,797 handwritten digits of 8x8 pixels; needs no download."""

    # E. Alpaydin and C. Kaynak, "Optical recognition of handwritten digits", UCI, test set.
    built_in = "digits"
    file = "digits.csv.gz"
    fixed_kind = IMAGES
    fixed_shape = (8, 8, 1)
    members = (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)
    usual_scale = 1 / 16
    source: Literal["digits"]
    split: Split = FIFTHS

    def read(self, request: Request) -> Raw:
        """Read the pixels, 0 to 16, as bytes."""
        path = folder() / "data" / self.file
        with reading(request, path):
            table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
        images, labels = table[:, :-1].reshape(-1, *self.fixed_shape), table[:, -1].astype(np.int32)
        names = [str(digit) for digit in range(len(self.members))]
        return Raw(images, labels, names, [path], origin(self.source), scale=self.usual_scale)


class BreastCancer(_Table):
    """scikit-learn's 569 tumours of 30 features, standardised; needs no download."""

    # W. H. Wolberg, O. L. Mangasarian, W. N. Street, "Breast cancer Wisconsin (diagnostic)", UCI.
    built_in = "breast_cancer"
    file = "breast_cancer.csv"
    fixed_shape = (30,)
    members = (212, 357)
    source: Literal["breast_cancer"]
    split: Split = FIFTHS


class Diabetes(_Table):
    """scikit-learn's 442 patients of 10 features, with a number to predict; needs no download."""

    # B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least Angle Regression", 2004.
    built_in = "diabetes"
    fixed_shape = (10,)
    fixed_task = tasks.REGRESSION
    members = (442,)
    source: Literal["diabetes"]
    split: Split = FIFTHS

    def read(self, request: Request) -> Raw:
        """Read the features and the progression of the disease in a year."""
        files = [
            folder() / "data" / f"diabetes_{name}.gz" for name in ("data_raw.csv", "target.csv")
        ]
        tables = []
        for path in files:
            with reading(request, path):
                tables.append(np.loadtxt(path, ndmin=2))
        facts = {"kind": ROWS, "task": self.fixed_task, "stratified": False}
        return Raw(*tables, ["progression"], files, origin(self.source), **facts)


class Wine(_Table):
    """scikit-learn's 178 wines of 13 features, standardised; needs no download."""

    # S. Aeberhard, M. Forina, "Wine recognition data", UCI.
    built_in = "wine"
    file = "wine_data.csv"
    fixed_shape = (13,)
    members = (59, 71, 48)
    source: Literal["wine"]
    split: Split = FIFTHS


def folder() -> Path:
    spec = importlib.util.find_spec("sklearn")
    return Path(spec.origin or "" if spec else "").parent / "datasets"


def origin(text: str) -> str:
    return f"scikit-learn {importlib.metadata.version('scikit-learn')}, {text}"


def reading(request: Request, path: Path) -> AbstractContextManager[None]:
    expected = "scikit-learn's file (install the project's dependencies again)"
    return raw.reading(f"{request.place}: {path}", expected, OSError, EOFError, ValueError)
