"""A study whose seeds come in stages: it goes on by itself until what it states is decided."""

import csv
import json
import shutil
from collections import Counter

import pytest

import project

pytestmark = pytest.mark.slow
SEEDS = {"until": "decided", "at_most": 9}


def claim(experiment, larger, smaller):
    """States that a larger batch size is less accurate, in logarithms of the training loss."""
    sides = {"of": {"batch_size": larger}, "to": {"batch_size": smaller}, "above": 0}
    test = {"type": "comparison", "experiment": experiment, "column": "train_loss", **sides}
    return {"id": experiment, "document": "D", "place": "f", "sentence": "It is.", "test": test}


CONFIG = {
    "study": "staged",
    "defaults": {
        **{"dataset": "digits", "model": "mlp", "optimizer": "sgd"},
        **{"learning_rate": 0.1, "epochs": 1},
    },
    "experiments": {
        # After few updates losses are far apart; of sizes as good as equal seeds decide nothing.
        "far": {"vary": {"batch_size": [8, 512]}, "seeds": SEEDS, "measure": ["evaluate"]},
        "near": {"vary": {"batch_size": [256, 257]}, "seeds": SEEDS, "measure": ["evaluate"]},
    },
    "claims": [claim("far", 512, 8), claim("near", 257, 256)],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return project.finished(tmp_path_factory.mktemp("project"), CONFIG)


def look(folder, number):
    """Returns experiment -> the row of its claim at a look."""
    path = folder / "results" / "studies" / "staged" / "looks" / f"{number}.csv"
    with open(path, encoding="utf-8") as file:
        return {row["experiment"]: row for row in csv.DictReader(file)}


def test_only_what_is_open_gets_more_seeds(finished):
    first, second = look(finished, 1), look(finished, 2)
    assert (first["far"]["verdict"], first["far"]["seeds"]) == ("supported", "")
    assert (first["near"]["verdict"], first["near"]["seeds"]) == ("not_resolved", "9")
    assert {run.split("+")[2] for run in json.loads(first["near"]["runs"])} == {"bs=256", "bs=257"}
    assert (second["far"]["n"], second["near"]["n"], second["near"]["seeds"]) == ("6", "9", "")
    for name, seeds in (("far", 6), ("near", 9)):
        runs = project.rows(finished, f"staged/{name}")
        assert {*Counter(row["batch_size"] for row in runs).values()} == {seeds}
    assert project.planned(finished) == {}


def test_a_look_that_was_lost_is_made_again_at_the_same_tables(finished):
    path = finished / "results" / "studies" / "staged" / "looks" / "2.csv"
    before = path.read_text(encoding="utf-8")
    path.unlink()
    assert set(project.planned(finished)) == {"look"}
    project.run(finished)
    assert path.read_text(encoding="utf-8") == before


def test_a_study_that_was_stopped_after_a_look_goes_on_with_its_stage(finished):
    """As one that was killed in the second stage: some of its runs, and no table of it."""
    folder = finished / "results" / "studies" / "staged"
    (folder / "looks" / "2.csv").unlink()
    for run in (finished / "results" / "runs").glob("*+seed=8*"):
        shutil.rmtree(run)
    planned = project.planned(finished)
    assert (planned["train"], planned["evaluate"], planned["look"]) == (2, 2, 1)
    project.run(finished)
    assert look(finished, 2)["near"]["n"] == "9" and project.planned(finished) == {}


def test_what_is_stated_later_is_looked_at_too(finished):
    """A claim that six seeds leave open, after a look that gave none: the study goes on."""
    runs = [row for row in project.rows(finished, "staged/far") if row["batch_size"] == "8"]
    mean = sum(float(row["train_loss"]) for row in runs) / len(runs)
    test = {"type": "value", "experiment": "far", "column": "train_loss", "above": mean}
    later = {**claim("far", 512, 8), "id": "later", "test": {**test, "cells": {"batch_size": 8}}}
    project.write_config(finished, {**CONFIG, "claims": [*CONFIG["claims"], later]})
    assert project.planned(finished) == {"claims": 1, "look": 1, "figures": 2, "report": 1}
    project.run(finished)
    counts = Counter(row["batch_size"] for row in project.rows(finished, "staged/far"))
    assert counts == {"8": 9, "512": 6} and project.planned(finished) == {}
