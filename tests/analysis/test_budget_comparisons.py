"""Trainings read where something is held equal: budgets, the rates chosen there, values."""

import itertools
import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import budget_comparisons
from batchscope.analysis.budget_comparisons import Budget
from batchscope.analysis.targets import ComparisonRequest

NAN, INF = float("nan"), float("inf")
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
            used = {"examples": 32 * step, "updates": 32 // size * step, "epoch": float(step)}
            losses = {"validation_loss": loss, "validation_accuracy": 1 - loss / 3}
            losses |= {"test_loss": 2 * loss, "test_accuracy": 1 - loss / 2}
            rows.append({**run, **used, "seconds": 32 * step * SECONDS[size], **losses})
    return pandas.DataFrame(runs), pandas.DataFrame(rows)


def of_numbers(**more):
    """Returns the rows of a regression, whose loss is that of `frames`."""
    runs, rows = frames(**more)
    for split, scale in (("validation", 1), ("test", 2)):
        loss = scale * rows[f"{split}_loss"]
        rows[f"{split}_r2"] = 1 - rows.pop(f"{split}_accuracy").rsub(1)
        rows = rows.assign(**{f"{split}_mse": 9 * loss, f"{split}_mae": 10 * loss**0.5})
    return runs, rows


def read(tables, stated=(), margins=(), budget=None, **more):
    """Returns budget and outcome -> reading of one series; of one budget outcome -> reading."""
    request = ComparisonRequest(dict(stated), dict(margins), **more)
    found = budget_comparisons.for_experiment(*tables, request)
    if budget is None:
        return {(each.budget.kind, each.outcome): each for each in found}
    return {each.outcome: each for each in found if each.budget.kind == budget}


def target(tables, stated=()):
    return read(tables, stated, budget="target")["updates"].budget


def test_the_default_budgets_are_the_largest_that_every_finished_run_reached():
    _, rows = frames(steps={8: 8, 16: 10, 32: 12})
    found = {
        budget.kind: budget for budget in budget_comparisons.shared_budgets(rows, {"updates": 5})
    }
    assert list(found) == ["epochs", "updates", "seconds", "convergence"]
    assert found["epochs"] == Budget("epochs", 8.0)
    assert found["updates"] == Budget("updates", 5.0)
    # 12 * 32 examples at 4 ms, less than 8 * 32 at 10 ms and 10 * 32 at 6 ms.
    assert found["seconds"].value == pytest.approx(12 * 32 * 0.004)
    _, rows = frames(failed={(16, 0.4)})  # what did not finish bounds nothing
    assert budget_comparisons.shared_budgets(rows, {})[0].value == STEPS
    assert budget_comparisons.shared_budgets(rows[rows["status"] == "diverged"], {}) == []


def test_what_is_not_known_is_no_budget():
    runs, rows = frames(rates=(0.1,))
    untimed = read((runs, rows.assign(seconds=np.nan)), {"target": {"validation_loss": 0.5}})
    kinds = list(dict.fromkeys(kind for kind, _ in untimed))
    assert kinds == ["epochs", "updates", "target", "convergence"]
    assert [name for kind, name in untimed if kind == "target"] == ["updates", "examples"]
    rows["updates"] = rows["updates"].astype("Int64").mask(rows["batch_size"] == 8)
    found = read((runs, rows), {"updates": 8})
    assert not any(kind == "target" for kind, _ in found)
    values = found["updates", "test_loss"].values
    assert np.isnan(values).tolist() == [[True] * 3, [False] * 3, [False] * 3]


def test_before_its_end_a_training_whose_rate_falls_is_no_shorter_one():
    tables = [frame.assign(schedule="cosine", epochs=STEPS) for frame in frames()]
    stated = {"updates": 5, "target": {"validation_loss": 0.5}}
    assert {kind for kind, _ in read(tables, stated)} == {"epochs", "convergence"}
    _, rows = tables
    constant = rows["batch_size"] > 8
    mixed = rows.assign(schedule=rows["schedule"].mask(constant, "constant"))
    shared = [budget_comparisons.shared_budgets(frame, {}) for frame in (mixed, rows)]
    assert shared[0] == shared[1]
    _, rows = frames(steps={8: 8, 16: 8, 32: 12})
    longer = rows.assign(schedule="linear", epochs=rows["batch_size"].map({8: 8, 16: 8, 32: 12}))
    assert [each.kind for each in budget_comparisons.shared_budgets(longer, {})] == ["convergence"]


def test_each_size_is_read_on_test_data_at_the_rate_that_is_best_at_the_budget():
    found = read(frames(), {"epochs": 5}, budget="epochs")
    assert list(found) == ["test_accuracy", "test_loss"]
    margins = [each.margin for each in found.values()]
    assert margins == [0.01, 0.05]
    loss = found["test_loss"]
    assert loss.batch_sizes == [8, 16, 32] and loss.has_run.all()
    assert loss.chosen.rates.tolist() == [0.2] * 3
    assert not loss.chosen.on_edge.any() and not loss.chosen.tuned.any()
    expected = [[2 * loss_of(size, 0.2, seed, 5) for seed in range(3)] for size in (8, 16, 32)]
    assert loss.values == pytest.approx(np.array(expected))


def test_a_rate_on_the_edge_is_marked_and_one_that_failed_is_never_chosen():
    tables = frames(rates=(0.1, 0.2), failed={(16, 0.2), (32, 0.1), (32, 0.2)})
    accuracy, loss = read(tables, budget="epochs").values()
    assert loss.chosen.rates[:2].tolist() == [0.2, 0.1] and math.isnan(loss.chosen.rates[2])
    # Where none is chosen the seeds are read at a rate on the edge all the same.
    assert loss.chosen.on_edge.tolist() == [True, True, True]
    # A size that failed at every rate is reported by its runs.
    assert (loss.values[2] == INF).tolist() == [True, False, False]
    assert (accuracy.values[2] == -INF).tolist() == [True, False, False]
    assert loss.means()[2] == (pytest.approx(math.nan, nan_ok=True),) * 3 + (0,)


def test_a_missing_run_is_none_and_excludes_its_rate():
    runs, rows = frames(rates=(0.1, 0.2))
    gone = ["16-0.2-1", "32-0.1-2", "32-0.2-0"]  # of 32 every rate lacks one
    runs.loc[runs["run"].isin(gone), "status"] = "missing"
    found = read((runs, rows[~rows["run"].isin(gone)]), budget="epochs")["test_loss"]
    assert found.chosen.rates == pytest.approx([0.2, 0.1, NAN], nan_ok=True)
    assert np.isnan(found.values).tolist() == [[False] * 3, [False] * 3, [True] * 3]
    assert found.chosen.on_edge.tolist() == [True, True, False]


def test_the_target_is_that_of_the_fit_and_is_read_at_the_rate_that_the_others_choose():
    # Batch size 32 came lowest at rate 0.2; its worst seed is seed 2.
    assert target(frames()) == Budget("target", loss_of(32, 0.2, 2, STEPS), "validation_loss")
    stated = {"target": {"test_loss": 0.5}}
    assert target(frames(), stated) == Budget("target", 0.5, "test_loss")
    at = {"target": {"validation_loss": math.exp(-1.0)}}
    found = read(frames(rates=(0.2,)), at, budget="target")
    updates, examples = found["updates"].values, found["examples"].values
    # exp(-0.4 s k) (1 + seed / 100) = exp(-1): k epochs of 32 / size updates.
    for row, size in zip(updates, (8, 16, 32), strict=True):
        speed = 0.4 * (8 / size) ** 0.5
        epochs = [(1 + math.log(1 + 0.01 * seed)) / speed for seed in range(3)]
        assert row == pytest.approx([32 / size * epoch for epoch in epochs])
    assert examples == pytest.approx(updates * np.array([[8], [16], [32]]))
    assert found["updates"].chosen.rates.tolist() == [0.2] * 3 and found["updates"].is_cost
    mean, low, high, n = found["updates"].means()[0]
    logs = np.log(updates[0])
    half = 4.302653 * logs.std(ddof=1) / 3**0.5
    ends = logs.mean() + np.array([0, -half, half])
    assert (mean, low, high) == pytest.approx(np.exp(ends)) and n == 3


def test_a_target_that_nobody_reaches_takes_for_ever_and_one_at_the_start_is_a_bound():
    never = read(frames(), {"target": {"validation_loss": 1e-9}}, budget="target")["updates"]
    assert (never.values == INF).all() and never.not_reached.all()
    at = {"target": {"validation_loss": loss_of(8, 0.2, 0, 1)}}  # one of three seeds
    found = read(frames(rates=(0.2,)), at, budget="target")["updates"]
    assert found.at_first == {0}


def test_whole_runs_are_read_at_one_rate_of_each_size():
    """At batch size 8 the higher rate is twice as fast to the target and ends at a higher loss."""
    runs, rows = frames(rates=(0.1, 0.2))
    fast = rows["learning_rate"].eq(0.2) & rows["batch_size"].eq(8)
    late = fast & rows["epoch"].gt(2)
    rows.loc[late, ["validation_loss", "test_loss"]] = [0.35, 0.7]
    measured = runs.assign(test_mae=runs["learning_rate"])
    at = {"target": {"validation_loss": 0.5}}
    found = read((measured, rows), at, {"test_mae": 0.1})
    for key in (("target", "updates"), ("convergence", "test_loss"), ("end", "test_mae")):
        assert found[key].chosen.rates.tolist() == [0.1, 0.2, 0.2], key
    assert found["end", "test_mae"].values[0].tolist() == [0.1] * 3
    epochs = math.log(1 / 0.5) / 0.2  # of seed 0
    assert found["target", "updates"].values[0, 0] == pytest.approx(32 / 8 * epochs)
    assert found["epochs", "test_loss"].chosen.rates.tolist() == [0.1, 0.2, 0.2]


def test_at_convergence_each_run_is_read_at_its_lowest_validation_loss():
    runs, rows = frames(rates=(0.2,))
    lowest = rows["epoch"] == 3
    rows.loc[lowest, ["validation_loss", "test_loss"]] = [0.001, 7.0]
    rows.loc[rows["seed"] == 1, "validation_loss"] = math.nan  # nor at its first evaluation
    found = read((runs, rows), budget="convergence")["test_loss"]
    assert found.values[:, [0, 2]].tolist() == [[7.0] * 2] * 3
    assert np.isnan(found.values[:, 1]).all() and not found.still_falling
    # Rows between the evaluations have a training loss only.
    between = rows.drop(columns=[name for name in rows if name.startswith(("validation", "test"))])
    both = pandas.concat([rows, between.assign(updates=rows["updates"] + 0.5)])
    assert read((runs, both), budget="convergence")["test_loss"].values[0, 0] == 7.0
    runs, rows = frames(rates=(0.2,))
    late = (rows["batch_size"] == 16) & (rows["epoch"] > 5)
    rows.loc[late, "validation_loss"] += 1
    found = read((runs, rows), budget="convergence")["test_loss"]
    assert found.still_falling == {0, 2}


def test_without_test_data_in_the_trainings_validation_data_stand_in_and_are_not_flattered():
    runs, rows = frames(rates=(0.1, 0.2))
    rows[["test_loss", "test_accuracy"]] = np.nan
    # Seed 0 alone is far better at the lower rate: the others choose the higher for it.
    odd = (rows["seed"] == 0) & (rows["learning_rate"] == 0.1) & (rows["batch_size"] == 8)
    rows.loc[odd, "validation_loss"] = 1e-3
    found = read((runs, rows), budget="epochs")
    assert list(found) == ["validation_accuracy", "validation_loss"]
    assert found["validation_loss"].values[0, 0] == loss_of(8, 0.2, 0, 8)
    assert not found["validation_loss"].chosen.tuned.any()
    # Far worse at the higher one, it sends the others away from there, and is read there alone.
    odd = (rows["seed"] == 0) & (rows["learning_rate"] == 0.2) & (rows["batch_size"] == 8)
    worse = rows.assign(validation_loss=rows["validation_loss"] + odd)
    found = read((runs, worse), budget="epochs")["validation_loss"]
    assert found.chosen.tuned.tolist() == [True, False, False]
    # At the end of a training its test data are known from `evaluate`.
    measured = runs.assign(test_loss=0.5 + 0.01 * runs["seed"], test_accuracy=0.9)
    found = read((measured, rows))
    at_end = found["convergence", "test_loss"]
    assert at_end.values.tolist() == [[0.5, 0.51, 0.52]] * 3
    assert not at_end.chosen.tuned.any() and ("epochs", "test_loss") not in found


def test_at_the_end_columns_of_the_runs_are_read_at_the_rate_that_validation_chooses():
    runs, rows = frames(sizes=(8, 16), rates=(0.1, 0.2), failed={(16, 0.1)})
    last = runs["learning_rate"].map({0.1: 0.4, 0.2: 0.3})
    runs = runs.assign(best_validation_loss=last, test_loss=last + runs["seed"], train_loss=last)
    found = read((runs, rows[:0]), margins={"test_loss": 0.2, "test_accuracy": 0.1})
    assert list(found) == [("end", "test_loss")]
    (end,) = found.values()
    assert end.values.tolist() == [[0.3, 1.3, 2.3]] * 2 and end.chosen.rates.tolist() == [0.2, 0.2]
    assert end.margin == 0.2 and end.chosen.on_edge.tolist() == [True, True]
    # Without validation losses the outcome chooses, each seed at the rate of the others.
    blind = runs.drop(columns="best_validation_loss")
    (found,) = read((blind, rows[:0]), margins={"train_loss": 0.1}).values()
    assert found.chosen.rates.tolist() == [0.2, 0.2] and found.margin == 0.1


def test_a_regression_is_compared_by_r2_by_its_loss_and_by_errors_with_a_margin():
    tables = of_numbers(failed={(32, 0.1), (32, 0.2), (32, 0.4)})
    found = read(tables, {"epochs": 5}, budget="epochs")
    margins = {name: each.margin for name, each in found.items()}
    assert margins == {"test_r2": 0.01, "test_loss": 0.01}
    found = read(tables, {"epochs": 5}, {"test_mae": 2.0, "train_mse": 1.0}, "epochs")
    assert list(found) == ["test_r2", "test_mae", "test_loss"]
    r2, error, _ = found.values()
    assert error.margin == 2 and (r2.higher_is_better, error.higher_is_better) == (True, False)
    losses = np.array([[loss_of(size, 0.2, seed, 5) for seed in range(3)] for size in (8, 16)])
    assert r2.values[:2] == pytest.approx(1 - losses / 2)
    assert error.values[:2] == pytest.approx(10 * (4 * losses) ** 0.5)
    assert r2.values[2, 0] == -INF and error.values[2, 0] == INF


def test_each_series_is_read_by_what_it_learns():
    parts = [of_numbers(), frames()]
    for name, part in zip(("diabetes", "digits"), parts, strict=True):
        for frame in part:
            frame["dataset"] = name
            frame["run"] = f"{name}-" + frame["run"]
    tables = [pandas.concat(both, ignore_index=True) for both in zip(*parts, strict=True)]
    found = budget_comparisons.for_experiment(*tables, ComparisonRequest())
    found = [each for each in found if each.budget.kind == "epochs"]
    datasets = [each.trainings.factors["dataset"] for each in found]
    assert datasets == ["diabetes"] * 2 + ["digits"] * 2
    outcomes = ["test_r2", "test_loss", "test_accuracy", "test_loss"]
    assert [each.outcome for each in found] == outcomes
    assert [each.margin for each in found] == [0.01, 0.01, 0.01, 0.05]


def test_at_each_look_its_seeds_alone_choose_the_rates_and_the_budgets_are_those_of_all():
    """As the trainings of these seeds are read at the budgets that all of them have."""
    analyses = (2, 3, 5)
    tables, stated = frames(seeds=range(5)), {}
    found = read(tables, analyses=analyses)
    kinds = {key: each for key, each in found.items() if key[0] != "target"}
    of_target = found["target", "updates"].budget
    assert {len(each.earlier) for each in found.values()} == {2}
    assert [look.share for look in found["epochs", "test_accuracy"].earlier] == [0.4, 0.2]
    assert found["epochs", "test_accuracy"].share == pytest.approx(0.4)
    stated = {each.budget.kind: each.budget.value for each in kinds.values()}
    stated |= {"target": {of_target.column: of_target.value}}
    for at, seeds in enumerate(analyses[:-1]):
        runs, rows = (each[each["seed"] < seeds] for each in tables)
        alone = read((runs, rows), stated)
        for key, each in found.items():
            look = each.earlier[at]
            assert np.array_equal(look.values, alone[key].values, equal_nan=True), key
            assert np.array_equal(look.chosen.rate_index, alone[key].chosen.rate_index)
            assert look.values.shape[1] == seeds and look.budget == each.budget


def test_in_the_middle_of_a_stage_the_seeds_there_are_have_its_share():
    found = read(frames(seeds=range(4)), analyses=(2, 6, 8))["epochs", "test_accuracy"]
    assert (found.share, len(found.earlier)) == (0.5, 1)
    assert read(frames(seeds=range(2)), analyses=(6, 8))["epochs", "test_accuracy"].share == 0.75
