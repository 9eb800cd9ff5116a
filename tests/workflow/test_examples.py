"""The examples of a user's own scripts, each from its study to its tables, with fewer runs."""

import pandas
import pytest
import yaml

import project

pytestmark = pytest.mark.slow


def run(folder, name: str, learning_rate: float, **changes):
    """Run an example at one learning rate; return its runs, evaluations and advice."""
    path = project.copy(folder) / "examples" / name / "study.yaml"
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 20
    study = yaml.safe_load(text)
    (experiment,) = study["experiments"].values()
    vary = experiment["vary"]
    assert len(vary["batch_size"]) >= 3 and learning_rate in vary["learning_rate"]
    vary |= {"learning_rate": [learning_rate], **changes}
    experiment |= {"seeds": 1 if changes else 2, "figures": ["best_losses"]}
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    project.run(folder, "--configfile", str(path))
    tables = folder / "results" / "studies" / study["study"] / "batch_size"
    names = ("runs", "trajectories", "advice")
    runs, rows, advice = (pandas.read_csv(tables / f"{table}.csv") for table in names)
    assert {*runs["status"]} == {"finished"}
    return runs, rows, advice


def test_pytorch(tmp_path):
    pytest.importorskip("torch")
    assert len((project.ROOT / "examples/pytorch/train.py").read_text().splitlines()) <= 60
    runs, rows, _ = run(tmp_path, "pytorch", 0.6)
    assert (runs["test_accuracy"] > 0.85).all() and (runs["train_seconds"] > 0).all()
    assert rows["seconds"].notna().all() and rows["examples"].max() == 12 * 1197
    targets = tmp_path / "results" / "studies" / "pytorch_digits" / "batch_size" / "to_target.csv"
    assert pandas.read_csv(targets)["seconds"].notna().any()


def test_keras(tmp_path):
    """One run: each imports TensorFlow."""
    runs, rows, _ = run(tmp_path, "keras", 0.3, batch_size=[8])
    assert (runs["validation_accuracy"] > 0.8).all() and rows["seconds"].isna().all()
    assert sorted(rows["epoch"].unique()) == [*range(1, 16)] and rows["examples"].max() == 15 * 1200
    assert rows["updates"].max() == 15 * 150 and rows["train_loss"].notna().all()


def test_a_shell_script(tmp_path):
    runs, rows, advice = run(tmp_path, "shell", 2)
    assert (runs["validation_loss"] < 0.9).all() and (rows["updates"] == 0).sum() == 6
    assert rows["examples"].max() == 2400 and rows["train_loss"].notna().all()
    assert "recommendation" in {*advice["item"]}
