"""The tables of what each batch size takes to a target, of trainings made by hand."""

import io
import math

import numpy as np
import pandas
import pytest

import made_trainings
from batchscope.analysis import to_target_tables
from batchscope.analysis.updates_to_target import AXES, Target
from batchscope.catalogue import decision_columns
from batchscope.tables import csv_tables
from made_trainings import EXACT, SIZES, TARGET

TO = [Target("validation_loss", TARGET)]


def tabled(scalings, runs):
    """Returns both tables of an experiment."""
    constant = to_target_tables.constants(runs)
    return to_target_tables.fits(scalings, constant), to_target_tables.trainings(scalings, constant)


def both(targets=TO, **made):
    trajectories, runs = made_trainings.tables(**made)
    return tabled(to_target_tables.of_study(trajectories, runs, targets), runs)


def test_a_row_per_series_and_target_with_its_numbers():
    fits, _ = both()
    assert list(fits.columns) == ["learning_rate", "machine", *decision_columns.CRITICAL]
    (row,) = fits.to_dict("records")
    assert (row["target"], row["target_value"]) == ("validation_loss=0.2", 0.2)
    assert row["points"] == 5 and pandas.isna(row["learning_rate"])
    assert row["critical_batch_size"] == pytest.approx(40)
    assert row["updates_min"] == pytest.approx(10 * math.log(10))
    assert row["examples_min"] == pytest.approx(400 * math.log(10))
    assert row["critical_batch_size_low"] <= 40.001 and row["critical_batch_size_high"] >= 39.999
    assert (row["fixed_seconds"], row["seconds_per_image"]) == pytest.approx((0.002, 0.0001))
    assert row["half_batch"] == pytest.approx(20)
    best = math.sqrt(40 * 20)
    assert row["fastest_batch_size"] == pytest.approx(best)
    roots = math.sqrt(row["updates_min"] * 0.002) + math.sqrt(row["examples_min"] * 0.0001)
    assert row["fastest_seconds"] == pytest.approx(roots**2)
    assert row["fastest_from"] * row["fastest_to"] == pytest.approx(best**2)
    assert row["measured_fastest"] == 32


def test_a_row_per_training_that_is_read():
    _, each = both()
    assert list(each.columns) == ["machine", *decision_columns.TO_TARGET]
    assert len(each) == len(SIZES) * 3
    assert set(each["learning_rate"]) == {0.2} and set(each["chosen_learning_rate"]) == {0.2}
    assert each["on_edge"].sum() == 0 and each["reached"].sum() == len(each)
    assert set(each["diverged_learning_rates"]) == {"0.8"}
    middle = each[each["seed"] == 1]
    assert middle["updates"].to_numpy() == pytest.approx(EXACT)
    assert middle["examples"].to_numpy() == pytest.approx(EXACT * SIZES)
    assert middle["seconds"].to_numpy() == pytest.approx(EXACT * (0.002 + 0.0001 * np.array(SIZES)))


def test_the_edge_of_the_rates_is_marked():
    _, each = both(rates=(0.1, 0.2))
    assert each["on_edge"].sum() == len(each)


def test_three_targets_where_none_is_stated():
    fits, each = both(targets=())
    assert fits["target_value"].is_monotonic_decreasing and len(fits) == 3
    steps = np.log(fits["target_value"])
    assert steps.diff()[1] == pytest.approx(steps.diff()[2])
    assert fits["critical_batch_size"].to_numpy() == pytest.approx([40] * 3)
    assert each["reached"].sum() == len(each) == 3 * len(SIZES) * 3


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


def test_two_sizes_and_an_empty_experiment_have_headers_alone():
    trajectories, runs = (frame[:0] for frame in made_trainings.tables())
    empty = tabled(to_target_tables.of_study(trajectories, runs), runs)
    for fits, each in (both(sizes=(8, 16)), both((), sizes=(8, 16)), empty):
        assert fits.empty and each.empty
        assert {"machine", *decision_columns.CRITICAL} <= {*fits.columns}
        assert {"machine", *decision_columns.TO_TARGET} <= {*each.columns}


def test_trainings_with_one_evaluation_were_not_stopped_at_a_target():
    trajectories, runs = made_trainings.tables()
    last = trajectories.groupby("run", sort=False).tail(1)
    assert to_target_tables.of_study(last, runs) == []


def test_a_training_that_left_nothing_behind_excludes_its_rate():
    """Of .2 at 8, seed 2 ran out of memory before its first evaluation."""
    trajectories, runs = made_trainings.tables(rates=(0.1, 0.2, 0.4))
    gone = runs["run"] == "8/0.2/2"
    runs.loc[gone, "status"] = "out_of_memory"
    trajectories = trajectories[trajectories["run"] != "8/0.2/2"]
    (found,) = to_target_tables.of_study(trajectories, runs, TO)
    assert found.rates["updates"].chosen[:2].tolist() == [0.4, 0.2]
    assert found.rates["updates"].diverged[0] == (0.2,)


def test_series_apart_and_seconds_of_none():
    first, runs = made_trainings.tables(timed=False, optimizer="sgd")
    second, more = made_trainings.tables(timed=False, optimizer="adam", rates=(0.2,))
    runs = pandas.concat([runs, more.assign(run=more["run"] + "a")])
    second["run"] += "a"
    scalings = to_target_tables.of_study(pandas.concat([first, second]), runs, TO)
    fits, _ = tabled(scalings, runs)
    assert sorted(fits["optimizer"]) == ["adam", "sgd"]
    assert fits["critical_batch_size"].to_numpy() == pytest.approx([40, 40])
    assert fits["fastest_batch_size"].isna().all() and fits["measured_fastest"].isna().all()


@pytest.mark.parametrize(
    "made",
    [
        made_trainings.tables,
        lambda: made_trainings.tables(never=[(8, 0)]),
        lambda: made_trainings.tables(rates=(0.2,)),
        made_trainings.slow_seed,
    ],
    ids=["rates", "never", "one rate", "rates of seconds"],
)
def test_what_was_found_is_restored_from_the_files(made):
    trajectories, runs = made()
    targets = [Target("validation_loss", value) for value in (0.8, 0.4, 0.2)]
    scalings = to_target_tables.of_study(trajectories, runs, targets)
    texts = (table.to_csv(index=False) for table in tabled(scalings, runs))
    written = [csv_tables.read(io.StringIO(text)) for text in texts]
    restored = to_target_tables.restored(to_target_tables.joined(*written))
    assert len(restored) == len(scalings) == 3
    for found, expected in zip(restored, scalings, strict=True):
        assert found.target.value == pytest.approx(expected.target.value)
        assert found.batch_sizes == expected.batch_sizes and found.seeds == expected.seeds
        for axis, values in expected.measured.items():
            assert found.measured[axis] == pytest.approx(values)
        assert found.fit.critical_batch_size == pytest.approx(expected.fit.critical_batch_size)
        assert found.fastest.low == pytest.approx(expected.fastest.low)
        assert found.step.costs == pytest.approx(expected.step.costs)
        assert found.step.half_batch == pytest.approx(expected.step.half_batch)
        assert found.at_first.tolist() == expected.at_first.tolist()
        for axis in AXES:
            assert found.differ(axis).tolist() == expected.differ(axis).tolist()
        for ratio, there in zip(found.ratios(), expected.ratios(), strict=True):
            assert ratio == pytest.approx(there, nan_ok=True)
        for axis in AXES if expected.rates else ():
            rates, there = found.rates_by(axis), expected.rates_by(axis)
            assert rates.chosen.tolist() == pytest.approx(there.chosen, nan_ok=True)
            assert rates.on_edge.tolist() == there.on_edge.tolist()
            assert rates.diverged == there.diverged
            assert rates.never == there.never
