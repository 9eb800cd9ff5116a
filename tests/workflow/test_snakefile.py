"""What the rules receive of a study."""

import contextlib
import dataclasses
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import small_study
from batchscope import figures, once_more, rule_parts, snakefile
from batchscope.host import memory_limits, requirements
from batchscope.store import paths
from batchscope.study import planner

OWN = {"mine": str(Path(__file__).parents[1] / "data" / "noisy_model.py")}


def made(models=None, **experiment) -> snakefile.Jobs:
    config = small_study.config(models=models or {}, experiment={"seeds": 1, **experiment})
    return snakefile.Jobs(planner.make(config), "config.yaml", "full", False)


@pytest.mark.parametrize(
    ("device", "replicas", "training", "measuring"),
    [("cpu", 1, 0, 0), ("cpu", 4, 0, 0), ("gpu", 1, 1, 1), ("gpu", 4, 4, 1)],
)
def test_a_training_claims_a_gpu_for_every_replica(device, replicas, training, measuring):
    for run in made(set={"device": device, "replicas": replicas}).study.runs:
        assert rule_parts.gpus(run) == training
        assert rule_parts.measure_gpus(run) == measuring


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
    ("models", "own_data", "partial", "started"),
    [(OWN, False, False, 1), (OWN, False, True, 0), ({}, True, False, 1), ({}, False, False, 0)],
)
def test_own_models_and_data_are_checked(models, own_data, partial, started, tmp_path, monkeypatch):
    study = made(models, vary={"model": [*models, "small_cnn"]}, set={"batch_size": 8}).study
    if own_data:
        (token,) = study.datasets
        study.datasets[token]["path"] = "mine.csv"
    monkeypatch.chdir(tmp_path)
    calls = []
    done = subprocess.CompletedProcess([], returncode=0)
    monkeypatch.setattr(subprocess, "run", lambda command: calls.append(command) or done)
    snakefile.Jobs(study, "config.yaml", "full", partial).check()
    assert len(calls) == started


def test_a_partial_report_follows_the_logs_that_it_quotes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = made(measure=["evaluate"])
    small, large = study.study.runs
    logs = [f"logs/evaluate/{small}/default.log", f"logs/train/{large}.log"]
    for log in [*logs, f"logs/train/{small}.log"]:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        Path(log).touch()
    for name in paths.run_files(study.study.runs[small]):
        path = paths.run_folder("results", small) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert study.quoted_logs() == []
    assert dataclasses.replace(study, partial=True).quoted_logs() == logs


def test_timing_jobs_take_turns_before_all_else():
    turn = rule_parts.turn("time_epoch")
    names = ("default", "bl=3", "bl=3+rep=2", "rep=6", "rep=100")
    first, same, second, sixth, last = (turn(SimpleNamespace(settings=name)) for name in names)
    assert first == same > second > sixth > last > 0
    assert turn(SimpleNamespace(settings="rep=102")) == second


MEASURED = {"evaluate": None, "time_epoch": None, "landscape": None}


def every_file(study: snakefile.Jobs) -> dict[str, str]:
    """Every file that a study makes -> what makes it again where it is deleted."""
    runs = [paths.run_folder("results", run) for run in study.study.runs]
    data = [paths.dataset_folder("results", token) for token in study.study.datasets]
    folders = {**dict.fromkeys(runs, paths.RUN_FILES), **dict.fromkeys(data, paths.ARRAYS)}
    found = {
        (folder / name).as_posix(): (folder / paths.RECORD).as_posix()
        for folder, names in folders.items()
        for name in (*names, paths.RECORD)
    }
    drawn = [figures.LISTING, *(f"accuracy{suffix}" for suffix in figures.SUFFIXES)]
    found |= {f"{folder}/{name}": folder for folder in study.figures() for name in drawn}
    own = [path for path in study.table_inputs("a") if not path.endswith("record.json")]
    found |= {path: Path(path).with_suffix(".json").as_posix() for path in own}
    pages = (study.report, study.headline)
    return found | {path: path for path in (*study.tables(), *study.default_targets(), *pages)}


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A study of which every file is there, empty but for the list of its figures."""
    monkeypatch.chdir(tmp_path)
    study = made(measure=MEASURED)
    listing = json.dumps([{"name": "accuracy", "suffixes": figures.SUFFIXES}])
    for path in every_file(study):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(listing if path.endswith(figures.LISTING) else "")
    return dataclasses.replace(study)


def again(study: snakefile.Jobs) -> tuple[set[str], set[str]]:
    """What is asked for beside the report, and what is made though it is there."""
    study = dataclasses.replace(study)  # its table is made once
    return set(study.targets()) - {study.report}, study.damaged()


def test_whatever_is_deleted_is_made_again(whole):
    assert (whole.targets(), whole.damaged()) == ([whole.report], set())
    for path, output in every_file(whole).items():
        text = Path(path).read_text()
        Path(path).unlink()
        targets, damaged = again(whole)
        if path == whole.report:
            assert (targets, damaged) == (set(), set())
        elif path == output or path.endswith(paths.RECORD):
            assert (targets, damaged) == ({path}, set())
        else:
            assert damaged == {output} and targets <= {output, path}
        Path(path).write_text(text)
    Path(whole.figures()[0]).rename("figures")
    assert again(whole) == ({*whole.figures()}, set())


def test_neither_a_partial_report_nor_one_that_lacks_a_gpu_asks_for_records(whole, monkeypatch):
    partial = dataclasses.replace(whole, partial=True)
    missing = [path for path in every_file(whole) if path.endswith(("record.json", "default.json"))]
    for path in (*missing, whole.tables()[0]):
        Path(path).unlink()
    assert again(partial) == ({whole.tables()[0]}, set())
    monkeypatch.setattr(requirements, "of", lambda factors: requirements.GPU)
    assert again(whole) == ({whole.tables()[0]}, set())


def test_deleted_data_are_made_alone(whole, capsys):
    """Whatever else is missing: Snakemake would train again what was trained on them."""
    (data,), run = whole.data_records(), whole.run_records()[0]
    Path(data).unlink()
    Path(run).unlink()
    assert again(whole)[0] == {data}
    assert Path(data).parent.name in capsys.readouterr().err
    for path in every_file(whole):
        Path(path).unlink(missing_ok=True)
    assert {data, run} < again(whole)[0]  # nothing was made of them yet


@pytest.mark.parametrize(
    ("deleted", "left", "status"),
    [("report.txt", "report.txt", 0), ("runs/*/best.npz", "record.json", 3)],
)
def test_a_command_goes_on_until_its_targets_are_there(whole, monkeypatch, status, deleted, left):
    begun = []
    done = subprocess.CompletedProcess([], returncode=status)
    monkeypatch.setattr(subprocess, "run", lambda command, env, **_: begun.append(env) or done)
    once_more.go_on(whole, [whole.report], {"all"})
    assert begun == []
    next(Path("results").glob(deleted)).unlink()
    with pytest.raises(SystemExit) if status else contextlib.nullcontext():
        once_more.go_on(whole, [whole.report], {"all"})
    assert len(begun) == 1 and begun[0][once_more.SECOND]
    # The second time it is an error; what was not asked for is none.
    monkeypatch.setenv(once_more.SECOND, "true")
    once_more.go_on(whole, [whole.report], set())
    with pytest.raises(SystemExit, match=left):
        once_more.go_on(whole, [], {"all"})


@pytest.mark.parametrize("name", ["a{b}", "a<b>", "a{b", "plain"])
def test_a_rule_has_no_brace_of_a_path(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir()
    path = Path(name, "model.py")
    path.write_text("x")
    given = rule_parts.literal(str(path))
    assert (given == str(path)) == (name == "plain")
    assert not set(given) & set("{}<>") and Path(given).samefile(path) and given.endswith(".py")
    before = os.lstat(given).st_mtime_ns
    assert rule_parts.literal(str(path)) == given and os.lstat(given).st_mtime_ns == before
    assert rule_parts.environment("/a{b}") == "/a{{b}}/envs/batchscope.yaml"


@pytest.fixture
def bundled(whole) -> snakefile.Jobs:
    """The same study with bundles, whose records can be read."""
    for path in every_file(whole):
        if path.endswith(".json") and "figures" not in path:
            Path(path).write_text('{"status": "finished"}')
    # Measures no older than their runs, as they are made.
    for path in sorted(every_file(whole), key=lambda path: "/landscape/" in path):
        if path.startswith("results/runs"):
            os.utime(path)
    return dataclasses.replace(whole, runs_per_job=2)


def test_tables_follow_the_dates_of_what_bundles_made(bundled):
    assert len(bundled.bundles) == 0 and bundled.table_inputs("a") == []
    before = bundled.also("a")
    assert dataclasses.replace(bundled, runs_per_job=1).also("a") != before
    run = [*bundled.study.runs][0]
    record = Path(rule_parts.run_file(run))
    stamp = record.stat().st_mtime_ns
    os.utime(record, ns=(stamp, stamp - 10**9))
    assert dataclasses.replace(bundled).also("a") != before
    os.utime(record, ns=(stamp, stamp))
    assert dataclasses.replace(bundled).also("a") == before


def test_bundles_are_made_before_all_else(bundled):
    run = [*bundled.study.runs][0]
    Path(rule_parts.run_file(run)).unlink()
    now = dataclasses.replace(bundled)
    (trained,) = now.bundles.trained
    assert now.targets() == [trained] == now.table_inputs("a") == now.run_records()
    assert now.damaged() == set()  # the measure of that run is in the bundle
    assert dataclasses.replace(bundled).bundles.trained != [trained]  # no other's name


@pytest.mark.parametrize("rules", [{"all", "bundle"}, {"bundle"}])
def test_a_command_goes_on_after_its_bundles(bundled, monkeypatch, rules):
    """Tables are there, and older than what was made; of `runs`, a bundle left some."""
    run = [*bundled.study.runs][0]
    record = Path(rule_parts.run_file(run))
    record.unlink()
    study = dataclasses.replace(bundled)
    made, begun = study.bundles.made, []

    def second(command, **_):
        begun.append(command)
        record.write_text('{"status": "finished"}')
        for path in Path("results/runs", run).rglob("*/*.*"):
            os.utime(path)
        return subprocess.CompletedProcess([], 0)

    monkeypatch.setattr(subprocess, "run", second)
    if "all" in rules:
        second(None)
        begun.clear()
    once_more.go_on(study, made, rules)
    assert len(begun) == 1


@pytest.mark.parametrize(
    ("given", "cluster", "large", "expected"),
    [
        ("auto", False, False, False),
        ("auto", True, False, True),
        ("auto", False, True, True),
        (1, True, True, False),
        (2, False, False, True),
    ],
)
def test_when_jobs_are_bundled(monkeypatch, given, cluster, large, expected):
    if large:
        monkeypatch.setattr(snakefile.bundles, "LARGE", 2)
    study = dataclasses.replace(made(), runs_per_job=given, cluster=cluster)
    assert study.bundled == expected


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_job_of_any_scheduler_knows_that_it_is_one(monkeypatch, scheduled):
    """Its kill for memory is no result yet: the next attempt has more."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv(memory_limits.SCHEDULED, "")
    monkeypatch.delenv(memory_limits.SCHEDULED)
    snakefile.activate(gpus=False, scheduled=scheduled)
    assert (memory_limits.SCHEDULED in os.environ) == scheduled
