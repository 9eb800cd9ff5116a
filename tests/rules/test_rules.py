"""Targets, inputs and resources of a study's rules; leftovers of killed processes."""

import dataclasses
import logging
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import own_table
import project
import small_study
from batchscope.core import disk
from batchscope.host import memory_limits, requirements
from batchscope.rules import inputs, resources, session
from batchscope.rules.study import CalledStudy
from batchscope.store import paths
from batchscope.study import planner

OWN = {"mine": str(Path(__file__).parents[1] / "data" / "noisy_model.py")}


def made(models=None, claims=None, **experiment) -> CalledStudy:
    config = small_study.config(models=models or {}, experiment={"seeds": 1, **experiment})
    config |= {"claims": claims} if claims else {}
    return CalledStudy(planner.make(config), "config.yaml", "full", False)


@pytest.mark.parametrize(
    ("device", "replicas", "training", "measuring"), [("cpu", 4, 0, 0), ("gpu", 4, 4, 1)]
)
def test_a_training_claims_a_gpu_for_every_replica(device, replicas, training, measuring):
    for run in made(set={"device": device, "replicas": replicas}).plan.runs:
        assert resources.gpus(run) == training
        assert resources.measure_gpus(run) == measuring


def test_tables_follow_every_file_that_they_read():
    study = made(measure={"line": {"between": {"batch_size": [16, 32]}}, "landscape": None})
    small, large = study.plan.runs
    assert inputs.table_sources(study, "a") == [
        f"results/runs/{small}/record.json",
        f"results/runs/{large}/record.json",
        f"results/runs/{small}/line_to/{large}/default.json",
        f"results/runs/{small}/landscape/default.json",
        f"results/runs/{small}/landscape/default.npz",
        f"results/runs/{large}/landscape/default.json",
        f"results/runs/{large}/landscape/default.npz",
    ]


NUMBERS = {"batch_size": [16, 32], "test_accuracy": [0.5, 0.6]}
OTHERS = {**NUMBERS, "test_accuracy": [0.5, 0.7]}


def published(*numbers, figure="Table 4", found="It rises."):
    words = {"figure": figure, "found": found}
    return {"published": {"accuracy": {**words, **({"numbers": [*numbers]} if numbers else {})}}}


def claim(**test):
    """The study with the claim of a trend, which trends.csv tests in this direction."""
    test = {"type": "trend", "experiment": "a", "column": "test_accuracy", **test}
    claims = [{"id": "c", "document": "D", "place": "P", "sentence": "S", "test": test}]
    return {"claims": claims, "figures": ["accuracy"]}


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        (claim(direction="falls"), claim(direction="rises"), True),
        ({"budgets": {"epochs": 1}}, {"budgets": {"epochs": 2}}, True),
        (published(), published(NUMBERS), True),
        (published(NUMBERS), published(OTHERS), True),
        (published(NUMBERS), published(NUMBERS, figure="Table 5"), True),
        (published(NUMBERS), published(NUMBERS, found="It falls."), False),  # in the report only
    ],
)
def test_a_change_of_a_key_makes_tables_again_and_no_run(before, after, again):
    plans = [made(measure=["evaluate"], **keys) for keys in (before, after)]
    assert len({inputs.configuration_parts(study, "a") for study in plans}) == 1 + again
    assert inputs.table_sources(plans[0], "a") == inputs.table_sources(plans[1], "a")


def test_tables_follow_the_machine_other_experiments_and_the_keys_of_logs(tmp_path):
    race = {"vary": {"batch_size": [16, 32], "learning_rate": [0.1, 0.2]}}
    plan = small_study.config(experiment={"seeds": {"until": "decided", "at_most": 13}, **race})
    other = {"b": {"set": {"batch_size": 16, "learning_rate": 0.2}, "seeds": 1}}
    own_table.write(tmp_path, own_table.rows())
    logs = own_table.study()
    columns = {"columns": {"validation_loss": "test_accuracy"}}
    for before, after in (
        (plan, {**plan, "machine": "laptop"}),
        (plan, {**plan, "experiments": plan["experiments"] | other}),  # A shared rate stays.
        (logs, own_table.study(runs={**own_table.RUNS, **columns})),
    ):
        plans = [planner.make(raw, folder=tmp_path) for raw in (before, after)]
        studies = [CalledStudy(each, "config.yaml", "full", False) for each in plans]
        assert len({inputs.configuration_parts(study, "a") for study in studies}) == 2


@pytest.mark.parametrize(
    ("models", "own_data", "partial", "started"),
    [(OWN, False, False, 1), (OWN, False, True, 0), ({}, True, False, 1), ({}, False, False, 0)],
)
def test_own_models_and_data_are_checked(models, own_data, partial, started, tmp_path, monkeypatch):
    study = made(models, vary={"model": [*models, "small_cnn"]}, set={"batch_size": 8}).plan
    if own_data:
        (token,) = study.datasets
        study.datasets[token]["path"] = "mine.csv"
    monkeypatch.chdir(tmp_path)
    calls = []
    done = subprocess.CompletedProcess([], returncode=0)
    monkeypatch.setattr(subprocess, "run", lambda command: calls.append(command) or done)
    session.start(CalledStudy(study, "config.yaml", "full", partial))
    assert len(calls) == started


def test_a_partial_report_follows_the_logs_that_it_quotes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = made(measure=["evaluate"])
    small, large = study.plan.runs
    logs = [f"logs/evaluate/{small}/default.log", f"logs/train/{large}.log"]
    for log in [*logs, f"logs/train/{small}.log"]:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        Path(log).touch()
    small_study.finish_run("results", small)
    assert inputs.logs_of_missing_results(study) == []
    assert inputs.logs_of_missing_results(dataclasses.replace(study, partial=True)) == logs


def test_timing_jobs_take_turns_before_all_else():
    turn = resources.timing_priority("time_epoch")
    names = ("default", "bl=3", "bl=3+rep=2", "rep=6", "rep=100")
    first, same, second, sixth, last = (turn(SimpleNamespace(settings=name)) for name in names)
    assert first == same > second > sixth > last > 0
    assert turn(SimpleNamespace(settings="rep=102")) == second


def every_file(study: CalledStudy) -> list[str]:
    """Return every file of a study, except data, that is made again if it is lost."""
    runs = [paths.run_folder("results", run) for run in study.plan.runs]
    files = [(run / name).as_posix() for run in runs for name in (*paths.RUN_FILES, paths.RECORD)]
    files += inputs.all_figures(study)
    files += [path for path in inputs.table_sources(study, "a") if not path.endswith("record.json")]
    return [*files, study.report, study.headline, *inputs.all_tables(study), *_last_files(study)]


def _last_files(study: CalledStudy) -> list[str]:
    return [f"{study.folder}/a/{name}" for name in ("default_targets.json", "complete.txt")]


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A study with every file, all of them empty."""
    monkeypatch.chdir(tmp_path)
    study = made(measure=["evaluate", "time_epoch", "landscape"])
    for path in [*inputs.data_targets(study), *every_file(study)]:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    return dataclasses.replace(study)


def targets(study: CalledStudy) -> set[str]:
    """Return the targets of the next call, without the report."""
    now = dataclasses.replace(study)  # its table is made once
    return set(inputs.all_targets(now)) - {now.report}


def test_a_deleted_file_is_a_target(whole):
    assert inputs.all_targets(whole) == [whole.report]
    for path in every_file(whole):
        Path(path).unlink()
        assert targets(whole) == {path} - {whole.report}
        Path(path).touch()


def test_neither_a_partial_report_nor_one_that_lacks_a_gpu_asks_for_records(whole, monkeypatch):
    partial = dataclasses.replace(whole, partial=True)
    files = [path for path in every_file(whole) if path.endswith(("record.json", "default.json"))]
    for path in (*files, inputs.all_tables(whole)[0]):
        Path(path).unlink()
    assert targets(partial) == {inputs.all_tables(whole)[0]}
    monkeypatch.setattr(requirements, "missing", lambda factors: requirements.GPU)
    assert targets(whole) == {inputs.all_tables(whole)[0]}


def test_deleted_data_are_an_error_that_names_the_command(whole):
    """Snakemake would train again, or skip what else is missing."""
    record, *arrays = inputs.data_targets(whole)
    for deleted in ([record], arrays[:1], [record, *arrays]):
        for path in deleted:
            Path(path).unlink()
        with pytest.raises(SystemExit, match="snakemake --cores 1 data`") as error:
            targets(whole)
        assert os.path.dirname(record) in str(error.value)
        for path in deleted:
            Path(path).touch()
    for path in [record, *arrays, *every_file(whole)]:
        Path(path).unlink(missing_ok=True)
    # Nothing was made of them yet. All missing records are behind complete.txt.
    assert {record, *_last_files(whole)} < targets(whole)
    assert inputs.run_targets(whole)[0] not in targets(whole)


def test_a_path_that_snakemake_misreads_is_refused():
    assert inputs.checked_path("a b/model.py") == "a b/model.py"
    for path in ("a{b/model.py", "a<b>/model.py"):
        with pytest.raises(SystemExit, match=path):
            inputs.checked_path(path)
    assert inputs.environment_file("/a{b}") == "/a{{b}}/envs/batchscope.yaml"


def test_the_end_of_a_call_is_about_its_report(whole):
    inputs.check_exists([whole.report])
    with pytest.raises(SystemExit, match="claims.csv: not made"):
        inputs.check_exists([whole.report, "claims.csv"])
    Path(whole.headline).write_text("8 is best.\n")
    assert session.closing_lines(whole, ["results/data/d/record.json"]) == []
    assert session.closing_lines(whole, [whole.report]) == [f"{whole.report}: 8 is best."]


def test_a_full_disk_at_the_start_is_an_error_without_a_traceback(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("results", "studies").mkdir(parents=True)
    Path("results", "studies", "s").touch()  # in place of a folder, as no disk is full here
    with pytest.raises(SystemExit, match="results/studies/s: "):
        session.start(made())


def test_an_interrupted_call_shows_no_errors(monkeypatch):
    def is_shown(level):
        return session.is_shown(logging.LogRecord("", level, "", 0, "A job failed.", (), None))

    assert is_shown(logging.ERROR)
    monkeypatch.setattr(session.interruption, "is_interrupted", lambda: True)
    assert is_shown(logging.WARNING) and not is_shown(logging.ERROR)


# SIGTERM arrives while the main thread holds the lock of Snakemake's scheduler, and one that
# `Thread.join` holds in Python 3.11 and 3.12.
SNAKEFILE = """
import contextlib, os, signal, threading
from batchscope.rules import session
from snakemake.scheduling.job_scheduler import JobScheduler

session.handle_sigterm_in_a_thread(JobScheduler)
finish_jobs = JobScheduler._finish_jobs

def stop_and_finish_jobs(scheduler):
    assert scheduler._lock.locked()
    JobScheduler._finish_jobs = finish_jobs
    with getattr(threading, "_shutdown_locks_lock", contextlib.nullcontext()):
        os.kill(os.getpid(), signal.SIGTERM)
    finish_jobs(scheduler)

JobScheduler._finish_jobs = stop_and_finish_jobs

rule last:
    input: "first"
    output: "last"
    shell: "touch last"

rule first:
    output: "first"
    shell: "sleep 1; touch first"
"""


def test_sigterm_stops_snakemake_at_whatever_it_is(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    options = ("-s", tmp_path / "Snakefile", "-d", tmp_path, "--workflow-profile", "none")
    done = project.python("-m", "snakemake", "--cores", 1, *options)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "last").exists()


def age(path, days):
    date = time.time() - days * 24 * 3600
    os.utime(path, (date, date))


@pytest.mark.parametrize("days", [0, 2])
def test_old_temporary_files_and_folders_go(tmp_path, days):
    files = [tmp_path / "runs" / ".a.json.abcdefgh.tmp", tmp_path / ".b.abcdefgh.tmp" / "new" / "c"]
    for file in files:
        file.parent.mkdir(parents=True)
        file.touch()
    age(files[0], days)
    age(tmp_path / ".b.abcdefgh.tmp", days)
    with disk.atomic_path(tmp_path / "a.json") as file, disk.atomic_folder(tmp_path / "c"):
        session.delete_leftovers(tmp_path)
        assert file.exists()
    assert (tmp_path / "c").is_dir()
    assert [file.exists() for file in files] == [not days] * 2


def test_files_of_a_command_stay(tmp_path):
    run = tmp_path / "runs" / "command-1"
    file = run / paths.COMMAND_FOLDER / ".a.json.abcdefgh.tmp"
    file.parent.mkdir(parents=True)
    for path in (file, run / paths.COMMAND_NOTE):
        path.touch()
    age(file, 2)
    session.delete_leftovers(tmp_path)
    assert file.exists()


def test_the_checkpoint_of_a_finished_run_goes(tmp_path):
    finished, again = tmp_path / "runs" / "finished", tmp_path / "runs" / "again"
    for folder, record_age in ((finished, 0), (again, 1)):
        folder.mkdir(parents=True)
        for name in (paths.CHECKPOINT, memory_limits.KILL_NOTE, paths.RECORD):
            (folder / name).touch()
        age(folder / paths.RECORD, record_age)
    session.delete_leftovers(tmp_path)
    assert [path.name for path in finished.iterdir()] == [paths.RECORD]
    assert len(list(again.iterdir())) == 3  # a training that was started again
