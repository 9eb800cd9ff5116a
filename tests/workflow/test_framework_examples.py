"""The comparison of frameworks by commands: a study of those that are installed."""

import sys

import pandas
import pytest
import yaml

import project
from project import ROOT

FOLDER = ROOT / "examples" / "frameworks"
NAMES = ("tensorflow", "pytorch", "jax", "mxnet")
SHARED = "\n# From here on the same in all four scripts.\n"


def test_the_scripts_share_their_loop_and_need_no_batchscope():
    texts = [(FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in NAMES]
    assert len({text.partition(SHARED)[2] for text in texts}) == 1
    assert all(len(text.splitlines()) <= 100 and "batchscope" not in text for text in texts)
    assert all(text.partition(SHARED)[2] for text in texts)


def claim(framework: str) -> dict:
    test = {"type": "value", "experiment": "usage", "column": "memory_peak_mb", "above": 50}
    words = {"document": "D", "place": "Table", "sentence": "It holds memory."}
    return {"id": framework, **words, "test": {**test, "cells": {"framework": framework}}}


@pytest.mark.slow
def test_the_study_runs_installed_frameworks_and_names_the_others(tmp_path):
    path = project.copy(tmp_path) / "examples" / "frameworks" / "study.yaml"
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    usage = study["experiments"]["usage"]
    usage["set"] = {"duration": 1, "learning_rate": 0.1}
    usage["vary"] |= {"batch_size": [32]}
    usage |= {"resources": {"threads": 1}, "seeds": 1}
    study["claims"] = [claim("tensorflow"), claim("mxnet")]
    numbers = {"framework": "tensorflow", "model": "cnn", "batch_size": [32], "memory_mb": [500]}
    usage["published"] = {"usage": {"figure": "Table 1", "found": "So.", "numbers": [numbers]}}
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    (tmp_path / ".frameworks").mkdir()
    (tmp_path / ".frameworks" / "tensorflow").symlink_to(sys.prefix)
    installed = [name for name in NAMES[1:3] if (ROOT / ".frameworks" / name).exists()]
    for name in installed:
        (tmp_path / ".frameworks" / name).symlink_to(ROOT / ".frameworks" / name)
    project.run(tmp_path, "--configfile", str(path))

    tables = tmp_path / "results" / "studies" / "frameworks" / "usage"
    runs = pandas.read_csv(tables / "runs.csv")
    finished = runs[runs["status"] == "finished"]
    assert set(finished["own_framework"]) == {"tensorflow", *installed}
    assert len(finished) == 2 * (1 + len(installed))
    for run in finished["run"]:
        (log_file,) = (tmp_path / "results" / "runs" / run).rglob("log.csv")
        log = pandas.read_csv(log_file)
        assert log.loc[0, ["updates", "examples", "seconds"]].tolist() == [1, 32, 0]
        assert (log["examples"] == 32 * log["updates"]).all()
        assert log["updates"].diff()[1:].eq(46).all() and log["seconds"].is_monotonic_increasing
        assert log["seconds"].iloc[-2] < 1 <= log["seconds"].iloc[-1]
        assert 2 < log["train_loss"][0] < 3 and log["validation_accuracy"][0] < 0.5
        assert log["validation_loss"].iloc[-1] < log["validation_loss"][0]
    assert set(runs.loc[runs["own_framework"] == "mxnet", "status"]) == {"not_installed"}
    assert (finished["memory_peak_mb"] > 50).all() and (finished["examples_per_second"] > 0).all()
    assert finished["process_percent"].between(0, 110, inclusive="right").all()
    usage = pandas.read_csv(tables / "figures" / "usage.csv")
    assert set(usage.dropna(subset="process_percent")["own_framework"]) >= {"tensorflow"}
    claims = pandas.read_csv(tables.parent / "claims.csv").set_index("id")
    assert claims.loc["tensorflow", "verdict"] == "one_seed"
    assert claims.loc["mxnet", ["verdict", "reason"]].tolist() == ["not_testable", "not_installed"]
    published = pandas.read_csv(tables / "published.csv")
    assert published["here"].item() in finished["memory_peak_mb"].tolist()
    assert "Not installed: .frameworks/mxnet" in project.report(tmp_path, "studies/frameworks")
