"""A few examples of a prepared data set, for people to look at."""

import io

import numpy as np
import pytest
from PIL import Image

from batchscope.datasets import samples
from batchscope.study import dataset_definitions
from prepared_data import prepared

SPLIT = {"train": 0.5, "validation": 0.25, "test": 0.25}


def few(tmp_path, **raw):
    data = prepared(tmp_path, dataset_definitions.resolve(raw))
    return data, samples.few(data.folder, data.record)


def test_one_image_of_each_class_has_every_pixel(tmp_path):
    data, found = few(tmp_path, source="digits")
    assert [each.label for each in found] == [str(digit) for digit in range(10)]
    labels = data.labels("train")
    for digit, each in enumerate(found):
        first = data.images("train")[np.flatnonzero(labels == digit)[0]]
        shown = np.asarray(Image.open(io.BytesIO(each.image)).convert("L"))
        assert each.small and (shown == (first[..., 0] * (255 / 16)).round()).all()


@pytest.mark.parametrize(("stored", "scale"), [(np.uint8(200), 1), (np.float32(51400), 1)])
def test_images_that_a_network_sees_as_they_are_have_their_own_white(stored, scale, tmp_path):
    images = np.full((20, 5, 5, 1), stored)
    np.savez(tmp_path / "own.npz", images=images, labels=np.arange(20) % 2)
    path = str(tmp_path / "own.npz")
    _, found = few(tmp_path, source="npz", path=path, split=SPLIT, scale=scale)
    assert (np.asarray(Image.open(io.BytesIO(found[0].image)).convert("L")) == 200).all()


def test_several_of_few_classes_and_large_images_are_made_smaller(tmp_path):
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (40, 200, 100, 3), np.uint8), np.arange(40) % 2
    np.savez(tmp_path / "own.npz", images=images, labels=labels)
    _, found = few(tmp_path, source="npz", path=str(tmp_path / "own.npz"), split=SPLIT)
    assert [each.label for each in found] == ["0"] * 4 + ["1"] * 4
    assert not found[0].small and Image.open(io.BytesIO(found[0].image)).size == (48, 96)
    assert all(len(each.image) < 12_000 for each in found)


def test_rows_and_sequences_are_lines(tmp_path):
    data, found = few(tmp_path, source="wine")
    assert len({each.label for each in found}) == len(found) == 3
    first = data.images("train")[np.flatnonzero(data.labels("train") == 0)[0]]
    numbers = found[0].text.replace("\N{MINUS SIGN}", "-").split(", ")
    assert len(numbers) == 9 and numbers[-1] == "\u2026" and found[0].image == b""
    assert [float(each) for each in numbers[:-1]] == pytest.approx(first[:8].tolist(), rel=0.01)
    (tmp_path / "own.txt").write_text("ab\ncdefg" * 9)
    path = str(tmp_path / "own.txt")
    data, found = few(tmp_path, source="text", path=path, length=8, split=SPLIT)
    assert {"".join(sorted(each.text)) for each in found} == {"abcdefg\u21b5"}
    assert len(found) == min(4, data.record["counts"]["train"])
