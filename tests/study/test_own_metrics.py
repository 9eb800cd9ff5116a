"""Metrics that a study names: read of logs, compared, reached, and what is refused of them."""

import numpy as np
import pandas
import pytest

import commanded
import own_table
from batchscope import figures
from batchscope.core.errors import ConfigError
from batchscope.rules import inputs
from batchscope.rules.study import CalledStudy
from batchscope.store import paths
from batchscope.study import log_names, planner
from batchscope.study.tasks import TASKS
from batchscope.tables import experiment_tables

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


def planned(folder, table=None, **keys):
    own_table.write(folder, frame() if table is None else table)
    return planner.make(
        own_table.study(**{"runs": "own_runs.csv", "metrics": METRICS, **keys}), folder=folder
    )


def made(folder, table=None, **keys):
    return experiment_tables.make(folder, planned(folder, table, **keys), "a")


def refused(folder, **keys):
    with pytest.raises(ConfigError) as raised:
        planned(folder, **keys)
    return [line.partition(";")[0] for line in raised.value.problems]


def test_columns_of_the_metrics_are_outcomes_and_no_factors(tmp_path):
    study = planned(tmp_path)
    planned_experiment = study.experiments["a"]
    external = planned_experiment.external_runs
    assert len(external.series) == 1 and not external.factors
    assert {*planned_experiment.columns} >= {
        "validation_word_error",
        "test_word_error",
        "validation_bleu",
    }
    tables = experiment_tables.make(tmp_path, study, "a")
    for name in ("runs", "trajectories"):
        last = tables[name].groupby("batch_size").last()
        assert last["validation_bleu"].tolist() == pytest.approx(
            [100 - 50 * (0.1 + size / 1000 + 0.00025) for size in own_table.SIZES]
        )


def test_the_best_size_is_that_of_the_direction(tmp_path):
    margins = {"test_word_error": 0.01, "validation_bleu": 0.5}
    found = made(tmp_path, margins=margins)["comparisons"]
    found = found[found["budget"] == "updates"].set_index(["outcome", "batch_size"])
    assert found.loc["test_word_error", "mean"].tolist() == pytest.approx([0.108, 0.132, 0.228])
    assert found.loc["validation_bleu", "mean"].tolist() == pytest.approx([94.6, 93.4, 88.6])
    for outcome in margins:
        verdicts = found.loc[outcome, "verdict"].tolist()
        assert verdicts == ["within", "beyond", "beyond"]
    assert "validation_word_error" not in found.index.get_level_values(0)


@pytest.mark.parametrize("target", [{"validation_word_error": 0.45}, {"validation_bleu": 77.5}])
def test_a_target_is_reached_from_either_side(tmp_path, target):
    found = made(tmp_path, budgets={"target": target})["to_target"]
    taken = found.groupby("batch_size")["updates"].mean().tolist()
    assert taken == pytest.approx([450 + size for size in own_table.SIZES])


def test_what_is_no_number_any_more_has_diverged(tmp_path):
    table = frame().drop(columns="val_loss").astype({"Valid BLEU": object})
    for word in ("nan", "inf"):  # higher is better, and this is no success
        table.loc[8, "Valid BLEU"] = word
        runs = made(tmp_path, table)["runs"]
        assert runs["status"].tolist() == ["diverged"] + ["finished"] * 17
        assert runs["validation_bleu"][0] == -np.inf


def test_a_bare_name_is_of_validation_data_unless_another_is():
    for columns, wanted in (
        (["WER"], {"validation_wer": ["WER"]}),
        (["wer", "val_wer"], {"validation_wer": ["val_wer"], "train_wer": ["wer"]}),
        (["eval/wer", "train/wer"], {"validation_wer": ["eval/wer"], "train_wer": ["train/wer"]}),
    ):
        assert log_names.candidates(columns, ("wer",)) == wanted
        assert log_names.candidates(columns) == {}


def test_what_cannot_be_named_so_is_refused(tmp_path):
    (line,) = refused(tmp_path, metrics={"wer": "up"})
    assert line.startswith("experiments.a.metrics.wer: ") and "'up'" in line
    of_ours = {"accuracy": "higher", "val_wer": "lower", "examples": "lower"}
    assert {line.partition(":")[0] for line in refused(tmp_path, metrics=of_ours)} == {
        f"experiments.a.metrics.{name}" for name in of_ours
    }
    (line,) = refused(tmp_path, margins={"test_bleu": 1})
    assert line.startswith("experiments.a.margins.test_bleu: ")
    (line,) = refused(tmp_path, primary=["validation_wer"])
    assert line.startswith("experiments.a.primary[0]: ")
    raw = own_table.study(runs="own_runs.csv", metrics=METRICS)
    raw["experiments"]["b"] = {"runs": "own_runs.csv", "metrics": {"bleu": "lower"}}
    with pytest.raises(ConfigError) as raised:
        planner.make(raw, folder=tmp_path)
    assert raised.value.problems[0].startswith("experiments.b.metrics.bleu: ")


def test_a_change_of_direction_makes_the_tables_again(tmp_path):
    plans = [planned(tmp_path, metrics={"bleu": better}) for better in ("higher", "lower")]
    called = [CalledStudy(study, "config.yaml", "full", False) for study in plans]
    assert len({inputs.followed(study, "a") for study in called}) == 2


def test_experiments_of_a_study_have_metrics_of_their_own(tmp_path):
    own_table.write(tmp_path, frame())
    raw = own_table.study(runs="own_runs.csv", metrics={"word_error": "lower"})
    raw["experiments"]["b"] = {"runs": "own_runs.csv", "metrics": {"bleu": "higher"}}
    study = planner.make(raw, folder=tmp_path)
    for name, others in (("a", "bleu"), ("b", "word_error")):
        tables = experiment_tables.make(tmp_path, study, name)
        assert not tables["runs"].filter(like=others).columns.any()
    assert [metric.name for metric in study.metrics] == ["word_error", "bleu"]


@pytest.mark.parametrize(("better", "direction"), [("higher", "rises"), ("lower", "falls")])
def test_at_a_budget_the_trend_is_that_larger_sizes_are_better(tmp_path, better, direction):
    keys = {"metrics": {"bleu": better}, "margins": {"validation_bleu": 0.5}}
    trends = made(tmp_path, **keys)["trends"]
    (row,) = trends.query("outcome == 'validation_bleu' and budget == 'updates'").to_dict("records")
    verdict = "contradicted" if better == "higher" else "supported"
    assert (row["direction"], row["verdict"]) == (direction, verdict)


def test_a_claim_and_a_trend_have_the_direction_of_a_document(tmp_path):
    test = {"type": "trend", "experiment": "a", "column": "validation_word_error"}
    claim = {"place": "Table 1", "sentence": "It rises.", "test": {**test, "direction": "rises"}}
    keys = {"metrics": METRICS, "primary": ["validation_word_error"], "seeds": 6}
    raw = commanded.study(tmp_path / "mine", **keys)
    claims = [{"id": "it_rises", "document": "A document", **claim}]
    study = planner.make({**raw, "claims": claims}, folder=tmp_path / "mine")
    evaluations = frame().set_index(["batch_size", "seed"])[["updates", "word_error"]]
    evaluations.columns = ["updates", "validation_word_error"]
    for name, run in study.commands.items():
        rows = evaluations.loc[(run.factors["batch_size"], run.factors["seed"])]
        commanded.write(tmp_path, name, run, rows)
    folder = tmp_path / "tables"
    experiment_tables.write(tmp_path, study, "a", folder / "a")
    trends = pandas.read_csv(folder / "a" / "trends.csv")
    (row,) = trends[trends["budget"] == "end"].to_dict("records")
    assert row["outcome"] == "validation_word_error"
    assert (row["direction"], row["verdict"]) == ("rises", "supported")
    experiment_tables.write_claims(study, folder, tmp_path / "claims.csv")
    (row,) = pandas.read_csv(tmp_path / "claims.csv").to_dict("records")
    assert (row["verdict"], row["n"]) == ("supported", 6) and row["estimate"] > 0


@pytest.mark.parametrize("metric", ["r2", "f1"])
def test_the_logs_of_a_command_tell_its_task(tmp_path, metric):
    study = planner.make(commanded.study(tmp_path / "mine"), folder=tmp_path / "mine")
    for at, (name, run) in enumerate(study.commands.items()):
        rows = pandas.DataFrame({"updates": [1, 2], "validation_loss": [2.0, 1.0 + at]})
        commanded.write(tmp_path, name, run, rows.assign(**{f"test_{metric}": 0.5}))
    tables = experiment_tables.make(tmp_path, study, "a")
    (task,) = figures.FigureTables(history=tables["history"]).tasks
    assert metric in TASKS[task]


def test_a_command_has_them_too(tmp_path):
    script = commanded.SCRIPT.replace("test_accuracy", "test_Word_Error")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    found = commanded.planned(tmp_path, metrics=METRICS, margins={"test_word_error": 0.01})
    assert {*found.commands}.isdisjoint(commanded.planned(tmp_path).commands)
    name = next(iter(found.commands))
    assert commanded.make(tmp_path, name, found)[0] == 0
    rows = pandas.read_csv(paths.run_folder(tmp_path, name) / paths.TRAJECTORY)
    assert "test_word_error" in rows
