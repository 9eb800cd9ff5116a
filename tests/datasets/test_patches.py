"""Patches of scikit-learn's photographs: sizes, places, defaults, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from batchscope.catalogue import dataset_definitions
from batchscope.datasets import patches
from batchscope.errors import ConfigError
from batchscope.store import estimates, records
from batchscope.study import config
from prepared_data import fault, prepared


def cut(size, **more):
    return dataset_definitions.resolve({"source": "patches", "image_size": size, **more})


def test_patches_of_each_photograph(tmp_path):
    definition = cut(256, per_class=10)
    data = prepared(tmp_path, definition, "patches")
    assert data.input_shape == (256, 256, 3) and data.scale == 1 / 255
    assert data.images("train").dtype == np.uint8
    assert data.images("train").shape == (12, 256, 256, 3)
    assert data.record["class_names"] == ["china", "flower"]
    assert data.record["class_counts"] == {"train": [6, 6], "validation": [2, 2], "test": [2, 2]}
    assert sorted(data.record["source_sha256"]) == ["china.jpg", "flower.jpg"]
    assert "danielbuechele" in data.record["source"] and "vultilion" in data.record["source"]
    assert data.record["source"].endswith("CC BY 2.0")
    assert dataset_definitions.read(definition).training_size() == 12
    assert estimates.data_bytes(definition) == data.record["bytes"]


def test_patches_have_their_defaults():
    written = cut(64, per_class=500, split={"train": 0.6, "validation": 0.2, "test": 0.2})
    assert cut(64) == written and written["split"]["seed"] == 0
    assert dataset_definitions.read(written).training_size() == 600
    assert [key for key, of in dataset_definitions.SOURCES.items() if of.overlapping] == ["patches"]


def test_every_patch_is_a_square_of_its_photograph(tmp_path):
    from sklearn.datasets import load_sample_image

    data = prepared(tmp_path, cut(40, per_class=15), "patches")
    squares = [
        np.lib.stride_tricks.sliding_window_view(load_sample_image(f"{name}.jpg"), (40, 40), (0, 1))
        for name in data.record["class_names"]
    ]
    places, ends = set(), [0, 20, 39]
    for split in records.SPLITS:
        for image, label in zip(data.images(split), data.labels(split), strict=True):
            views = squares[label].transpose(0, 1, 3, 4, 2)
            tops, lefts = np.nonzero((views[:, :, ends, ends] == image[ends, ends]).all((2, 3)))
            found = [
                (int(label), int(top), int(left))
                for top, left in zip(tops, lefts, strict=True)
                if (views[top, left] == image).all()
            ]
            assert found
            places.update(found[:1])
    assert len(places) == 30  # all distinct
    assert len({top for _, top, _ in places}) > 15 and len({left for *_, left in places}) > 15


def test_patches_follow_from_the_seed_alone(tmp_path):
    def patched(folder, seed):
        split = {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": seed}
        return prepared(tmp_path / folder, cut(32, per_class=20, split=split), "patches")

    def all_patches(data):
        return {image.tobytes() for split in records.SPLITS for image in data.images(split)}

    first, again, other = patched("a", 0), patched("b", 0), patched("c", 1)
    assert first.record["sha256"] == again.record["sha256"]
    assert len(all_patches(first)) == 40
    # Other places, not the same patches dealt otherwise.
    assert not all_patches(first) & all_patches(other)


def test_positions_of_patches_are_distinct_where_possible():
    def draw(count, seed=0):
        corners = patches.corners(np.random.default_rng(seed), (6, 9), 4, count)
        assert corners.shape == (count, 2)
        return [tuple(corner) for corner in corners.tolist()]

    everywhere = {(top, left) for top in range(3) for left in range(6)}
    assert set(draw(18)) == everywhere
    assert sorted(draw(36)) == sorted([*everywhere, *everywhere])
    assert len(set(draw(17))) == 17
    assert draw(5) == draw(18)[:5] != draw(5, seed=1)
    assert patches.corners(np.random.default_rng(0), (4, 4), 4, 3).tolist() == [[0, 0]] * 3


def test_the_largest_patch_has_the_height_of_the_photographs(tmp_path):
    data = prepared(tmp_path, cut(427, per_class=5), "patches")
    assert data.images("test").shape == (2, 427, 427, 3)


@pytest.mark.parametrize("size", [500, 15, 428])
def test_patches_that_do_not_fit_are_refused(tmp_path, size):
    message = f"image_size: received {size}; a whole number from 16 to 427 is expected."
    assert fault(tmp_path, cut(size), "big") == f"datasets.big.{message}"
    path = tmp_path / "config.yaml"
    path.write_text(
        "study: s\n"
        f"datasets: {{big: {{source: patches, image_size: {size}}}}}\n"
        "defaults: {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.1}\n"
        "experiments: {a: {set: {epochs: 1, batch_size: 8}, seeds: 1}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        config.study(path)
    assert str(caught.value) == f"datasets.big.{message}"


def test_patches_without_their_photographs(tmp_path, monkeypatch):
    monkeypatch.setattr(patches, "scikit_learn_data", lambda: tmp_path)
    message = fault(tmp_path, cut(16), "patches")
    assert message.startswith("datasets.patches: scikit-learn's china.jpg cannot be read (")
    assert message.endswith("install the project's dependencies again.")
