"""Metrics that a study names: read of logs, compared, reached, and what is refused of them."""

import numpy as np
import pandas
import pytest

import own_table
from batchscope.core.errors import ConfigError
from batchscope.rules import inputs
from batchscope.rules.study import CalledStudy
from batchscope.study import log_format, planner
from batchscope.tables import run_table, study_tables

METRICS = {"word_error": "lower", "bleu": "higher"}


def frame() -> pandas.DataFrame:
    """The error of a size falls by 0.001 an update from 0.9 + size / 1000; BLEU is 100 - 50 error.

    But for a change from seed to seed that no mean of six seeds has.
    """
    found = []
    for size in own_table.SIZES:
        for seed in range(6):
            off = (seed - 2.5) / 10_000
            for updates in range(0, 801, 100):
                error = 0.9 + size / 1000 - updates / 1000 + off
                row = {"batch_size": size, "seed": seed, "updates": updates, "word_error": error}
                row |= {"test_word_error": error, "Valid BLEU": 100 - 50 * error}
                found.append({**row, "val_loss": 2 - updates / 1000 + off})
    return pandas.DataFrame(found)


def study_of(**experiments: dict) -> dict:
    """Return a study of external runs; each experiment has its own metrics and keys."""
    keys = {name: {"runs": "own_runs.csv", **body} for name, body in experiments.items()}
    return {"study": "mine", "experiments": keys}


def planned(folder, **experiments):
    own_table.write(folder, frame())
    return planner.make(study_of(**experiments), folder=folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The plan and the tables of experiments with different metrics."""
    folder = tmp_path_factory.mktemp("metrics")
    error, bleu = {"validation_word_error": 0.45}, {"validation_bleu": 77.5}
    margins = {"test_word_error": 0.01, "validation_bleu": 0.5}
    study = planned(
        folder,
        both={"metrics": METRICS, "margins": margins},
        error={"metrics": {"word_error": "lower"}, "budgets": {"target": error}},
        bleu={"metrics": {"bleu": "higher"}, "budgets": {"target": bleu}},
    )
    return study, {name: study_tables.make(folder, study, name) for name in study.experiments}


def test_columns_of_the_metrics_are_outcomes_and_no_factors(made):
    study, tables = made
    experiment = study.experiments["both"]
    external = experiment.external_runs
    assert len(external.series) == 1 and not external.factors
    metrics = {"validation_word_error", "test_word_error", "validation_bleu"}
    assert {*experiment.columns} >= metrics
    for name in ("runs", "trajectories"):
        last = tables["both"][name].groupby("batch_size").last()
        assert last["validation_bleu"].tolist() == pytest.approx(
            [100 - 50 * (0.1 + size / 1000 + 0.00025) for size in own_table.SIZES]
        )
    for name, other in (("error", "bleu"), ("bleu", "word_error")):
        assert not tables[name]["runs"].filter(like=other).columns.any()
    assert [metric.name for metric in study.metrics] == ["word_error", "bleu"]


def test_the_best_size_is_that_of_the_direction(made):
    comparisons = made[1]["both"]["comparisons"].query("budget == 'updates'")
    comparisons = comparisons.set_index(["outcome", "batch_size"])
    means = {"test_word_error": [0.108, 0.132, 0.228], "validation_bleu": [94.6, 93.4, 88.6]}
    for outcome, expected in means.items():
        assert comparisons.loc[outcome, "mean"].tolist() == pytest.approx(expected)
        verdicts = comparisons.loc[outcome, "verdict"].tolist()
        assert verdicts == ["within", "beyond", "beyond"]
    assert "validation_word_error" not in comparisons.index.get_level_values(0)


@pytest.mark.parametrize("name", ["error", "bleu"])
def test_a_target_is_reached_from_either_side(made, name):
    updates = made[1][name]["to_target"].groupby("batch_size")["updates"].mean()
    assert updates.tolist() == pytest.approx([450 + size for size in own_table.SIZES])


def test_at_a_budget_the_trend_is_that_larger_sizes_are_better(made):
    trends = made[1]["both"]["trends"].query("budget == 'updates'").set_index("outcome")
    for outcome, direction in (("validation_bleu", "rises"), ("test_word_error", "falls")):
        row = trends.loc[outcome]
        assert (row["direction"], row["verdict"]) == (direction, "contradicted")


def test_a_change_of_direction_makes_the_tables_again(tmp_path):
    plans = [planned(tmp_path, a={"metrics": {"bleu": better}}) for better in ("higher", "lower")]
    called = [CalledStudy(plan, "config.yaml", "full", False) for plan in plans]
    assert len({inputs.configuration_parts(study, "a") for study in called}) == 2


def test_a_metric_that_is_no_finite_number_has_diverged(tmp_path):
    table = frame().drop(columns="val_loss").astype({"Valid BLEU": object})
    table.loc[8, "Valid BLEU"] = "inf"  # higher is better, and this is no success
    own_table.write(tmp_path, table)
    study = planner.make(study_of(a={"metrics": METRICS}), folder=tmp_path)
    runs = run_table.from_logs(run_table.logged_runs(tmp_path, study, "a"), "mine", "a")
    assert runs["status"].tolist() == ["diverged"] + ["finished"] * 17
    assert runs["validation_bleu"][0] == -np.inf


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["WER"], {"validation_wer": ["WER"]}),
        (["wer", "val_wer"], {"validation_wer": ["val_wer"], "train_wer": ["wer"]}),
        (["eval/wer", "train/wer"], {"validation_wer": ["eval/wer"], "train_wer": ["train/wer"]}),
    ],
)
def test_a_bare_name_is_of_validation_data_unless_another_is(columns, expected):
    assert log_format.candidates(columns, ("wer",)) == expected
    assert log_format.candidates(columns) == {}


@pytest.mark.parametrize(
    ("keys", "places"),
    [
        ({"metrics": {"wer": "up"}}, ["a.metrics.wer"]),
        (
            {"metrics": {"accuracy": "higher", "val_wer": "lower", "examples": "lower"}},
            ["a.metrics.accuracy", "a.metrics.examples", "a.metrics.val_wer"],
        ),
        (
            {"margins": {"test_bleu": 1}, "primary": ["validation_wer"]},
            ["a.margins.test_bleu", "a.primary[0]"],
        ),
        ({"metrics": {"bleu": "lower"}}, ["b.metrics.bleu"]),
    ],
)
def test_a_metric_that_cannot_be_named_so_is_refused(tmp_path, keys, places):
    with pytest.raises(ConfigError) as raised:
        planned(tmp_path, a={"metrics": METRICS, **keys}, b={"metrics": {"bleu": "higher"}})
    found = sorted(problem.partition(": ")[0] for problem in raised.value.problems)
    assert found == [f"experiments.{place}" for place in places]
