"""What the rules are told of a study."""

from pathlib import Path

import pytest

from batchscope import project_files, snakefile
from batchscope.study import plan


def made(**experiment) -> snakefile.Jobs:
    config = {
        "study": "s",
        "defaults": {
            "dataset": "digits",
            "model": "small_cnn",
            "optimizer": "sgd",
            "learning_rate": 0.1,
            "epochs": 2,
        },
        "experiments": {"a": {"vary": {"batch_size": [16, 32]}, "seeds": 1, **experiment}},
    }
    return snakefile.Jobs(plan.make(config), "config.yaml", "full", False)


@pytest.mark.parametrize(
    ("device", "replicas", "training", "measuring"),
    [("cpu", 1, 0, 0), ("cpu", 4, 0, 0), ("gpu", 1, 1, 1), ("gpu", 4, 4, 1)],
)
def test_a_training_claims_a_gpu_for_every_replica(device, replicas, training, measuring):
    for run in made(set={"device": device, "replicas": replicas}).study.runs:
        assert snakefile.gpus(run) == training
        assert snakefile.measure_gpus(run) == measuring


def test_tables_follow_what_evaluate_writes_after_each_epoch():
    study = made(set={"epochs": 4}, measure=["evaluate"], at_epochs=[4, 1])
    small, large = study.study.runs
    assert [path for path in study.table_inputs("a") if "/evaluate/" in path] == [
        f"results/runs/{run}/evaluate/{name}.json"
        for name, run in (
            *(("default", run) for run in (small, large)),
            *((name, run) for run in (small, large) for name in ("at=1", "at=4")),
        )
    ]


def test_tables_follow_every_file_that_they_read():
    study = made(measure={"line": {"between": {"batch_size": [16, 32]}}, "landscape": None})
    small, large = study.study.runs
    assert study.table_inputs("a") == [
        f"results/runs/{small}/record.json",
        f"results/runs/{large}/record.json",
        f"results/runs/{small}/line_to/{large}/default.json",
        f"results/runs/{small}/landscape/default.json",
        f"results/runs/{small}/landscape/default.npz",
        f"results/runs/{large}/landscape/default.json",
        f"results/runs/{large}/landscape/default.npz",
    ]


@pytest.mark.parametrize(
    ("code", "room"),
    [
        (snakefile.TABLE_CODE, "tables"),
        (snakefile.FIGURE_CODE, "figures"),
        (snakefile.REPORT_CODE, "report"),
    ],
    ids=["tables", "figures", "report"],
)
def test_a_cheap_step_depends_on_every_module_of_its_own_and_of_what_it_computes(code, room):
    library = project_files.WORKFLOW / "batchscope"
    expected = [
        path for each in ("catalogue", "analysis", room) for path in (library / each).rglob("*.py")
    ]
    assert len(expected) > 40
    assert {path.resolve() for path in expected} <= {Path(path).resolve() for path in code}
