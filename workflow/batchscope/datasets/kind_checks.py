"""Decide the kind of examples (images, rows, tokens), check their values and convert their type."""

from __future__ import annotations

import numpy as np

from batchscope.core.errors import unexpected
from batchscope.study.example_kinds import IMAGES, ROWS, SEQUENCES, TOKENS

MAX_NUMBER = float(np.finfo(np.float32).max)  # Networks train in float32.
# Above this token, float32 does not distinguish neighbours.
_MAX_TOKEN = 2**24 - 1


def kind_of_arrays(
    shape: tuple[int, ...],
    letter: str,
    label_shape: tuple[int, ...] | None,
    explicit_kind: str | None,
) -> str | None:
    """Return the kind of examples by their array and their labels; None if no kind fits.

    Args:
        shape: Shape of the examples, (n, ...).
        letter: NumPy's letter for the kind of their numbers: `f` for floats, `i` and `u` for
            integers.
        label_shape: Shape of the labels; None without labels.
        explicit_kind: Kind in the definition, or None.
    """
    kind_of_vectors = {"i": TOKENS, "u": TOKENS, "f": ROWS}.get(letter)
    kind = explicit_kind or {2: kind_of_vectors, 3: IMAGES, 4: IMAGES}.get(len(shape))
    # If sequences have one token, a label per sequence is a label per position.
    has_label_per_example = label_shape != shape and label_shape in (shape[:1], (*shape[:1], 1))
    return SEQUENCES if kind == TOKENS and has_label_per_example else kind


def convert_examples(kind: str, place: str, examples: np.ndarray) -> np.ndarray:
    """Check examples and return them in the type of their kind.

    Images get an axis of channels, as uint8 or float32. Rows become float64, not yet standardised.
    Tokens become int32.

    Raises:
        UserError: If shape, type or values do not fit the kind.
    """
    dimensions, shape = {
        IMAGES: ((3, 4), "(n, height, width[, channels])"),
        ROWS: ((2,), "(n, features)"),
    }.get(kind, ((2,), "(n, length)"))
    if examples.ndim not in dimensions or 0 in examples.shape:
        raise unexpected(place, f"shape {examples.shape}", shape)
    if kind == IMAGES:
        return _convert_images(place, examples[..., None] if examples.ndim == 3 else examples)
    letters, expected = ("uifb", "numbers") if kind == ROWS else ("ui", "whole numbers")
    if examples.dtype.kind not in letters:
        raise unexpected(place, str(examples.dtype), f"an array of {expected}")
    if kind == ROWS:
        expected = f"a finite number up to {MAX_NUMBER:.2g}"
        check_values(place, examples, np.abs(examples) <= MAX_NUMBER, expected)
        return examples.astype(np.float64)
    is_token = (examples >= 0) & (examples <= _MAX_TOKEN)
    check_values(place, examples, is_token, f"a token from 0 to {_MAX_TOKEN}")
    return examples.astype(np.int32)


def _convert_images(place: str, images: np.ndarray) -> np.ndarray:
    if images.dtype.kind == "f":
        with np.errstate(over="ignore"):
            floats = images.astype(np.float32, copy=False)
        if not np.isfinite([floats.min(), floats.max()]).all():
            received = "NaN, infinity or a number beyond float32"
            raise unexpected(place, received, "a finite number of each pixel")
        return floats
    if images.dtype.kind not in "ui":
        raise unexpected(place, str(images.dtype), "an array of bytes or floats")
    if images.min() < 0 or images.max() > 255:
        received = f"integers {images.min()} to {images.max()}"
        raise unexpected(place, received, "an array of bytes from 0 to 255, or of floats,")
    return images.astype(np.uint8, copy=False)


def check_values(place: str, values: np.ndarray, is_valid: np.ndarray, expected: str) -> None:
    """Raise a `UserError` with the first invalid value, its row and, if any, its column."""
    if not is_valid.all():
        row, *column = np.argwhere(~is_valid)[0].tolist()
        location = f"row {row}" + "".join(f", column {index}" for index in column)
        value = repr(values[(row, *column)].tolist())[:100]
        raise unexpected(place, f"{value} in {location}", expected)
