"""Every input pipeline yields the batches of plain slicing, and reads ahead as it says."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from test_loops import PIPELINES, SCALE, digits, endless, tf

from batchscope.datasets import Examples
from batchscope.errors import UserError
from batchscope.timing.steps import pipelines


def made(pipeline: str, images, labels, batch_size: int, folder=None):
    examples = pipelines.examples(pipeline, Examples(images, labels, SCALE), folder)
    return pipelines.batches(pipeline, examples, batch_size)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_pipeline_yields_the_batches_of_plain_slicing(pipeline, tmp_path):
    count, size = 300, 128  # enough for parallel maps to overtake each other
    images, labels = digits(count, 10)
    if pipeline == "jpeg":  # smooth images: of noise, JPEG keeps little
        ramp = np.add.outer(np.arange(8), np.arange(8))[None, :, :, None]
        images = ((ramp + np.arange(count)[:, None, None, None] // 10) % 17).clip(0, 16)
        images = np.sort(images, axis=2).astype(np.uint8)
    batches = made(pipeline, images, labels, size, tmp_path / "jpeg")
    assert batches.element_spec[0].dtype == tf.float32
    assert batches.element_spec[0].shape.as_list() == [None, 8, 8, 1]
    tolerance = 0.08 if pipeline == "jpeg" else 0
    pairs = zip(batches, endless(images, labels, size), strict=False)
    for found, expected in itertools.islice(pairs, 7):
        np.testing.assert_allclose(found[0], expected[0], atol=tolerance)
        assert found[1].numpy().tolist() == expected[1].numpy().tolist()


def read_ahead(pipeline: str, monkeypatch, wanted: int = 0) -> tuple[int, int, int]:
    """Images mapped before the first batch of 8 of 64, a while after it, and after 3 epochs."""
    mapped = [0]
    scaled = pipelines.losses.scaled

    def counted(images: tf.Tensor, scale: float) -> tf.Tensor:
        def count(value: np.ndarray) -> np.ndarray:
            mapped[0] += 1
            return value

        found = tf.numpy_function(count, [scaled(images, scale)], tf.float32, stateful=False)
        return tf.ensure_shape(found, images.shape)

    monkeypatch.setattr(pipelines.losses, "scaled", counted)
    batches = iter(made(pipeline, *digits(64), 8))
    before = mapped[0]
    next(batches)
    time.sleep(0.3)
    waited = time.monotonic() + 300
    while mapped[0] < wanted and time.monotonic() < waited:
        time.sleep(0.1)
    after_one = mapped[0]
    for _ in range(23):
        next(batches)
    return before, after_one, mapped[0]


@pytest.mark.slow
def test_a_plain_pipeline_maps_nothing_ahead(monkeypatch):
    assert read_ahead("dataset", monkeypatch) == (0, 8, 192)


@pytest.mark.slow
def test_a_prefetching_pipeline_makes_two_batches_ahead(monkeypatch):
    before, after_one, _ = read_ahead("prefetch", monkeypatch, wanted=24)
    # The batch taken, two that are ready, and what a parallel map has under way.
    assert before == 0
    assert 24 <= after_one < 64


@pytest.mark.slow
def test_a_cache_is_full_at_once_and_maps_nothing_twice(monkeypatch):
    assert read_ahead("cache", monkeypatch) == (64, 64, 64)


def test_jpeg_files_are_written_once_and_never_half(tmp_path):
    images, _ = digits(5)
    folder = tmp_path / "some" / "jpeg"
    files = pipelines.encode(images, SCALE, folder)

    def written() -> list[tuple[str, int]]:
        return [(path.name, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())]

    once = written()
    assert [name for name, _ in once] == [f"000000{index}.jpg" for index in range(5)]
    assert pipelines.encode(images, SCALE, folder) == files
    assert written() == once
    assert [path.name for path in folder.parent.iterdir()] == ["jpeg"]
    with pytest.raises(UserError, match="received 5 files; .* the 4 JPEG files"):
        pipelines.encode(images[:4], SCALE, folder)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 8, 8, 2), np.uint8), "received images of 2 channels; 1 or 3"),
        (np.full((2, 8, 8, 1), 18, np.uint8), "to 1.125; numbers from 0 to 1"),
        (np.full((2, 8, 8, 1), np.nan, np.float32), "from nan to nan; numbers from 0 to 1"),
    ],
)
def test_images_that_are_no_jpeg_files_are_refused(images, message, tmp_path):
    with pytest.raises(UserError, match=message):
        pipelines.encode(images, SCALE, tmp_path / "jpeg")
    assert not list(tmp_path.iterdir())
