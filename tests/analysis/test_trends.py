"""Trends against values worked out by hand, and their verdicts against their intervals."""

import dataclasses
import itertools
import math

import numpy as np
import pandas
import pytest
from scipy import stats

from batchscope.analysis import budget_comparisons, intervals, trends, verdicts
from batchscope.analysis.budget_comparisons import Budget
from batchscope.study.outcomes import LEVEL, Reason, Verdict

SIZES = (16, 32, 64)
NONE = np.full((6, 3), math.nan)


def frame(values, sizes=SIZES, **columns):
    """Returns runs: `values` is outcome -> array of shape (seeds, sizes)."""
    seeds = len(next(iter(values.values())))
    rows = []
    for (s, seed), (b, size) in itertools.product(enumerate(range(seeds)), enumerate(sizes)):
        row = {"batch_size": size, "seed": seed, "status": "finished", "learning_rate": 0.1}
        row |= {"epochs": 40, "epochs_run": 40, "patience": 0, **columns}
        rows.append(row | {name: array[s][b] for name, array in values.items()})
    return pandas.DataFrame(rows)


def rising(seeds=6, sizes=3, noise=0.01):
    return np.arange(sizes) + np.random.default_rng(0).normal(0, noise, (seeds, sizes))


def table(runs, at_budgets=(), claims=None):
    return trends.table(runs, at_budgets, claims or {})


def reading(values, outcome="test_accuracy", budget="epochs", **marks):
    """Returns what was read at a budget: `values` of shape (seeds, sizes)."""
    runs = frame({outcome: values})
    found = budget_comparisons.from_column(runs, outcome)
    marks = {name: np.array(where) for name, where in marks.items()}
    chosen = {name: marks.pop(name) for name in ("on_edge", "tuned") if name in marks}
    marks = {name: {*np.flatnonzero(where)} for name, where in marks.items()}
    chosen = found.chosen._replace(values=np.asarray(values, float).T, **chosen)
    return dataclasses.replace(found, budget=Budget(budget, 10.0), chosen=chosen, **marks)


def judged(*given):
    return table(frame({"test_accuracy": NONE}), given).to_dict("records")


def test_slopes_are_the_seeds_own_and_per_doubling():
    """Slopes 1 to 6 per doubling: mean 3.5, standard error sqrt(3.5 / 6), 5 degrees of freedom."""
    gap = np.outer(range(1, 7), [0, 1, 3]) + np.arange(6.0)[:, None]
    (row,) = table(frame({"generalisation_gap": gap}, (16, 32, 128))).to_dict("records")
    half, numbers = stats.t.ppf(1 - LEVEL / 2, 5) * math.sqrt(3.5 / 6), ("estimate", "low", "high")
    assert [row[name] for name in numbers] == pytest.approx([3.5, 3.5 - half, 3.5 + half])
    assert (row["verdict"], row["n"], row["direction"]) == (Verdict.SUPPORTED, 6, "rises")
    assert row["reason"] == Reason.NONE
    assert (row["budget"], row["outcome"]) == ("end", "generalisation_gap")
    assert row["learning_rate"] == 0.1
    assert verdicts.slopes([[0.1] * 3], [4, 5, 7]) == 0  # without any error of rounding


def test_all_rows_of_an_experiment_are_one_family():
    noise = np.random.default_rng(5).normal(0, 1, (6, 3))
    values = {"generalisation_gap": rising(), "test_accuracy": -rising(), "weight_distance": noise}
    found = table(frame(values), [reading(2 * rising()), reading(2 * noise, "test_loss")])
    assert len(found) == 5
    told = found["verdict"].isin([Verdict.SUPPORTED, Verdict.CONTRADICTED])
    assert told.sum() == 3
    slope = found.set_index("budget").loc["epochs"].iloc[0]
    slopes = (2 * rising())[:, 2] - (2 * rising())[:, 0]
    ends = stats.t.interval(1 - 2 * 3 * LEVEL / 10, 5, slopes.mean() / 2, stats.sem(slopes) / 2)
    assert (slope["low"], slope["high"]) == pytest.approx(ends)


def test_what_documents_state_takes_the_place_of_what_is_asked():
    runs = frame({"generalisation_gap": rising()})
    (row,) = table(runs, claims={"generalisation_gap": "falls"}).to_dict("records")
    assert (row["direction"], row["verdict"]) == ("falls", Verdict.CONTRADICTED)


@pytest.mark.parametrize(
    ("status", "reason"), [("diverged", Reason.FAILED), ("missing", Reason.NO_VALUE)]
)
def test_a_size_without_a_value_is_left_out(status, reason):
    runs = frame({"generalisation_gap": rising(sizes=4)}, sizes=(16, 32, 64, 128))
    runs.loc[runs["batch_size"].eq(128), "status"] = status
    (row,) = table(runs).to_dict("records")
    assert (row["largest"], row["verdict"], row["reason"]) == (64, Verdict.SUPPORTED, reason)
    (row,) = table(runs[runs["batch_size"] > 32]).to_dict("records")
    assert (row["verdict"], row["reason"]) == (Verdict.NOT_TESTABLE, reason)
    (row,) = table(runs[runs["batch_size"] == 32]).to_dict("records")
    assert (row["verdict"], row["reason"]) == (Verdict.NOT_TESTABLE, Reason.ALONE)
    assert math.isnan(row["low"])


def test_where_nothing_stopped_a_run_values_are_lower_bounds():
    values = {name: rising(sizes=2) + 40 for name in ("epochs_run", "train_seconds")}
    runs = frame(values, sizes=(32, 256))
    ran_out = runs.assign(epochs_run=40)
    late = ran_out.assign(patience=10, generalisation_gap=runs["epochs_run"])
    late.loc[0, "status"] = "diverged"
    found = table(late).set_index("outcome")
    reasons = dict.fromkeys(values, Reason.LOWER_BOUND) | {"generalisation_gap": Reason.NONE}
    assert found["reason"].to_dict() == reasons
    assert found.loc[[*values], "low"].isna().all()
    assert set(found.loc[[*values], "verdict"]) == {Verdict.NOT_TESTABLE}
    # Epochs that were chosen are no outcome, and their time is one.
    assert table(ran_out)["outcome"].tolist() == ["train_seconds"]
    assert set(table(runs.assign(patience=10))["verdict"]) == {Verdict.SUPPORTED}
    timed = table(frame({"seconds_per_epoch": -rising()}, status="diverged"))
    assert timed["verdict"].tolist() == [Verdict.SUPPORTED]  # by a job of its own


@pytest.mark.parametrize(("sign", "verdict"), [(1, "supported"), (-1, "contradicted")])
@pytest.mark.parametrize("outcome", ["test_accuracy", "test_loss"])
@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ("on_edge", Reason.RATE_ON_EDGE),
        ("at_first", Reason.AT_FIRST_EVALUATION),
        ("rate_left", Reason.RATE_LEFT),
    ],
)
def test_an_end_that_may_be_better_opens_the_interval(outcome, sign, verdict, mark, reason):
    """At the winning end it changes nothing; at the losing one it leaves the trend open."""
    rises = outcome == "test_accuracy"
    values = sign * rising() if rises else -sign * rising()
    winning = [False, False, True] if sign > 0 else [True, False, False]
    (closed,) = judged(reading(values, outcome))
    (won,) = judged(reading(values, outcome, **{mark: winning}))
    (lost,) = judged(reading(values, outcome, **{mark: winning[::-1]}))
    (middle,) = judged(reading(values, outcome, **{mark: [False, True, False]}))
    assert closed == pytest.approx(middle, nan_ok=True)
    assert closed["verdict"] == won["verdict"] == verdict and won["reason"] == ""
    assert (lost["verdict"], lost["reason"]) == (Verdict.NOT_RESOLVED, reason)
    upper = rises == (sign > 0)
    assert [math.isnan(won[end]) for end in ("low", "high")] == [not upper, upper]
    assert [math.isnan(lost[end]) for end in ("low", "high")] == [upper, not upper]


def test_what_was_taken_changes_by_a_factor_per_doubling():
    values = 100.0 * 0.5 ** np.arange(3) * np.exp(rising(noise=0.1) - np.arange(3))
    (row,) = judged(reading(values, "updates", "target"))
    logs = np.log(values)
    slopes = (logs[:, 2] - logs[:, 0]) / 2
    ends = stats.t.interval(1 - LEVEL, 5, slopes.mean(), stats.sem(slopes))
    assert [row[end] for end in ("low", "high")] == pytest.approx(np.exp(ends))
    assert row["verdict"] == Verdict.SUPPORTED and row["direction"] == "falls"
    assert row["smallest_mean"] == pytest.approx(np.exp(logs[:, 0].mean()))
    (wider,) = judged(reading(values, "updates", "target", tuned=[False, True, False]))
    factor = math.sqrt(intervals.correction(6, True))
    assert math.log(wider["high"] / wider["low"]) == pytest.approx(factor * (ends[1] - ends[0]))
    values[2, 0] = math.inf
    (row,) = judged(reading(values, "updates", "target"))
    assert (row["smallest"], row["n"], row["reason"]) == (32, 6, Reason.NOT_REACHED)
    values[2, 0] = 0.0
    (row,) = judged(reading(values, "updates", "target"))
    assert row["reason"] == Reason.NOT_POSITIVE


def test_means_at_both_ends_are_those_of_the_paired_seeds():
    """Of 16 seeds 6 to 9 have values too, of a quiet machine: no other size has them."""
    values = np.full((10, 3), 100.0) * [1.0, 0.8, 0.7]
    values[6:] = [[10.0, math.nan, math.nan]] * 4
    (row,) = judged(reading(values, "seconds", "target"))
    assert (row["n"], row["seeds"]) == (6, 10)
    assert row["smallest_mean"] == pytest.approx(100) and row["largest_mean"] == pytest.approx(70)
    values[:6, 1] = math.nan  # no seed has a value at every size
    values[6:, 1] = 8.0
    (row,) = judged(reading(values, "seconds", "target"))
    assert row["n"] == 0 and row["smallest_mean"] == pytest.approx(100**0.6 * 10**0.4)
