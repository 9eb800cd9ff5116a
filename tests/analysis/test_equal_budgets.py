"""Trainings read at equal budgets: the budgets, the rates chosen there, what is read of each."""

import itertools
import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import equal_budgets
from batchscope.analysis.equal_budgets import Budget

INF = float("inf")
STEPS = 8  # evaluations of a training, one per epoch of 32 examples
SECONDS = {8: 0.010, 16: 0.006, 32: 0.004}  # per example


def loss_of(size, rate, seed, step):
    """Returns a loss that falls faster for small batches, fastest at rate 0.2; seeds differ."""
    speed = (8 / size) ** 0.5 * {0.1: 0.5, 0.2: 1.0, 0.4: 0.7}[rate]
    return math.exp(-0.4 * speed * step) * (1 + 0.01 * seed)


def frames(sizes=(8, 16, 32), rates=(0.1, 0.2, 0.4), seeds=range(3), steps=STEPS, failed=()):
    """Returns the rows of runs.csv and trajectories.csv of a product of sizes, rates and seeds.

    Args:
        steps: Evaluations of each; or batch size -> of its own.
        failed: Pairs (batch size, rate) of which seed 0 diverged after two evaluations.
    """
    runs, rows = [], []
    for size, rate, seed in itertools.product(sizes, rates, seeds):
        status = "diverged" if (size, rate) in failed and seed == 0 else "finished"
        run = {"run": f"{size}-{rate}-{seed}", "machine": "laptop", "optimizer": "sgd"}
        run |= {"learning_rate": rate, "batch_size": size, "seed": seed, "status": status}
        runs.append(run)
        last = steps[size] if isinstance(steps, dict) else steps
        for step in range(1, 3 if status == "diverged" else last + 1):
            loss = loss_of(size, rate, seed, step)
            rows.append(
                {
                    **run,
                    "examples": 32 * step,
                    "updates": 32 // size * step,
                    "epoch": float(step),
                    "seconds": 32 * step * SECONDS[size],
                    "validation_loss": loss,
                    "validation_accuracy": 1 - loss / 3,
                    "test_loss": 2 * loss,
                    "test_accuracy": 1 - loss / 2,
                }
            )
    return pandas.DataFrame(runs), pandas.DataFrame(rows)


CONVERGENCE = Budget("convergence", math.nan)


def read(tables, *budget):
    """Returns what the trainings of both tables have at a budget: its kind, value and column."""
    return equal_budgets.read(equal_budgets.trained(*tables), Budget(*budget))


def target(tables, stated=()):
    return equal_budgets.target(equal_budgets.trained(*tables), dict(stated))


def kinds(rows, stated=()):
    return [budget.kind for budget in equal_budgets.equal(rows, dict(stated))]


def test_the_default_budgets_are_the_largest_that_every_finished_run_reached():
    _, rows = frames(steps={8: 8, 16: 10, 32: 12})
    found = {budget.kind: budget for budget in equal_budgets.equal(rows, {"updates": 5})}
    assert list(found) == ["epochs", "updates", "seconds", "convergence"]
    assert found["epochs"] == Budget("epochs", 8.0, "", False)
    assert found["updates"] == Budget("updates", 5.0, "", True)
    # 12 * 32 examples at 4 ms, less than 8 * 32 at 10 ms and 10 * 32 at 6 ms.
    assert found["seconds"].value == pytest.approx(12 * 32 * 0.004)


def test_times_that_are_not_known_are_no_budget():
    runs, rows = frames(rates=(0.1,))
    rows["seconds"] = np.nan
    assert kinds(rows) == ["epochs", "updates", "convergence"]
    assert list(read((runs, rows), *target((runs, rows)))) == ["updates", "examples"]


def test_updates_that_are_not_known_are_no_budget():
    runs, rows = frames(rates=(0.1,))
    rows["updates"] = rows["updates"].astype("Int64").mask(rows["batch_size"] == 8)
    assert target((runs, rows)) is None
    found = read((runs, rows), "updates", 8.0)["test_loss"].values
    assert np.isnan(found).tolist() == [[True] * 3, [False] * 3, [False] * 3]


def test_a_run_that_did_not_finish_bounds_no_budget():
    _, rows = frames(failed={(16, 0.4)})
    assert equal_budgets.equal(rows, {})[0].value == STEPS
    assert equal_budgets.equal(rows[rows["status"] == "diverged"], {}) == []


def test_before_its_end_a_training_whose_rate_falls_is_no_shorter_one():
    runs, rows = (frame.assign(schedule="cosine", epochs=STEPS) for frame in frames())
    stated = {"updates": 5, "target": {"validation_loss": 0.5}}
    found = equal_budgets.equal(rows, stated)
    assert [budget.kind for budget in found] == ["epochs", "convergence"]
    assert found[0] == Budget("epochs", STEPS, "", False)
    assert target((runs, rows), stated) is None
    constant = rows["batch_size"] > 8
    mixed = rows.assign(schedule=rows["schedule"].mask(constant, "constant"))
    assert equal_budgets.equal(mixed, {}) == found
    _, rows = frames(steps={8: 8, 16: 8, 32: 12})
    longer = rows.assign(schedule="linear", epochs=rows["batch_size"].map({8: 8, 16: 8, 32: 12}))
    assert kinds(longer) == ["convergence"]
    stopped = rows[rows["epoch"] <= 8].assign(schedule="linear", epochs=12)
    assert kinds(stopped) == ["convergence"]


def test_each_size_is_read_on_test_data_at_the_rate_that_is_best_at_the_budget():
    found = read(frames(), "epochs", 5.0)
    loss = found["test_loss"]
    assert loss.rates.tolist() == [0.2] * 3 and not loss.on_edge.any()
    expected = [[2 * loss_of(size, 0.2, seed, 5) for seed in range(3)] for size in (8, 16, 32)]
    assert loss.values == pytest.approx(np.array(expected))
    assert list(found) == ["test_accuracy", "test_loss"]


def test_equal_updates_and_seconds_read_other_evaluations():
    tables = frames(rates=(0.2,))
    updates = read(tables, "updates", 8.0)["test_loss"].values
    # 8 updates are 2, 4 and 8 epochs.
    for row, size, step in zip(updates, (8, 16, 32), (2, 4, 8), strict=True):
        assert row.tolist() == [2 * loss_of(size, 0.2, seed, step) for seed in range(3)]
    seconds = read(tables, "seconds", 1.0)["test_loss"].values
    # One second is 3.1, 5.2 and 7.8 epochs, between two evaluations.
    for row, size in zip(seconds, (8, 16, 32), strict=True):
        expected = [2 * loss_of(size, 0.2, seed, 1 / 32 / SECONDS[size]) for seed in range(3)]
        assert row.tolist() == pytest.approx(expected)


def test_a_rate_on_the_edge_is_marked_and_one_that_failed_is_never_chosen():
    tables = frames(rates=(0.1, 0.2), failed={(16, 0.2), (32, 0.1), (32, 0.2)})
    accuracy, loss = read(tables, "epochs", 8.0).values()
    assert loss.rates[:2].tolist() == [0.2, 0.1] and math.isnan(loss.rates[2])
    # Where none is chosen the seeds are read at a rate on the edge all the same.
    assert loss.on_edge.tolist() == [True, True, True]
    # A size that failed at every rate is reported by its runs.
    assert (loss.values[2] == INF).tolist() == [True, False, False]
    assert (accuracy.values[2] == -INF).tolist() == [True, False, False]


def test_a_missing_run_is_none_and_excludes_its_rate():
    runs, rows = frames(rates=(0.1, 0.2))
    gone = rows["run"] == "16-0.2-1"
    runs.loc[runs["run"] == "16-0.2-1", "status"] = "missing"
    found = read((runs, rows[~gone]), "epochs", 8.0)
    assert found["test_loss"].rates.tolist() == [0.2, 0.1, 0.2]


def test_a_size_of_which_every_rate_lacks_a_run_has_no_values():
    runs, rows = frames(rates=(0.1, 0.2))
    gone = ["16-0.1-2", "16-0.2-0"]
    runs.loc[runs["run"].isin(gone), "status"] = "missing"
    kept = rows[~rows["run"].isin(gone)]
    for evaluations in (kept, kept.assign(test_loss=np.nan, test_accuracy=np.nan)):
        for found in read((runs, evaluations), "epochs", 8.0).values():
            assert np.isnan(found.values).tolist() == [[False] * 3, [True] * 3, [False] * 3]
            assert np.isnan(found.rates).tolist() == [False, True, False]
            assert found.on_edge.tolist() == [True, False, True]


def test_a_run_that_ended_before_a_stated_budget_is_not_read_there():
    found = read(frames(rates=(0.2,), steps={8: 4, 16: 8, 32: 8}), "epochs", 6.0)
    assert np.isnan(found["test_loss"].values[0]).all()
    assert np.isfinite(found["test_loss"].values[1:]).all()


def test_the_target_is_the_lowest_loss_that_every_size_reached_with_all_its_seeds():
    found = target(frames())
    # Batch size 32 came lowest at rate 0.2; its worst seed is seed 2.
    assert found == Budget("target", loss_of(32, 0.2, 2, STEPS), "validation_loss", False)
    tables = frames(failed={(32, rate) for rate in (0.1, 0.2, 0.4)})
    assert target(tables).value == loss_of(16, 0.2, 2, STEPS)  # 32 is passed over
    stated = target(tables, {"target": {"test_loss": 0.5}})
    assert stated == Budget("target", 0.5, "test_loss", True)


def test_what_a_target_takes_is_read_at_the_rate_that_the_other_seeds_choose():
    found = read(frames(rates=(0.2,)), "target", math.exp(-1.0), "validation_loss")
    updates, examples = found["updates"].values, found["examples"].values
    # exp(-0.4 s k) (1 + seed / 100) = exp(-1): k epochs of 32 / size updates.
    for row, size in zip(updates, (8, 16, 32), strict=True):
        speed = 0.4 * (8 / size) ** 0.5
        epochs = [(1 + math.log(1 + 0.01 * seed)) / speed for seed in range(3)]
        assert row == pytest.approx([32 / size * epoch for epoch in epochs])
    assert examples == pytest.approx(updates * np.array([[8], [16], [32]]))
    assert [each.end for each in found.values()] == [32.0, 256.0, 2.56]


def test_what_missed_another_target_may_have_passed_this_one():
    runs, rows = frames(rates=(0.2,))
    goal = ("target", math.exp(-1.0), "validation_loss")
    before = read((runs, rows), *goal)["updates"].values
    for frame in (runs, rows):
        frame.loc[frame["run"] == "8-0.2-0", "status"] = "off_target"
        frame.loc[frame["run"] == "16-0.2-0", "status"] = "diverged"
    after = read((runs, rows), *goal)["updates"].values
    assert after[0].tolist() == before[0].tolist() and after[1, 0] == INF


def test_a_target_that_nobody_reaches_takes_for_ever():
    updates = read(frames(), "target", 1e-9, "validation_loss", True)["updates"]
    assert (updates.values == INF).all() and np.isnan(updates.rates).all()


def test_at_convergence_each_run_is_read_at_its_lowest_validation_loss():
    runs, rows = frames(rates=(0.2,))
    lowest = rows["epoch"] == 3
    rows.loc[lowest, ["validation_loss", "test_loss"]] = [0.001, 7.0]
    assert (read((runs, rows), *CONVERGENCE)["test_loss"].values == 7.0).all()


def test_without_test_data_in_the_trainings_validation_data_stand_in_and_are_not_flattered():
    runs, rows = frames(rates=(0.1, 0.2), seeds=range(3))
    rows[["test_loss", "test_accuracy"]] = np.nan
    # Seed 0 alone is far better at the lower rate: the others choose the higher for it.
    odd = (rows["seed"] == 0) & (rows["learning_rate"] == 0.1) & (rows["batch_size"] == 8)
    rows.loc[odd, "validation_loss"] = 1e-3
    found = read((runs, rows), "epochs", 8.0)
    assert list(found) == ["validation_accuracy", "validation_loss"]
    assert found["validation_loss"].values[0, 0] == loss_of(8, 0.2, 0, 8)
    assert not found["validation_loss"].differing
    # Far worse at the higher one, it sends the others away from there, and is read there alone.
    odd = (rows["seed"] == 0) & (rows["learning_rate"] == 0.2) & (rows["batch_size"] == 8)
    worse = rows.assign(validation_loss=rows["validation_loss"] + odd)
    found = read((runs, worse), "epochs", 8.0)["validation_loss"]
    assert found.differing == (8,)
    # At the end of a training its test data are known from `evaluate`.
    measured = runs.assign(test_loss=0.5 + 0.01 * runs["seed"], test_accuracy=0.9)
    at_end = read((measured, rows), *CONVERGENCE)["test_loss"]
    assert at_end.values.tolist() == [[0.5, 0.51, 0.52]] * 3
    assert not at_end.differing  # one rate for all
    before = read((measured, rows), "epochs", 8.0)
    assert list(before) == ["validation_accuracy", "validation_loss"]


def test_one_seed_is_read_at_its_own_rate():
    tables = frames(seeds=[0])
    assert np.isfinite(read(tables, *target(tables))["updates"].values).all()


def test_sizes_whose_loss_still_fell_at_the_end_are_known():
    runs, rows = frames(rates=(0.2,))
    late = (rows["batch_size"] == 16) & (rows["epoch"] > 5)
    rows.loc[late, "validation_loss"] += 1
    (first, *_) = read((runs, rows), *CONVERGENCE).values()
    assert first.falling == (8, 32)


def test_a_training_without_validation_losses_is_not_read_at_its_first_evaluation():
    runs, rows = frames(rates=(0.2,))
    rows.loc[rows["seed"] == 1, "validation_loss"] = math.nan
    found = read((runs, rows), *CONVERGENCE)
    assert np.isnan(found["test_loss"].values).tolist() == [[False, True, False]] * 3
