"""Metrics that a study names: read of logs, compared, reached, and what is refused of them."""

import numpy as np
import pandas
import pytest

import commanded
import own_table
from batchscope.errors import ConfigError
from batchscope.store import paths
from batchscope.study import log_names, planner, tasks
from batchscope.tables import experiment_tables

METRICS = {"word_error": "lower", "bleu": "higher"}


@pytest.fixture(autouse=True)
def none_named_afterwards():
    yield
    tasks.set_user_metrics({})


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
    own = study.experiments["a"].own
    assert len(own.table.series) == 1 and not own.table.factors
    assert {*own.columns} >= {"validation_word_error", "test_word_error", "validation_bleu"}
    tables = experiment_tables.make(tmp_path, study, "a")
    for name in ("runs", "trajectories"):
        last = tables[name].groupby("batch_size").last()
        assert last["validation_bleu"].tolist() == pytest.approx(
            [100 - 50 * (0.1 + size / 1000 + 0.00025) for size in own_table.SIZES]
        )


def test_without_the_key_they_are_not(tmp_path):
    own = planned(tmp_path, frame().drop(columns=["word_error"]), metrics={"cer": "lower"})
    assert "validation_bleu" not in own.experiments["a"].own.columns


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
    raw = own_table.study(runs="own_runs.csv", metrics=METRICS)
    raw["experiments"]["b"] = {"runs": "own_runs.csv", "metrics": {"bleu": "lower"}}
    with pytest.raises(ConfigError) as raised:
        planner.make(raw, folder=tmp_path)
    assert raised.value.problems[0].startswith("experiments.b.metrics.bleu: ")


def test_a_command_has_them_too(tmp_path):
    script = commanded.SCRIPT.replace("test_accuracy", "test_Word_Error")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    found = commanded.planned(tmp_path, metrics=METRICS, margins={"test_word_error": 0.01})
    assert {*found.commands}.isdisjoint(commanded.planned(tmp_path).commands)
    name = next(iter(found.commands))
    assert commanded.make(tmp_path, name, found)[0] == 0
    rows = pandas.read_csv(paths.run_folder(tmp_path, name) / paths.TRAJECTORY)
    assert "test_word_error" in rows
