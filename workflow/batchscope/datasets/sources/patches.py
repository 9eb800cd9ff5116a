"""Cut random patches from two photographs, to time trainings on large colour images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from batchscope.core import display
from batchscope.datasets.raw import Raw, Request, array_on_disk
from batchscope.datasets.source import DataSource
from batchscope.datasets.sources import scikit_learn
from batchscope.datasets.splits import FIFTHS, Split
from batchscope.study.model import Integer

# Map of a class to the origin of its file, from scikit-learn's README.txt.
PHOTOGRAPHS = {
    "china": "flickr.com/photos/danielbuechele/6061409035",
    "flower": "flickr.com/photos/vultilion/6056698931",
}
LICENCE = "CC BY 2.0"

_POSITIONS_SEED = 2 * 10**6  # second seed of positions, above those of classes and final orders


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
        from sklearn.datasets import load_sample_image

        size, count = self.image_size, self.per_class

        def cut() -> Iterator[np.ndarray]:
            for index, name in enumerate(PHOTOGRAPHS):
                pixels = load_sample_image(f"{name}.jpg")
                rng = np.random.default_rng([self.split.seed, _POSITIONS_SEED + index])
                for top, left in corners(rng, pixels.shape[:2], size, count):
                    yield pixels[top : top + size, left : left + size]

        images = array_on_disk(request, cut(), (size, size, 3))
        labels = np.repeat(np.arange(len(PHOTOGRAPHS), dtype=np.int32), count)
        listed = display.listed(f"{name}.jpg ({origin})" for name, origin in PHOTOGRAPHS.items())
        origin = scikit_learn.origin(f"{listed}, {LICENCE}")
        return Raw(images, labels, [*PHOTOGRAPHS], [], origin)


def corners(rng: np.random.Generator, shape: tuple[int, int], size: int, count: int) -> np.ndarray:
    """Return top and left pixel of random square patches of an image, shape (count, 2).

    Positions repeat only after all have been drawn, so that patches are distinct if the image has
    enough positions.
    """
    grid = (shape[0] - size + 1, shape[1] - size + 1)
    positions = grid[0] * grid[1]
    rounds = [rng.permutation(positions) for _ in range(-(-count // positions))]
    return np.stack(np.unravel_index(np.concatenate(rounds)[:count], grid), axis=1)
