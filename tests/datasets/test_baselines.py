"""Baselines of several labels, by hand."""

import numpy as np
import pytest

from batchscope.datasets import labels


def test_the_best_labels_for_every_example_are_chosen_by_the_training_part():
    train = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1]])
    # Naming the first: 2*4 / (4 + 7); the first two: 2*6 / (8 + 7); all: 2*7 / (12 + 7).
    other = np.array([[1, 0, 0], [0, 1, 1]])
    result = labels.baselines("multi_label", {"train": train, "validation": train, "test": other})
    assert result["validation"]["f1"] == pytest.approx(12 / 15)
    assert result["test"]["f1"] == pytest.approx(2 * 2 / (4 + 3))
