"""A study whose seeds come in stages: each command makes one, until every statement is decided."""

import csv
import json
import re
import shutil
import subprocess
import sys
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
        # The lower rate learns nothing in an epoch.
        "race": {"vary": {"batch_size": [8], "learning_rate": [1.0e-5, 0.2]}, "seeds": SEEDS},
    },
    "claims": [claim("far", 512, 8), claim("near", 257, 256)],
}


@pytest.fixture(scope="module")
def first_stage(tmp_path_factory):
    """The project and the output of its first command."""
    folder = project.copy(tmp_path_factory.mktemp("project"))
    project.write_config(folder, CONFIG)
    return folder, project.run(folder)


@pytest.fixture(scope="module")
def finished(first_stage):
    folder, _ = first_stage
    command = [sys.executable, "workflow/run.py", "decide", "--cores", "2"]
    subprocess.run(command, cwd=folder, check=True, timeout=600)
    return folder


def table(folder, number):
    return folder / "results" / "studies" / "staged" / "interims" / f"{number}.csv"


def claims_at(folder, number):
    """Return experiment -> the row of its claim in an interim analysis."""
    with open(table(folder, number), encoding="utf-8") as file:
        return {row["experiment"]: row for row in csv.DictReader(file)}


def seeds(folder, experiment):
    """Return batch size -> number of seeds in the table of runs."""
    return Counter(row["batch_size"] for row in project.rows(folder, f"staged/{experiment}"))


def test_a_command_makes_one_stage_and_says_what_the_next_one_takes(first_stage):
    folder, output = first_stage
    (line,) = [line for line in output.splitlines() if "run the same command again" in line]
    assert "near" in line and "far" not in line and "9 trainings" in line
    assert "about" in line or "at least" in line
    (headline,) = re.findall(r"^results/report.html: (.*)", output, re.M)
    assert "missing" not in headline  # the report is of this stage


def test_only_open_statements_get_more_seeds(finished):
    first, second = claims_at(finished, 1), claims_at(finished, 2)
    assert (first["far"]["verdict"], first["far"]["seeds"]) == ("supported", "")
    assert (first["near"]["verdict"], first["near"]["seeds"]) == ("not_resolved", "9")
    assert {run.split("+")[2] for run in json.loads(first["near"]["runs"])} == {"bs=256", "bs=257"}
    assert (second["far"]["n"], second["near"]["n"], second["near"]["seeds"]) == ("6", "9", "")
    for name, count in (("far", 6), ("near", 9)):
        assert {*seeds(finished, name).values()} == {count}


def test_a_learning_rate_that_is_worse_leaves_the_race(finished):
    by_rate = Counter(row["learning_rate"] for row in project.rows(finished, "staged/race"))
    assert by_rate == {"1e-05": 3, "0.2": 6}
    rows = project.rows(finished, "staged/race", "race")
    assert {row["learning_rate"]: row["status"] for row in rows} == {
        "1e-05": "left",
        "0.2": "in_race",
    }


def test_nothing_is_left_to_be_done(finished):
    assert project.planned(finished) == {}


@pytest.mark.parametrize("content", [None, "", "header", "words"])
def test_a_lost_or_damaged_last_analysis_is_repeated_with_the_same_tables(finished, content):
    path = table(finished, 2)
    before = path.read_text(encoding="utf-8")
    if content is None:
        path.unlink()
    else:
        path.write_text(before.splitlines()[0] + "\n" if content == "header" else content)
        done = project.snakemake(finished, "--cores", "2")
        assert done.returncode == 1 and "interims/2.csv" in done.stdout
        assert "Delete it and run snakemake again" in done.stdout
        path.unlink()
    assert set(project.planned(finished)) == {"interim"}
    assert "Nothing is open" in project.run(finished)
    assert path.read_text(encoding="utf-8") == before and not table(finished, 3).exists()


def test_after_the_loss_of_an_earlier_analysis_all_are_repeated_with_the_same_runs(finished):
    before = [table(finished, number).read_text(encoding="utf-8") for number in (1, 2)]
    table(finished, 1).unlink()
    done = project.snakemake(finished, "--cores", "2")
    assert done.returncode == 1 and "interims/1.csv: missing" in done.stdout
    assert "delete results/studies/staged/interims " in done.stdout
    shutil.rmtree(table(finished, 1).parent)
    assert "train" not in project.planned(finished)
    assert "run the same command again" in project.run(finished)
    assert "Nothing is open" in project.run(finished)
    after = [table(finished, number).read_text(encoding="utf-8") for number in (1, 2)]
    assert after == before and not table(finished, 3).exists()


def test_a_study_that_was_stopped_continues_its_stage(finished):
    """It was killed in the second stage: some of its runs exist, and no table."""
    table(finished, 2).unlink()
    for run in (finished / "results" / "runs").glob("*+seed=8*"):
        shutil.rmtree(run)
    planned = project.planned(finished)
    assert (planned["train"], planned["evaluate"], planned["interim"]) == (2, 2, 1)
    project.run(finished)
    assert claims_at(finished, 2)["near"]["n"] == "9" and project.planned(finished) == {}


def test_a_later_claim_is_analysed_too(finished):
    """Six seeds leave it open, after an analysis that left nothing open."""
    runs = [row for row in project.rows(finished, "staged/far") if row["batch_size"] == "8"]
    mean = sum(float(row["train_loss"]) for row in runs) / len(runs)
    test = {"type": "value", "experiment": "far", "column": "train_loss", "above": mean}
    later = {**claim("far", 512, 8), "id": "later", "test": {**test, "cells": {"batch_size": 8}}}
    project.write_config(finished, {**CONFIG, "claims": [*CONFIG["claims"], later]})
    assert project.planned(finished) == {"claims": 1, "interim": 1, "figures": 3, "report": 1}
    assert "run the same command again" in project.run(finished)
    project.run(finished)
    assert seeds(finished, "far") == {"8": 9, "512": 6} and project.planned(finished) == {}
