"""Where a step's batch comes from: `tf.data` pipelines, each with one thing more than the last.

`dataset`   from_tensor_slices, one map at a time, batch
`map`       the same, with a parallel map
`prefetch`  the same, and two batches are made ready while a step runs
`cache`     the same, and the mapped images are kept in memory: nothing is mapped twice
`jpeg`      as `prefetch`, but every image is a JPEG file that is read and decoded. The files are
            written just before from the data set's resized images: they are small and in the page
            cache, and no step waits for a disk

The map turns one stored image into float32 numbers, times the data set's scale. Every pipeline
yields the same whole batches in the same order, epoch after epoch. Nothing is shuffled.

By default tf.data makes a sequential map parallel, fuses it with the batching and puts a prefetch
behind all. That is switched off here; otherwise the first two pipelines would be the third.

Source: "Why does TensorFlow training on mini-batches sometimes become slower?" (2025);
TensorFlow's guide "Better performance with the tf.data API" for their order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

from batchscope.datasets import Examples
from batchscope.errors import UserError
from batchscope.training import losses

PIPELINES = ("dataset", "map", "prefetch", "cache", "jpeg")
PREFETCHING = ("prefetch", "cache", "jpeg")
JPEG_QUALITY = 95
# Batches that are made ready ahead. A number, not AUTOTUNE: the batches that stand ready when a
# block begins cost it nothing, so there must be few of them, and known.
PREFETCH_BATCHES = 2
_CHANNELS = (1, 3)  # of a JPEG file
_ROWS = 1024  # images checked at once


def examples(pipeline: str, given: Examples, folder: Path | str | None = None) -> tf.data.Dataset:
    """Returns a pipeline's mapped examples, one epoch of them, for batches of any size.

    Their images may be a tensor, which is shared. The folder gets the files of `jpeg`, and must
    not be there yet. Raises `UserError` if the images cannot be JPEG files.
    """
    images, labels, scale = given.images, tf.cast(given.labels, tf.int32), given.scale
    if pipeline == "jpeg":
        channels = images.shape[-1]

        def example(source: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            pixels = tf.io.decode_jpeg(tf.io.read_file(source), channels)
            # The shape that the files have; decoding alone leaves it open.
            pixels = tf.ensure_shape(pixels, images.shape[1:])
            return losses.scaled(pixels, 1 / 255), label

        files = encode(np.asarray(images), scale, Path(folder))
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


def batches(pipeline: str, examples: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
    """Returns the whole batches of a pipeline's `examples`, epoch after epoch without end.

    A batch size above all examples gives all of them as one batch.
    """
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


def encode(images: np.ndarray, scale: float, folder: Path) -> list[str]:
    """Writes images of shape (n, height, width, channels) as JPEG files; returns their paths.

    The intensities `scale * image`, in [0, 1], are stored as bytes from 0 to 255.

    Raises:
        UserError: If the images have other than 1 or 3 channels, or intensities outside [0, 1].
    """
    if images.shape[-1] not in _CHANNELS:
        raise UserError(
            f"input_pipeline jpeg: received images of {images.shape[-1]} channels; 1 or 3 are "
            "expected."
        )
    for start in range(0, len(images), _ROWS):
        part = images[start : start + _ROWS] * np.float64(scale)
        # Half a byte: what rounds to a byte in range is in range. NaN fails too.
        if not (part.min() > -0.5 / 255 and part.max() < 1 + 0.5 / 255):
            raise UserError(
                f"input_pipeline jpeg: received intensities from {part.min():g} to "
                f"{part.max():g}; numbers from 0 to 1, once scaled, are expected."
            )
    folder.mkdir()
    paths = [str(folder / f"{index:07d}.jpg") for index in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        pixels = np.rint(image * np.float64(255 * scale)).clip(0, 255).astype(np.uint8)
        # A grey image has no axis of channels.
        Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(
            path, quality=JPEG_QUALITY
        )
    return paths
