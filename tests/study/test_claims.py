"""What documents state: reading it, and what the plan says of what cannot be decided."""

import math

import pytest

from batchscope.rules import inputs
from batchscope.rules.study import CalledStudy
from batchscope.study import planner, tables, tasks
from batchscope.study.claims import Trend
from batchscope.tables import long_tables


def study(*tests, seeds=6, **claim):
    """Returns a study whose document states one claim per test."""
    return {
        "study": "claims",
        "experiments": {
            "gap": {
                "set": {"model": "small_cnn", "dataset": "digits", "epochs": 2},
                "cases": [
                    {"optimizer": "sgd", "learning_rate": 0.1},
                    {"optimizer": "adam", "learning_rate": 0.001},
                ],
                "vary": {"batch_size": [16, 32, 64]},
                "seeds": seeds,
                "at_epochs": [1, 2],
                "measure": ["evaluate", "time_epoch"],
                "figures": ["accuracy_by_epochs", "accuracy", "time"],
            },
            "times": {
                "set": {"model": "small_cnn", "dataset": "digits", "optimizer": "sgd"},
                "vary": {"batch_size": [16, 32, 64], "threads": [1, "all"]},
                "timing": ["throughput"],
            },
        },
        "claims": [
            {
                **{"id": f"c{index}", "document": "D", "place": "Figure 1", "sentence": "S"},
                **claim,
                "test": {"experiment": "gap", "column": "test_accuracy", **test},
            }
            for index, test in enumerate(tests)
        ],
    }


def planned(*tests, **given):
    return planner.make(study(*tests, **given))


FALLS = {"type": "trend", "direction": "falls"}


def test_a_claim_is_read_with_values_of_factors():
    made = planned(
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
    first, second, third, fourth, fifth, last = (claim.test for claim in made.claims)
    assert first.cells == {"at_epoch": (1,), "learning_rate": (0.001,)}
    assert second.sides == ({"batch_size": (64,)}, {"batch_size": (16,)})
    assert second.bounds == (0, math.inf)
    assert third.cells == {"threads": (0,)} and third.bounds == (0.8, 1.25)
    assert fourth.bounds == (pytest.approx(0.85), pytest.approx(0.95))
    assert fifth.chosen == (16, 32) and fifth.best == "highest"
    assert last.sides == ({"optimizer": ("sgd",)}, {"optimizer": ("adam",)})
    assert [test.timed for test in (first, third)] == [False, True]
    # The first of the experiment's figures that shows it.
    assert [claim.figure for claim in made.claims[:2]] == ["accuracy_by_epochs"] * 2


def test_claims_change_no_run():
    without = study()
    del without["claims"]
    stated, none = (planner.make(one) for one in (study(FALLS), without))
    assert stated.runs == none.runs
    called = CalledStudy(stated, "config.yaml", "full", False)
    assert inputs.claims(called) == ["results/studies/claims/claims.csv"]
    assert inputs.claimed_tables(called) == ["results/studies/claims/gap/runs.csv"]


def above(of, to):
    return {"type": "comparison", "of": of, "to": to, "above": 0}


@pytest.mark.parametrize(
    ("test", "lacks"),
    [
        ({**FALLS, "cells": {"batch_size": [16, 512]}}, "no batch size 512"),
        (
            {**FALLS, "cells": {"optimizer": "sgd", "learning_rate": 0.001}},
            "no optimizer sgd with learning rate 0.001",
        ),
        ({**FALLS, "table": "at_epochs", "cells": {"at_epoch": 3}}, "no at epoch 3"),
        ({**FALLS, "cells": {"batch_size": 16}}, "1 value of batch size where 2 are needed"),
        (above({"machine": "other"}, {"machine": "local"}), "no machine other"),
    ],
)
def test_cells_that_the_grid_lacks_are_reported(test, lacks):
    (warning,) = planned(test).warnings
    assert warning.startswith("claims: ") and lacks in warning and "c0" in warning


@pytest.mark.parametrize(
    ("budget", "lacks"),
    [
        ({"updates": 34}, ""),  # 1,087 examples: two epochs of 17 at batch size 64
        ({"updates": 35}, "no update 35 in its shortest training of 34 updates"),
        ({"updates": 35, "batch_size": [16, 32]}, ""),
        ({"epoch": 3}, "no epoch 3 in its shortest training of 2 epochs"),
        ({"examples": 2175}, "no example 2175 in its shortest training of 2174 examples"),
        ({"seconds": 1e6}, ""),  # which nobody knows
    ],
)
def test_a_budget_beyond_the_shortest_training_is_reported(budget, lacks):
    made = planned({**FALLS, "table": "trajectories", "column": "validation_loss", "cells": budget})
    assert [lacks in warning for warning in made.warnings] == [True] * bool(lacks)


def test_another_machine_is_missed_only_where_it_is_no_requirement():
    test = above({"machine": "other"}, {"machine": "local"})
    assert planned(test, requires="machine").warnings == ()


TIMED = {"experiment": "times", "table": "throughput", "column": "seconds_per_step"}


@pytest.mark.parametrize(
    ("tests", "seeds", "few", "claims"),
    [
        ([FALLS] * 8, 3, ("experiments.gap", "3 seeds"), "c0, c1, c2, c3, c4, c5 and 2 more"),
        ([{**FALLS, **TIMED}], 6, ("experiments.times", "1 repeat of the timing"), "c0"),
    ],
)
def test_too_few_replicates_ever_to_decide_it_are_reported(tests, seeds, few, claims):
    warnings = planned(*tests, seeds=seeds).warnings
    (warning,) = [line for line in warnings if line.startswith("claims: ")]
    assert all(part in warning for part in (*few, "at least 6", claims))


def test_every_table_that_a_claim_may_be_of_has_its_columns():
    for name, about in tables.CLAIMED.items():
        own = {*tables.claimed(name, {"evaluate": {}}, tasks.TASKS), *about.keys}
        if name in tables.OF_TIMINGS:
            assert own <= {*tables.TABLES[name].columns}, name
        elif name != "runs":
            assert own <= {*long_tables.FIRST, *about.columns}, name
    assert "test_accuracy" in tables.claimed("runs", {"evaluate": {}}, tasks.TASKS)
    assert "run" not in tables.claimed("runs", {"evaluate": {}}, tasks.TASKS)
    assert "step_verdict" not in tables.claimed("sweeps", {}, tasks.TASKS)  # words


def test_only_a_trend_of_a_whole_experiment_is_asked_of_its_answers():
    whole = {**FALLS, "experiment": "gap", "column": "test_accuracy"}
    assert Trend(**whole).trend_experiment == "gap"
    for other in ({"cells": {"batch_size": [16, 32]}}, {"table": "at_epochs"}, {"over": "epochs"}):
        assert Trend(**whole, **other).trend_experiment == ""
