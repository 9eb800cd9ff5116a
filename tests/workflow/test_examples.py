"""The examples of one's own scripts, each from its study to a card, with fewer runs."""

import pandas
import pytest
import yaml

import project

pytestmark = pytest.mark.slow


def run(folder, name: str, rate: float):
    """Runs an example at one learning rate; returns the rows of its runs and of its evaluations."""
    path = project.copy(folder) / "examples" / name / "study.yaml"
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 20
    study = yaml.safe_load(text)
    (experiment,) = study["experiments"].values()
    assert (
        len(experiment["vary"]["batch_size"]) >= 3 and rate in experiment["vary"]["learning_rate"]
    )
    experiment["vary"]["learning_rate"] = [rate]
    experiment["seeds"] = 2
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    assert "6 runs: 6 finished" in project.run(folder, "--configfile", str(path))
    place = folder / "results" / "studies" / study["study"]
    found = [
        pandas.read_csv(place / "batch_size" / f"{each}.csv") for each in ("runs", "trajectories")
    ]
    advice = pandas.read_csv(place / "batch_size" / "advice.csv")
    assert "recommendation" in {*advice["item"]}
    assert project.planned(folder, "--configfile", str(path)) == {}
    return found


def test_pytorch(tmp_path):
    pytest.importorskip("torch")
    assert len((project.ROOT / "examples/pytorch/train.py").read_text().splitlines()) <= 60
    runs, rows = run(tmp_path, "pytorch", 0.6)
    assert (runs["test_accuracy"] > 0.85).all() and (runs["train_seconds"] > 0).all()
    assert rows["seconds"].notna().all() and rows["examples"].max() == 12 * 1197
    fits = tmp_path / "results" / "studies" / "pytorch_digits" / "batch_size" / "to_target.csv"
    assert pandas.read_csv(fits)["seconds"].notna().any()


def test_keras(tmp_path):
    runs, rows = run(tmp_path, "keras", 0.3)
    assert (runs["validation_accuracy"] > 0.8).all() and rows["seconds"].isna().all()
    assert sorted(rows["epoch"].unique()) == [*range(1, 16)] and rows["examples"].max() == 15 * 1200
    assert rows["updates"].max() == 15 * 150 and rows["train_loss"].notna().all()


def test_a_shell_script(tmp_path):
    runs, rows = run(tmp_path, "shell", 2)
    assert (runs["validation_loss"] < 0.9).all() and (rows["updates"] == 0).sum() == 6
    assert rows["examples"].max() == 2400 and rows["train_loss"].notna().all()
