"""What the rules receive of a study."""

import dataclasses
import importlib.util
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import small_study
from batchscope import snakefile
from batchscope.catalogue.run_names import ENTRIES
from batchscope.host import absence
from batchscope.store import job_files
from batchscope.study import planner

OWN = {"mine": str(Path(__file__).parents[1] / "data" / "noisy_model.py")}
RULES = Path(__file__).parents[2] / "workflow" / "rules"


def made(models=None, **experiment) -> snakefile.Jobs:
    config = small_study.config(models=models or {}, experiment={"seeds": 1, **experiment})
    return snakefile.Jobs(planner.make(config), "config.yaml", "full", False)


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
    ("models", "partial", "installed", "started"),
    [(OWN, False, True, 1), (OWN, True, True, 0), (OWN, False, False, 0), ({}, False, True, 0)],
)
def test_own_models_are_built_where_they_can_be(
    models, partial, installed, started, tmp_path, monkeypatch, capfd
):
    study = made(models, vary={"model": [*models, "small_cnn"]}, set={"batch_size": 8}).study
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: installed or None)
    calls = []
    done = subprocess.CompletedProcess([], returncode=0)
    monkeypatch.setattr(subprocess, "run", lambda command: calls.append(command) or done)
    snakefile.Jobs(study, "config.yaml", "full", partial).check_models()
    assert len(calls) == started
    assert ("models: not checked before" in capfd.readouterr().err) == (not installed)


def test_own_models_of_which_something_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv(absence.VARIABLE, "")
    monkeypatch.setattr(absence, "of", lambda factors: factors["device"] == "gpu" or None)
    vary = {"model": ["small_cnn", "mine"], "batch_size": [16]}
    study = made(OWN, vary=vary, measure=["evaluate"]).study
    (token,) = [model for model, path in study.models.items() if path]
    (dataset,) = study.datasets
    assert job_files.own_models(study, tmp_path) == {(dataset, token)}
    experiment = study.experiments["a"]
    trainings = [job_files.training_job(tmp_path, run) for run in study.runs]
    measures = job_files.measure_jobs(study, experiment, tmp_path)
    *paths, last = [job.path for job in (*trainings, *measures)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert job_files.own_models(study, tmp_path) == {(dataset, token)}
    last.parent.mkdir(parents=True)
    last.touch()
    assert job_files.own_models(study, tmp_path) == set()
    # What waits for a GPU is not made here.
    for other in (
        made(vary=vary | {"model": ["small_cnn"]}),
        made(OWN, vary=vary, set={"device": "gpu"}),
    ):
        assert job_files.own_models(other.study, tmp_path) == set()


@pytest.mark.parametrize("step", ["prepare_data", "train"])
def test_a_log_is_found_where_its_rule_writes_it(step):
    rules = "".join(path.read_text() for path in sorted(RULES.glob("*.smk")))
    body = re.search(rf"^rule {step}:\n((?:    .*\n|\n)+)", rules, re.M)[1]
    record = re.search(r"output:\n.*?\"(results/[^\"]+\.json)\"", body, re.S)[1]
    log = re.search(r"log:\n +\"([^\"]+)\"", body)[1]
    assert job_files.log_path("results", record).as_posix() == log


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_a_log_is_found_where_the_rule_of_an_entry_writes_it(entry):
    record = f"{snakefile.output(entry)}.json"
    assert job_files.log_path("results", record).as_posix() == snakefile.log(entry)


def test_a_partial_report_follows_the_logs_that_it_quotes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = made(measure=["evaluate"])
    small, large = study.study.runs
    logs = [f"logs/evaluate/{small}/default.log", f"logs/train/{large}.log"]
    for log in [*logs, f"logs/train/{small}.log"]:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        Path(log).touch()
    trained = Path("results/runs") / small / "record.json"
    trained.parent.mkdir(parents=True)
    trained.touch()
    assert study.quoted_logs() == []
    assert dataclasses.replace(study, partial=True).quoted_logs() == logs


def test_timing_jobs_take_turns_before_all_else():
    turn = snakefile.turn("time_epoch")
    names = ("default", "bl=3", "bl=3+rep=2", "rep=6", "rep=100")
    first, same, second, sixth, last = (turn(SimpleNamespace(settings=name)) for name in names)
    assert first == same > second > sixth > last > 0


MEASURED = {"evaluate": None, "time_epoch": None, "landscape": None}


def every_file(study: snakefile.Jobs) -> list[str]:
    """Every file that a study makes, by what the plan knows of."""
    (experiment,) = study.study.experiments.values()
    measured = [
        str(job.path.with_suffix(suffix))
        for job in job_files.measure_jobs(study.study, experiment, "results")
        for suffix in (".json", *ENTRIES[job.measure].also_writes)
    ]
    made = [*study.data_records(), *study.run_records(), *dict.fromkeys(measured)]
    return [*made, *study.tables(), *study.figures()]


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


def test_many_figures_are_drawn_by_two_processes(whole):
    assert whole.figure_processes("a") == 2
    assert made().figure_processes("a") == 1


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


def test_the_ledger_reads_the_claims_of_every_study_that_has_some(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = made(vary={"batch_size": [16]})
    assert study.ledger_tables() == []
    for name in ("second", "first"):
        folder = tmp_path / "results" / "studies" / name
        folder.mkdir(parents=True)
        (folder / "claims.csv").touch()
    (tmp_path / "results" / "studies" / "third").mkdir()
    assert study.ledger_tables() == [
        f"results/studies/{name}/claims.csv" for name in ("first", "second")
    ]
