"""Each batch size against the best of the others: rows, in the direction of the outcome."""

import dataclasses
import math

import numpy as np
import pandas
import pytest
from scipy import stats

from batchscope.analysis import budget_comparisons, comparisons
from batchscope.analysis.trainings import Choice, Trainings
from batchscope.study import decision_columns, stages
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
    names = ("on_edge", "tuned", "at_first", "still_falling", "ended_early", "rate_left")
    marks = {name: np.array(more.get(name, none)) for name in names}
    runs = pandas.DataFrame(
        {"batch_size": size, "seed": seed, "optimizer": "sgd", "learning_rate": 0.1}
        | {"status": "missing" if math.isnan(value) else "finished"}
        for size, row in zip(SIZES, values, strict=False)
        for seed, value in enumerate(row)
    )
    rates, read = np.full(len(values), 0.1), np.zeros(values.shape, int)
    chosen = Choice(values, rates, marks.pop("on_edge"), read, marks.pop("tuned"))
    marks = {name: {*np.flatnonzero(where)} for name, where in marks.items()}
    of, budget = Trainings({}, runs, runs[:0]), budget_comparisons.Budget(kind, 10.0)
    return budget_comparisons.BudgetComparison(of, budget, outcome, margin, chosen, **marks)


def table(*args, **more):
    return staged((args[0], 1.0), given=args[1:], **more)


def staged(*analyses, given=(), **more):
    """Returns the rows after the last of some analyses: values, and a share of the level."""
    *earlier, last = (
        dataclasses.replace(reading(values, *given, **more), share=share)
        for values, share in analyses
    )
    last = dataclasses.replace(last, earlier=tuple(earlier))
    return comparisons.table(last.trainings.runs, [last])


NOISE = np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])


def rolled(*means, noise=0.01):
    """Returns sizes of six seeds whose differences scatter: the noise is rolled size by size."""
    return np.array([mean + noise * np.roll(NOISE, 2 * at) for at, mean in enumerate(means)])


def test_two_sizes_are_a_paired_t_test_with_the_level_of_the_pair():
    values = rolled(1.0, 0.7)
    worse = table(values, margin=0.1).iloc[1]
    differences = values[1] - values[0]
    # The margin is many standard errors wide: the pair has the whole 5 %.
    tests = [stats.ttest_1samp(differences, 0, alternative=way) for way in ("greater", "less")]
    greater, less = (test.confidence_interval(0.95) for test in tests)
    ends = (differences.mean(), greater.low, less.high)
    assert tuple(worse[["estimate", "low", "high"]]) == pytest.approx(ends)
    assert (worse["verdict"], worse["against"]) == ("beyond", 8)


def test_two_sizes_are_compared_by_the_seeds_that_both_have():
    values = rolled(1.0, 0.7, 0.5)
    values[1, 0] = math.nan
    found = table(values, margin=0.1)
    assert set(found["verdict"]) == {"provisional"}  # a pair with fewer counts
    assert found["n"].tolist() == [5, 5, 5]
    assert (found["seeds_to_resolve"] == 6).all()
    with_more = np.column_stack([values, np.full((3, 2), math.nan)])
    with_more[[0, 2], 6:] = rolled(1.0, 0.5)[:, :2]
    last = table(with_more, margin=0.1).iloc[2]
    assert (last["n"], last["seeds_to_resolve"]) == (5, 6)
    values[1, :4] = math.nan
    assert table(values, margin=0.1)[["low", "high"]].isna().all(axis=None)  # n is 2
    assert last["estimate"] == pytest.approx((with_more[2] - with_more[0]).mean())


@pytest.mark.parametrize(("worse", "printed"), [(0.4, 1), (3.0, 0)])
def test_the_first_analysis_that_decides_is_printed_else_the_last(worse, printed):
    """Of 28 seeds: the bounds of a pair are those of a t-test at w_i times 5 %."""
    values = np.random.default_rng(3).normal(0, 0.3, (2, 9)) - [[0.0], [worse]]
    shares, seeds = stages.level_shares(stages.analysis_seeds(28))[:2], (6, 9)
    analyses = [(values[:, :n], share) for n, share in zip(seeds, shares, strict=True)]
    found = staged(*analyses, margin=0.3).iloc[1]
    assert found["verdict"] == ("beyond" if printed == 0 else "not_resolved")
    differences = (values[1] - values[0])[: seeds[printed]]
    test = stats.ttest_1samp(differences, 0, alternative="greater")
    low = test.confidence_interval(1 - 0.05 * shares[printed]).low
    assert (found["low"], found["estimate"]) == pytest.approx((low, differences.mean()))
    assert found["n"] == seeds[printed] and found["low"] < found["estimate"] < found["high"]


def test_a_size_without_seeds_at_an_analysis_leaves_it_undecided():
    """Two equal sizes are within the margin of each other, but not yet of the third one."""
    values = rolled(1.0, 1.0, 1.0, noise=1e-3)
    before = values.copy()
    before[2] = math.nan
    both = staged((before, 0.5), (np.column_stack([values, values]), 0.5), margin=0.1)
    assert both.loc[0, ["verdict", "n"]].tolist() == ["within", 12]
    before[2], before[:, :4] = values[2], math.nan  # two seeds are too few, even later
    both = staged((before, 0.5), (np.column_stack([before, values]), 0.5), margin=0.1)
    assert both.loc[0, ["verdict", "n"]].tolist() == ["within", 8] and both["low"].notna().all()


def test_the_seeds_that_would_settle_it_follow_the_tables_of_power():
    # Equal sizes, and margins of .8 and .5 standard deviations: 15 and 36 seeds show equality.
    spread = np.array([-1.0, -1, -1, 1, 1, 1]) * math.sqrt(5 / 6)
    found = table([np.zeros(6), spread, 1.6 * spread], margin=0.8)
    assert found["seeds_to_resolve"].tolist() == [36, 15, 36]  # of the pair that needs most


def test_a_difference_that_is_the_margin_is_not_decided_by_rounding():
    values = [[0.3] * 6, [0.1 + 0.1] * 6]  # 0.3 - 0.2 is not 0.1 in binary
    assert table(values, margin=0.1)["verdict"][1] == "not_resolved"


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
    assert comparisons.best_batch_size(found) == 8
    accuracy = table(-values)
    assert accuracy["mean"].idxmax() == 1 and comparisons.best_batch_size(accuracy) == 8


def test_a_size_alone_is_the_best_and_without_any_value_none_is():
    alone = table(np.vstack([THREE[0], [NAN] * 6]))
    assert alone["estimate"].isna().all() and comparisons.best_batch_size(alone) == 8
    assert comparisons.best_batch_size(alone.iloc[1:]) is None
    assert comparisons.best_batch_size(alone.iloc[:0]) is None


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
    found = table(values, ended_early=[False, True, False])
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
@pytest.mark.parametrize("in_stages", [False, True])
def test_the_verdict_is_always_read_off_the_interval(draws, in_stages):
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
        analyses = [(values[:, :3], 0.3), (values[:, :6], 0.3), (values, 0.4)]
        analyses = analyses if in_stages else [(values, 1.0)]
        rows = staged(*analyses, given=(outcome, 0.1, kind), **marks)
        for row in rows.to_dict("records"):
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
