"""The examples of a user's own scripts: one run of each, and the rows read from its log."""

import importlib.util
import shutil
import sys

import pandas
import pytest
import yaml

import commanded
from batchscope.store import paths
from batchscope.study import config
from project import ROOT

FRAMEWORKS = ROOT / "examples" / "frameworks"
SHARED = "\n# From here on the same in all four scripts.\n"
torch = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is missing")
TENSORFLOW = {"framework": "tensorflow", "batch_size": 64}
# The example, the factors of its run, and the bounds of its last evaluation.
RUNS = [
    ("shell", {"batch_size": 8, "learning_rate": 2}, {"validation_loss": (0, 0.9)}),
    ("keras", {"batch_size": 8, "learning_rate": 0.3}, {"validation_accuracy": (0.8, 1)}),
    pytest.param(
        *("pytorch", {"batch_size": 8, "learning_rate": 0.6}, {"test_accuracy": (0.85, 1)}),
        marks=torch,
    ),
    ("frameworks", {**TENSORFLOW, "model": "cnn"}, {"validation_loss": (0, 2)}),
    ("frameworks", {**TENSORFLOW, "model": "mlp"}, {"validation_loss": (0, 2)}),
]
EXAMPLES = {"shell": 2400, "keras": 15 * 1200, "pytorch": 12 * 1197}  # of a run


@pytest.mark.slow
@pytest.mark.parametrize(("name", "factors", "bounds"), RUNS)
def test_a_run_of_an_example(name, factors, bounds, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / ".frameworks").mkdir()
    (tmp_path / ".frameworks" / "tensorflow").symlink_to(sys.prefix)
    path = tmp_path / "examples" / name / "study.yaml"
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    if name == "frameworks":
        study["experiments"]["usage"]["set"]["duration"] = 1
        path.write_text(yaml.safe_dump(study), encoding="utf-8")
    (experiment,) = config.study(path).experiments.values()
    runs = experiment.commands.items()
    run = next(run for run, command in runs if factors.items() <= command.factors.items())
    status, output = commanded.make(tmp_path, run, experiment)
    assert status == 0, output
    record = commanded.record(tmp_path, run)
    rows = pandas.read_csv(paths.run_folder(tmp_path, run) / paths.TRAJECTORY)
    assert record["status"] == "finished" and len(rows) > 2
    assert rows["updates"].is_monotonic_increasing
    assert rows["examples"].max() == EXAMPLES.get(name, rows["examples"].max())
    for column, (low, high) in bounds.items():
        assert low < rows[column].iloc[-1] <= high
    if not experiment.keys.alone:
        assert rows["train_loss"].notna().all() and "seconds" not in rows
        return
    assert record["train_seconds"] > 0 and record["memory_peak_mb"] > 50
    assert rows["seconds"].is_monotonic_increasing
    if name == "frameworks":
        assert (rows["examples"] == 64 * rows["updates"]).all()
        assert rows["validation_loss"].iloc[-1] < rows["validation_loss"][0]
        assert rows["seconds"].iloc[-2] < 1 <= rows["seconds"].iloc[-1]
        assert 0 < record["process_percent"] <= 110 and record["examples_per_second"] > 0


def test_the_scripts_of_frameworks_share_their_loop_and_need_no_batchscope():
    names = ("tensorflow", "pytorch", "jax", "mxnet")
    texts = [(FRAMEWORKS / f"{name}.py").read_text(encoding="utf-8") for name in names]
    (loop,) = {text.partition(SHARED)[2] for text in texts}
    assert loop
    assert all(len(text.splitlines()) <= 100 and "batchscope" not in text for text in texts)
