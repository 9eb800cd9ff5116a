"""Input pipelines of `tf.data`: each adds one operation to the previous pipeline.

`dataset`   from_tensor_slices, a map of one image at a time, batch
`map`       the same with a parallel map
`prefetch`  the same, and two batches are prepared while a step runs
`cache`     the same, and the mapped images stay in memory: no image is mapped twice
`jpeg`      as `prefetch`, but every image is a JPEG file that is read and decoded. The files are
            written just before, from the data set's resized images. They are small and in the page
            cache, so no step waits for a disk

The map converts one stored image to float32 numbers, times the data set's scale. Every pipeline
yields the same whole batches in the same order, epoch after epoch, without shuffling.

By default tf.data makes a sequential map parallel, fuses it with the batching and adds a prefetch
at the end. That is switched off; otherwise the first two pipelines would equal the third.

Source: "Why does TensorFlow training on mini-batches sometimes become slower?" (2025); for their
order, TensorFlow's guide "Better performance with the tf.data API".
"""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from batchscope.core.errors import UserError
from batchscope.datasets import Examples
from batchscope.study import tasks
from batchscope.training import losses

PREFETCHING = ("prefetch", "cache", "jpeg")
JPEG_QUALITY = 95
# Number of prefetched batches. It is small and fixed, not AUTOTUNE, because the batches that are
# ready when a block begins cost the block nothing.
PREFETCH_BATCHES = 2


def mapped_examples(pipeline: str, data: Examples, folder: Path | None = None) -> tf.data.Dataset:
    """Return one epoch of a pipeline's mapped examples, for batches of any size.

    Args:
        data: Examples. If the images are a tensor, all pipelines share them.
        folder: Folder for the files of `jpeg`, which must not exist yet.

    Raises:
        UserError: If the images cannot be JPEG files.
    """
    source, labels, scale = data.images, data.labels, data.scale
    labels = tf.cast(labels, tf.float32 if data.task_info.task == tasks.REGRESSION else tf.int32)
    shape = source.shape[1:]
    if pipeline == "jpeg":
        source, scale = write_jpegs(np.asarray(source), scale, folder), 1 / 255

    def example(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if pipeline == "jpeg":
            image = tf.io.decode_jpeg(tf.io.read_file(image), shape[-1])
            image = tf.ensure_shape(image, shape)  # decoding leaves the shape unknown
        return losses.scaled_images(image, scale), label

    slices = tf.data.Dataset.from_tensor_slices((source, labels))
    parallel = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": True}
    mapped = slices.map(example, **({} if pipeline == "dataset" else parallel))
    options = tf.data.Options()
    rewrites = options.experimental_optimization
    rewrites.apply_default_optimizations = False
    rewrites.map_parallelization = False
    rewrites.map_and_batch_fusion = False
    rewrites.inject_prefetch = False
    mapped = mapped.with_options(options)
    if pipeline == "cache":
        mapped = mapped.cache()
        mapped.reduce(np.int64(0), lambda count, _: count + 1)  # fills the cache before the timing
    return mapped


def batches(pipeline: str, mapped_examples: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
    """Return the whole batches of a pipeline's mapped examples, repeated without end.

    If the batch size exceeds the number of examples, one batch has all examples.
    """
    count = int(mapped_examples.cardinality())
    # `drop_remainder` would give each batch size its own type, and so its own trace.
    mapped_examples = mapped_examples.take(max(count - count % batch_size, min(count, batch_size)))
    endless = mapped_examples.batch(batch_size).repeat()
    return endless.prefetch(PREFETCH_BATCHES) if pipeline in PREFETCHING else endless


def write_jpegs(images: np.ndarray, scale: float, folder: Path) -> list[str]:
    """Write images of shape (n, height, width, channels) as JPEG files; return their paths.

    The intensities `scale * image` are stored as bytes from 0 to 255.

    Raises:
        UserError: If the images do not have 1 or 3 channels, or have intensities outside [0, 1].
    """
    if images.shape[-1] not in (1, 3):
        raise UserError(
            f"input_pipeline jpeg: received images of {images.shape[-1]} channels; 1 or 3 are "
            "expected."
        )
    low, high = scale * np.float64(images.min()), scale * np.float64(images.max())
    # The tolerance is half a byte, because intensities are rounded to bytes. NaN fails too.
    if not (low > -0.5 / 255 and high < 1 + 0.5 / 255):
        raise UserError(
            f"input_pipeline jpeg: received intensities from {low:g} to {high:g}; numbers from 0 "
            "to 1, once scaled, are expected."
        )
    folder.mkdir()
    paths = [str(folder / f"{index:07d}.jpg") for index in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        pixels = np.rint(image * np.float64(255 * scale)).clip(0, 255).astype(np.uint8)
        keras.utils.save_img(path, pixels, scale=False, quality=JPEG_QUALITY)
    return paths
