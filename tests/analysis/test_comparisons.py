"""Each batch size against the best of the others: rows, in the direction of the outcome."""

import dataclasses
import math

import numpy as np
import pandas
import pytest
from scipy import stats

from batchscope.analysis import comparisons, readings
from batchscope.analysis.trainings import Chosen, Trainings
from batchscope.study import decision_columns
from costs import draws

NAN, INF = float("nan"), float("inf")
SIZES = (8, 16, 32)
# By size: of six seeds.
POINTS = [[90, 92, 91, 93, 90, 92], [91, 91, 92, 92, 90, 93], [88, 87, 89, 88, 88, 87]]
THREE = 0.01 * np.array(POINTS)


def reading(values, outcome="test_accuracy", margin=0.05, kind="epochs", **more):
    """Returns a reading of values, shape (sizes, seeds)."""
    values = np.asarray(values, float)
    none = np.zeros(len(values), bool)
    names = ("on_edge", "tuned", "at_first", "falling", "ended", "rate_left")
    marks = {name: np.array(more.get(name, none)) for name in names}
    runs = pandas.DataFrame(
        {"batch_size": size, "seed": seed, "optimizer": "sgd", "learning_rate": 0.1}
        | {"status": "missing" if math.isnan(value) else "finished"}
        for size, row in zip(SIZES, values, strict=False)
        for seed, value in enumerate(row)
    )
    rates, read = np.full(len(values), 0.1), np.zeros(values.shape, int)
    chosen = Chosen(values, rates, marks.pop("on_edge"), read, marks.pop("tuned"))
    of, budget = Trainings({}, runs, runs[:0]), readings.Budget(kind, 10.0)
    return readings.Reading(of, budget, outcome, margin, chosen, **marks)


def table(*args, **more):
    found = reading(*args, **more)
    return comparisons.table(found.trainings.runs, [found])


def test_three_sizes_of_six_seeds_by_hand():
    margin, t = 0.02, stats.t(5)
    found = table(THREE, margin=margin)
    assert found["against"].tolist() == [16, 8, 16]
    assert found["estimate"].tolist() == pytest.approx([-1 / 600, 1 / 600, -22 / 600])
    differences = THREE[2] - THREE[:2]
    means, errors = differences.mean(axis=1), differences.std(axis=1, ddof=1) / math.sqrt(6)
    assert found["low"][2] == pytest.approx(min(means - t.isf(0.05) * errors))
    mean, error = means[1], errors[1]
    deviate = (found["high"][2] - mean) / error  # of either end of the margin, over three pairs
    assert t.sf(deviate) + t.sf(deviate + 2 * margin / error) == pytest.approx(0.05 / 3)
    assert found["verdict"].tolist() == ["within", "within", "beyond"]
    assert (found["bound"] == -margin).all() and (found["n"] == 6).all()
    mean, half = THREE[0].mean(), t.isf(0.025) * THREE[0].std(ddof=1) / math.sqrt(6)
    level = found.loc[0, ["mean", "mean_low", "mean_high"]].to_list()
    assert level == pytest.approx([mean, mean - half, mean + half])
    assert list(found) == ["optimizer", *decision_columns.COMPARISONS]


def test_seeds_are_counted_for_the_pair_that_leaves_a_size_open():
    """The best other size is known well; what leaves the first open is one that scatters."""
    generator = np.random.default_rng(4)
    scatter = generator.normal(size=(2, 6))
    first, well, badly = np.full(6, 0.9), 0.901 + 5e-4 * scatter[0], 0.9005 + 0.03 * scatter[1]
    found = table([first, well, badly - badly.mean() + 0.9005], margin=0.01)
    assert found["verdict"].tolist() == ["not_resolved"] * 3
    wanted = found["seeds_to_resolve"].astype(float)
    assert wanted[0] == pytest.approx(wanted[1], rel=0.2) and wanted[0] > 50


def test_a_loss_has_its_own_direction_and_what_is_taken_its_ratio():
    accuracy, loss = table(THREE), table(-THREE, "test_loss")
    assert loss["estimate"].tolist() == [-each for each in accuracy["estimate"]]
    assert loss["low"].tolist() == [-each for each in accuracy["high"]]
    assert loss["high"].tolist() == [-each for each in accuracy["low"]]
    assert loss["bound"][0] == 0.05 and loss["verdict"].tolist() == accuracy["verdict"].tolist()
    taken = table(100 * np.exp(-THREE), "updates", math.expm1(0.05), "target")
    ends = ["estimate", "low", "high"]
    assert np.log(taken[ends].to_numpy()) == pytest.approx(loss[ends].to_numpy())
    assert taken["bound"][0] == pytest.approx(math.exp(0.05))
    assert taken["verdict"].tolist() == accuracy["verdict"].tolist()
    assert taken["mean"][0] == pytest.approx(100 * math.exp(-THREE[0].mean()))


def test_the_best_size_is_that_of_the_paired_differences():
    """By all jobs 16 has the lower mean; by the 13 jobs that both have, 8 is faster in each.

    The first 13 jobs ran on a busy machine, and 8 has no others.
    """
    busy, quiet = np.linspace(2.0, 2.2, 13), np.linspace(0.9, 1.1, 15)
    values = np.array([[*busy, *[NAN] * 15], [*(1.4 * busy), *quiet]])
    found = table(values, "seconds", 0.1, "target")
    assert found["reached"].tolist() == [13, 28]
    assert found["mean"].idxmin() == 1
    assert found["estimate"].tolist() == pytest.approx([1 / 1.4, 1.4])
    assert comparisons.best(found) == 8
    accuracy = table(-values)
    assert accuracy["mean"].idxmax() == 1 and comparisons.best(accuracy) == 8


def test_a_size_alone_is_the_best_and_without_any_value_none_is():
    alone = table(np.vstack([THREE[0], [NAN] * 6]))
    assert alone["estimate"].isna().all() and comparisons.best(alone) == 8
    assert comparisons.best(alone.iloc[1:]) is None and comparisons.best(alone.iloc[:0]) is None


def test_a_size_that_finished_without_reaching_the_target_is_no_failure():
    """Of 32 a run diverged at the only rate."""
    values = np.vstack([THREE[0], [*THREE[1][:5], INF], [*THREE[2][:5], INF]])
    of = reading(values, "updates", 0.1, "target")
    runs = of.trainings.runs
    runs.loc[(runs["batch_size"] == 32) & (runs["seed"] == 5), "status"] = "diverged"
    evaluations = runs.assign(run="", epoch=np.arange(len(runs)))
    of = dataclasses.replace(of, trainings=Trainings({}, runs, evaluations))
    found = comparisons.table(runs, [of])
    assert found["reason"].tolist() == ["alone", "not_reached", "failed"]
    assert found["epochs_run"].tolist() == [5, 11, 16]  # of the last finished run


def test_a_size_without_a_comparison_says_why():
    values = np.vstack([THREE[0], [NAN] * 6, [*THREE[2][:5], -INF]])
    found = table(values)
    assert set(found["verdict"]) == {"not_testable"}
    assert found["reason"].tolist() == ["alone", "no_value", "failed"]
    assert found["mean"].notna().tolist() == [True, False, False]
    assert found["seeds"].tolist() == [6, 0, 6]
    found = table(values, ended=[False, True, False])
    assert found["reason"].tolist() == ["alone", "no_budget", "failed"]
    nothing = table(np.vstack([THREE[:2], [0.0, *THREE[2][1:]]]), "updates", 0.1, "target")
    assert nothing["reason"].tolist() == ["", "", "not_positive"]
    few = [(THREE[:, :5], "provisional"), (THREE[:, :1], "one_seed"), (THREE[:2], "within")]
    for values, verdict in few:
        found = table(values)
        assert found["verdict"][0] == verdict and found["estimate"].notna().all()
        assert found["low"].notna().all() == (verdict != "one_seed")
    assert found["low"].notna().all() and len(found) == 2


def test_an_upper_bound_opens_the_end_that_it_leaves_unknown():
    """The slowest was there by its first evaluation: it may have taken less."""
    values = 100 / THREE
    plain = table(values, "updates", 0.02, "target")
    found = table(values, "updates", 0.02, "target", at_first=[False, False, True])
    assert plain["verdict"].tolist() == ["within", "within", "beyond"]
    assert found["verdict"].tolist() == ["not_resolved"] * 3
    assert set(found["reason"]) == {"at_first_evaluation"}
    assert found["low"].isna().tolist() == [False, False, True]
    assert found["high"].isna().tolist() == [True, True, False]
    assert found["seeds_to_resolve"].isna().all()


def read_off(row):
    """Returns what an interval says beside its bound."""
    better, worse = (row["low"], row["high"]) if row["bound"] < 0 else (-row["high"], -row["low"])
    bound = row["bound"] if row["bound"] < 0 else -row["bound"]
    return "within" if better > bound else "beyond" if worse < bound else "not_resolved"


@draws(100)
@pytest.mark.parametrize("staged", [False, True])
def test_the_verdict_is_always_read_off_the_interval(draws, staged):
    random, verdicts = np.random.default_rng(0), set()
    outcomes = [("test_accuracy", "epochs"), ("test_loss", "epochs"), ("seconds", "target")]
    for draw in range(draws):
        outcome, kind = outcomes[draw % 3]
        sizes, seeds = random.integers(2, 4), random.integers(6, 9)
        means = random.normal(0, random.choice([0.0, 0.1]), (sizes, 1))
        values = np.exp(means + random.normal(0, random.choice([0.0, 0.02]), (sizes, seeds)))
        values = np.round(values, 2)  # so that some lie at the margin itself
        marks = {name: random.random(sizes) < 0.2 for name in ("tuned", "at_first")}
        marks["at_first"] &= kind == "target"
        last = reading(values, outcome, 0.1, kind, **marks)
        if staged:
            before = [reading(values[:, :n], outcome, 0.1, kind, **marks) for n in (3, 6)]
            earlier = tuple(dataclasses.replace(each, share=0.3) for each in before)
            last = dataclasses.replace(last, share=0.4, earlier=earlier)
        for row in comparisons.table(last.trainings.runs, [last]).to_dict("records"):
            assert row["verdict"] == read_off(row), row
            assert not row["estimate"] < row["low"] and not row["estimate"] > row["high"], row
            open_end = math.isnan(row["low"]) or math.isnan(row["high"])
            explained = row["reason"] == "at_first_evaluation"
            assert explained == (open_end and row["verdict"] == "not_resolved")
            verdicts.add(row["verdict"])
    assert verdicts == {"within", "beyond", "not_resolved"}


def test_intervals_of_shares_end_at_0_and_1_and_those_of_differences_do_not():
    found = table([[0.99, 0.8, 0.999], [0.01, 0.2, 0.001], [0.5, 0.5, 0.5]])
    assert found["mean_high"][0] == 1 and found["mean_low"][1] == 0
    assert found["low"][1] < -1
    assert table([[3.0, 0.1, 2.0]] * 3, "test_loss")["mean_high"][0] > 1
