"""Means over seeds, and differences that are paired by seed."""

import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import intervals, seed_pairs


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


def series(names=("none", "linear"), sizes=(32, 256), seeds=range(6)):
    """Accuracy falls by .1 from none to linear at 256, by a little more or less with the seed."""
    rows = [
        {
            **{"batch_size": size, "seed": seed, "learning_rate_scaling": name},
            **{"status": "finished", "train_seconds": 5.0},
            "test_accuracy": 0.5 + seed - (0.1 + 0.01 * seed) * (name != "none") * (size > 32),
        }
        for name in names
        for size in sizes
        for seed in seeds
    ]
    return pandas.DataFrame(rows)


ROWS = series()
LINEAR = ROWS["learning_rate_scaling"] == "linear"


def test_series_differ_seed_by_seed_at_the_largest_batch_size_of_all():
    rows = ROWS.copy()
    rows.loc[LINEAR & (rows["seed"] == 2), ["status", "test_accuracy"]] = ["diverged", math.nan]
    found = seed_pairs.differences(rows)
    shown = (found.batch_size, found.against, found.series)
    assert shown == (256, "no scaling", ("linear scaling",))
    expected = intervals.t_interval(-(0.1 + 0.01 * np.array([0, 1, 3, 4, 5])))
    assert found.of == {"test_accuracy": (pytest.approx(expected),)}  # times are the same in both
    rows.loc[LINEAR, "test_accuracy"] -= 0.05
    assert seed_pairs.differences(rows[(rows["batch_size"] == 32) | ~LINEAR]).batch_size == 32


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[~LINEAR],  # one series
        ROWS[(ROWS["batch_size"] == 256) == LINEAR],  # nothing shared
        ROWS.assign(test_accuracy=math.nan),
        pandas.concat([ROWS, ROWS]),  # seeds twice
    ],
)
def test_nothing_differs_where_nothing_can_be_compared(rows):
    assert seed_pairs.differences(rows) is None
