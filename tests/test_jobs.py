"""What the rules are told of a study."""

import dataclasses
from pathlib import Path

import pytest

from batchscope import absence, figures, jobs, outputs, plan


def made(**experiment) -> jobs.Jobs:
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
    return jobs.Jobs(plan.make(config), "config.yaml", "full", False)


@pytest.mark.parametrize(
    ("device", "replicas", "training", "measuring"),
    [("cpu", 1, 0, 0), ("cpu", 4, 0, 0), ("gpu", 1, 1, 1), ("gpu", 4, 4, 1)],
)
def test_a_training_claims_a_gpu_for_every_replica(device, replicas, training, measuring):
    for run in made(set={"device": device, "replicas": replicas}).study.runs:
        assert jobs.gpus(run) == training
        assert jobs.measure_gpus(run) == measuring


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


# --- Targets -----------------------------------------------------------------------------------

MEASURED = {"evaluate": None, "time_epoch": None, "landscape": None}


def every_file(study: jobs.Jobs) -> list[str]:
    """Every file that a study makes, by what the plan knows of."""
    (experiment,) = study.study.experiments.values()
    measured = outputs.measure_files(study.study, experiment, "results")
    return [
        *study.data_records(),
        *study.run_records(),
        *map(str, measured),
        *(str(path.with_suffix(".npz")) for path, name in measured.items() if name == "landscape"),
        *study.tables(),
        *study.figures(),
    ]


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A study of which every file is there, empty."""
    monkeypatch.chdir(tmp_path)
    study = made(measure=MEASURED)
    for path in (study.report, *every_file(study)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    return study


def test_the_target_of_a_whole_study_is_its_report(whole):
    assert whole.targets() == [whole.report]


def test_whatever_is_missing_behind_a_report_is_a_target(whole):
    for path in every_file(whole):
        Path(path).unlink()
        assert set(whole.targets()) - {whole.report} == {path}
        Path(path).touch()


def test_each_file_of_each_figure_is_one(whole):
    drawn = figures.drawn(whole.study.experiments["a"])
    names = {Path(path).name for path in whole.figures()}
    assert {"accuracy.svg", "accuracy.png", "accuracy.csv", "figures.json"} <= names
    assert len(names) == 3 * len(drawn) + 1


def test_a_partial_report_asks_for_no_record(whole):
    partial = dataclasses.replace(whole, partial=True)
    missing = [*partial.run_records(), partial.tables()[0]]
    for path in missing:
        Path(path).unlink()
    assert partial.targets() == [partial.report, missing[-1]]


def test_what_needs_what_is_not_here_is_no_target(whole, monkeypatch):
    for path in (*whole.data_records(), *whole.run_records(), *map(str, Path().rglob("*.json"))):
        Path(path).unlink(missing_ok=True)
    monkeypatch.setattr(absence, "of", lambda factors: absence.GPU)
    assert [path for path in whole.targets() if not path.startswith("results/studies")] == [
        whole.report
    ]


def test_deleted_data_are_made_alone(whole, capsys):
    """Whatever else is missing: Snakemake would train again what was trained on them."""
    (data,), run = whole.data_records(), whole.run_records()[0]
    Path(data).unlink()
    Path(run).unlink()
    assert whole.targets() == [data]
    assert "made alone now" in capsys.readouterr().err
    for path in every_file(whole):
        Path(path).unlink(missing_ok=True)
    assert {data, run} < set(whole.targets())  # nothing was made of them yet
