"""Which batch size wins at which budget: verdicts of cells and rows, and how often they err."""

import importlib.util
import itertools
import math
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats
from test_equal_budgets import frames

from batchscope.analysis import largest_within_margin, verdict_matrix
from batchscope.analysis.verdict_matrix import compare, trend
from batchscope.catalogue import decision_columns
from costs import draws

NAN, INF = float("nan"), float("inf")
SIZES = [8, 16, 32, 64]
NOISE = np.random.default_rng(3).normal(0, 1, (4, 6))


def row(means, spread=0.002):
    """Returns values of shape (sizes, seeds) around means."""
    return np.array(means)[:, None] + spread * NOISE[: len(means)]


def joined(*experiments):
    """Returns the runs and the evaluations of several experiments as those of one."""
    return [pandas.concat(each, ignore_index=True) for each in zip(*experiments, strict=True)]


def judged(found):
    """Returns budget and outcome -> the verdicts of its cells, and of the row."""
    return {
        key: (cells["verdict"].tolist(), cells["trend"].iloc[0], cells["no_trend"].iloc[0])
        for key, cells in found.groupby(["budget", "outcome"], sort=False)
    }


def test_a_cell_states_its_difference_from_the_best_of_the_row():
    cells = compare(row([0.90, 0.95, 0.94, 0.80]), SIZES, "test_accuracy", 0.01)
    differences = [cell.difference.mean for cell in cells]
    assert differences == pytest.approx([-0.05, 0.0, -0.01, -0.15], abs=3e-3)
    best = cells[1]
    assert best.difference.mean == 0.0 and math.isnan(best.difference.low)
    pairs = row([0.90, 0.95])[0] - row([0.90, 0.95])[1]
    half = 2.015048 * pairs.std(ddof=1) / math.sqrt(6)  # t of 95 % with 5 degrees of freedom
    ends = (pairs.mean() - half, pairs.mean() + half)
    assert cells[0].difference[1:3] == pytest.approx(ends)
    assert [cell.p_within < 0.05 for cell in cells] == [False, True, False, False]
    assert cells[3].p_beyond < 0.01
    assert (
        compare(row([0.90, 0.95, 0.94, 0.80]), SIZES, "test_loss", 0.01)[3].difference.mean == 0.0
    )


def test_what_a_target_takes_is_compared_as_a_ratio():
    times = 100 * np.exp(row([0.0, 0.05, 0.7, 1.4], 0.01))
    cells = compare(times, SIZES, "updates", 0.1)
    differences = [cell.difference.mean for cell in cells]
    assert differences == pytest.approx(np.expm1([0.0, 0.05, 0.7, 1.4]), abs=0.05)
    assert cells[0].mean == pytest.approx(np.exp(np.log(times[0]).mean()))
    # A tenth slower than the fastest is negligible.
    assert [cell.p_within < 0.05 for cell in cells] == [True, True, False, False]


def test_a_size_with_a_failed_run_is_compared_with_none():
    values = row([0.90, 0.95, 0.94, 0.80])
    values[1, 2] = -INF
    cells = compare(values, SIZES, "test_accuracy", 0.01)
    assert [cell.verdict for cell in cells][1] == "failed"
    assert cells[2].difference.mean == 0.0 and math.isnan(cells[1].mean)
    values[[0, 3], 1] = -INF
    alone = verdict_matrix.compare(values, SIZES, "test_accuracy", 0.01)
    assert [cell.verdict for cell in alone] == ["failed", "failed", "alone", "failed"]


def test_seeds_at_different_rates_widen_what_their_size_is_compared_in():
    values = row([100.0, 102.0, 101.0, 80.0], 1.0)
    plain, found = (compare(values, SIZES, "updates", 0.5, own) for own in ((), SIZES[1:2]))
    ends = [[cell.difference[1:3] for cell in cells[:3]] for cells in (found, plain)]
    widths, narrower = np.diff(np.log1p(ends))[..., 0]
    assert widths / narrower == pytest.approx([1, math.sqrt(1 + 0.57 * math.sqrt(6)), 1])
    assert plain[1].p_within < found[1].p_within < 0.5 and found[1].mean == plain[1].mean


def test_an_upper_bound_is_never_beyond_and_shows_no_other_to_be_within():
    times = 100 * np.exp(row([0.0, 0.02, 0.7, 1.4], 0.01))
    of = (SIZES, "updates", 0.1, ())

    def shown(bounded):
        cells = largest_within_margin.judge(compare(times, *of, bounded))
        return [cell.verdict for cell in cells]

    assert shown(()) == ["within", "within", "beyond", "beyond"]
    assert shown(SIZES[3:]) == ["not_resolved", "not_resolved", "beyond", "not_resolved"]
    # What the fastest takes at most is within the margin of all others, and they are beyond it.
    assert shown(SIZES[:1]) == ["within", "not_resolved", "beyond", "beyond"]


def to_target(evaluated):
    """Returns what 3 updates to a loss of 1.5 look like: batch size -> updates of evaluations."""
    rows = []
    for (size, every), seed in itertools.product(evaluated.items(), range(6)):
        run = {"run": f"{size}-{seed}", "machine": "local", "batch_size": size, "seed": seed}
        for updates in every:
            loss = 2 * math.exp(-updates / 10) + 1e-3 * seed
            used = {"epoch": updates * size / 1000, "updates": updates, "examples": updates * size}
            used |= {"seconds": updates, "validation_loss": loss, "validation_accuracy": 1 / loss}
            rows.append({**run, **used, "status": "finished"})
    evaluations = pandas.DataFrame(rows).assign(learning_rate=0.1)
    stated = {"target": {"validation_loss": 1.5}}
    found = verdict_matrix.table(evaluations.drop_duplicates("run"), evaluations, stated, {})
    return found[found["budget"] == "target"]


def test_a_target_reached_by_the_first_evaluation_gets_no_trend():
    """What is seen are the ends of first epochs of 1,000 examples."""
    epoch = {size: math.ceil(1000 / size) for size in (16, 32, 64, 128)}
    found = to_target({size: [end, 2 * end, 3 * end] for size, end in epoch.items()})
    assert set(found["outcome"]) == {"updates", "examples", "seconds"}
    assert found["p_larger"].min() < 1e-4
    assert set(found["trend"]) == {"none"} and set(found["no_trend"]) == {"bounded"}
    assert not found["verdict"].isin(["beyond", "within"]).any()


def test_an_upper_bound_at_the_winning_end_only_confirms_a_trend():
    often = range(1, 10)
    found = to_target({16: [4, 8, 12], 32: often, 64: often, 128: often})
    taken = found[found["outcome"] == "examples"]
    assert set(taken["trend"]) == {"smaller"}
    assert taken["verdict"].tolist() == ["within", "beyond", "beyond", "beyond"]


def test_a_trend_is_tested_in_both_directions():
    values = row([0.90, 0.91, 0.92, 0.93])
    rising = trend(values, SIZES, "test_accuracy")
    assert rising.p_larger < 1e-4 < 0.9 < rising.p_smaller
    assert trend(values, SIZES, "test_loss").p_smaller == rising.p_larger
    middle = trend(row([0.90, 0.95, 0.95, 0.90]), SIZES, "test_loss")
    assert min(middle.p_larger, middle.p_smaller) > 0.1 and middle.p_any < 0.01


def test_an_order_against_the_slope_is_no_trend():
    """The loss falls steeply to batch size 2 and rises a little over many sizes beyond it."""
    sizes = [1, 2, 4, *range(8, 17)]
    runs, rows = (
        pandas.concat([one.assign(batch_size=size, run=f"{size}-" + one["run"]) for size in sizes])
        for one in frames((8,), rates=(0.2,), seeds=range(6))
    )
    loss = {size: 1.0 + 1e-3 * index for index, size in enumerate(sizes)}
    for first, expected in ((1.0, ("smaller", "")), (1.1, ("none", "mixed"))):
        rows["test_loss"] = rows["batch_size"].map({**loss, 1: first}) + 1e-6 * rows["seed"]
        found = verdict_matrix.table(runs, rows, {}, {})
        last = found[(found["outcome"] == "test_loss") & (found["budget"] == "epochs")].iloc[0]
        assert last["p_smaller"] < 0.001 and (last["trend"], last["no_trend"]) == expected


def test_the_slope_of_what_a_target_takes_is_of_its_logarithm():
    """One seed that is slow at the largest size outweighs all others on the scale of updates."""
    updates = np.repeat([[233.0], [183.0], [148.0], [128.0]], 10, axis=1)
    updates *= np.exp(0.04 * np.random.default_rng(1).normal(size=updates.shape))
    updates[3, 3] *= 24
    assert trend(updates, SIZES, "updates").slope > 0
    assert trend(updates, SIZES, "test_loss").slope < 0


def test_trainings_that_ended_before_a_budget_count_as_seeds():
    runs, rows = frames(rates=(0.2,), seeds=range(8))
    short = (rows["batch_size"] == 32) & (rows["seed"] < 2) & (rows["epoch"] > 5)
    found = verdict_matrix.table(runs, rows[~short], {"epochs": 8}, {})
    own = found[(found["budget"] == "epochs") & (found["batch_size"] == 32)].iloc[0]
    assert (own["seeds"], own["reached"]) == (8, 6)
    assert (own["reached_low"], own["reached_high"]) == pytest.approx((0.3491, 0.9681), abs=1e-4)


def test_a_size_without_a_value_by_then_did_not_fail():
    """First evaluated after the budget, or not timed. One that ended before it never got there."""
    runs, rows = frames(rates=(0.2,), seeds=range(6))
    rows.loc[rows["batch_size"] == 8, "seconds"] = NAN
    short = (rows["batch_size"] == 16) & (rows["epoch"] > 5)
    found = verdict_matrix.table(runs, rows[~short], {"updates": 3, "epochs": 8}, {})
    cells = found[found["outcome"] == "test_loss"].set_index(["budget", "batch_size"])
    for budget in ("updates", "seconds"):
        cell = cells.loc[budget, 8]
        assert (cell["verdict"], cell["seeds"]) == ("no_value", 6)
        assert cell[["reached", "reached_low", "reached_high"]].isna().all()
    assert cells.loc[("epochs", 16), ["verdict", "reached"]].tolist() == ["failed", 0]
    runs.loc[runs["batch_size"] == 8, "status"] = "missing"
    found = verdict_matrix.table(runs, rows[rows["batch_size"] > 8], {}, {})
    assert set(found.loc[found["batch_size"] == 8, "verdict"]) == {"no_value"}
    assert set(found["no_trend"]) == {"few_sizes"}


def test_a_size_without_a_rate_leaves_too_few_sizes_for_a_trend():
    runs, rows = frames(seeds=range(6))
    for rate, seed in ((0.1, 0), (0.2, 1), (0.4, 2)):
        gone = (runs["batch_size"] == 16) & (runs["learning_rate"] == rate) & (runs["seed"] == seed)
        runs.loc[gone, "status"] = "missing"
        rows = rows[~rows["run"].isin(runs.loc[gone, "run"])]
    found = verdict_matrix.table(runs, rows, {}, {})
    epochs = found[(found["budget"] == "epochs") & (found["outcome"] == "test_loss")]
    assert set(epochs["no_trend"]) == {"few_sizes"}  # 16 has no rate


def test_a_size_without_a_rate_says_of_no_seed_that_it_failed():
    runs, rows = frames(rates=(0.1, 0.2), seeds=range(3))
    gone = ["16-0.1-2", "16-0.2-0"]
    runs.loc[runs["run"].isin(gone), "status"] = "missing"
    found = verdict_matrix.table(runs, rows[~rows["run"].isin(gone)], {}, {})
    epochs = found[(found["budget"] == "epochs") & (found["outcome"] == "test_loss")]
    cells = epochs[["learning_rate", "mean", "reached"]].isna().to_numpy()
    assert cells.tolist() == [[False] * 3, [True] * 3, [False] * 3]


@pytest.mark.parametrize("rates", [(0.2,), (0.1, 0.2, 0.4)])
def test_no_cell_is_beyond_in_a_row_without_a_test(rates):
    """A size with five runs, of which one diverged, leaves five seeds for the test of the row."""
    runs, rows = frames(seeds=range(6), rates=rates, failed=[(32, rate) for rate in rates])
    kept = (runs["batch_size"] != 32) | (runs["seed"] != 5)
    found = verdict_matrix.table(runs[kept], rows[rows["run"].isin(runs["run"][kept])], {}, {})
    row = found[(found["budget"] == "epochs") & (found["outcome"] == "test_loss")]
    assert row["p_any"].isna().all() and (row["no_trend"] == "few_seeds").all()
    assert row["verdict"].tolist() == ["within", "not_resolved", "failed"]
    assert row["p_beyond"].tolist() == pytest.approx([1, 1, NAN], nan_ok=True)


def test_what_never_got_there_is_the_worst_of_its_seed():
    values = row([100.0, 90.0, 80.0, 70.0], 0.1)
    values[3] = INF
    found = trend(values, SIZES, "updates")
    values[3] = 1e9
    assert found[:4] == trend(values, SIZES, "updates")[:4]
    assert math.isnan(found.slope)


def test_six_seeds_and_three_sizes_are_needed():
    values = row([0.90, 0.91, 0.92, 0.93])
    assert math.isnan(trend(values[:, :5], SIZES, "test_loss").p_larger)
    assert math.isnan(trend(values[:2], SIZES[:2], "test_loss").p_larger)
    values[0] = NAN  # a size without any run is none
    assert trend(values, SIZES, "test_loss").batch_sizes == SIZES[1:]
    values[1, 0] = NAN  # five pairs are left
    assert math.isnan(trend(values, SIZES, "test_loss").p_larger)
    found = verdict_matrix.table(*frames(seeds=range(5)), {}, {})
    assert set(found["verdict"]) == {"few_seeds"} and set(found["no_trend"]) == {"few_seeds"}


def test_the_colour_crosses_over_from_one_budget_to_the_next():
    runs, rows = frames(seeds=range(6))
    found = verdict_matrix.table(runs, rows, {}, {})
    verdicts = judged(found)
    assert verdicts["epochs", "test_loss"] == (["within", "beyond", "beyond"], "smaller", "")
    assert verdicts["updates", "test_loss"] == (["beyond", "beyond", "within"], "larger", "")
    assert verdicts["target", "updates"][1] == "larger"
    assert verdicts["target", "examples"][1] == "smaller"
    kinds = ["epochs", "updates", "seconds", "target", "convergence"]
    assert list(dict.fromkeys(found["budget"])) == kinds
    assert (found["seeds"] == 6).all() and (found["reached"] == 6).all()
    assert found["reached_low"].unique().tolist() == pytest.approx([0.025 ** (1 / 6)])
    target = found[found["outcome"] == "updates"]
    assert (target["restricted_mean"] >= target["mean"]).all()


@pytest.mark.slow
def test_no_verdict_where_a_rate_at_the_losing_end_lies_on_the_edge():
    # The best rate, 0.2, is the highest tried: larger batches lose at equal epochs, and win at
    # equal updates, where a better rate would only confirm it at the winning end.
    runs, rows = frames(rates=(0.1, 0.2), seeds=range(6))
    verdicts = judged(verdict_matrix.table(runs, rows, {}, {}))
    assert verdicts["epochs", "test_loss"][1:] == ("none", "edge")
    # Batch size 8, which loses at equal updates, also tried a higher rate.
    runs, rows = joined((runs, rows), frames(sizes=(8,), rates=(0.4,), seeds=range(6)))
    verdicts = judged(verdict_matrix.table(runs, rows, {}, {}))
    assert verdicts["updates", "test_loss"][1:] == ("larger", "")
    assert verdicts["epochs", "test_loss"][1:] == ("none", "edge")


def test_margins_are_those_stated_and_stated_budgets_are_marked():
    budget = {"epochs": 3, "target": {"test_accuracy": 0.7}}
    stated = verdict_matrix.table(*frames(seeds=range(6)), budget, {"test_loss": 2.0})
    margins = stated.groupby("outcome")["margin"].first().to_dict()
    assert margins == {
        **{"test_accuracy": 0.01, "test_loss": 2.0},
        **dict.fromkeys(("updates", "examples", "seconds"), 0.1),
    }
    assert (stated[stated["outcome"] == "test_loss"]["verdict"] == "within").all()
    found = stated.drop_duplicates("budget")
    by_budget = found.set_index("budget")[["budget_value", "budget_column", "stated"]]
    assert by_budget.loc["epochs"].tolist() == [3.0, "", 1]
    assert by_budget.loc["target"].tolist() == [0.7, "test_accuracy", 1]
    assert by_budget.loc["updates"].tolist() == [8.0, "", 0]


def test_a_target_that_some_seeds_never_reach():
    runs, rows = frames(rates=(0.2,), seeds=range(6))
    # Two seeds of the largest batch stay above.
    high = (rows["batch_size"] == 32) & (rows["seed"] > 3)
    rows.loc[high, "validation_loss"] = 1.0
    found = verdict_matrix.table(runs, rows, {"target": {"validation_loss": 0.4}}, {})
    last = found[(found["outcome"] == "updates") & (found["batch_size"] == 32)].iloc[0]
    assert (last["reached"], last["seeds"], last["verdict"]) == (4, 6, "failed")
    assert (round(last["reached_low"], 2), round(last["reached_high"], 2)) == (0.22, 0.96)
    end = 4 * 8  # the most updates that any training made: 8 epochs of batch size 8
    took = [float(value) for value in _updates_to(rows, 32, 0.4)]
    assert last["median"] == np.median([*took, INF, INF])
    assert last["restricted_mean"] == pytest.approx((sum(took) + 2 * end) / 6)
    assert math.isnan(last["mean"])


def _updates_to(rows, size, target):
    """Returns when each seed that got there crossed a loss that falls exponentially."""
    for _, run in rows[rows["batch_size"] == size].groupby("seed"):
        losses = np.log(run["validation_loss"].to_numpy())
        if losses[-1] < math.log(target):
            yield np.interp(-math.log(target), -losses, run["updates"].to_numpy(float))


def test_sizes_whose_loss_still_fell_are_marked_at_convergence():
    runs, rows = frames(rates=(0.2,))
    late = (rows["batch_size"] == 16) & (rows["epoch"] > 5)
    rows.loc[late, "validation_loss"] += 1
    found = verdict_matrix.table(runs, rows, {}, {})
    at_end = found["budget"] == "convergence"
    assert found[at_end].groupby("batch_size")["still_falling"].max().tolist() == [1, 0, 1]
    assert not found.loc[~at_end, "still_falling"].any()


def test_the_table_of_series_and_of_none():
    runs, rows = frames(seeds=range(6))
    other = [frame.assign(optimizer="adam", run="a" + frame["run"]) for frame in (runs, rows)]
    found = verdict_matrix.table(*joined((runs, rows), other), {}, {})
    assert list(found.columns) == ["optimizer", "machine", *decision_columns.BUDGETS]
    assert found.groupby("optimizer").size().to_dict() == {"adam": 33, "sgd": 33}
    for none in (frames(sizes=(8, 16)), (runs[:0], rows[:0])):
        empty = verdict_matrix.table(*none, {}, {})
        assert empty.empty and list(empty.columns) == list(found.columns)


def _benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "verdicts.py"
    spec = importlib.util.spec_from_file_location("verdicts", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_relabelled_batch_sizes_keep_their_epochs():
    sizes, seeds = [16, 32, 64], range(6)
    rows = [(size, seed) for size in sizes for seed in seeds]
    runs = pandas.DataFrame(rows, columns=["batch_size", "seed"])
    runs["epochs"] = runs["batch_size"] // 2
    shuffled, _ = _benchmark().relabelled(runs, runs, np.random.default_rng(0))
    assert (shuffled["batch_size"] != runs["batch_size"]).any()
    assert (shuffled["epochs"] == shuffled["batch_size"] // 2).all()


@draws(30)
def test_relabelled_batch_sizes_seldom_get_a_verdict(draws):
    """Labels shuffled within each seed: no size is better, and few studies may say one is.

    Here by the code of the benchmark, which does it a thousand times with a real study.
    """
    runs, rows = frames(rates=(0.2,), seeds=range(6))
    # Seeds that scatter, or every test would be of ranks without noise.
    noise = dict(zip(runs["run"], np.random.default_rng(1).normal(1, 0.1, len(runs)), strict=True))
    losses = [name for name in rows if name.endswith("_loss")]
    rows[losses] = rows[losses].mul(rows["run"].map(noise), axis=0)
    found = _benchmark().verdicts(runs, rows, draws, 0)
    # At 5 % each, more come by chance in one of 60: of 30 more than 4.
    assert sum(found["either"]) <= stats.binom.ppf(59 / 60, draws, 0.05)
    # The same trainings under their own labels do get one.
    assert (verdict_matrix.table(runs, rows, {}, {})["trend"] != "none").any()
