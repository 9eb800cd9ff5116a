"""An experiment of trainings that were made elsewhere: what is planned of it, what is refused."""

import hashlib
from pathlib import Path

import pandas
import pytest
import yaml

import own_table
import small_study
from batchscope import figures
from batchscope.cli import plan
from batchscope.study import planner


def planned(folder, frame=None, **experiment):
    own_table.write(folder, own_table.rows() if frame is None else frame)
    return planner.make(own_table.study(**experiment), folder=folder)


def refused(folder, frame=None, **experiment):
    own_table.write(folder, own_table.rows() if frame is None else frame)
    return small_study.problems(own_table.study(**experiment), folder=folder)


def test_a_study_of_own_runs_alone_needs_nothing_else(tmp_path):
    study = planned(tmp_path, margins={"test_accuracy": 0.01})
    assert not study.runs and not study.datasets and not study.models and not study.warnings
    (experiment,) = study.experiments.values()
    own, path = experiment.external_runs, tmp_path / "own_runs.csv"
    assert own.path == str(path)
    assert own.table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (len(own.rows), own.rows["run"].nunique(), len(own.series)) == (504, 36, 2)
    assert experiment.has_evaluations and experiment.vary == {"batch_size": (8, 32, 128)}
    assert experiment.keys.margins == {"test_accuracy": 0.01}
    assert figures.figure_names(experiment) == [
        *("primary", "primary_outcome", "progress", "best_losses", "accuracy"),
        "critical_batch_size",
    ]


def test_every_problem_at_once_with_those_of_other_keys(tmp_path):
    figures = ["landscape", "loss_curves", "generalisation_gap", "learning_rate", "progres"]
    problems = refused(tmp_path, margins={"test_loss": 0.1}, figures=figures)
    parts = {
        "figures[0]": "it shows what a training here leaves behind",
        "figures[1]": "it shows what a training here leaves behind",
        "figures[2]": "it needs generalisation_gap or generalisation_gap_accuracy",
        "figures[3]": "it needs several values of learning_rate",
        "figures[4]": "'progress'",
        "margins.test_loss": "(validation_loss, test_accuracy)",
    }
    for problem, (place, part) in zip(problems, parts.items(), strict=True):
        assert problem.startswith(f"experiments.a.{place}: ") and part in problem


def test_rates_that_were_tried_at_one_batch_size_are_varied(tmp_path):
    slow, fast = (own_table.rows(("plain",), learning_rate=rate) for rate in (0.1, 0.2))
    both = planned(tmp_path, pandas.concat([slow, fast])).experiments["a"]
    assert both.vary["learning_rate"] == (0.1, 0.2)
    assert "learning_rate" in figures.figure_names(both) and len(both.external_runs.series) == 1
    follows = slow.assign(learning_rate=slow["batch_size"] / 100)
    alone = planned(tmp_path, follows).experiments["a"]
    assert "learning_rate" not in alone.vary and "learning_rate" not in figures.figure_names(alone)


@pytest.mark.parametrize(
    ("budgets", "column"),
    [
        ({"seconds": 5}, "seconds"),
        ({"epochs": 5}, "epoch"),
        ({"target": {"test_loss": 0.3}}, "test_loss"),
    ],
)
def test_a_budget_needs_its_column(tmp_path, budgets, column):
    (problem,) = refused(tmp_path, budgets=budgets)
    assert problem.startswith(f"experiments.a.budgets.{next(iter(budgets))}: ")
    assert f" column {column} " in problem
    frame = own_table.rows()
    frame[column] = frame["updates"] / 100
    assert planned(tmp_path, frame, budgets=budgets).experiments["a"].keys.budgets == budgets


def test_a_table_of_falling_rates_serves_no_budget(tmp_path):
    frame = own_table.rows(schedule="cosine")
    (problem,) = refused(tmp_path, frame, budgets={"updates": 100})
    assert problem.startswith("experiments.a.budgets.updates: ") and " cosine" in problem
    experiment = planned(tmp_path, frame).experiments["a"]
    expected = ["primary", "primary_outcome", "best_losses", "accuracy"]
    assert figures.figure_names(experiment) == expected


def test_seeds_that_not_every_batch_size_has_are_no_pairs(tmp_path):
    frame = own_table.rows(seeds=7)
    apart = (frame["batch_size"] == 8) & (frame["seed"] > 3)
    frame.loc[apart, "seed"] += 10
    (warning,) = planned(tmp_path, frame).warnings
    assert "at least 6 seeds (received 4)" in warning


def test_a_mixed_study_and_its_plan(tmp_path, monkeypatch):
    (tmp_path / "studies").mkdir()
    monkeypatch.chdir(tmp_path)
    own_table.write(Path("studies"), own_table.rows())
    raw = small_study.config()
    raw["experiments"]["mine"] = {"runs": own_table.RUNS}
    Path("studies/mixed.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    text = plan.text(plan.study("studies/mixed.yaml", "full", "results"), "results")
    assert "4 missing" in text
    assert "mine: 36 external trainings in 504 rows of studies/own_runs.csv (CSV)." in text
