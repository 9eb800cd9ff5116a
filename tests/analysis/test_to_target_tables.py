"""What batch sizes take to a target, as tables."""

import itertools
import math

import numpy as np
import pandas
import pytest

import made_trainings
from batchscope.analysis import critical_batch_size, step_cost, targets, trainings
from batchscope.analysis.targets import ComparisonRequest, Target
from batchscope.analysis.to_target_tables import (
    fastest_columns,
    log_error,
    measured_fastest,
    seconds_to_target,
)
from batchscope.study import decision_columns
from made_trainings import EXACT, SIZES

CONSTANTS = (100.0, 20_000.0, 0.002, 0.0001)


def test_a_row_per_series_and_target_and_one_per_training():
    fits, each = made_trainings.fitted(*made_trainings.tables(optimizer="sgd"))
    assert [*fits] == ["learning_rate", "optimizer", "machine", *decision_columns.CRITICAL]
    assert [*each] == ["optimizer", "machine", *decision_columns.TO_TARGET]
    (row,) = fits.to_dict("records")
    assert row["target"] == "validation_loss=0.2" and row["points"] == 5
    assert row["critical_batch_size"] == pytest.approx(40) and pandas.isna(row["learning_rate"])
    assert row["fastest_batch_size"] == pytest.approx(math.sqrt(40 * 20))
    assert row["measured_fastest"] == 32 and row["examples_fewest"] == 8
    assert row["lack_of_fit"] == 1 and row["stray"] == ""
    assert len(each) == 3 * len(SIZES)
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
    (row,) = made_trainings.fitted(trajectories, runs)[0].to_dict("records")
    assert row["lack_of_fit"] < 0.05 and "8" in row["stray"].split()
    assert row["residual"] > 0.05 and row["critical_batch_size"] > 40
    assert math.isnan(row["fastest_batch_size"]) and row["half_batch"] == pytest.approx(20)
    assert row["examples_fewest"] == 16


def test_a_training_that_left_nothing_behind_excludes_its_rate():
    """Of .2 at 8, seed 2 ran out of memory before its first evaluation."""
    trajectories, runs = made_trainings.tables(rates=(0.1, 0.2, 0.4))
    runs.loc[runs["run"] == "8/0.2/2", "status"] = "out_of_memory"
    trajectories = trajectories[trajectories["run"] != "8/0.2/2"]
    each = made_trainings.fitted(trajectories, runs)[1]
    chosen = each.groupby("batch_size")["chosen_learning_rate"].first()
    assert chosen[:2].tolist() == [0.4, 0.2]


def evaluations(rate=0.1, sizes=SIZES, seeds=(0, 1), start=0, times=1.0, **factors):
    """Runs whose loss falls by a factor of e in 10 (1 + 40 / B) updates, times a factor."""
    rows = []
    for size, seed in itertools.product(sizes, seeds):
        run = {"run": f"{size}/{seed}/{rate}", "machine": "local", "status": "finished"}
        run |= {"batch_size": size, "seed": seed, "learning_rate": rate, **factors}
        for updates in range(start, 501, 5):
            loss = 2 * math.exp(-updates / (10 * times * (1 + 40 / size)))
            seconds = 0.5 + updates * (0.002 + 0.0001 * size)  # 0.5 s to start
            used = {"updates": updates, "examples": updates * size, "seconds": seconds}
            rows.append({**run, **used, "validation_loss": loss})
    return pandas.DataFrame(rows)


def series(rows):
    (found,) = trainings.for_experiment(rows.drop_duplicates("run"), rows)
    return found


def fits_and_costs(rows, value=0.2, column="validation_loss"):
    """Returns the row of the fits to one target, and axis -> costs by size and seed."""
    fits, each = made_trainings.fitted(rows, rows.drop_duplicates("run"), [Target(column, value)])
    (row,) = fits.to_dict("records")
    return row, {
        axis: each.pivot(index="batch_size", columns="seed", values=axis)
        for axis in ("updates", "examples")
    }


def test_three_targets_from_the_first_evaluation_to_the_default_one():
    """At the first evaluation 128 is the lowest, as it is at the end of equal epochs."""
    rows = evaluations(start=5)
    found = targets.default_targets(series(rows), ComparisonRequest())
    start = rows[rows["updates"] == 5]["validation_loss"].min()
    equal = rows[rows["examples"] <= 500 * 8].groupby("batch_size")["validation_loss"].min()
    first = rows[rows["updates"] == 5].groupby("batch_size")["validation_loss"].first()
    end = first[equal.idxmin()] - 0.9 * (first[equal.idxmin()] - equal.min())
    steps = start * (end / start) ** (np.arange(1, 4) / 3)
    assert [each.value for each in found] == pytest.approx(steps)
    high = Target("validation_loss", 1.9)  # above the first loss of some run
    request = ComparisonRequest(default_target=lambda series: high)
    assert targets.default_targets(series(rows), request) == [high]
    rows = rows.assign(train_loss=rows["validation_loss"], validation_loss=math.nan)
    assert targets.default_target(series(rows)).column == "train_loss"
    rows = rows.drop(columns=["train_loss", "validation_loss"])
    assert targets.default_target(series(rows)) is None
    assert targets.default_targets(series(rows), ComparisonRequest()) == []


def test_the_default_target_is_one_that_every_seed_of_three_sizes_reached_at_one_rate():
    """Seed 1 gets no lower than a floor, which at two sizes lies below nine tenths of the fall.

    A rate that was tried with some seeds decides nothing, and neither does one that diverged.
    """
    rows = evaluations(start=5)
    floor = rows["batch_size"].map({8: 0.6, 16: 0.5, 32: 0.4, 64: 0.3, 128: 0.2})
    rows["validation_loss"] = rows["validation_loss"].clip(lower=floor * rows["seed"])
    some = pandas.concat([rows, evaluations(0.2, seeds=[0], start=5)])
    failed = pandas.concat([rows, evaluations(0.2, start=5, times=0.5, status="diverged")])
    for frame in (rows, some, failed):
        assert targets.default_target(series(frame)) == Target("validation_loss", 0.4)


def test_metrics_are_read_as_errors_and_what_is_not_evaluated_is_passed_over():
    rows = evaluations()
    blank = pandas.concat([rows, rows.assign(updates=rows["updates"] + 2.5)])
    blank.loc[blank["updates"] % 5 > 0, "validation_loss"] = math.nan
    updates = np.stack([EXACT, EXACT], axis=1)
    assert fits_and_costs(blank)[1]["updates"].to_numpy() == pytest.approx(updates)
    loss = rows.pop("validation_loss")
    rows["validation_accuracy"], rows["test_r2"] = 1 - loss / 2, 1 - 10 * loss
    rows["test_mae"] = 40 * loss
    for column, value in (("validation_accuracy", 0.9), ("test_r2", -1), ("test_mae", 8)):
        _, costs = fits_and_costs(rows, value, column)
        assert costs["updates"].to_numpy() == pytest.approx(updates)
        assert costs["examples"].to_numpy() == pytest.approx(updates * np.array(SIZES)[:, None])


def test_the_time_of_a_step_is_fitted():
    """By the examples that a step had, which are not those of a whole batch."""
    row, _ = fits_and_costs(evaluations())
    assert row["fastest_batch_size"] == pytest.approx(math.sqrt(40 * 20))
    row, _ = fits_and_costs(evaluations().drop(columns="seconds"))
    assert math.isnan(row["half_batch"]) and math.isnan(row["fastest_batch_size"])
    uneven = evaluations(seeds=(0, 1, 2))
    share = np.where(uneven["batch_size"] > 32, 0.8, 1)
    smaller = uneven.assign(examples=uneven["updates"] * uneven["batch_size"] * share)
    per_step = 0.002 + 0.0001 * uneven["batch_size"] * share
    smaller["seconds"] = smaller["updates"] * per_step
    uneven = uneven[(uneven["batch_size"] != 8) | (uneven["seed"] > 0)]
    for rows in (uneven, smaller):
        row, _ = fits_and_costs(rows)
        assert (row["fixed_seconds"], row["seconds_per_image"]) == pytest.approx((0.002, 0.0001))


def test_a_step_that_is_no_line_or_has_no_fixed_cost_gives_no_closed_form():
    rows = evaluations(seeds=range(6))
    noise = np.exp(np.random.default_rng(0).normal(0, 0.02, (6, 129)))
    size, times = rows["batch_size"], noise[rows["seed"], rows["batch_size"]]
    for step in ((1e-6 + 1e-4 * size) * times, 0.002 + 1e-6 * size**2, 0.02 - 1e-4 * size):
        row, _ = fits_and_costs(rows.assign(seconds=rows["updates"] * step))
        assert math.isnan(row["half_batch"]) and math.isnan(row["fastest_batch_size"])


def test_words_and_numbers_of_series():
    """Words that go together distinguish both; a number that follows from the batch size none."""
    rows = pandas.concat(
        evaluations().assign(run=lambda own, at=at: own["run"] + at, model=at, optimizer=at * 2)
        for at in "ab"
    )
    rows["learning_rate"] = rows["batch_size"] / 80
    found = trainings.for_experiment(rows.drop_duplicates("run"), rows)
    assert [each.factors for each in found] == [{"model": at, "optimizer": at * 2} for at in "ab"]


def test_it_is_the_least_and_the_range_ends_where_it_says():
    found = fastest_columns(*CONSTANTS)
    names = ("fastest_batch_size", "fastest_seconds", "fastest_from", "fastest_to")
    assert [found[name] for name in names] == pytest.approx([63.2, 3.465, 30.7, 130.5], rel=2e-3)
    around = seconds_to_target(found["fastest_batch_size"] * np.array([0.99, 1, 1.01]), *CONSTANTS)
    assert around.argmin() == 1 and found["fastest_seconds"] == pytest.approx(around[1])
    ends = seconds_to_target([found["fastest_from"], found["fastest_to"]], *CONSTANTS)
    assert ends == pytest.approx([1.1 * found["fastest_seconds"]] * 2)


def test_the_error_of_two_sources():
    """Var log B* is a quarter of both variances; their half-widths are joined likewise."""
    sizes, rng = 2.0 ** np.arange(3, 11), np.random.default_rng(0)
    updates = 100 * (1 + 80 / sizes) * np.exp(rng.normal(0, 0.03, 8))
    seconds = (0.002 + 0.0001 * sizes) * (1 + rng.normal(0, 0.01, 8))
    critical = critical_batch_size.fit(sizes, updates)
    half = step_cost.fit_step_cost(sizes, seconds[:, None]).half_batch
    widths = [math.log(critical.high / critical.low) / 2, math.log(half.high / half.low) / 2]
    error = log_error(critical, half)
    assert 4 * error**2 == pytest.approx(widths[0] ** 2 + widths[1] ** 2)
    best, *ends = [*fastest_columns(*CONSTANTS, log_error=error).values()][:3]
    assert ends == pytest.approx(best * np.exp([-error, error]))
    assert math.isnan(log_error(critical._replace(high=math.nan), half))


def test_measured_seconds_are_compared_by_the_seeds_that_all_sizes_have():
    seconds = np.array([[4.0, 8.0, 16.0], [2.0, 4.0, 8.0], [3.0, 6.0, math.inf]])
    assert measured_fastest([8, 16, 32], seconds) == 16
    seconds = np.repeat([[1.0], [0.5], [2.0]], 7, axis=1)
    seconds[[0, 2], [1, 5]] = math.nan  # each lacks a seed
    seconds[0, 0], seconds[1, 0] = 0.001, math.nan  # of a seed that 32 lacks
    assert measured_fastest([16, 32, 64], seconds) == 32
    apart = np.array([[1.0, math.nan], [math.nan, 2.0]])
    assert measured_fastest([16, 32], apart) is None
