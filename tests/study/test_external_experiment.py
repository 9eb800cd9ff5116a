"""An experiment of trainings that were made elsewhere: what is planned of it, what is refused."""

import hashlib

import pytest
import yaml

import own_table
import small_study
from batchscope import figures
from batchscope.cli import plan
from batchscope.core.errors import ConfigError
from batchscope.study import config, planner


def planned(folder, frame=None, **experiment):
    own_table.write(folder, own_table.rows() if frame is None else frame)
    return planner.make(own_table.study(**experiment), folder=folder)


def single(frame):
    """Returns the last row of each training."""
    return frame.groupby(["variant", "batch_size", "seed"], as_index=False).last()


def refused(folder, frame=None, **experiment):
    with pytest.raises(ConfigError) as raised:
        planned(folder, frame, **experiment)
    return raised.value.problems


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
    assert figures.drawn(experiment) == [
        *("primary", "primary_outcome", "progress", "best_losses", "accuracy"),
        "critical_batch_size",
    ]


def test_the_file_lies_beside_the_configuration(tmp_path, monkeypatch):
    (tmp_path / "studies").mkdir()
    own_table.write(tmp_path / "studies", own_table.rows())
    path = tmp_path / "studies" / "mine.yaml"
    path.write_text(yaml.safe_dump(own_table.study()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for given in ("studies/mine.yaml", path):
        assert config.study(given).experiments["a"].external_runs.path == "studies/own_runs.csv"


def test_a_mistake_in_the_file_is_reported_with_its_line_and_its_experiment(tmp_path):
    frame = own_table.rows().astype({"updates": object})
    frame.loc[[1, 3], "updates"] = ["ten", -1]
    (problem,) = refused(tmp_path, frame)
    path = tmp_path / "own_runs.csv"
    assert problem.startswith(
        f"experiments.a.runs: {path}, line 3, updates: received 'ten', and 1 more row like it; a "
    )


def test_every_problem_at_once_with_those_of_other_keys(tmp_path):
    found = refused(
        tmp_path,
        margins={"test_loss": 0.1},
        figures=["landscape", "loss_curves", "generalisation_gap", "learning_rate", "progres"],
    )
    assert [line.partition(":")[0].removeprefix("experiments.a.") for line in found] == [
        *(f"figures[{index}]" for index in range(5)),
        "margins.test_loss",
    ]
    assert "it shows what a training here leaves behind" in found[0]
    assert "it shows what a training here leaves behind" in found[1]
    assert "it needs generalisation_gap or generalisation_gap_accuracy" in found[2]
    assert "it needs several values of learning_rate" in found[3]
    assert "Did you mean 'progress'?" in found[4]
    assert "(validation_loss, test_accuracy)" in found[5]


def test_rates_that_were_tried_at_one_batch_size_are_varied(tmp_path):
    import pandas

    slow, fast = (own_table.rows(("plain",), learning_rate=rate) for rate in (0.1, 0.2))
    both = planned(tmp_path, pandas.concat([slow, fast])).experiments["a"]
    assert both.vary["learning_rate"] == (0.1, 0.2)
    assert "learning_rate" in figures.drawn(both) and len(both.external_runs.series) == 1
    follows = slow.assign(learning_rate=slow["batch_size"] / 100)
    alone = planned(tmp_path, follows).experiments["a"]
    assert "learning_rate" not in alone.vary and "learning_rate" not in figures.drawn(alone)


@pytest.mark.parametrize(
    ("budgets", "column"),
    [
        ({"seconds": 5}, "seconds"),
        ({"epochs": 5}, "epoch"),
        ({"target": {"test_loss": 0.3}}, "test_loss"),
    ],
)
def test_a_budget_takes_its_column(tmp_path, budgets, column):
    (problem,) = refused(tmp_path, budgets=budgets)
    assert problem.startswith(f"experiments.a.budgets.{next(iter(budgets))}: ")
    assert f" column {column} " in problem
    timed = own_table.rows(seconds=True).assign(
        epoch=lambda rows: rows["updates"] / 100, test_loss=0.5
    )
    assert planned(tmp_path, timed, budgets=budgets).experiments["a"].keys.budgets == budgets


def test_a_table_of_falling_rates_serves_no_budget(tmp_path):
    frame = own_table.rows(schedule="cosine")
    (problem,) = refused(tmp_path, frame, budgets={"updates": 100})
    assert problem.startswith("experiments.a.budgets.updates: ") and " cosine" in problem
    experiment = planned(tmp_path, frame).experiments["a"]
    expected = ["primary", "primary_outcome", "best_losses", "accuracy"]
    assert figures.drawn(experiment) == expected
    runs = {**own_table.RUNS, "rows": "at_target"}
    targets = planned(tmp_path, single(frame), runs=runs).experiments["a"]
    assert "critical_batch_size" in figures.drawn(targets)


def test_seeds_that_not_every_batch_size_has_are_no_pairs(tmp_path):
    frame = own_table.rows(seeds=7)
    apart = (frame["batch_size"] == 8) & (frame["seed"] > 3)
    frame.loc[apart, "seed"] += 10
    (warning,) = planned(tmp_path, frame).warnings
    assert "at least 6 seeds (received 4)" in warning


def test_a_mixed_study_and_what_plan_says_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own_table.write(tmp_path, own_table.rows())
    raw = small_study.config()
    raw["experiments"]["mine"] = {"runs": own_table.RUNS}
    (tmp_path / "mixed.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    study = config.study("mixed.yaml")
    assert len(study.runs) == 4 and len(study.datasets) == 1
    results = tmp_path / "results"
    text = plan.text(plan.study("mixed.yaml", "full", results), results)
    assert "4 missing" in text
    assert "mine: 36 external trainings in 504 rows of own_runs.csv (CSV)." in text
    (tmp_path / "alone.yaml").write_text(yaml.safe_dump(own_table.study()), encoding="utf-8")
    text = plan.text(plan.study("alone.yaml", "full", results), results)
    assert "Missing: no training, measure or timing." in text and "runs" not in text.split()
