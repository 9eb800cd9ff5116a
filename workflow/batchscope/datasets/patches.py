"""A source that needs no download: patches of the two photographs of scikit-learn.

Made to time trainings on large colour images. Patches of one photograph overlap, also between
train, validation and test, so that a loss or an accuracy on them says nothing about how well a
network generalises.
"""

from __future__ import annotations

import importlib.metadata

import numpy as np

from batchscope import disk, wording
from batchscope.datasets.arrays import reading_scikit_learn, scikit_learn_data
from batchscope.datasets.raw import OnDisk, Raw, Request
from batchscope.errors import UserError

# One class each, in this order; where the file comes from, as scikit-learn's README.txt says.
PHOTOGRAPHS = {
    "china": "flickr.com/photos/danielbuechele/6061409035",
    "flower": "flickr.com/photos/vultilion/6056698931",
}
LICENCE = "CC BY 2.0"
SMALLEST = 16  # pixels; the schema says the same

_POSITIONS = 2 * 10**6  # follows the seed of the split; no class and no final order has it


def patches(request: Request) -> Raw:
    """Returns random square patches of the photographs china.jpg and flower.jpg.

    `per_class` patches of `image_size` x `image_size` pixels of each, kept as RGB bytes and not
    scaled. Where they lie is drawn with the seed of the split.

    Raises:
        UserError: If the photographs cannot be read or are smaller than a patch.
    """
    count = int(request.definition["per_class"])
    photographs, checksums = _photographs(request.where)
    size = _size(request, min(min(pixels.shape[:2]) for pixels in photographs))
    path = request.scratch / "patches"
    with open(path, "wb") as pool:
        for index, pixels in enumerate(photographs):
            rng = np.random.default_rng([request.split_seed, _POSITIONS + index])
            for top, left in corners(rng, pixels.shape[:2], size, count):
                pool.write(pixels[top : top + size, left : left + size].tobytes())
    listed = wording.listed(f"{name}.jpg ({origin})" for name, origin in PHOTOGRAPHS.items())
    return Raw(
        OnDisk(path, (len(photographs) * count, size, size, 3)),
        np.repeat(np.arange(len(photographs), dtype=np.int32), count),
        list(PHOTOGRAPHS),
        f"scikit-learn {importlib.metadata.version('scikit-learn')}, {listed}, {LICENCE}",
        checksums,
    )


def _photographs(where: str) -> tuple[list[np.ndarray], dict[str, str]]:
    """Returns each photograph, uint8 of shape (height, width, 3), and the files' SHA-256."""
    from PIL import Image

    photographs, checksums = [], {}
    for name in PHOTOGRAPHS:
        path = scikit_learn_data() / "images" / f"{name}.jpg"
        with reading_scikit_learn(where, path.name), Image.open(path) as image:
            photographs.append(np.asarray(image.convert("RGB")))
            checksums[path.name] = disk.file_sha256(path)
    return photographs, checksums


def _size(request: Request, largest: int) -> int:
    size = request.definition.get("image_size")
    if isinstance(size, bool) or not isinstance(size, int) or not SMALLEST <= size <= largest:
        raise UserError(
            f"{request.where}.image_size: received {size!r}; a whole number from {SMALLEST} to "
            f"{largest} is expected."
        )
    return size


def corners(rng: np.random.Generator, shape: tuple[int, int], size: int, count: int) -> np.ndarray:
    """Returns where random square patches of an image begin.

    No position comes again before all have come, so that patches are distinct where the image
    has enough of them.

    Args:
        shape: Height and width of the image, in pixels; `size` is the side of a patch.

    Returns:
        Top and left pixel of each patch, integers of shape (count, 2).
    """
    grid = (shape[0] - size + 1, shape[1] - size + 1)
    positions = grid[0] * grid[1]
    rounds = [rng.permutation(positions) for _ in range(-(-count // positions))]
    return np.stack(np.unravel_index(np.concatenate(rounds)[:count], grid), axis=1)
