"""What needs a device that is not here is left out, shown with its remedy, and never stored."""

import os
from collections import Counter
from pathlib import Path

import pytest
import yaml

import commanded
import small_study
from batchscope.cli import entry
from batchscope.host import requirements
from batchscope.rules import inputs, session
from batchscope.rules.study import CalledStudy
from batchscope.store import jobs, paths, status
from batchscope.study import config
from batchscope.tables import run_table, timing_tables

TRAINED = {
    "vary": {"batch_size": [16, 32], "device": ["cpu", "gpu"]},
    "seeds": 2,
    "measure": ["evaluate", "time_epoch"],
}
TIMED = {
    "vary": {"batch_size": [1, 2, 4], "device": ["cpu", "gpu"]},
    "timing": ["throughput", "max_batch_size"],
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(requirements.REMOTE_GPUS_VARIABLE, "")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(requirements, "has_gpu", lambda: False)


@pytest.fixture
def study():
    raw = small_study.config(experiments={"trained": TRAINED, "timed": TIMED})
    Path("study.yaml").write_text(yaml.safe_dump(raw))
    return config.study("study.yaml")


def needs_gpu(name: str) -> bool:
    return "+dev=gpu" in name


def finish(run: str) -> None:
    small_study.finish_run("results", run, epochs_run=1, sha256={})
    history = paths.run_folder("results", run) / "history.csv"
    history.write_text("epoch,train_loss\n1,0.5\n")


@pytest.mark.parametrize("sent", [False, True])
def test_jobs_that_need_a_gpu_are_left_out_or_sent(study, sent):
    session.prepare_environment(gpus=sent)
    made = CalledStudy(study, "study.yaml", "full", False)
    assert len(study.runs) == 8
    assert [needs_gpu(path) for path in inputs.run_targets(made)].count(True) == 4 * sent
    for experiment, count in (("trained", 12), ("timed", 2)):
        read = inputs.table_sources(made, experiment)
        assert len(read) == count * (1 + sent)
        assert sum(map(needs_gpu, read)) == count * sent


def test_tables_follow_what_comes_to_be_there(study, monkeypatch):
    made = CalledStudy(study, "study.yaml", "full", False)
    without = inputs.configuration_parts(made, "trained")
    finish(next(filter(needs_gpu, study.runs)))
    copied = inputs.configuration_parts(made, "trained")
    monkeypatch.setenv(requirements.REMOTE_GPUS_VARIABLE, "true")
    made = CalledStudy(study, "study.yaml", "full", False)
    within = inputs.configuration_parts(made, "trained")
    assert len({without, copied, within}) == 3
    assert "left_out" not in within


def test_more_threads_than_cores_wait_where_jobs_run_here(monkeypatch):
    monkeypatch.setattr(requirements, "usable_cores", lambda: 2)
    factors = {"threads": 3, "device": "cpu"}
    for threads in (0, 2):
        assert requirements.missing(factors | {"threads": threads}) is None
    lacking = requirements.missing(factors)
    assert lacking.status == "no_cores"
    assert lacking.title.startswith("threads: received 3, ") and "(2)" in lacking.title
    monkeypatch.setenv(requirements.REMOTE_GPUS_VARIABLE, "true")  # a node decides
    assert requirements.missing(factors) is None


def test_runs_wait_for_a_path_that_their_command_requires():
    words = {"vary": {"batch_size": [8, 32], "env": ["here", "there"]}, "seeds": 1}
    raw = commanded.study(Path("mine"), "env={env}", requires=["envs/{env}"], **words)
    Path("mine/study.yaml").write_text(yaml.safe_dump(raw))
    Path("mine/envs/here").mkdir(parents=True)
    study = config.study("mine/study.yaml")
    records = inputs.run_targets(CalledStudy(study, "mine/study.yaml", "full", False))
    assert len(records) == 2 and all("+env=here+" in path for path in records)
    counts = Counter(row.status for row in status.rows(study, "results"))
    assert counts == {"not_installed": 2, "missing": 2}
    ((lacking, waiting),) = jobs.JobTable(study, "results").waiting_jobs().items()
    assert lacking.title == "Not installed: mine/envs/there" and len(waiting) == 2
    runs = run_table.logged_runs("results", study, "a").rows
    assert set(runs.loc[runs["own_env"] == "there", "status"]) == {"not_installed"}
    Path("mine/envs/there").mkdir()
    assert not jobs.JobTable(study, "results").waiting_jobs()
    # What a run requires changes none of its numbers, and so not its name.
    del raw["experiments"]["a"]["requires"]
    Path("mine/study.yaml").write_text(yaml.safe_dump(raw))
    assert config.study("mine/study.yaml").commands.keys() == study.commands.keys()


@pytest.mark.parametrize(
    "words",
    [
        "train --run digits+small_cnn+bs=8+lr=1+opt=sgd+ep=1+seed=0+th=3",
        "throughput --sweep digits+small_cnn+bs=8+opt=sgd+dev=cpu+th=3+loop=eager --output x",
    ],
)
def test_a_job_refuses_more_threads_than_there_are_cores(words, monkeypatch):
    monkeypatch.setattr(requirements, "usable_cores", lambda: 2)
    with pytest.raises(SystemExit, match="^threads: received 3; at most 2 "):
        entry.main(words.split())
    requirements.check_threads(2)


def test_rows_say_what_is_left_out_and_what_was_trained_is_kept(study):
    kept, *_ = (run for run in study.runs if needs_gpu(run))
    finish(kept)
    frame = run_table.from_records("results", study, "trained").set_index("run")
    expected = {run: "no_gpu" if needs_gpu(run) else "missing" for run in study.runs}
    assert frame["status"].to_dict() == {**expected, kept: "finished"}
    rows = timing_tables.for_experiment("results", study, "timed")["sweeps"]
    assert set(rows["status"]) == {"no_gpu"} and set(rows["device"]) == {"gpu"}


def test_gpus_of_a_cluster_are_planned_with(capsys):
    file = Path(__file__).parents[2] / "studies" / "hardware.yaml"
    words = ["plan", "--configfile", str(file)]
    entry.main(words)
    assert "No NVIDIA GPU, for which " in capsys.readouterr().out
    entry.main([*words, "--gpus"])
    assert "GPU, for which" not in capsys.readouterr().out
