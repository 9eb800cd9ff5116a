"""What a study is of, in one line."""

from __future__ import annotations

from batchscope.report import content, first_screen, runs_table


def test_the_scope_names_model_data_machine_runs_and_time(troubled):
    study, inputs = troubled
    scope = first_screen.scope(study, runs_table.complete(study, inputs.rows), inputs)
    assert scope.startswith("small_cnn on digits; Example CPU <4> @ 2.4 GHz (8 cores); ")
    assert "30 training runs (1 diverged, 1 missing, 1 out of memory), 2 min of training" in scope


def test_many_models_are_counted_and_gpus_come_first(finished):
    study, _, path = finished
    rows = {
        "gap": [
            {"run": str(n), "model": f"m{n}", "dataset": "d", "status": "finished"}
            for n in range(4)
        ]
    }
    machine = {"machine": {"cpu": "A  CPU", "cores": 8, "gpu": ["A GPU", "A GPU"]}}
    inputs = content.Inputs(str(path), "", rows, runs={"0": machine})
    scope = first_screen.scope(study, rows, inputs)
    assert scope == "4 models on d; A GPU, A CPU (8 cores); 4 training runs."
