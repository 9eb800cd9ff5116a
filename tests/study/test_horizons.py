"""What is refused of trainings whose rate falls towards the horizon, and with which reason."""

import pytest

from batchscope import figures
from batchscope.study import planner
from small_study import config, problems

REASON = (
    "with schedule cosine, whose rate falls towards the horizon: before its end a training is no "
    "shorter training; schedule constant is expected"
)
NO_BUDGET = f"received {REASON}, or no budgets: equal horizons are compared anyway."
COSINE = {"schedule": "cosine"}
SIZES = {"vary": {"batch_size": [16, 32, 64]}}


@pytest.mark.parametrize(
    ("experiment", "problem"),
    [
        (
            {"at_epochs": [1, 2], "measure": ["evaluate"]},
            f"at_epochs: received {REASON}, or a run for each number of epochs.",
        ),
        ({"budgets": {"updates": 50}}, f"budgets.updates: {NO_BUDGET}"),
        ({"budgets": {"target": {"validation_loss": 0.5}}}, f"budgets.target: {NO_BUDGET}"),
        (
            {"figures": ["loss_curves", "critical_batch_size"]},
            f"figures[1]: received 'critical_batch_size' {REASON}, or another figure.",
        ),
        (
            {"vary": {}, "cases": [{"batch_size": 16, "epochs": 2}, {"batch_size": 32}]},
            f"cases: received epochs that follow the batch size, {REASON}, or the same epochs at "
            "every batch size.",
        ),
    ],
)
def test_nothing_is_read_before_the_end(experiment, problem):
    given = {**SIZES, **experiment}
    defaults = {**COSINE, "epochs": 3}
    assert problems(config(experiment=given, defaults=defaults)) == [f"experiments.a.{problem}"]
    constant = planner.make(config(experiment=given, defaults={"epochs": 3}))
    assert constant.experiments["a"].trainings.runs


def test_a_claim_reads_no_training_at_a_budget():
    test = {"type": "value", "experiment": "a", "column": "validation_loss", "above": 0}
    test |= {"table": "trajectories", "cells": {"updates": 100, "batch_size": 16}}
    claim = {"id": "c", "document": "D", "place": "p", "sentence": "It is.", "test": test}
    raw = config(experiment=SIZES, claims=[claim])
    assert planner.make(raw).claims
    (problem,) = problems(config(experiment=SIZES, claims=[claim], defaults=COSINE))
    assert problem == f"claims[0].test.table: received trajectories {REASON}, or another table."


def test_figures_of_prefixes_are_not_drawn_unasked():
    def drawn(**defaults):
        raw = config(experiment=SIZES, defaults={"evaluate_every": 100, **defaults})
        return figures.drawn(planner.make(raw).experiments["a"])

    left_out = ["progress", "advice", "critical_batch_size"]
    assert [name for name in drawn() if name not in drawn(**COSINE)] == left_out
    assert "verdict_matrix" in drawn(**COSINE)


def test_each_horizon_has_its_own_trainings():
    vary = {"batch_size": [16, 32, 64], "epochs": [2, 4], "schedule": ["constant", "linear"]}
    study = planner.make(config(experiment={"vary": vary}))
    assert len(study.runs) == 24
