"""Means over seeds, and differences that are paired by seed."""

import math

import pandas
import pytest

from batchscope.analysis import seed_pairs


def test_an_accuracy_has_the_binomial_error_of_its_examples():
    rows = {"batch_size": [8, 8, 16], "test_accuracy": [0.8, 0.6, 1.0], "test_examples": 100}
    found = seed_pairs.binomial(pandas.DataFrame(rows), "test_accuracy", ["batch_size"])
    assert found["mean"].to_dict() == pytest.approx({8: 0.7, 16: 1.0})
    assert found["half"].to_dict() == pytest.approx({8: 1.96 * math.sqrt(0.0021), 16: 0.0})


def runs(**columns):
    rows = {"batch_size": [16, 16, 64, 64, 64], "seed": [0, 1, 0, 1, 2], **columns}
    return pandas.DataFrame(rows).assign(status=["finished", "diverged", *["finished"] * 3])


def test_parts_add_up_to_the_whole_of_seeds_that_have_both_ends():
    frame = runs(updates=[64.0, 64, 16, 16, 16], norm=[1.0, 1, 8, 8, 8])
    found = seed_pairs.doublings(frame, ["updates", "norm"], "whole")
    assert found[["batch_size", "seed"]].to_numpy().tolist() == [[16, 0], [64, 0]]
    assert found[["updates", "norm", "whole"]].to_numpy().tolist() == [[0, 0, 0], [-2, 3, 1]]
    none = seed_pairs.doublings(frame[:0], ["updates", "norm"], "whole")
    assert none.empty and "whole" in none
