"""What batch sizes take to a target, as tables."""

import math

import numpy as np
import pandas
import pytest

import made_trainings
from batchscope.analysis import to_target_tables
from batchscope.analysis.updates_to_target import Target
from batchscope.catalogue import decision_columns
from made_trainings import EXACT, SIZES

TO = [Target("validation_loss", 0.2)]


def both(targets=TO, **made):
    """Returns the fits and the trainings of an experiment."""
    return tabled(*made_trainings.tables(**made), targets)


def tabled(trajectories, runs, targets=TO):
    scalings = to_target_tables.of_study(trajectories, runs, targets)
    constant = to_target_tables.constants(runs)
    return to_target_tables.fits(scalings, constant), to_target_tables.trainings(scalings, constant)


def test_a_row_per_series_and_target_and_one_per_training():
    fits, each = both(optimizer="sgd")
    assert [*fits] == ["learning_rate", "optimizer", "machine", *decision_columns.CRITICAL]
    assert [*each] == ["optimizer", "machine", *decision_columns.TO_TARGET]
    (row,) = fits.to_dict("records")
    assert row["target"] == "validation_loss=0.2" and row["points"] == 5
    assert row["critical_batch_size"] == pytest.approx(40) and pandas.isna(row["learning_rate"])
    assert row["fastest_batch_size"] == pytest.approx(math.sqrt(40 * 20))
    assert row["measured_fastest"] == 32 and row["examples_fewest"] == 8
    assert row["lack_of_fit"] == 1 and row["stray"] == ""
    assert len(each) == 3 * len(SIZES) and set(each["diverged_learning_rates"]) == {"0.8"}
    middle = each[each["seed"] == 1]
    assert middle["updates"].to_numpy() == pytest.approx(EXACT)
    assert middle["seconds"].to_numpy() == pytest.approx(EXACT * (0.002 + 0.0001 * np.array(SIZES)))


def test_where_the_updates_depart_from_the_curve_nothing_else_is_read_off_it():
    """At 8 all take half as many again."""
    trajectories, runs = made_trainings.tables(rates=(0.2,))
    scatter = np.exp(0.02 * np.cos(trajectories["seed"] * trajectories["batch_size"]))
    factor = np.where(trajectories["batch_size"] == 8, 1.5, 1) * scatter
    for name in ("updates", "examples", "seconds"):
        trajectories[name] = trajectories[name].astype(float) * factor
    (row,) = tabled(trajectories, runs)[0].to_dict("records")
    assert row["lack_of_fit"] < 0.05 and "8" in row["stray"].split()
    assert row["residual"] > 0.05 and row["critical_batch_size"] > 40
    assert math.isnan(row["fastest_batch_size"]) and row["half_batch"] == pytest.approx(20)
    assert row["examples_fewest"] == 16


def test_a_target_that_one_size_never_reached():
    fits, each = both(never=[(8, 0)])
    assert fits["points"].tolist() == [4]
    assert fits["critical_batch_size"].to_numpy() == pytest.approx([40])
    missed = each[each["reached"] == 0]
    assert missed[["batch_size", "seed"]].to_numpy().tolist() == [[8, 0]]
    assert missed[["updates", "examples", "seconds"]].isna().all(axis=None)
    assert set(each.loc[each["batch_size"] == 8, "never_learning_rates"]) == {"0.1 0.2 0.4"}
    none, _ = both(never=[(size, 0) for size in SIZES[:3]])
    assert none["points"].tolist() == [0] and none["critical_batch_size"].isna().all()


def test_experiments_without_a_row_have_headers_alone():
    """Of two sizes, without a training, and of trainings that were not stopped at a target."""
    trajectories, runs = made_trainings.tables()
    last = trajectories.groupby("run", sort=False).tail(1)
    empty = (trajectories[:0], runs[:0])
    for fits, each in (both(sizes=(8, 16)), tabled(*empty), tabled(last, runs, ())):
        assert fits.empty and each.empty
        assert {"machine", *decision_columns.CRITICAL} <= {*fits.columns}
        assert {"machine", *decision_columns.TO_TARGET} <= {*each.columns}


def test_a_training_that_left_nothing_behind_excludes_its_rate():
    """Of .2 at 8, seed 2 ran out of memory before its first evaluation."""
    trajectories, runs = made_trainings.tables(rates=(0.1, 0.2, 0.4))
    runs.loc[runs["run"] == "8/0.2/2", "status"] = "out_of_memory"
    trajectories = trajectories[trajectories["run"] != "8/0.2/2"]
    (found,) = to_target_tables.of_study(trajectories, runs, TO)
    assert found.taken["updates"].rates[:2].tolist() == [0.4, 0.2]
    assert found.left_out()["diverged"][0] == (0.2,)


def test_series_apart_and_seconds_of_none():
    first, runs = made_trainings.tables(timed=False, optimizer="sgd")
    second, more = made_trainings.tables(timed=False, optimizer="adam", rates=(0.2,))
    runs = pandas.concat([runs, more.assign(run=more["run"] + "a")])
    second["run"] += "a"
    fits, each = tabled(pandas.concat([first, second]), runs)
    assert sorted(fits["optimizer"]) == ["adam", "sgd"]
    assert fits["critical_batch_size"].to_numpy() == pytest.approx([40, 40])
    assert fits["fastest_batch_size"].isna().all() and fits["measured_fastest"].isna().all()
    assert len(to_target_tables.joined(fits, each)) == len(each)
