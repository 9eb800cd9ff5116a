"""A study from data, by one command, and what it does not take."""

from __future__ import annotations

import subprocess
import sys

import pytest

import project
from batchscope.cli import entry
from batchscope.store import estimates
from batchscope.study import config


def refused(*words: str) -> str:
    with pytest.raises(SystemExit) as raised:
        entry.main(["init", *words])
    return str(raised.value)


def test_what_is_no_data_and_what_is_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused("nothing").startswith("DATA: received 'nothing'; ")
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "digits.yaml").write_text("mine")
    assert refused("digits").startswith("--output: received studies/digits.yaml")
    assert (tmp_path / "studies" / "digits.yaml").read_text() == "mine"


def test_a_table_of_trainings_is_read_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{size},{seed},{4000 // size + seed}" for size in (8, 16, 32) for seed in (0, 1)]
    (tmp_path / "Mine 1.csv").write_text("\n".join(["batch_size,seed,updates", *rows]))
    entry.main(["init", "Mine 1.csv"])
    study = config.study("studies/mine_1.yaml")
    assert study.experiments["batch_size"].own.trainings == 6 and not study.runs
    assert "--configfile studies/mine_1.yaml" in capsys.readouterr().out


@pytest.mark.slow
def test_data_become_a_study_whose_every_size_reaches_the_target(tmp_path):
    """A regression: the grid is planned, its time known, and the data prepared."""
    words = ("init", "diabetes", "--output", "own.yaml")
    done = subprocess.run(
        [sys.executable, project.ROOT / "workflow" / "run.py", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "266 train, 88 validate, 88 test" in done.stdout
    study = config.study(tmp_path / "own.yaml")
    runs = list(study.runs.values())
    assert {each["batch_size"] for each in runs} == {8, 16, 32, 64}
    assert len(runs) == 4 * 3 * 6 and len({each["learning_rate"] for each in runs}) >= 3
    (target,) = study.experiments["batch_size"].trainings.budgets["target"].values()
    assert 0.4 < target < 0.8  # of a variance of 1
    assert estimates.History(tmp_path / "results", set()).seconds(runs[0]) > 0
