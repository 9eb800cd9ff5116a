"""Trainings that were made elsewhere, in the tables that trainings here have."""

import math

import numpy as np
import pandas
import pytest

import own_table
import synthetic
from batchscope.analysis import comparisons, readings, run_series
from batchscope.catalogue import columns
from batchscope.study import planner
from batchscope.tables import csv_tables, long_tables

BOTH = ("runs", "trajectories")


def tables(folder, frame, only=(), **experiment):
    """Returns runs.csv and trajectories.csv, read as figures and statistics read them."""
    own_table.write(folder, frame)
    study = planner.make(own_table.study(**experiment), folder=folder)
    synthetic.tabulate(folder / "results", study, folder, only, "a")
    return [csv_tables.read(folder / f"{name}.csv") for name in BOTH]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    frame = own_table.rows(seconds=True)
    return frame, *tables(tmp_path_factory.mktemp("own"), frame, BOTH)


def test_a_row_per_training_and_a_row_per_evaluation(written):
    frame, runs, trajectories = written
    assert len(runs) == 36 and len(trajectories) == len(frame)
    assert runs["run"].is_unique and set(trajectories["run"]) == set(runs["run"])
    known = columns.of_measures({"evaluate": {}})
    at = known.index("status")
    assert list(runs) == [*known[:at], "own_variant", *known[at:]]
    assert list(trajectories) == [
        *long_tables.FIRST[:-1],
        *("own_variant", "status", *columns.TRAJECTORIES),
    ]
    assert (runs["machine"] == "elsewhere").all() and (runs["status"] == "finished").all()
    assert runs.loc[0, "run"].endswith("+batch_size=8+seed=0+variant=plain")
    empty = [name for name in runs if runs[name].isna().all()]
    assert {"train_seconds", "epochs_run", "test_loss", "dataset", "learning_rate"} <= {*empty}


def test_values_are_those_of_the_last_and_the_best_evaluation(written):
    frame, runs, trajectories = written
    keys = ["variant", "batch_size", "seed"]
    expected = frame.groupby(keys, sort=False).agg(
        last=("validation_loss", "last"),
        best=("validation_loss", "min"),
        test=("test_accuracy", "last"),
        updates=("updates", "last"),
    )
    found = runs[["validation_loss", "best_validation_loss", "test_accuracy", "steps_run"]]
    assert found.to_numpy(float) == pytest.approx(expected.to_numpy(float))
    assert trajectories["examples"].tolist() == (frame["updates"] * frame["batch_size"]).tolist()
    assert np.allclose(trajectories["seconds"], frame["seconds"])


@pytest.mark.slow
def test_a_column_of_ones_own_distinguishes_series_whatever_it_is_called(tmp_path):
    """`margin` and `mean` are columns of comparisons.csv, `own_` keeps them apart."""
    frame = own_table.rows().rename(columns={"variant": "margin"})
    frame["mean"] = frame["margin"].map({"plain": 64, "lookahead": 128})
    runs, trajectories = tables(tmp_path, frame, margins={"test_accuracy": 0.01})
    for table in (runs, trajectories):
        labels = [group.label for group in run_series.series(table)]
        assert labels == ["margin plain, mean 64", "margin lookahead, mean 128"]
        # The number goes with the text, which alone distinguishes them.
        assert run_series.series_factors(table) == ["own_margin"]
    at_end = readings.of_experiment(runs, trajectories[:0], {}, {"test_accuracy": 0.01})
    found = comparisons.table(runs, at_end)
    assert found["own_margin"].unique().tolist() == ["plain", "lookahead"]
    assert (found["margin"] == 0.01).all() and found["mean"].between(0, 1).all()


def test_factors_of_ours_keep_their_names_where_their_values_are_of_their_kind(tmp_path):
    frame = own_table.rows(("plain",), learning_rate="1e-1", momentum="high", optimizer="lamb")
    frame = frame.assign(nesterov="True", threads="", model="12345678")
    runs, _ = tables(tmp_path, frame, BOTH)
    assert (runs["learning_rate"] == 0.1).all() and (runs["optimizer"] == "lamb").all()
    assert runs["nesterov"].all() and (runs["model"] == "12345678").all()
    assert (runs["own_momentum"] == "high").all() and (runs["own_threads"] == "none").all()
    assert runs[["momentum", "threads"]].isna().all(axis=None)


def test_what_became_of_a_training(tmp_path):
    frame = own_table.rows(("plain",)).astype({"validation_loss": object})
    last = frame.groupby(["batch_size", "seed"]).tail(1).index
    frame.loc[last[0], ["validation_loss"]] = "nan"
    frame.loc[last[1], ["validation_loss"]] = ""
    frame.loc[last[2] - 1, ["validation_loss"]] = "inf"
    found, _ = tables(tmp_path, frame, BOTH)
    assert found["status"].tolist() == ["diverged", *["finished"] * 17]
    with_status = frame.assign(status="finished")
    with_status.loc[with_status["seed"] == 5, "status"] = "crashed"
    runs, evaluations = tables(tmp_path, with_status, BOTH)
    assert runs["status"].tolist() == [*["finished"] * 5, "crashed"] * 3
    assert set(evaluations.loc[evaluations["seed"] == 5, "status"]) == {"crashed"}


def test_a_single_row_is_a_target_which_may_never_be_reached(tmp_path):
    rows = [
        {"batch_size": size, "seed": seed, "updates": 100 / size + 0.5, "test_accuracy": 0.9}
        for size in (8, 32, 128)
        for seed in range(2)
    ]
    rows[-1]["updates"] = math.nan
    runs, trajectories = tables(tmp_path, pandas.DataFrame(rows))
    assert runs["status"].tolist() == [*["finished"] * 5, "off_target"]
    assert runs["reached_target"].tolist() == [1, 1, 1, 1, 1, 0]
    expected = [*(100 / size + 0.5 for size in (8, 8, 32, 32, 128)), math.nan]
    assert trajectories["updates"].tolist() == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


def test_gaps_where_both_sides_are_known(tmp_path):
    frame = own_table.rows(("plain",), train_loss=0.25, test_loss=0.75, train_accuracy=1.0)
    runs, trajectories = tables(tmp_path, frame, BOTH)
    assert (runs["generalisation_gap"] == 0.5).all()
    assert np.allclose(runs["generalisation_gap_accuracy"], 1 - runs["test_accuracy"])
    assert (trajectories["train_accuracy"] == 1.0).all()
