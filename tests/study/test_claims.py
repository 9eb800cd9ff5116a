"""Claims of documents: reading them."""

import math

import pytest

from batchscope.rules import inputs
from batchscope.rules.study import CalledStudy
from batchscope.study import planner, table_entries, tasks
from batchscope.study.claims import Trend
from batchscope.tables import long_tables

OF_GAP = {"experiment": "gap", "column": "test_accuracy"}
FALLS = {"type": "trend", "direction": "falls"}


def study(*tests):
    """Return a study with one claim per test."""
    words = {"document": "D", "place": "Figure 1", "sentence": "S"}
    return {
        "study": "claims",
        "defaults": {"model": "small_cnn", "dataset": "digits", "optimizer": "sgd", "epochs": 2},
        "experiments": {
            "gap": {
                "cases": [
                    {"optimizer": "sgd", "learning_rate": 0.1},
                    {"optimizer": "adam", "learning_rate": 0.001},
                ],
                "vary": {"batch_size": [16, 32, 64]},
                "seeds": 6,
                "at_epochs": [1, 2],
                "measure": ["evaluate", "time_epoch"],
                "figures": ["accuracy", "accuracy_by_epochs", "time"],
            },
            "times": {
                "vary": {"batch_size": [16, 32, 64], "threads": [1, "all"]},
                "timing": ["throughput"],
            },
        },
        "claims": [
            {"id": f"c{index}", **words, "test": {**OF_GAP, **test}}
            for index, test in enumerate(tests)
        ],
    }


def test_a_claim_is_read_with_values_of_factors():
    claims = study(
        {**FALLS, "table": "at_epochs", "cells": {"at_epoch": 1, "learning_rate": 0.001}},
        {"type": "comparison", "of": {"batch_size": 64}, "to": {"batch_size": 16}, "above": 0},
        {
            **{"type": "equivalence", "experiment": "times", "table": "throughput"},
            **{"column": "examples_per_second", "cells": {"threads": "all"}},
            **{"margin": 1.25, "scale": "ratio"},
        },
        {"type": "value", "near": 0.9, "margin": 0.05, "cells": {"batch_size": [16, 32]}},
        {"type": "argmax", "is": [16, 32]},
        {"type": "order", "order": [{"optimizer": "sgd"}, {"optimizer": "adam"}]},
    )
    made = planner.make(claims)
    first, second, third, fourth, fifth, last = (claim.test for claim in made.claims)
    assert first.cells == {"at_epoch": (1,), "learning_rate": (0.001,)}
    assert second.sides == ({"batch_size": (64,)}, {"batch_size": (16,)})
    assert second.bounds == (0, math.inf)
    assert third.cells == {"threads": (0,)} and third.bounds == (0.8, 1.25)
    assert fourth.bounds == (pytest.approx(0.85), pytest.approx(0.95))
    assert fifth.chosen == (16, 32) and fifth.best == "highest"
    assert last.sides == ({"optimizer": ("sgd",)}, {"optimizer": ("adam",)})
    # The figure of the table, or else the first one that shows the column.
    assert [claim.figure for claim in made.claims[:2]] == ["accuracy_by_epochs", "accuracy"]


def test_a_claim_needs_the_table_of_its_experiment():
    called = CalledStudy(planner.make(study(FALLS)), "config.yaml", "full", False)
    assert inputs.claims_table(called) == ["results/studies/claims/claims.csv"]
    assert inputs.tables_behind_claims(called) == ["results/studies/claims/gap/runs.csv"]


def test_every_table_that_a_claim_may_be_of_has_its_columns():
    for name, about in table_entries.CLAIMABLE_TABLES.items():
        own = {*table_entries.claimable_columns(name, {"evaluate": {}}, tasks.TASKS), *about.keys}
        if name in table_entries.TIMING_TABLES:
            assert own <= {*table_entries.TABLES[name].columns}, name
        elif name != "runs":
            assert own <= {*long_tables.FIRST_COLUMNS, *about.columns}, name
    assert "test_accuracy" in table_entries.claimable_columns("runs", {"evaluate": {}}, tasks.TASKS)
    assert "run" not in table_entries.claimable_columns("runs", {"evaluate": {}}, tasks.TASKS)
    assert "step_verdict" not in table_entries.claimable_columns("sweeps", {}, tasks.TASKS)  # words


def test_only_a_trend_of_a_whole_experiment_is_asked_of_its_answers():
    whole = {**FALLS, **OF_GAP}
    assert Trend(**whole).trend_experiment == "gap"
    for other in ({"cells": {"batch_size": [16, 32]}}, {"table": "at_epochs"}, {"over": "epochs"}):
        assert Trend(**whole, **other).trend_experiment == ""
