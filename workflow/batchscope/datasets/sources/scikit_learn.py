"""Read the data sets that come with scikit-learn: digits, breast cancer, wine, diabetes."""

from __future__ import annotations

import importlib.metadata
from typing import ClassVar, Literal

import numpy as np

from batchscope.datasets.raw import Raw, Request
from batchscope.datasets.source import DataSource
from batchscope.datasets.splits import FIFTHS, Split
from batchscope.study import tasks
from batchscope.study.example_kinds import IMAGES, ROWS


class _BuiltIn(DataSource):
    """A data set of scikit-learn. By default, each row has a class."""

    fixed_kind = ROWS
    targets: ClassVar[tuple[str, ...]] = ()  # names of the numbers to predict in a regression
    split: Split = FIFTHS

    def read(self, request: Request) -> Raw:
        """Read the unscaled examples; pixels are bytes."""
        from sklearn import datasets

        options = {"scaled": False} if self.source == "diabetes" else {}
        data = getattr(datasets, f"load_{self.source}")(**options)
        is_image = self.fixed_kind == IMAGES
        examples = data.images[..., None].astype(np.uint8) if is_image else data.data
        labels = data.target[:, None] if self.targets else data.target.astype(np.int32)
        names = [str(name) for name in self.targets or data.target_names]
        facts = {"kind": self.fixed_kind, "task": self.fixed_task}
        return Raw(examples, labels, names, [], origin(self.source), **facts)


class Digits(_BuiltIn):
    """scikit-learn's 1,797 handwritten digits of 8x8 pixels; needs no download."""

    # E. Alpaydin and C. Kaynak, "Optical recognition of handwritten digits", UCI, test set.
    built_in = "digits"
    fixed_kind = IMAGES
    fixed_shape = (8, 8, 1)
    members = (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)
    usual_scale = 1 / 16
    source: Literal["digits"]


class BreastCancer(_BuiltIn):
    """scikit-learn's 569 tumours of 30 features, standardised; needs no download."""

    # W. H. Wolberg, O. L. Mangasarian, W. N. Street, "Breast cancer Wisconsin (diagnostic)", UCI.
    built_in = "breast_cancer"
    fixed_shape = (30,)
    members = (212, 357)
    source: Literal["breast_cancer"]


class Diabetes(_BuiltIn):
    """scikit-learn's 442 patients of 10 features, with a number to predict; needs no download."""

    # B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least Angle Regression", 2004.
    built_in = "diabetes"
    fixed_shape = (10,)
    fixed_task = tasks.REGRESSION
    members = (442,)
    targets = ("progression",)
    source: Literal["diabetes"]


class Wine(_BuiltIn):
    """scikit-learn's 178 wines of 13 features, standardised; needs no download."""

    # S. Aeberhard, M. Forina, "Wine recognition data", UCI.
    built_in = "wine"
    fixed_shape = (13,)
    members = (59, 71, 48)
    source: Literal["wine"]


def origin(text: str) -> str:
    return f"scikit-learn {importlib.metadata.version('scikit-learn')}, {text}"
