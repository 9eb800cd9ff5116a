"""Labels that are no single class: which they are, and what is kept."""

import numpy as np
import pytest
from test_arrays import LABELS, ROWS

from prepared_data import all_parts, csv, faults, npz, prepared

MANY = np.arange(400) % 120
PAIRS = np.stack([LABELS, np.arange(40) // 20], axis=1)


@pytest.mark.parametrize(
    ("labels", "options", "result", "names"),
    [
        (LABELS + 0.5, {}, "regression", ["0"]),
        (LABELS, {"task": "regression"}, "regression", ["0"]),
        (PAIRS, {"task": "multi_label"}, "multi_label", ["0", "1"]),
    ],
)
def test_the_task_of_arrays(labels, options, result, names, tmp_path):
    arrays = {"x_train": ROWS, "y_train": labels, "x_test": ROWS[:9], "y_test": labels[:9]}
    data = prepared(tmp_path, npz(tmp_path, arrays, split={"validation": 8}, **options))
    assert (data.task, data.record["class_names"]) == (result, names)
    assert data.record["counts"] == {"train": 32, "validation": 8, "test": 9}  # not by class
    kept = data.labels("test").astype(float)
    if result == "regression":
        kept = kept * data.record["target_deviations"] + data.record["target_means"]
    assert kept == pytest.approx(np.reshape(labels, (40, -1))[:9], abs=1e-5)


def test_many_classes_of_images_are_classes(tmp_path):
    images = np.zeros((400, 2, 2), np.uint8)
    split = {"train": 1, "validation": 1, "test": 1}
    data = prepared(tmp_path, npz(tmp_path, {"images": images, "labels": MANY}, split=split))
    assert data.classes == 120
    rows = {"inputs": np.random.rand(400, 2), "labels": MANY}
    assert "received 120 different" in faults(tmp_path, npz(tmp_path, rows))[0]
    named = npz(tmp_path, rows, split=split, task="classification")
    assert prepared(tmp_path, named).classes == 120


@pytest.mark.parametrize(
    ("options", "task", "names", "first"),
    [
        ({}, "regression", ["z"], [2.5]),
        ({"label": ["y", "z"]}, "regression", ["y", "z"], [1, 2.5]),
        ({"label": ["y", "w"]}, "multi_label", ["y", "w"], [1, 0]),
        ({"label": "y"}, "classification", ["0", "1"], None),
        ({"task": "classification"}, "classification", ["2.5", "7"], None),
    ],
)
def test_the_task_of_a_table(options, task, names, first, tmp_path):
    lines = ["x,y,w,z", *(f"{x * x},{1 - x % 2},{x % 3 == 1},{(2.5, 7)[x % 2]}" for x in range(40))]
    data = prepared(tmp_path, csv(tmp_path, "\n".join(lines), **options))
    assert (data.task, data.record["class_names"]) == (task, names)
    assert ("target_means" in data.record) == (task == "regression")
    if first:
        # The row of x = 0 is the smallest, wherever it lies.
        rows, labels = all_parts(data)
        kept = labels[rows[:, 0].argmin()].astype(float)
        if task == "regression":
            kept = kept * data.record["target_deviations"] + data.record["target_means"]
        assert kept == pytest.approx(first, abs=1e-5)
