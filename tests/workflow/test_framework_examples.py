"""The comparison of frameworks by commands: each script, and the study of those installed."""

import os
import subprocess
import sys

import pandas
import pytest
import yaml

import project
from project import ROOT

FOLDER = ROOT / "examples" / "frameworks"
NAMES = ("tensorflow", "pytorch", "jax", "mxnet")
SHARED = "\n# From here on the same in all four scripts.\n"


def python(name: str) -> str:
    """Returns the interpreter that runs a framework's script; skips the test without one."""
    if name == "tensorflow":
        return sys.executable
    found = ROOT / ".frameworks" / name / "bin" / "python"
    if not found.exists():
        pytest.skip(f"{name} is not installed; examples/frameworks/study.yaml says how")
    return str(found)


def test_the_scripts_share_their_loop_and_need_no_batchscope():
    texts = [(FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in NAMES]
    assert len({text.partition(SHARED)[2] for text in texts}) == 1
    assert all(len(text.splitlines()) <= 100 and "batchscope" not in text for text in texts)
    assert all(text.partition(SHARED)[2] for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["cnn", "mlp"])
@pytest.mark.parametrize("name", NAMES)
def test_a_script_learns(name, network, tmp_path):
    words = ["--network", network, "--batch-size", "32", "--learning-rate", "0.1", "--seconds", "3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [python(name), str(FOLDER / f"{name}.py"), *words, "--out", str(tmp_path)]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=600)
    log = pandas.read_csv(tmp_path / "log.csv")
    assert log.loc[0, ["updates", "examples", "seconds"]].tolist() == [1, 32, 0]
    assert (log["examples"] == 32 * log["updates"]).all() and log["updates"].diff()[1:].eq(46).all()
    assert log["seconds"].is_monotonic_increasing and log["seconds"].iloc[-1] >= 3
    assert log["seconds"].iloc[-2] < 3
    assert 2 < log["train_loss"][0] < 3 and log["validation_accuracy"][0] < 0.5
    assert log["validation_loss"].iloc[-1] < log["validation_loss"][0]


@pytest.mark.slow
def test_the_study_runs_what_is_installed_and_says_what_is_not(tmp_path):
    path = project.copy(tmp_path) / "examples" / "frameworks" / "study.yaml"
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    usage = study["experiments"]["usage"]
    usage["set"]["duration"] = 1
    usage["vary"] |= {"batch_size": [16, 64, 256], "model": ["mlp"]}
    usage |= {"resources": {"threads": 1}, "seeds": 1}
    claim = {"document": "D", "place": "Table", "sentence": "It holds memory."}
    test = {"type": "value", "experiment": "usage", "column": "memory_peak_mb", "above": 50}
    for framework in ("tensorflow", "mxnet"):
        cells = {"framework": framework}
        study.setdefault("claims", []).append(
            {"id": framework, **claim, "test": {**test, "cells": cells}}
        )
    numbers = {"framework": "tensorflow", "batch_size": [16], "memory_mb": [500]}
    usage["published"] = {"usage": {"figure": "Table 1", "found": "So.", "numbers": [numbers]}}
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    installed = [name for name in NAMES[1:3] if (ROOT / ".frameworks" / name).exists()]
    (tmp_path / ".frameworks").mkdir()
    (tmp_path / ".frameworks" / "tensorflow").symlink_to(sys.prefix)
    for name in installed:
        (tmp_path / ".frameworks" / name).symlink_to(ROOT / ".frameworks" / name)
    project.run(tmp_path, "--configfile", str(path))

    tables = tmp_path / "results" / "studies" / "frameworks" / "usage"
    runs = pandas.read_csv(tables / "runs.csv")
    finished = runs[runs["status"] == "finished"]
    assert set(finished["own_framework"]) == {"tensorflow", *installed} and len(finished) >= 3
    assert set(runs.loc[runs["own_framework"] == "mxnet", "status"]) == {"not_installed"}
    assert (finished["memory_peak_mb"] > 50).all() and (finished["examples_per_second"] > 0).all()
    assert finished["process_percent"].between(0, 110, inclusive="right").all()
    drawn = pandas.read_csv(tables / "figures" / "usage.csv")
    assert set(drawn.dropna(subset="process_percent")["own_framework"]) >= {"tensorflow"}
    claims = pandas.read_csv(tables.parent / "claims.csv").set_index("id")
    assert claims.loc["tensorflow", "verdict"] == "one_seed"
    assert claims.loc["mxnet", ["verdict", "reason"]].tolist() == ["not_testable", "not_installed"]
    published = pandas.read_csv(tables / "published.csv").iloc[0]
    assert (
        published["here"]
        == runs.query("own_framework == 'tensorflow' and batch_size == 16")["memory_peak_mb"].item()
    )
    assert "Not installed: .frameworks/mxnet" in project.report(tmp_path, "studies/frameworks")
