"""The largest batch size within a margin of the best: verdicts by hand, the table, the figure."""

import math

import numpy as np
import pandas
import pytest
from scipy import stats

from batchscope import figures, wording
from batchscope.analysis import largest_within_margin, run_series
from batchscope.catalogue import decision_columns, timing_columns
from batchscope.tables import csv_tables
from costs import draws
from drawing import texts

SEEDS = range(6)
NOISE = np.array([-0.01, 0.004, 0.002, -0.003, 0.006, 0.001])


def runs(means, outcome="test_accuracy", seeds=SEEDS, failed=(), **factors):
    """Returns runs at batch sizes -> means; seeds share most of their luck.

    What is left has a standard deviation of 0.002 at each size.
    """
    rows, rng = [], np.random.default_rng(1)
    for size, mean in means.items():
        for seed in seeds:
            own = rng.normal(0, 0.002)
            status = "diverged" if (size, seed) in failed else "finished"
            value = mean + NOISE[seed] + own if status == "finished" else math.nan
            run = {"batch_size": size, "seed": seed, "status": status, outcome: value}
            rows.append({"machine": "laptop", "optimizer": "sgd", **factors, **run})
    return pandas.DataFrame(rows)


def find(means, margin=0.03, outcome="test_accuracy", **made):
    return largest_within_margin.find(runs(means, outcome, **made), outcome, margin)


def verdicts(found):
    return {size.batch_size: size.verdict for size in found.sizes}


def ends(found):
    return found.smallest, found.largest


def test_a_size_is_judged_by_every_other_one():
    means = {16: 0.70, 32: 0.71, 64: 0.705, 128: 0.68, 256: 0.709, 512: 0.50}
    found = find(means)
    assert verdicts(found) == {
        16: "within",
        32: "within",
        64: "within",
        128: "not_resolved",  # 0.03 below 32: on the margin itself
        256: "within",
        512: "beyond",
    }


def test_the_range_starts_at_the_smallest_size_within_and_ends_before_one_that_is_not():
    means = {8: 0.60, 16: 0.70, 32: 0.71, 64: 0.68, 128: 0.709}
    found = find(means)
    expected = ["beyond", "within", "within", "not_resolved", "within"]
    assert list(verdicts(found).values()) == expected
    assert ends(found) == (16, 32)
    assert ends(find(means, failed={(32, 1)})) == (16, 16)
    assert ends(find({16: 0.70, 32: 0.71}, 1e-6)) == (32, 32)
    assert ends(find({16: 0.70, 32: 0.70}, 1e-6)) == (None, None)


def test_the_numbers_against_scipy():
    means = {8: 0.9, 16: 0.89, 32: 0.86}
    rows = runs(means)
    table = rows.pivot(index="seed", columns="batch_size", values="test_accuracy")
    found = {size.batch_size: size for size in find(means, 0.02).sizes}
    for size, deciding in ((8, 16), (16, 8), (32, 16)):
        others = [other for other in means if other != size]
        within = [
            stats.ttest_rel(table[other], table[size] + 0.02, alternative="less").pvalue
            for other in others
        ]
        assert found[size].p_within == pytest.approx(max(within))
        assert found[size].deciding == deciding
        difference = table[size] - table[deciding]
        interval = stats.t.interval(0.9, 5, difference.mean(), stats.sem(difference))
        assert found[size].difference.mean == pytest.approx(difference.mean())
        assert found[size].difference[1:3] == pytest.approx(interval)
    beyond = [
        stats.ttest_rel(table[other], table[32] + 0.02, alternative="greater").pvalue
        for other in (8, 16)
    ]
    # Times two others, and Holm over three sizes.
    assert found[32].p_beyond == pytest.approx(min(beyond) * 2 * 3)
    assert (found[8].p_beyond, found[16].p_beyond) == (1.0, 1.0)


def test_of_a_loss_lower_is_better():
    means = {16: 0.40, 32: 0.30, 64: 0.31, 128: 0.60}
    found = find(means, 0.05, "test_loss")
    assert verdicts(found) == {16: "beyond", 32: "within", 64: "within", 128: "beyond"}
    assert ends(found) == (32, 64)
    assert found.sizes[0].difference.mean == pytest.approx(0.1, abs=0.01)


def test_three_seeds_carry_no_verdict():
    found = find({16: 0.7, 32: 0.7}, 0.2, seeds=range(3))
    assert verdicts(found) == {16: "few_seeds", 32: "few_seeds"}
    assert found.largest is None


def test_a_size_with_a_failed_run_is_compared_with_none():
    means = {16: 0.70, 32: 0.80, 64: 0.70}
    found = find(means, failed={(32, 1)})
    assert verdicts(found) == {16: "within", 32: "failed", 64: "within"}
    assert ends(found) == (16, 16)
    failed = {(32, 1), (64, 0)}
    alone = find(means, failed=failed)
    assert verdicts(alone) == {16: "alone", 32: "failed", 64: "failed"}
    assert ends(alone) == (None, None) and verdicts(find({16: 0.7})) == {16: "alone"}
    assert verdicts(find(means, failed=failed, seeds=range(5)))[16] == "few_seeds"
    every = {(size, seed) for size in means for seed in SEEDS}
    none = find(means, failed=every)
    assert ends(none) == (None, None)
    assert set(verdicts(none).values()) == {"failed"}


@pytest.mark.parametrize("status", ["missing", "no_gpu"])
def test_a_size_whose_runs_are_missing_did_not_fail(status):
    rows = runs({16: 0.70, 32: 0.70, 64: 0.70})
    rows.loc[rows["batch_size"] == 32, ["status", "test_accuracy"]] = status, math.nan
    found = largest_within_margin.find(rows, "test_accuracy", 0.03)
    assert verdicts(found) == {16: "within", 32: "no_value", 64: "within"}
    rows.loc[(rows["batch_size"] == 64) & (rows["seed"] == 2), "status"] = "missing"
    rows.loc[(rows["batch_size"] == 64) & (rows["seed"] == 2), "test_accuracy"] = math.nan
    found = largest_within_margin.find(rows, "test_accuracy", 0.03)
    assert verdicts(found) == {16: "few_seeds", 32: "no_value", 64: "few_seeds"}
    assert [size.seeds for size in found.sizes] == [5, 0, 5]


@pytest.mark.parametrize(
    ("losses", "spread"),
    [
        ((0, 2), 10),  # twice the margin
        ((0, 1, 1, 1, 1), 1 / 0.3),  # four on the margin
        ((0, 1, 1, 1, 1), 1),
        ((0, 0, 0, 0, 0), 10),
        ((0, 0, 0, 0, 0), 1 / 0.3),
        ((1, 0, 0, 1, 1), 10),
    ],
)
@draws(100)
def test_wrong_verdicts_are_rare(losses, spread, draws):
    """In margins: true losses of the sizes; standard deviation of a paired difference.

    A size that loses the margin or more is "within" in 5 % of studies, and so named the largest;
    any that loses no more is "beyond" in 5 %. Three standard errors: of 100 studies up to 11; at a
    rate of 5 % there are more with a probability of 0.4 %.
    """
    rng = np.random.default_rng(7)
    lost = np.array(losses, float)
    sizes = 8 * 2 ** np.arange(len(lost))
    within, largest, beyond = np.zeros(len(lost)), 0, 0
    for _ in range(draws):
        values = 5 - lost + rng.normal(0, spread / math.sqrt(2), (6, len(lost)))
        rows = {"batch_size": np.tile(sizes, 6), "seed": np.repeat(range(6), len(sizes))}
        rows |= {"status": "finished", "test_accuracy": values.ravel()}
        found = largest_within_margin.find(pandas.DataFrame(rows), "test_accuracy", 1.0)
        judged = np.array([size.verdict for size in found.sizes])
        within += (judged == "within") & (lost >= 1)
        beyond += bool(((judged == "beyond") & (lost <= 1)).any())
        largest += found.largest in sizes[lost >= 1]
    most = max(within.max(), largest, beyond)
    assert most / draws < 0.05 + 3 * math.sqrt(0.05 * 0.95 / draws)


def test_the_table_has_a_row_for_every_series_and_size():
    means = {"sgd": {16: 0.70, 32: 0.71}, "adam": {16: 0.70, 32: 0.60}}
    both = pandas.concat([runs(each, optimizer=name) for name, each in means.items()])
    table = largest_within_margin.table(both, {"test_accuracy": 0.03})
    assert list(table.columns) == ["optimizer", "machine", *decision_columns.MARGINS]
    assert table[["optimizer", "batch_size", "verdict"]].to_numpy().tolist() == [
        ["sgd", 16, "within"],
        ["sgd", 32, "within"],
        ["adam", 16, "within"],
        ["adam", 32, "beyond"],
    ]
    assert table["largest_batch_size"].tolist() == [32, 32, 16, 16]
    # Nothing is stated, or of an outcome that no run has at its end.
    for stated in ({}, {"best_loss": 0.1}):
        empty = largest_within_margin.table(both, stated)
        assert empty.empty and list(empty.columns) == list(table.columns)


LIMIT = {
    **dict.fromkeys(timing_columns.FIRST),
    "machine": "laptop",
    "sweep": "s",
    "loop": "graph",
    "max_batch_size": 900,
    "max_batch_size_bound": "resolved",
    "memory_limit_mb": 2000.0,
    "plateau_images_per_second": 800.0,
    "knee_fitted": 23.6,
    "knee_batch_size": 24,
    "still_rising": False,
    "noise_floor": 1.03,
}


def drawn(rows, limits=(), stated=None):
    frame = pandas.DataFrame(
        list(limits), columns=[*timing_columns.FIRST, *timing_columns.COLUMNS["sweeps.csv"]]
    )
    table = largest_within_margin.table(rows, stated or {"test_accuracy": 0.03})
    made = figures.Tables(margins=table, limits=frame)
    figure = figures.FIGURES["batch_size_limits"]
    selected = figure.select(made)
    return figure.draw(selected), figure.found(selected), selected


def labels(drawing):
    texts = [text.get_text() for text in drawing.axes[0].get_yticklabels()]
    assert all(len(line) <= 34 for text in texts for line in text.splitlines())
    return [" ".join(text.splitlines()) for text in reversed(texts)]


def numbers(drawing):
    return [text.get_text() for text in drawing.axes[0].texts]


FOUR = {16: 0.70, 32: 0.71, 64: 0.705, 128: 0.60}


def test_limits_of_machine_and_series_stand_on_one_axis():
    kinds = (("sgd", "plain"), ("adam", "plain"), ("adam", "robust"))
    rows = pandas.concat([runs(FOUR, optimizer=one, method=two) for one, two in kinds])
    drawing, found, frame = drawn(rows, [LIMIT])
    assert labels(drawing) == [
        "fits into 2000 MB",
        "90 % of the plateau",
        "SGD, plain updates",
        "Adam, plain updates",
        "Adam, robust updates",
    ]
    assert numbers(drawing) == ["900", "23.6", "64", "64", "64"]
    first = frame[frame["batch_size"] == 128].iloc[0]
    difference = first[["difference", "difference_low", "difference_high"]]
    value, low, high = wording.estimate(*difference, unit=wording.POINTS)[:3]
    why = f"128 is beyond it: {value} points against {first['deciding_batch_size']}"
    reach = f"64 (from 16 on; {why}, 90 % interval {low} to {high})"
    assert found == (
        "The largest batch size with a test accuracy within 3.0 points of every other's is 64 in "
        "all 3 series. Largest batch with a test accuracy within 3.0 points of every other's: "
        f"SGD, plain updates: {reach}; Adam, plain updates: {reach}; "
        f"Adam, robust updates: {reach}. "
        "The largest batch that fits into 2000 MB of memory: 900. "
        "Throughput reaches 90 % of its plateau at 23.6."
    )
    assert -12 < 100 * first["difference"] < -9
    assert frame["limit"].notna().sum() == 2


def test_loops_share_the_memory_and_have_a_knee_each():
    none = {"knee_fitted": math.nan, "knee_batch_size": 8}
    limits = [{**LIMIT, **none, "loop": loop} for loop in ("graph", "fit")]
    limits[1] |= {"still_rising": True, "knee_batch_size": math.nan}
    drawing, found, _ = drawn(runs(FOUR), limits)
    assert labels(drawing) == [
        "fits into 2000 MB",
        "90 % of the plateau (loop in the graph)",
        "90 % of the plateau (Keras fit)",
        "test accuracy within 3.0 points",
    ]
    assert numbers(drawing) == ["900", "8", "beyond what was timed", "64"]
    assert "reaches 90 % of its plateau at 8." in found
    assert "still rises at the largest batch size timed: no knee." in found


def test_two_outcomes_have_rows_of_their_own():
    rows = runs(FOUR)
    rows["test_loss"] = 1 - rows["test_accuracy"]
    drawing, found, _ = drawn(rows, stated={"test_accuracy": 0.03, "test_loss": 0.1})
    assert labels(drawing) == ["test accuracy within 3.0 points", "test loss within 0.1"]
    assert "with a test loss within 0.1 of every other's" in found


def test_without_a_verdict_no_bar_is_drawn():
    drawing, found, _ = drawn(runs(FOUR, seeds=range(3)))
    assert numbers(drawing) == []
    assert found == (
        "Too few pairs of runs finished for a verdict on a test accuracy within 3.0 points of "
        "every other's."
    )
    assert "fewer than 6 pairs: no verdict" in drawing.get_supxlabel()


def test_where_one_size_alone_has_no_failed_run_it_is_reported():
    drawing, found, _ = drawn(runs(FOUR, failed={(32, 1), (64, 0), (128, 2)}))
    assert numbers(drawing) == [] and "no other to compare it with" in texts(drawing)
    assert found == (
        "Only one batch size has no failed run: there is none to compare it with for a test "
        "accuracy within 3.0 points of every other's."
    )


def test_where_no_size_is_shown_to_be_within_it_is_reported():
    drawing, found, _ = drawn(runs({16: 0.7, 32: 0.7}), stated={"test_accuracy": 1e-6})
    assert numbers(drawing) == []
    text = "No batch size is shown to have a test accuracy within 0.0 points of every other's."
    assert found == text


def test_no_knee_is_reported_and_not_drawn():
    none = {"knee_fitted": math.nan, "knee_batch_size": math.nan}
    drawing, found, _ = drawn(runs(FOUR), [{**LIMIT, **none}])
    assert "none" in numbers(drawing)
    assert "stays at 90 % of its plateau from no batch size on: no knee." in found


def test_a_throughput_that_is_too_noisy_has_no_knee():
    nothing = dict.fromkeys(("knee_fitted", "knee_batch_size", "still_rising"), math.nan)
    drawing, found, frame = drawn(runs(FOUR), [{**LIMIT, **nothing, "noise_floor": 8.1}])
    assert numbers(drawing) == ["900", "too noisy to tell", "64"]
    assert "Where throughput levels off is too noisy to tell." in found
    assert frame.loc[frame["limit"] == "knee", "batch_size"].isna().all()


def test_every_mark_has_its_words_in_the_legend():
    means = {4: 0.70, 16: 0.70, 32: 0.71, 64: 0.705, 128: 0.68, 256: 0.60}
    drawing, _, _ = drawn(runs(means, failed={(4, 0)}), [LIMIT])
    entries = [text.get_text() for legend in drawing.legends for text in legend.get_texts()]
    assert entries == [
        "within the margin of every other",
        "not resolved",
        "worse than another by more than the margin",
        "a run did not finish",
        "limit of the machine",
    ]


def test_what_no_run_was_measured_for_has_no_row():
    rows, stated = runs({16: 0.95, 32: 0.94, 64: 0.90}), {"test_accuracy": 0.01}
    assert len(largest_within_margin.table(rows, stated))
    rows["test_accuracy"] = np.nan  # evaluated along the way alone
    assert largest_within_margin.table(rows, stated).empty


def test_the_level_of_one_more_size_beyond():
    """As Bonferroni over the others and Holm over the sizes that are left leave to its pair."""
    found = find({16: 0.95, 32: 0.95, 64: 0.80, 128: 0.70}, 0.01).sizes
    assert [size.verdict for size in found] == ["within", "within", "beyond", "beyond"]
    assert largest_within_margin.level_beyond(found) == pytest.approx(0.05 / 3 / 2)
    assert largest_within_margin.level_beyond(found[:1]) == 0.05


def test_the_table_survives_its_file(tmp_path):
    rows = pandas.concat([runs(FOUR, optimizer=one) for one in ("sgd", "adam")])
    table = largest_within_margin.table(rows, {"test_accuracy": 0.03})
    table.to_csv(tmp_path / "margins.csv", index=False)
    read = csv_tables.read(tmp_path / "margins.csv")
    columns = ["verdict", "batch_size", "largest_batch_size"]
    assert read[columns].to_numpy().tolist() == table[columns].to_numpy().tolist()


def test_a_series_is_described_by_the_parameters_of_its_own_method():
    names = ("method", "gamma", "inner_steps", "rho")
    kinds = (("plain", 1.0, 5, 0.05), ("conservative", 10.0, 3, 0.05), ("robust", 1.0, 5, 0.001))
    rows = pandas.concat([runs(FOUR, **dict(zip(names, kind, strict=True))) for kind in kinds])
    assert [series.label for series in run_series.series(rows)] == [
        "plain updates",
        "conservative updates, gamma 10, 3 inner steps",
        "robust updates, rho 0.001",
    ]


@pytest.mark.parametrize(
    ("values", "margin"), [((0.95, 0.94), 0.01), ((0.94, 0.95), 0.01), ((0.3, 0.2), 0.1)]
)
def test_exactly_at_the_margin_rounding_shows_nothing(values, margin):
    rows = runs(dict(zip((16, 32), values, strict=True)))
    rows["test_accuracy"] = np.where(rows["batch_size"] == 16, *values)
    lower = largest_within_margin.find(rows, "test_accuracy", margin).sizes[np.argmin(values)]
    assert lower.verdict == "not_resolved"
