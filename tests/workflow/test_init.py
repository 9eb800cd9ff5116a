"""A study from data, by one command, and what it does not take."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits

import project
from batchscope.cli import entry
from batchscope.store import estimates
from batchscope.study import config


def refused(*words: str) -> str:
    with pytest.raises(SystemExit) as raised:
        entry.main(["init", *words])
    return str(raised.value)


def initialised(folder, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, project.ROOT / "workflow" / "run.py", "init", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


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
def test_a_table_gets_what_its_columns_need(tmp_path, monkeypatch):
    """Ids are left out, words become features, gaps are filled; all problems are told at once."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = pandas.DataFrame({"id": [f"c{i:03d}" for i in range(120)]})
    rows["age"] = random.normal(size=120)
    rows["town"] = random.choice(["Ulm", "Bonn"], 120)
    rows["bought"] = np.where(rows["age"] + (rows["town"] == "Ulm") > 0.5, "yes", "no")
    rows.loc[3, "age"] = np.nan
    rows.to_csv(tmp_path / "customers.csv", index=False)
    done = initialised(tmp_path, "customers.csv")
    assert done.returncode == 0, done.stderr
    assert "customers.csv, column id: received 'c000'" in done.stdout
    (definition,) = config.study(tmp_path / "studies" / "customers.yaml").datasets.values()
    assert definition["ignore"] == ["id"] and definition["categorical"] == "auto"
    assert definition["missing"] == "median"
    other = rows["bought"].mask(rows.index == 5, "Yes.")
    rows.assign(bought=other).to_csv(tmp_path / "two.csv", index=False)
    done = initialised(tmp_path, "two.csv")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "column bought: received 'Yes.'" in done.stderr
    assert not (tmp_path / "studies" / "two.yaml").exists()


@pytest.mark.slow
def test_a_model_that_scales_its_input_gets_raw_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = load_digits().images.astype(np.uint8) * 15
    np.savez(tmp_path / "own.npz", images=images, labels=load_digits().target)
    (tmp_path / "mine.py").write_text(
        "import keras\n\n\ndef build(input_shape, classes):\n"
        "    inputs = keras.Input(input_shape)\n"
        "    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(inputs))\n"
        "    return keras.Model(inputs, keras.layers.Dense(classes, activation='softmax')(x))\n"
    )
    done = initialised(tmp_path, "own.npz", "mine.py")
    assert done.returncode == 0, done.stderr
    study = config.study(tmp_path / "studies" / "own.yaml")
    (definition,) = study.datasets.values()
    assert definition["scale"] == 1
    (target,) = study.experiments["batch_size"].trainings.budgets["target"].values()
    assert target < 1.0  # of 2.3 where everything is drawn at random


@pytest.mark.slow
def test_a_model_file_that_ends_the_process_is_one_line(tmp_path):
    (tmp_path / "mine.py").write_text("import os\n\ndef build(*shape):\n    os._exit(3)\n")
    done = initialised(tmp_path, "digits", "mine.py")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("MODEL: received mine.py")
    assert not (tmp_path / "studies").exists()


@pytest.mark.slow
def test_data_become_a_study_whose_every_size_reaches_the_target(tmp_path):
    """A regression: the grid is planned, its time known, and the data prepared."""
    done = initialised(tmp_path, "diabetes", "--output", "own.yaml")
    assert done.returncode == 0, done.stderr
    assert "266 train, 88 validate, 88 test" in done.stdout
    study = config.study(tmp_path / "own.yaml")
    runs = list(study.runs.values())
    assert {each["batch_size"] for each in runs} == {8, 16, 32, 64}
    assert len(runs) == 4 * 3 * 6 and len({each["learning_rate"] for each in runs}) >= 3
    (target,) = study.experiments["batch_size"].trainings.budgets["target"].values()
    assert 0.4 < target < 0.8  # of a variance of 1
    assert estimates.History(tmp_path / "results", set()).seconds(runs[0]) > 0
