"""A few examples of a prepared data set, for people to look at."""

import io

import numpy as np
from PIL import Image

from batchscope.datasets import samples
from batchscope.study import dataset_definitions
from prepared_data import npz, prepared


def few(tmp_path, **raw):
    data = prepared(tmp_path, dataset_definitions.resolve(raw))
    return data, samples.few_samples(data.folder, data.record)


def test_one_image_of_each_class_has_every_pixel(tmp_path):
    data, result = few(tmp_path, source="digits")
    assert [item.label for item in result] == [str(digit) for digit in range(10)]
    labels = data.labels("train")
    for digit, item in enumerate(result):
        first = data.images("train")[np.flatnonzero(labels == digit)[0]]
        shown = np.asarray(Image.open(io.BytesIO(item.image)).convert("L"))
        assert item.small and (shown == (first[..., 0] * (255 / 16)).round()).all()


def test_images_of_bytes_without_scaling_keep_their_brightness(tmp_path):
    images = np.full((20, 5, 5, 1), np.uint8(200))
    values = {"images": images, "labels": np.arange(20) % 2}
    _, result = few(tmp_path, **npz(tmp_path, values, scale=1))
    assert (np.asarray(Image.open(io.BytesIO(result[0].image)).convert("L")) == 200).all()


def test_several_of_few_classes_and_large_images_are_made_smaller(tmp_path):
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (40, 200, 100, 3), np.uint8), np.arange(40) % 2
    _, result = few(tmp_path, **npz(tmp_path, {"images": images, "labels": labels}))
    assert [item.label for item in result] == ["0"] * 4 + ["1"] * 4
    assert not result[0].small and Image.open(io.BytesIO(result[0].image)).size == (48, 96)
    assert all(len(item.image) < 12_000 for item in result)


def test_tokens_are_lines_and_rows_have_no_sample(tmp_path):
    assert few(tmp_path, source="wine")[1] == []
    (tmp_path / "own.txt").write_text("ab\ncdefg" * 9)
    path = str(tmp_path / "own.txt")
    split = {"train": 0.5, "validation": 0.25, "test": 0.25}
    data, result = few(tmp_path, source="text", path=path, length=8, split=split)
    assert {"".join(sorted(item.text)) for item in result} == {"abcdefg\u21b5"}
    assert len(result) == min(4, data.record["counts"]["train"])
