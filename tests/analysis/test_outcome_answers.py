"""Intervals, tests and answers, against values worked out by hand or in print."""

import itertools
import math

import numpy as np
import pandas
import pytest
from scipy import stats

import synthetic
from batchscope.analysis import intervals, outcome_answers, paired_tests
from batchscope.catalogue import columns, outcomes
from batchscope.tables import run_table


@pytest.mark.parametrize(
    ("columns", "held"),
    [
        ({"epochs_run": [40, 40, 7], "steps_run": [80, 40, 9]}, "at equal epochs (40)"),
        ({"epochs_run": [20, 40, 7], "steps_run": [80, 80, 9]}, "at equal updates (80)"),
        (
            {"epochs_run": [20, 40, 7], "steps_run": [80, 90, 9]},
            "at each run's own end (20 epochs at batch size 16, 40 at 256)",
        ),
        (
            {"epochs_run": [20, 40, 7], "patience": [10] * 3, "batch_size": [16, 16, 16]},
            "at each run's own end (patience 10, 20 to 40 epochs)",
        ),
        (
            {"epochs_run": [np.nan] * 3, "steps_run": [1, 9, 9]},
            "at each run's own end (1 update at batch size 16, 9 at 256)",
        ),
        (
            {"epochs_run": [40, 40, 7], "target_train_loss": [0.1] * 3},
            "at an equal training loss (0.1)",
        ),
        ({"epochs_run": [4, 4, 7], "target_train_loss": [0.0] * 3}, "at equal epochs (4)"),
        ({}, "at each run's own end"),
    ],
)
def test_what_is_equal_where_trainings_end(columns, held):
    made = {"status": ["finished", "finished", "diverged"], "batch_size": [16, 256, 16], **columns}
    rows = pandas.DataFrame(made)
    assert outcome_answers.held(rows) == held


def test_on_a_logarithmic_axis_an_interval_stays_positive():
    values = [0.1, 0.2, 3.0]
    linear, log = (intervals.t_interval(values, logarithmic=way) for way in (False, True))
    assert linear.low < 0 < log.low and log.mean == linear.mean
    # As far in ratios as the other one is in shares of the mean.
    ratio = np.exp(linear.high / linear.mean - 1)
    assert (log.high, log.low) == pytest.approx((log.mean * ratio, log.mean / ratio))
    # A small error is the same on both.
    values = [1.0, 1.001, 0.999]
    linear, log = (intervals.t_interval(values, logarithmic=way) for way in (False, True))
    assert log[:3] == pytest.approx(linear[:3], rel=1e-5)
    below = intervals.t_interval([-1.0, -2.0, -4.0], logarithmic=True)
    assert below == intervals.t_interval([-1.0, -2.0, -4.0])


def test_t_interval_against_scipy():
    values = [1.0, 2.0, 4.0, 7.0]
    ends = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert intervals.t_interval(values) == pytest.approx((3.5, *ends, 4))


@pytest.mark.parametrize(
    ("values", "mean", "n"), [([], math.nan, 0), ([2.0], 2.0, 1), ([2.0, math.nan], 2.0, 1)]
)
def test_t_interval_has_no_ends_below_two_values(values, mean, n):
    interval = intervals.t_interval(values)
    assert interval == pytest.approx((mean, math.nan, math.nan, n), nan_ok=True)


def test_t_intervals_equal_the_single_one():
    values = np.array([[1.0, 2.0, 4.0], [1.0, math.nan, 3.0], [math.nan] * 3])
    mean, low, high, n = intervals.t_intervals(values)
    for row, *got in zip(values, mean, low, high, n, strict=True):
        assert got == pytest.approx(list(intervals.t_interval(row)), nan_ok=True)


def test_the_t_interval_covers_at_few_seeds():
    samples = np.random.default_rng(0).normal(3.0, 2.0, (4000, 3))
    _, low, high, _ = intervals.t_intervals(samples)
    assert np.mean((low < 3.0) & (high > 3.0)) == pytest.approx(0.95, abs=0.012)


def test_hodges_lehmann_by_hand():
    # Walsh averages of 1, 2 and 6: 1, 1.5, 2, 3.5, 4, 6. Sums of positive ranks 0 to 6 have the
    # chances 1, 1, 1, 2, 1, 1, 1 eighths, so that the ends are the outermost averages at 75 %.
    assert intervals.hodges_lehmann([6.0, 1.0, 2.0], 0.75) == (2.75, 1.0, 6.0)
    assert intervals.hodges_lehmann([6.0, 1.0, 2.0], 0.5) == (2.75, 1.5, 4.0)
    estimate, low, high = intervals.hodges_lehmann([6.0, 1.0, 2.0])
    assert estimate == 2.75 and math.isnan(low) and math.isnan(high)
    assert intervals.hodges_lehmann([3.0])[0] == 3.0
    assert not math.isnan(intervals.hodges_lehmann(range(6))[1])
    assert math.isnan(intervals.hodges_lehmann(range(5))[1])


@pytest.mark.parametrize("n", [6, 9, 25])
def test_the_signed_rank_interval_holds_what_the_test_does_not_reject(n):
    values = np.random.default_rng(n).standard_normal(n) + 0.3
    _, low, high = intervals.hodges_lehmann(values)
    for centre, kept in ((low - 1e-6, False), (low + 1e-6, True), (high - 1e-6, True)):
        p = stats.wilcoxon(values - centre, method="exact").pvalue
        assert (p > 0.05) == kept
    assert stats.wilcoxon(values - high - 1e-6, method="exact").pvalue <= 0.05


def test_ratio_interval_is_the_t_interval_of_the_logarithms():
    small, large = np.array([1.0, 2.0, 4.0]), np.array([2.0, 8.0, 8.0])
    ratio = intervals.ratio_interval(large, small)
    logs = intervals.t_interval(np.log([2.0, 4.0, 2.0]))
    assert ratio == pytest.approx((16 ** (1 / 3), math.exp(logs.low), math.exp(logs.high), 3))
    inverse = intervals.ratio_interval(small, large)
    assert (inverse.low, inverse.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))


def test_ratio_interval_leaves_out_what_has_no_logarithm():
    ratio = intervals.ratio_interval([3.0, 6.0, math.nan, -1.0, 1.0], [1.0, 2.0, 1.0, 1.0, 0.0])
    assert ratio == pytest.approx((3.0, 3.0, 3.0, 2))
    alone = intervals.ratio_interval([3.0], [1.0])
    assert alone.mean == pytest.approx(3.0) and math.isnan(alone.low)
    assert intervals.ratio_interval([], []).n == 0


def test_slopes_per_doubling():
    sizes = [16, 32, 128]  # doublings 4, 5, 7
    values = np.array([[8.0, 10.0, 14.0], [1.0, 1.0, 1.0]])
    assert paired_tests.slopes_per_doubling(values, sizes) == pytest.approx([2.0, 0.0])
    with pytest.raises(ValueError, match="at least two positions"):
        paired_tests.slopes_per_doubling(values[:, :1], [16])


def test_page_trend_follows_the_stated_direction():
    values = np.arange(5) + np.random.default_rng(0).normal(0, 0.1, (6, 5))
    assert paired_tests.page_trend(values, "rises") < 1e-6
    assert paired_tests.page_trend(values, "falls") > 0.99
    assert paired_tests.page_trend(-values, "falls") < 1e-6
    with pytest.raises(ValueError, match="rises or falls"):
        paired_tests.page_trend(values, "up")


def test_the_paired_t_test_against_scipy():
    large, small = np.random.default_rng(1).normal(0.4, 1.0, (2, 7, 3))
    expected = stats.ttest_rel(large, small, alternative="greater").pvalue
    assert paired_tests.paired_t(large - small, "rises") == pytest.approx(expected)
    assert paired_tests.paired_t(large - small, "falls") == pytest.approx(1 - expected)
    same = stats.ttest_1samp(large - small, 0.0, alternative="greater").pvalue
    assert (paired_tests.paired_t(large - small, "rises") == same).all()  # to the last bit


def test_the_paired_t_test_of_equal_differences():
    equal = np.full((6, 3), 0.1) * [1, 0, -1]
    assert paired_tests.paired_t(equal, "rises") == pytest.approx([0, 1, 1])
    assert paired_tests.paired_t([0.1], "rises") == 1  # a single pair has no variance either
    assert paired_tests.paired_t(equal, "falls") == pytest.approx([1, 1, 0])


def test_the_seeds_that_a_trend_needs():
    assert outcomes.seeds_needed(3) == outcomes.seeds_needed(2, 10_000) == 6
    assert outcomes.seeds_needed(3, 5000) == 7
    # As many tests as a perfect trend of six seeds just outlives, and one more.
    smallest = paired_tests.page_trend(np.tile([1.0, 2.0, 3.0], (6, 1)), "rises")
    most = math.floor(0.05 / smallest)
    assert outcomes.seeds_needed(3, most) == 6
    assert outcomes.seeds_needed(3, most + 1) == 7


def test_holm():
    # Holm 1979: 0.01 * 4, 0.02 * 3, then 0.03 * 2 and 0.04 * 1 held at the largest so far.
    adjusted = paired_tests.holm([0.04, 0.01, math.nan, 0.03, 0.02])
    assert adjusted == pytest.approx([0.06, 0.04, math.nan, 0.06, 0.06], nan_ok=True)
    assert paired_tests.holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert paired_tests.holm([]).size == 0


def test_binomial_half_width():
    # 400 test images at 50 %: the +-4.9 points of 1.96 * sqrt(0.25 / 400).
    assert intervals.binomial_half_width(0.5, 400) == pytest.approx(0.049)
    assert intervals.binomial_half_width(1.0, 400) == 0.0


def frame(values, sizes=(16, 32, 64), **columns):
    """Returns runs: `values` is outcome -> array of shape (seeds, sizes)."""
    seeds = len(next(iter(values.values())))
    rows = []
    for (s, seed), (b, size) in itertools.product(enumerate(range(seeds)), enumerate(sizes)):
        row = {"experiment": "gap", "batch_size": size, "seed": seed, "status": "finished"}
        row |= {name: array[s][b] for name, array in values.items()} | columns
        rows.append(row)
    return pandas.DataFrame(rows)


def rising(seeds=6, sizes=3, noise=0.01):
    return np.arange(sizes) + np.random.default_rng(0).normal(0, noise, (seeds, sizes))


def gap(values, sizes=(16, 32, 64)) -> outcome_answers.Answer:
    """Returns the answer of runs of which the generalisation gap alone is known."""
    (answer,) = outcome_answers.answers(frame({"generalisation_gap": values}, sizes))
    return answer


def test_an_answer():
    answer = gap(rising())
    assert answer.verdict == "rises" == answer.outcome.direction
    assert "Keskar" in answer.outcome.source
    assert answer.test.name == "page"
    assert answer.smallest.batch_size == 16 and answer.largest.batch_size == 64
    assert answer.largest.interval.mean == pytest.approx(2.0, abs=0.02)
    assert answer.slope.low < 1.0 < answer.slope.high
    change = answer.largest.interval.mean - answer.smallest.interval.mean
    assert change == pytest.approx(2.0, abs=0.02) and answer.pairs == 6
    assert answer.series == "" and answer.note == ""


@pytest.mark.parametrize("sizes", [(16, 32, 64), (16, 256)])
def test_a_trend_against_the_statement_is_reported(sizes):
    values = -rising(sizes=len(sizes))
    assert gap(values, sizes).verdict == "falls, against what was stated"
    (answer,) = outcome_answers.answers(frame({"test_accuracy": -values}, sizes))
    assert answer.verdict == "rises, against what was stated"


def test_opposite_directions_are_adjusted_for_one_another():
    """One of forty outcomes falls: its interval excludes 0, and its p is above .05 / 40."""
    falling = np.tile([[0.0, -1.0, -2.0], [-1.0, 0.0, -2.0], [0.0, -2.0, -1.0]], (2, 1))
    alone = gap(falling)
    assert alone.verdict == "falls, against what was stated"
    noise = np.random.default_rng(5).normal(0, 1, (39, 6, 3))
    frames = [
        frame({"generalisation_gap": each}, learning_rate=0.1 + index)
        for index, each in enumerate([falling, *noise])
    ]
    found = outcome_answers.answers(pandas.concat(frames))
    first = next(answer for answer in found if answer.slope == alone.slope)
    assert first.slope.high < 0 and first.verdict == "not resolved"
    assert first.test.p_against_holm == pytest.approx(min(1.0, 40 * alone.test.p_against_holm))


def test_an_order_and_a_slope_that_point_apart_are_not_resolved():
    sizes = (1, 16, 17, 18, 32, 33, 34)
    values = np.array([0.0, 4.0, 3.9, 3.8, 3.7, 3.6, 3.5]) + 0.01 * np.arange(6.0)[:, None]
    for given in (values, -values):  # the order, and the slope, against what is stated
        answer = gap(given, sizes)
        assert answer.slope.low * answer.slope.high > 0
        assert answer.verdict == "not resolved"


def test_noise_is_not_resolved():
    noise = np.random.default_rng(3).normal(0, 1, (6, 3))
    (answer,) = outcome_answers.answers(frame({"test_accuracy": noise}))
    assert answer.verdict == "not resolved" and answer.note == ""


def test_no_verdict_below_six_paired_seeds():
    answer = gap(rising(seeds=5))
    assert answer.verdict == "not enough seeds (5 of 6)"
    assert math.isfinite(answer.test.p)


def test_only_complete_pairs_count():
    runs = frame({"generalisation_gap": rising(seeds=7)})
    runs.loc[runs["seed"].eq(2) & runs["batch_size"].eq(64), "status"] = "diverged"
    (answer,) = outcome_answers.answers(runs)
    assert answer.pairs == 6
    assert answer.largest.interval.n == 6
    assert answer.note == "6 of 7 seeds finished at every batch size"
    assert answer.verdict == "rises"


def test_a_batch_size_without_any_finished_run_is_left_out_and_reported():
    runs = frame({"generalisation_gap": rising(sizes=4)}, sizes=(16, 32, 64, 128))
    runs.loc[runs["batch_size"].eq(128), "status"] = "diverged"
    (answer,) = outcome_answers.answers(runs)
    assert answer.largest.batch_size == 64 and answer.verdict == "rises"
    assert "no finished run at batch size 128" in answer.note


def test_two_batch_sizes_are_compared_by_a_paired_t_test():
    values = rising(sizes=2)
    answer = gap(values, (16, 256))
    assert answer.test.name == "paired_t"
    expected = stats.ttest_rel(values[:, 1], values[:, 0], alternative="greater").pvalue
    assert answer.test.p == pytest.approx(expected)


def test_two_batch_sizes_get_a_verdict_among_the_tests_of_a_study():
    """A change of a hundred standard deviations, six seeds, eight outcomes."""
    columns = ("test_accuracy", "generalisation_gap", "best_validation_loss", "weight_distance")
    columns += tuple(f"sharpness_{space}_{e}" for space in ("full", "subspace") for e in (1, 2))
    values = {column: rising(sizes=2) for column in columns}
    for column in ("test_accuracy", "weight_distance"):
        values[column] = -values[column]
    found = outcome_answers.answers(frame(values, sizes=(16, 256)))
    assert len(found) == 8
    assert all(answer.verdict == answer.outcome.direction for answer in found)


@pytest.mark.slow
def test_seeds_that_no_trend_could_outlive_the_tests_with_are_too_few():
    runs = pandas.concat(
        frame({"generalisation_gap": rising()}, learning_rate=float(rate)) for rate in range(2400)
    )
    answers = outcome_answers.answers(runs)
    assert {answer.verdict for answer in answers} == {"not enough seeds (6 of 7)"}


def test_one_batch_size_gives_values_and_no_verdict():
    answer = gap(rising(sizes=1), (16,))
    assert answer.verdict == "one batch size"
    assert math.isnan(answer.slope.mean)


def test_holm_runs_over_everything_that_is_passed():
    one = frame({"generalisation_gap": rising()})
    several = pandas.concat([one, one.assign(experiment="b"), one.assign(experiment="c")])
    p = outcome_answers.answers(one)[0].test.p
    answers = outcome_answers.answers(several)
    assert [answer.experiment for answer in answers] == ["gap", "b", "c"]
    assert [answer.test.p_holm for answer in answers] == pytest.approx([3 * p] * 3)


def test_what_two_experiments_ask_of_the_same_runs_is_one_test():
    one = frame({"generalisation_gap": rising()})
    one["run"] = [f"run-{index}" for index in range(len(one))]
    p = outcome_answers.answers(one)[0].test.p
    again = one.assign(experiment="b")

    def adjusted(*frames):
        answers = outcome_answers.answers(pandas.concat([one, *frames]))
        return [answer.test.p_holm for answer in answers]

    assert adjusted(again) == pytest.approx([p] * 2)
    assert adjusted(again.assign(run=again["run"] + "+lr=1")) == pytest.approx([2 * p] * 2)
    assert adjusted(again.assign(machine="other")) == pytest.approx([2 * p] * 2)
    # Another subset of examples, say: the same column, and other values.
    other = again.assign(generalisation_gap=2 * again["generalisation_gap"])
    assert adjusted(other) == pytest.approx([2 * p] * 2)


def test_series_that_share_their_timing_jobs_are_one_test():
    """Rates differ, and the time of an epoch does not depend on them."""
    times = {"seconds_per_epoch": -rising(), "generalisation_gap": rising()}
    one = frame(times, machine="local", learning_rate=0.1)
    one["run"] = [f"r{index}" for index in range(len(one))]
    other = one.assign(learning_rate=0.2, run=one["run"] + "+lr=0.2")
    found = outcome_answers.answers(pandas.concat([one, other]))
    by_column = {answer.outcome.column: answer.test for answer in found}
    assert len(found) == 4
    timed, gap = by_column["seconds_per_epoch"], by_column["generalisation_gap"]
    assert timed.p == gap.p and timed.p_holm == gap.p_holm == pytest.approx(3 * timed.p)
    elsewhere = outcome_answers.answers(pandas.concat([one, other.assign(machine="other")]))
    assert [answer.test.p_holm for answer in elsewhere] == pytest.approx([4 * timed.p] * 4)


@pytest.mark.slow
def test_the_answers_of_a_made_up_study(tmp_path):
    runs = synthetic.grid(cases=[{"learning_rate": 0.05}, {"learning_rate": 0.1}])
    planned = synthetic.study(runs)
    synthetic.write(tmp_path, planned, patience=True)
    answers = outcome_answers.answers(run_table.collect(tmp_path, planned, "gap"))
    found = {(answer.outcome.column, answer.series): answer for answer in answers}
    assert len(answers) == len(found) == 2 * 11
    assert found["weight_distance", "learning rate 0.05"].verdict == "falls"
    assert found["sharpness_full_0.001", "learning rate 0.1"].verdict == "rises"
    assert found["epochs_run", "learning rate 0.1"].verdict == "rises"
    # Every seed has a timing job of its own.
    timed = found["seconds_per_epoch", "learning rate 0.05"]
    assert timed.verdict == "falls" and not timed.note
    assert timed.slope.high < 0


def columns_of_answers(folder, runs, *ends) -> set[str]:
    planned = synthetic.study(runs)
    synthetic.write(folder, planned, *ends)
    answers = outcome_answers.answers(run_table.collect(folder, planned, "gap"))
    return {answer.outcome.column for answer in answers}


def test_epochs_are_no_outcome_where_nothing_can_stop_early(tmp_path):
    found = columns_of_answers(tmp_path, synthetic.grid([16, 32], [0, 1]))
    assert found and "epochs_run" not in found


def test_epochs_that_nothing_stopped_are_bounds_and_in_no_test():
    runs = frame({"epochs_run": np.full((6, 2), 100)}, sizes=(32, 256)).assign(epochs=100)
    assert outcome_answers.answers(runs.assign(patience=0)) == []
    (answer,) = outcome_answers.answers(runs.assign(patience=10))
    assert answer.verdict == "not resolved"
    assert math.isnan(answer.test.p) and math.isnan(answer.test.p_holm)
    assert "6 of 6 runs at batch size 32, 6 of 6 at batch size 256 ran" in answer.note
    falling = runs.assign(epochs=100 - runs["batch_size"] // 8, patience=10)
    (answer,) = outcome_answers.answers(falling.assign(epochs_run=falling["epochs"]))
    assert answer.verdict == "not resolved"


def test_runs_that_nothing_stopped_are_counted():
    epochs = np.array([[30, 50], [34, 100], [41, 100], [29, 61], [100, 100], [32, 70]])
    runs = frame({"epochs_run": epochs, "test_accuracy": rising(sizes=2)}, sizes=(32, 256))
    runs = runs.assign(epochs=100, patience=10, target_train_loss=0.0)
    runs.loc[runs["seed"].eq(1) & runs["batch_size"].eq(256), "status"] = "diverged"
    assert outcome_answers.ran_out(runs) == {32: (1, 6), 256: (2, 5)}
    notes = {answer.outcome.column: answer.note for answer in outcome_answers.answers(runs)}
    text = "1 of 6 runs at batch size 32, 2 of 5 at batch size 256 ran to the last epoch that"
    assert f"{text} they may, so that its mean is a lower bound" in notes["epochs_run"]
    assert "last epoch" not in notes["test_accuracy"]
    # Where nothing could stop a training, its epochs were chosen.
    assert outcome_answers.ran_out(runs.assign(patience=0)) == {}
    assert outcome_answers.ran_out(runs.assign(patience=0, target_train_loss=0.3)) != {}


def test_nothing_finished_gives_no_answer(tmp_path):
    runs = synthetic.grid([16, 32], [0, 1])
    found = columns_of_answers(tmp_path, runs, dict.fromkeys(runs, "diverged"))
    assert found <= {"seconds_per_epoch"}


def test_every_outcome_is_a_documented_column():
    labelled = [name for name, column in columns.COLUMNS.items() if column.label]
    plain = [name for name in labelled if "{" not in name]
    assert len(plain) > 20
    for name in (*plain, "sharpness_full_0.001", "sam_sharpness_0.05"):
        assert columns.describe(name) is not None
        assert outcomes.stated(name, "falls", "a document").column == name
    assert outcomes.stated("run", "falls", "") is None is outcomes.outcome("run")
