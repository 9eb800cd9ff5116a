"""What comes with scikit-learn: the same numbers as its own loaders give, and squares of photos."""

import numpy as np
import pytest
import sklearn.datasets

from batchscope.datasets.prepared import ModelInput
from batchscope.datasets.sources import scikit_learn
from batchscope.study import dataset_definitions
from prepared_data import all_parts, everything, prepared


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine"])
def test_tables_are_those_of_scikit_learn(name, tmp_path):
    definition = dataset_definitions.read({"source": name}).resolved()
    data = prepared(tmp_path, definition)
    theirs = getattr(sklearn.datasets, f"load_{name}")()
    examples = theirs.data.astype(np.uint8)
    if name != "digits":
        keys = ("feature_means", "feature_deviations")
        mean, deviation = (np.array(data.record[key]) for key in keys)
        examples = ((theirs.data - mean) / deviation).astype(np.float32)
    names = [str(name) for name in theirs.target_names]
    pairs = zip(examples, theirs.target, strict=True)
    assert everything(data) == sorted((row.tobytes(), names[label]) for row, label in pairs)
    assert data.record["class_names"] == names
    assert data.scale == (1 / 16 if name == "digits" else 1.0)
    source = dataset_definitions.read(definition)
    assert source.class_members() == tuple(np.bincount(theirs.target))
    assert source.training_size() == data.record["counts"]["train"]


def test_patches_are_squares_of_each_photograph(tmp_path):
    given = {"source": "patches", "image_size": 40, "per_class": 15}
    definition = dataset_definitions.read(given).resolved()
    data = prepared(tmp_path, definition, "patches")
    assert data.model_input[:4] == ((40, 40, 3), 2, "images", 1) and data.scale == 1 / 255
    assert data.record["class_names"] == ["china", "flower"]
    assert data.record["class_counts"] == {"train": [9, 9], "validation": [3, 3], "test": [3, 3]}
    assert data.record["source"].endswith("CC BY 2.0")
    assert dataset_definitions.read(definition).training_size() == 18
    images, labels = all_parts(data)
    for label, name in enumerate(("china", "flower")):
        photograph = sklearn.datasets.load_sample_image(f"{name}.jpg")
        generator = np.random.default_rng([0, 2 * 10**6 + label])
        corners = scikit_learn.corners(generator, photograph.shape[:2], 40, 15).tolist()
        squares = {photograph[top : top + 40, left : left + 40].tobytes() for top, left in corners}
        assert {image.tobytes() for image in images[labels == label]} == squares
        assert len(squares) == 15


def test_positions_of_patches_are_distinct_where_possible():
    def draw(count, seed=0):
        corners = scikit_learn.corners(np.random.default_rng(seed), (6, 9), 4, count)
        assert corners.shape == (count, 2)
        return [tuple(corner) for corner in corners.tolist()]

    everywhere = {(top, left) for top in range(3) for left in range(6)}
    assert set(draw(18)) == everywhere
    assert sorted(draw(36)) == sorted([*everywhere, *everywhere])
    assert len(set(draw(17))) == 17
    assert draw(5) == draw(18)[:5] != draw(5, seed=1)


def test_numbers_to_predict_are_standardised_by_the_training_part(tmp_path):
    """Errors of the mean, in the target's own unit, are what the data set's record has."""
    definition = dataset_definitions.BUILT_IN["diabetes"]
    data = prepared(tmp_path, definition.resolved(), "diabetes")
    given = sklearn.datasets.load_diabetes(scaled=False)
    (mean,), (deviation,) = data.record["target_means"], data.record["target_deviations"]
    result = all_parts(data)[1][:, 0]
    np.testing.assert_allclose(np.sort(result * deviation + mean), np.sort(given.target), 1e-5)
    train, test = (data.labels(split) for split in ("train", "test"))
    assert abs(train.mean()) < 1e-6 and abs(train.std() - 1) < 1e-6
    assert data.model_input == ModelInput((10,), 1, "rows", task="regression")
    assert data.record["counts"] == {"train": 266, "validation": 88, "test": 88}
    errors = data.record["baselines"]["test"]
    assert errors["mae"] == pytest.approx(np.abs(test).mean() * deviation, rel=1e-5)
    assert errors["mse"] == pytest.approx((test**2).mean() * deviation**2, rel=1e-5)
    assert errors["r2"] == pytest.approx(1 - (test**2).mean() / test.var(), abs=1e-5)
