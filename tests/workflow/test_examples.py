"""The examples of a user's own scripts, and the benchmarks, each at its smallest size."""

import importlib.util
import re
import shutil
import sys

import pandas
import pytest
import yaml

import commanded
import project
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


BENCHMARKS = project.ROOT / "benchmarks"
NAMES = sorted({path.stem for path in BENCHMARKS.glob("*.py")} - {"side_by_side"})
# Script -> its smallest sizes, and the least number of ratios or shares that they print. The others
# print their help: they run Snakemake, as other tests here do, or take a minute for the rates that
# tests/analysis/test_error_rates.py simulates too.
SMALLEST = {
    "accumulation": ("--batch-size 512 --micro-batches 256 --blocks 1", 4),
    "coverage": ("--studies 2", 36),
    "speedups": ("--cases adam_mini_batches2025 --blocks 1", 1),
    "training": ("--networks campbell_cnn --batch-sizes 128 --blocks 1", 3),
}
RATIO_OR_SHARE = re.compile(r"\d+\.\d\d; CPU \d+\.\d\d|\d+\.\d+% ± \d+\.\d+%")
PROGRAM = """
import runpy, sys
sys.path.insert(0, "benchmarks")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs(name):
    words, count = SMALLEST.get(name, ("--help", 0))
    done = project.forked(PROGRAM, f"benchmarks/{name}.py", *words.split())
    assert done.returncode == 0, done.stderr
    assert len(RATIO_OR_SHARE.findall(done.stdout)) >= count


def test_a_ratio_is_the_median_with_the_interval_of_its_logarithm(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import numpy as np
    import side_by_side

    ratio = side_by_side.ratio(np.array([[2.0, 6.0], [4.0, 6.0], [8.0, 6.0]]), np.array([[2.0]]))
    # t(0.975, 2) = 4.303 standard errors of log 2 / sqrt(3) around log 2
    low, high = (2 * np.exp(sign * 4.3027 * np.log(2) / np.sqrt(3)) for sign in (-1, 1))
    assert ratio == f"2.00 [{low:.2f}, {high:.2f}]; CPU 3.00 [3.00, 3.00]"
