"""A study whose seeds come in stages: each call makes one, until every statement is decided.

The tests share one copy of the project, in their order.
"""

import csv
import json
import re
import shutil
from collections import Counter

import pytest

import project

pytestmark = pytest.mark.slow

SCRIPT = """
import random, sys

size, seed, rate = sys.argv[1:]
loss = {"8": 4}.get(size, 1) + random.Random(f"{size} {seed}").random()
if rate == "0.4":
    loss *= 9
print(f"step 10: train loss {loss}, val loss {loss}")
"""


def claim(name, **test):
    test = {"experiment": "size", "column": "validation_loss", **test}
    return {"id": name, "document": "D", "place": "f", "sentence": "It is.", "test": test}


def is_above(name, size, other):
    """State that a batch size has a higher loss than another one."""
    sides = {"of": {"batch_size": size}, "to": {"batch_size": other}, "above": 0}
    return claim(name, type="comparison", **sides)


COMMAND = {
    "command": ["python", "script.py", "{batch_size}", "{seed}", "{learning_rate}"],
    "inputs": ["script.py"],
    "log": {"lines": "step {updates}: train loss {train_loss}, val loss {validation_loss}"},
    "seeds": {"until": "decided", "at_most": 9},
    "figures": ["best_losses"],
}
CONFIG = {
    "study": "staged",
    "experiments": {
        "size": {**COMMAND, "vary": {"batch_size": [8, 256, 257], "learning_rate": [0.2]}},
        "race": {**COMMAND, "vary": {"batch_size": [8], "learning_rate": [0.2, 0.4]}},
    },
    "claims": [is_above("far", 8, 256), is_above("near", 257, 256)],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = project.copy(tmp_path_factory.mktemp("project"))
    (folder / "script.py").write_text(SCRIPT)
    project.write_config(folder, CONFIG)
    return folder


def table(folder, number):
    return folder / "results" / "studies" / "staged" / "interims" / f"{number}.csv"


def claims_at(folder, number):
    """Return the rows of an interim analysis, by claim."""
    with open(table(folder, number), encoding="utf-8") as file:
        return {row["statement"]: row for row in csv.DictReader(file)}


def test_a_call_makes_one_stage_and_prints_the_size_of_the_next_one(folder):
    output = project.run(folder)
    (line,) = [line for line in output.splitlines() if "run the same command again" in line]
    assert "size, race" in line and "6 " in line
    assert "about" in line or "at least" in line
    (headline,) = re.findall(r"^results/report.html: (.*)", output, re.M)
    assert "missing" not in headline  # the report is of this stage


def test_the_next_call_runs_only_open_statements_and_rates_in_the_race(folder):
    assert "Nothing is open" in project.run(folder)
    first, second = claims_at(folder, 1), claims_at(folder, 2)
    assert (first["far"]["verdict"], first["far"]["seeds"]) == ("supported", "")
    assert (first["near"]["verdict"], first["near"]["seeds"]) == ("not_resolved", "9")
    assert len(json.loads(first["near"]["runs"])) == 2
    assert (second["far"]["n"], second["near"]["n"], second["near"]["seeds"]) == ("6", "9", "")
    seeds = Counter(row["batch_size"] for row in project.rows(folder, "staged/size"))
    assert seeds == {"8": 6, "256": 9, "257": 9}
    seeds = Counter(row["learning_rate"] for row in project.rows(folder, "staged/race"))
    assert seeds == {"0.2": 6, "0.4": 3}
    rows = project.rows(folder, "staged/race", "race")
    status = {row["learning_rate"]: row["status"] for row in rows}
    assert status == {"0.2": "in_race", "0.4": "left"}
    assert project.planned(folder) == {}


def test_after_a_kill_in_a_stage_it_is_repeated_with_the_same_table(folder):
    before = table(folder, 2).read_text(encoding="utf-8")
    table(folder, 2).unlink()
    shutil.rmtree(max((folder / "results" / "runs").glob("*+seed=8*")))
    planned = project.planned(folder)
    assert (planned["run_command"], planned["interim"]) == (1, 1)
    assert "Nothing is open" in project.run(folder)
    assert table(folder, 2).read_text(encoding="utf-8") == before


def test_a_later_claim_is_analysed_too(folder):
    """It is open with six seeds, after an analysis that decided all other claims."""
    rows = [row for row in project.rows(folder, "staged/size") if row["batch_size"] == "8"]
    mean = sum(float(row["validation_loss"]) for row in rows) / len(rows)
    later = claim("later", type="value", above=mean, cells={"batch_size": 8})
    project.write_config(folder, {**CONFIG, "claims": [*CONFIG["claims"], later]})
    assert project.planned(folder) == {"claims": 1, "interim": 1, "figures": 2, "report": 1}
    project.run(folder, "results/studies/staged/interims/3.csv")
    assert claims_at(folder, 3)["later"]["seeds"] == "9"
