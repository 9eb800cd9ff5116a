"""The largest batch size within a margin of the best: verdicts by hand, the table, the figure."""

import itertools
import math
from dataclasses import fields

import numpy as np
import pandas
import pytest

from batchscope import figures, frames, margins, timing_columns

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
            rows.append(
                {
                    "machine": "laptop",
                    "optimizer": "sgd",
                    **factors,
                    "batch_size": size,
                    "seed": seed,
                    "status": status,
                    outcome: value,
                }
            )
    return pandas.DataFrame(rows)


def verdicts(found):
    return {size.batch_size: size.verdict for size in found.sizes}


def test_the_walk_ends_at_the_first_size_that_is_not_within_the_margin():
    means = {16: 0.70, 32: 0.71, 64: 0.705, 128: 0.68, 256: 0.709, 512: 0.50}
    found = margins.find(runs(means), "test_accuracy", 0.03)
    assert verdicts(found) == {
        16: "within",
        32: "best",
        64: "within",
        128: "not_resolved",  # 0.03 lower: on the margin itself
        256: "within",
        512: "beyond",
    }
    assert (found.best, found.largest) == (32, 64)


def test_the_interval_is_the_one_that_the_tests_compare():
    """Differences of six seeds by hand: mean d, standard error s / sqrt(6), t(0.95, 5) = 2.015."""
    means = {8: 0.9, 16: 0.89}
    rows = runs(means)
    by_size = rows.pivot(index="seed", columns="batch_size", values="test_accuracy")
    differences = (by_size[16] - by_size[8]).to_numpy()
    half = 2.0150483726691575 * differences.std(ddof=1) / math.sqrt(6)
    size = margins.find(rows, "test_accuracy", 0.05).sizes[1]
    assert size.difference == pytest.approx(differences.mean())
    assert (size.low, size.high) == pytest.approx(
        (differences.mean() - half, differences.mean() + half)
    )
    # Within exactly where the whole interval is.
    for margin in (abs(size.low) * 1.001, abs(size.low) * 0.999):
        verdict = margins.find(rows, "test_accuracy", margin).sizes[1].verdict
        assert (verdict == "within") == (margin > abs(size.low))


def test_of_a_loss_lower_is_better():
    means = {16: 0.40, 32: 0.30, 64: 0.31, 128: 0.60}
    found = margins.find(runs(means, "test_loss"), "test_loss", 0.05)
    assert verdicts(found) == {16: "beyond", 32: "best", 64: "within", 128: "beyond"}
    assert (found.best, found.largest) == (32, 64)


def test_three_seeds_carry_no_verdict():
    found = margins.find(runs({16: 0.7, 32: 0.7}, seeds=range(3)), "test_accuracy", 0.2)
    assert verdicts(found) == {16: "few_seeds", 32: "few_seeds"}
    assert found.largest is None


def test_a_size_with_a_failed_run_is_neither_best_nor_within():
    means = {16: 0.70, 32: 0.75, 64: 0.70}
    found = margins.find(runs(means, failed={(32, 1)}), "test_accuracy", 0.03)
    assert verdicts(found)[32] == "failed"
    assert found.best in (16, 64)
    if found.best == 16:
        assert found.largest == 16
    every = {(size, seed) for size in means for seed in SEEDS}
    none = margins.find(runs(means, failed=every), "test_accuracy", 0.03)
    assert (none.best, none.largest) == (None, None)
    assert set(verdicts(none).values()) == {"failed"}


def test_claims_of_equal_sizes_that_differ_by_the_margin_are_rare():
    """At a true difference of the margin, "within" is claimed in at most about 5 % of studies."""
    rng, claimed, studies = np.random.default_rng(7), 0, 400
    for _ in range(studies):
        values = rng.normal(0, 0.01, (6, 2)) - np.array([0.0, 0.03])
        rows = pandas.DataFrame(
            {
                "batch_size": np.tile([8, 16], 6),
                "seed": np.repeat(range(6), 2),
                "status": "finished",
                "test_accuracy": values.ravel(),
            }
        )
        claimed += verdicts(margins.find(rows, "test_accuracy", 0.03))[16] == "within"
    assert claimed / studies < 0.08


def test_the_table_has_a_row_for_every_series_and_size():
    both = pandas.concat(
        [
            runs({16: 0.70, 32: 0.71}, optimizer="sgd"),
            runs({16: 0.70, 32: 0.60}, optimizer="adam"),
        ]
    )
    table = margins.table(both, {"test_accuracy": 0.03})
    assert list(table.columns) == ["optimizer", "machine", *margins.COLUMNS]
    assert table[["optimizer", "batch_size", "verdict"]].to_numpy().tolist() == [
        ["sgd", 16, "within"],
        ["sgd", 32, "best"],
        ["adam", 16, "best"],
        ["adam", 32, "beyond"],
    ]
    assert table["largest_batch_size"].tolist() == [32, 32, 16, 16]
    empty = margins.table(both, {})
    assert empty.empty
    assert list(empty.columns) == list(table.columns)


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
    frame = pandas.DataFrame(list(limits), columns=[*timing_columns.FIRST, *timing_columns.SWEEPS])
    empty = {field.name: pandas.DataFrame() for field in fields(figures.Tables)}
    table = margins.table(rows, stated or {"test_accuracy": 0.03})
    made = figures.Tables(**{**empty, "margins": table, "limits": frame})
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
        "sgd, plain updates",
        "adam, plain updates",
        "adam, robust updates",
    ]
    assert numbers(drawing) == ["900", "23.6", "64", "64", "64"]
    assert found == (
        "Largest batch within 3.0 points of its best test accuracy: sgd, plain updates: 64 "
        "(best 32; at 128 beyond it); adam, plain updates: 64 (best 32; at 128 beyond it); "
        "adam, robust updates: 64 (best 32; at 128 beyond it). "
        "The largest batch that fits into 2000 MB of memory: 900. "
        "Throughput reaches 90 % of its plateau at 23.6."
    )
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


@pytest.mark.parametrize("stated", [{"test_accuracy": 0.03, "test_loss": 0.1}])
def test_two_outcomes_have_rows_of_their_own(stated):
    rows = runs(FOUR)
    rows["test_loss"] = 1 - rows["test_accuracy"]
    drawing, found, _ = drawn(rows, stated=stated)
    assert labels(drawing) == ["test accuracy within 3.0 points", "test loss within 0.1"]
    assert "best test loss" in found


def test_without_a_verdict_no_bar_is_drawn():
    drawing, found, _ = drawn(runs(FOUR, seeds=range(3)))
    assert numbers(drawing) == []
    assert found == (
        "Too few seeds finished for a verdict within 3.0 points of its best test accuracy."
    )
    assert "fewer than 6 seeds: no verdict" in drawing._supxlabel.get_text()


def test_no_knee_is_said_and_not_drawn():
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
    told = [text.get_text() for legend in drawing.legends for text in legend.get_texts()]
    assert told == [
        "best",
        "within the margin of the best",
        "not resolved",
        "beyond the margin",
        "a run did not finish",
        "limit of the machine",
    ]


def test_the_table_survives_its_file(tmp_path):
    rows = pandas.concat([runs(FOUR, optimizer=one) for one in ("sgd", "adam")])
    table = margins.table(rows, {"test_accuracy": 0.03})
    table.to_csv(tmp_path / "margins.csv", index=False)
    read = frames.read(tmp_path / "margins.csv")
    for column, one in itertools.product(("verdict", "batch_size", "largest_batch_size"), range(2)):
        assert read[column].iloc[one] == table[column].iloc[one]


def test_a_series_is_described_by_the_parameters_of_its_own_method():
    rows = pandas.concat(
        [
            runs(FOUR, method="plain", gamma=1.0, inner_steps=5, rho=0.05),
            runs(FOUR, method="conservative", gamma=10.0, inner_steps=3, rho=0.05),
            runs(FOUR, method="robust", gamma=1.0, inner_steps=5, rho=0.001),
        ]
    )
    assert [series.label for series in frames.series(rows)] == [
        "plain updates",
        "conservative updates, gamma 10, inner steps 3",
        "robust updates, rho 0.001",
    ]
