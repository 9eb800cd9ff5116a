"""Pick a few examples of a prepared data set for the report: small images or lines of tokens."""

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchscope.datasets.prepared import Dataset
from batchscope.study import example_kinds

_MAX_IMAGES, _MAX_CLASSES = 8, 10  # largest numbers of images and classes; each class has an image
_MAX_LINES = 4
_MAX_SIDE = 96  # pixels of a larger image's longer side
_FAR_ABOVE_ONE = 16  # Standardised pixels are smaller.
_MAX_LOSSLESS_SIDE = 40  # largest side of images that are stored without loss, pixels


class Sample(NamedTuple):
    """One training example."""

    label: str  # name of its class; empty for tokens
    image: bytes = b""  # WebP; empty for tokens
    text: str = ""  # the tokens
    small: bool = False  # whether the report shows single pixels


def few_samples(folder: Path, record: dict[str, Any]) -> list[Sample]:
    """Return training images of each class, or the first sequences of tokens.

    The list is empty for other kinds of examples, and without the arrays.
    """
    data = Dataset(folder, record)
    if not all((folder / f"train_{array}.npy").exists() for array in ("images", "labels")):
        return []
    examples, names = data.images("train"), list(map(str, record.get("class_names", ())))
    if data.model_input.kind == example_kinds.TOKENS:
        between = "" if all(len(name) == 1 for name in names) else " "
        texts = [[names[token] for token in row] for row in examples[:_MAX_LINES]]
        return [Sample("", text=between.join(row).replace("\n", "\u21b5")) for row in texts]
    if data.model_input.kind != example_kinds.IMAGES:
        return []
    labels, class_names = np.asarray(data.labels("train")), names[:_MAX_CLASSES]
    per_class = max(1, _MAX_IMAGES // len(class_names))
    small = max(data.input_shape[:2]) <= _MAX_LOSSLESS_SIDE
    return [
        Sample(name, _webp(example, data.scale, small), small=small)
        for label, name in enumerate(class_names)
        for example in examples[np.flatnonzero(labels == label)[:per_class]]
    ]


def _webp(stored: np.ndarray, scale: float, lossless: bool) -> bytes:
    """Return an image as WebP with a longer side of at most `_MAX_SIDE` pixels.

    The first channel is shown unless there are three. `scale` maps the pixels to 0 to 1, unless the
    network receives larger numbers.
    """
    from PIL import Image

    brightest = scale * float(stored.max())
    white = 1 if brightest < _FAR_ABOVE_ONE else max(255, brightest)
    pixels = np.clip(stored * (255 * scale / white), 0, 255).round().astype(np.uint8)
    picture = Image.fromarray(pixels if pixels.shape[-1] == 3 else pixels[..., 0])
    picture.thumbnail((_MAX_SIDE, _MAX_SIDE))
    file = io.BytesIO()
    picture.save(file, "WEBP", lossless=lossless, quality=80)
    return file.getvalue()
