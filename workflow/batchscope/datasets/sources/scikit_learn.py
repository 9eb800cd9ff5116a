"""Read the data sets that come with scikit-learn, and cut patches from its two photographs.

A new data set is a subclass of `_BuiltIn`; `read` calls scikit-learn's `load_{source}`.
"""

import importlib.metadata
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from batchscope.core import display
from batchscope.datasets.source import DataSource, Raw, Request, array_on_disk
from batchscope.datasets.splits import FIFTHS, Split
from batchscope.study import tasks
from batchscope.study.model import Integer
from batchscope.study.tasks import IMAGES, ROWS

# Map of a class of `patches` to the origin of its photograph, from scikit-learn's README.txt.
PHOTOGRAPHS = {
    "china": "flickr.com/photos/danielbuechele/6061409035",
    "flower": "flickr.com/photos/vultilion/6056698931",
}
LICENCE = "CC BY 2.0"
_POSITIONS_SEED = 2 * 10**6  # second seed of positions, above those of classes and final orders


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
        return Raw(examples, labels, names, [], _origin(self.source), **facts)


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


class Patches(DataSource):
    """Random square patches of two colour photographs of scikit-learn; needs no download.

    For timing only: patches overlap, also between train, validation and test, so that an accuracy
    on them is meaningless.
    """

    members = (100_000, 100_000)
    has_overlapping_parts = True
    source: Literal["patches"]
    image_size: Annotated[Integer, Field(ge=16, le=427)]
    """Height and width of a patch in pixels; the photographs are 427 high."""
    per_class: Annotated[Integer, Field(ge=3, le=100_000)] = 500
    """Patches of each photograph."""
    split: Split = FIFTHS

    def read(self, request: Request) -> Raw:
        """Cut the patches, RGB bytes. The seed of the split decides their positions."""
        images = array_on_disk(request.scratch, self._cut(), self.shape())
        labels = np.repeat(np.arange(len(PHOTOGRAPHS), dtype=np.int32), self.per_class)
        listed = display.listed(f"{name}.jpg ({origin})" for name, origin in PHOTOGRAPHS.items())
        return Raw(images, labels, [*PHOTOGRAPHS], [], _origin(f"{listed}, {LICENCE}"))

    def _cut(self) -> Iterator[np.ndarray]:
        from sklearn.datasets import load_sample_image

        size = self.image_size
        for index, name in enumerate(PHOTOGRAPHS):
            pixels = load_sample_image(f"{name}.jpg")
            rng = np.random.default_rng([self.split.seed, _POSITIONS_SEED + index])
            for top, left in corners(rng, pixels.shape[:2], size, self.per_class):
                yield pixels[top : top + size, left : left + size]


def corners(rng: np.random.Generator, shape: tuple[int, int], size: int, count: int) -> np.ndarray:
    """Return top and left pixel of random square patches of an image, shape (count, 2).

    Positions repeat only after all have been drawn, so that patches are distinct if the image has
    enough positions.
    """
    grid = (shape[0] - size + 1, shape[1] - size + 1)
    positions = grid[0] * grid[1]
    rounds = [rng.permutation(positions) for _ in range(-(-count // positions))]
    return np.stack(np.unravel_index(np.concatenate(rounds)[:count], grid), axis=1)


def _origin(text: str) -> str:
    return f"scikit-learn {importlib.metadata.version('scikit-learn')}, {text}"
