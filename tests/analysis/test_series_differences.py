"""How series differ at one batch size."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import synthetic
from batchscope.analysis import intervals, run_series, series_differences
from batchscope.catalogue import run_factors
from batchscope.report import answers


def frame(series=("none", "linear"), sizes=(32, 256), seeds=range(6)):
    """Accuracy falls by .1 from none to linear at 256, by a little more or less with the seed."""
    rows = [
        {
            **{"run": f"{scaling}-{size}-{seed}", "batch_size": size, "seed": seed},
            **{"learning_rate_scaling": scaling, "status": "finished", "train_seconds": 5.0},
            "test_accuracy": 0.5 + seed - (0.1 + 0.01 * seed) * (scaling != "none") * (size > 32),
        }
        for scaling in series
        for size in sizes
        for seed in seeds
    ]
    return pandas.DataFrame(rows)


def test_series_are_compared_seed_by_seed_at_the_largest_batch_size():
    found = series_differences.contrast(frame())
    assert (found.batch_size, found.against) == (256, "no scaling")
    assert found.series == ("linear scaling",)
    (difference,) = found.differences["test_accuracy"]
    expected = intervals.t_interval(-(0.1 + 0.01 * np.arange(6)))
    assert difference == pytest.approx(expected)
    assert "train_seconds" not in found.differences  # the same in both
    # The values themselves scatter a hundred times as much: pairs, and no two means.
    assert difference.high - difference.low < 0.05


def test_only_pairs_that_finished_count():
    rows = frame()
    gone = (rows["seed"] == 2) & (rows["learning_rate_scaling"] == "linear")
    rows.loc[gone, ["status", "test_accuracy"]] = ["diverged", np.nan]
    (difference,) = series_differences.contrast(rows).differences["test_accuracy"]
    assert difference.n == 5
    kept = -(0.1 + 0.01 * np.array([0, 1, 3, 4, 5]))
    assert difference.mean == pytest.approx(kept.mean())


def test_the_batch_size_is_one_that_all_have():
    rows = frame()
    rows = rows[(rows["batch_size"] == 32) | (rows["learning_rate_scaling"] == "none")]
    rows.loc[rows["learning_rate_scaling"] == "linear", "test_accuracy"] -= 0.05
    found = series_differences.contrast(rows)
    assert found.batch_size == 32
    assert found.differences["test_accuracy"][0].mean == pytest.approx(-0.05)


ROWS = frame()
LINEAR = ROWS["learning_rate_scaling"] == "linear"
NOTHING = {
    "one series": ROWS[~LINEAR],
    "nothing shared": ROWS[(ROWS["batch_size"] == 256) == LINEAR],
    "no value": ROWS.assign(test_accuracy=np.nan),
    "seeds twice": pandas.concat([ROWS, ROWS]),
}


@pytest.mark.parametrize("broken", NOTHING)
def test_nothing_to_compare(broken):
    assert series_differences.contrast(NOTHING[broken]) is None


def test_the_table_has_a_row_per_outcome_and_a_column_per_series():
    table = answers.contrast(frame(("none", "sqrt", "linear")))
    assert table["title"] == "Beside no scaling, at batch size 256"
    assert table["series"] == ("square-root scaling", "linear scaling")
    (row,) = table["rows"]
    assert (row["title"], row["column"], len(row["cells"])) == ("Test accuracy", "test_accuracy", 2)
    assert row["cells"][0]["seeds"] == "6 paired seeds"
    assert row["cells"][0]["difference"].value == "\N{MINUS SIGN}0.125"
    assert answers.contrast(pandas.DataFrame()) is None


def test_one_batch_size_makes_no_headline():
    assert answers.headlines([synthetic.answer("one batch size")]) == []


def test_factors_are_named_as_people_write_them():
    names = {"optimizer": "rmsprop", "device": "gpu", "warmup_epochs": 2, "delay_seconds": 0.001}
    assert run_series.describe(names) == "RMSprop, GPU, 2 epochs of warmup, delay of 1 ms"
    nothing = {"optimizer": "mine", "warmup_epochs": 0, "delay_seconds": 0.0}
    assert run_series.describe(nothing) == "mine, no warmup, no delay"
    for optimizer in run_factors.FACTORS["optimizer"].choices:
        assert run_series.describe({"optimizer": optimizer})[0].isupper()
