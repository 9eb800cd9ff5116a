"""Sources that need no download: the tables and photographs that come with scikit-learn.

Their files are read here, since importing scikit-learn takes seconds.
"""

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from batchscope import wording
from batchscope.catalogue import dataset_sources, tasks
from batchscope.datasets.raw import Raw, Request, on_disk, reading

# One class each, in this order; where the file comes from, as scikit-learn's README.txt says.
PHOTOGRAPHS = {
    "china": "flickr.com/photos/danielbuechele/6061409035",
    "flower": "flickr.com/photos/vultilion/6056698931",
}
LICENCE = "CC BY 2.0"

_POSITIONS = 2 * 10**6  # follows the seed of the split; no class and no final order has it


def digits(request: Request) -> Raw:
    """Returns 1,797 handwritten digits of 8x8 pixels of 0 to 16, kept as bytes, scaled by 1/16.

    Source: E. Alpaydin and C. Kaynak, "Optical recognition of handwritten digits", UCI, test set.
    """
    path = _folder() / "data" / "digits.csv.gz"
    with _reading(request, path):
        table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    images, labels = table[:, :-1].reshape(-1, 8, 8, 1), table[:, -1].astype(np.int32)
    names = [str(digit) for digit in range(10)]
    return Raw(images, labels, names, [path], _origin("digits"), scale=1 / 16)


def breast_cancer(request: Request) -> Raw:
    """Returns 569 tumours of 30 measured features; the classes are `malignant` and `benign`.

    Source: W. H. Wolberg, O. L. Mangasarian, W. N. Street, "Breast cancer Wisconsin (diagnostic)",
    UCI.
    """
    return _rows(request, "breast_cancer.csv", "breast_cancer")


def wine(request: Request) -> Raw:
    """Returns 178 wines of 13 measured features; the classes are three growers.

    Source: S. Aeberhard, M. Forina, "Wine recognition data", UCI.
    """
    return _rows(request, "wine_data.csv", "wine")


def _rows(request: Request, file: str, name: str) -> Raw:
    """Returns a table whose first line has its rows, its features and its classes' names."""
    path = _folder() / "data" / file
    with _reading(request, path), open(path, encoding="utf-8") as text:
        names = text.readline().strip().split(",")[2:]
        table = np.loadtxt(text, delimiter=",")
    rows, labels = table[:, :-1], table[:, -1].astype(np.int32)
    return Raw(rows, labels, names, [path], _origin(name), kind=dataset_sources.ROWS)


def diabetes(request: Request) -> Raw:
    """Returns 442 patients of 10 measured features, and how far the disease went in a year.

    Source: B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least Angle Regression", 2004.
    """
    folder = _folder() / "data"
    files = [folder / f"diabetes_{what}.gz" for what in ("data_raw.csv", "target.csv")]
    tables = []
    for path in files:
        with _reading(request, path):
            tables.append(np.loadtxt(path, ndmin=2))
    given = {"kind": dataset_sources.ROWS, "task": tasks.REGRESSION, "stratified": False}
    return Raw(*tables, ["progression"], files, _origin("diabetes"), **given)


def patches(request: Request) -> Raw:
    """Returns random square patches of two photographs, RGB bytes: `per_class` of each.

    Made to time trainings on large colour images. Patches of one photograph overlap, also between
    train, validation and test, so that a loss or an accuracy on them says nothing about how well a
    network generalises. Where they lie is drawn with the seed of the split.
    """
    from PIL import Image

    size, count = request.definition["image_size"], request.definition["per_class"]
    files = [_folder() / "images" / f"{name}.jpg" for name in PHOTOGRAPHS]

    def cut() -> Iterator[np.ndarray]:
        for index, path in enumerate(files):
            with _reading(request, path), Image.open(path) as image:
                pixels = np.asarray(image.convert("RGB"))
            rng = np.random.default_rng([request.split["seed"], _POSITIONS + index])
            for top, left in corners(rng, pixels.shape[:2], size, count):
                yield pixels[top : top + size, left : left + size]

    images = on_disk(request, cut(), (size, size, 3))
    labels = np.repeat(np.arange(len(files), dtype=np.int32), count)
    listed = wording.listed(f"{name}.jpg ({origin})" for name, origin in PHOTOGRAPHS.items())
    return Raw(images, labels, list(PHOTOGRAPHS), files, _origin(f"{listed}, {LICENCE}"))


def corners(rng: np.random.Generator, shape: tuple[int, int], size: int, count: int) -> np.ndarray:
    """Returns top and left pixel of random square patches of an image, shape (count, 2).

    No position comes again before all have come, so that patches are distinct where the image
    has enough of them.
    """
    grid = (shape[0] - size + 1, shape[1] - size + 1)
    positions = grid[0] * grid[1]
    rounds = [rng.permutation(positions) for _ in range(-(-count // positions))]
    return np.stack(np.unravel_index(np.concatenate(rounds)[:count], grid), axis=1)


def _folder() -> Path:
    spec = importlib.util.find_spec("sklearn")
    return Path(spec.origin or "" if spec else "").parent / "datasets"


def _origin(what: str) -> str:
    return f"scikit-learn {importlib.metadata.version('scikit-learn')}, {what}"


def _reading(request: Request, path: Path) -> AbstractContextManager[None]:
    expected = "scikit-learn's file (install the project's dependencies again)"
    return reading(f"{request.where}: {path}", expected, OSError, EOFError, ValueError)
