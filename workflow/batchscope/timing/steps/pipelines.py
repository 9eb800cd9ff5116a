"""Where a step's batch comes from: `tf.data` pipelines, each with one thing more than the last.

`dataset`   from_tensor_slices, one map at a time, batch
`map`       the same, with a parallel map
`prefetch`  the same, and two batches are made ready while a step runs
`cache`     the same, and the mapped images are kept in memory: nothing is mapped twice
`jpeg`      as `prefetch`, but every image is a JPEG file that is read and decoded: written just
            before from the data set's resized image, so that it is small and in the page cache,
            and no disk is waited for

The map turns one stored image into float32 numbers, times the data set's scale. Every pipeline
yields the same batches in the same order, 0 to n - 1, epoch after epoch without end; an epoch's
last batch is smaller where the batch size does not divide n. Nothing is shuffled.

tf.data rewrites what it is given: by default it makes a sequential map parallel, fuses it with
the batching and puts a prefetch behind all. That is switched off here; otherwise the first two
pipelines would be the third under other names.

Source: "Why does TensorFlow training on mini-batches sometimes become slower?" (2025), which
names parallel maps, prefetching and caching as remedies; TensorFlow's guide "Better performance
with the tf.data API" for their order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from batchscope import disk
from batchscope.datasets import Examples
from batchscope.errors import UserError
from batchscope.training import losses

PIPELINES = ("dataset", "map", "prefetch", "cache", "jpeg")
PREFETCHING = ("prefetch", "cache", "jpeg")
JPEG_QUALITY = 95
# Batches that are made ready ahead. A number, not AUTOTUNE: what stands ready when a block of
# steps begins costs it nothing, so there must be few of them, and known.
PREFETCH_BATCHES = 2

_MODES = {1: "L", 3: "RGB"}
_ROWS = 1024  # images checked at once


def examples(pipeline: str, given: Examples, folder: Path | str | None = None) -> tf.data.Dataset:
    """Returns a pipeline's mapped examples, one epoch of them.

    What depends on no batch size: several batch sizes can share the images, the cache (which
    is full on return) and the JPEG files.

    Args:
        given: Their images may be a tensor, which is shared; an array is copied.
        folder: Where `jpeg` keeps its files; see `encode`.

    Raises:
        ValueError: If there is no such pipeline.
        UserError: If the images cannot be JPEG files, or the folder holds other files.
    """
    if pipeline not in PIPELINES:
        raise ValueError(
            f"input_pipeline: received {pipeline!r}; one of {', '.join(PIPELINES)} is expected."
        )
    images, labels, scale = given.images, tf.cast(given.labels, tf.int32), given.scale
    if pipeline == "jpeg":
        if folder is None:
            raise ValueError("folder: received None; a folder for the JPEG files is expected.")
        channels = images.shape[-1]
        files = encode(np.asarray(images), scale, folder)

        def example(source: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            pixels = tf.io.decode_jpeg(tf.io.read_file(source), channels)
            # The shape that the files have; decoding alone leaves it open.
            pixels = tf.ensure_shape(pixels, images.shape[1:])
            return losses.scaled(pixels, 1 / 255), label

        slices = tf.data.Dataset.from_tensor_slices((files, labels))
    else:

        def example(source: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return losses.scaled(source, scale), label

        slices = tf.data.Dataset.from_tensor_slices((images, labels))
    calls = None if pipeline == "dataset" else tf.data.AUTOTUNE
    mapped = slices.map(example, calls, deterministic=None if calls is None else True)
    mapped = mapped.with_options(_as_written())
    if pipeline != "cache":
        return mapped
    cached = mapped.cache()
    cached.reduce(np.int64(0), lambda count, _: count + 1)  # so that no timed step fills it
    return cached


def batches(
    pipeline: str, examples: tf.data.Dataset, batch_size: int, whole_batches: bool = False
) -> tf.data.Dataset:
    """Returns the batches of a pipeline's `examples`, epoch after epoch without end.

    Args:
        whole_batches: Whether an epoch ends with its last whole batch, where it has one.

    Returns:
        A data set of (images, float32 of shape (b, height, width, channels), labels, int32 of
        shape (b,)), b the batch size or what is left of an epoch.
    """
    if whole_batches:
        count = int(examples.cardinality())
        # Not by the batching, which would give every batch size a type, and a trace, of its own.
        examples = examples.take(max(count - count % batch_size, min(count, batch_size)))
    endless = examples.batch(batch_size).repeat()
    return endless.prefetch(PREFETCH_BATCHES) if pipeline in PREFETCHING else endless


def _as_written() -> tf.data.Options:
    options = tf.data.Options()
    rewrites = options.experimental_optimization
    rewrites.apply_default_optimizations = False
    rewrites.map_parallelization = False
    rewrites.map_and_batch_fusion = False
    rewrites.inject_prefetch = False
    return options


def encode(images: np.ndarray, scale: float, folder: Path | str) -> list[str]:
    """Returns the paths of images as JPEG files, in order; writes them where they are missing.

    The intensities `scale * image`, in [0, 1], are stored as bytes from 0 to 255, at quality
    95. The folder appears with all its files or not at all, and what it holds is taken as it
    is: it belongs to one array of images.

    Args:
        images: Shape (n, height, width, channels).
        folder: The files' own folder; missing or empty, or made by an earlier call.

    Raises:
        UserError: If the images have other than 1 or 3 channels, or intensities outside [0, 1],
            or the folder holds another number of files.
    """
    folder = Path(folder)
    paths = [folder / f"{index:07d}.jpg" for index in range(len(images))]
    if not folder.is_dir() or not any(folder.iterdir()):
        _check(images, scale)
        _write(images, scale, folder)
    found = sorted(folder.iterdir())
    if found != paths:
        raise UserError(
            f"{folder}: received {len(found)} files; an empty folder, or the {len(paths)} JPEG "
            "files of these images, is expected."
        )
    return [str(path) for path in paths]


def _check(images: np.ndarray, scale: float) -> None:
    channels = images.shape[-1]
    if channels not in _MODES:
        raise UserError(
            f"input_pipeline jpeg: received images of {channels} channels; 1 or 3 are expected."
        )
    for start in range(0, len(images), _ROWS):
        part = images[start : start + _ROWS] * np.float64(scale)
        # Half a byte: what rounds to a byte in range is in range. NaN fails too.
        if not (part.min() > -0.5 / 255 and part.max() < 1 + 0.5 / 255):
            raise UserError(
                f"input_pipeline jpeg: received intensities from {part.min():g} to "
                f"{part.max():g}; numbers from 0 to 1, once scaled, are expected."
            )


def _write(images: np.ndarray, scale: float, folder: Path) -> None:
    from PIL import Image

    mode = _MODES[images.shape[-1]]
    with disk.atomic_folder(folder) as scratch:
        for index, image in enumerate(images):
            pixels = np.rint(image * np.float64(255 * scale)).clip(0, 255).astype(np.uint8)
            plain = Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode)
            plain.save(scratch / f"{index:07d}.jpg", quality=JPEG_QUALITY)
