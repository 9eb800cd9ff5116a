"""What needs a device that is not here is left out, shown with its remedy, and never stored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from batchscope import disk, figures, snakefile
from batchscope.catalogue import run_names
from batchscope.cli import entry
from batchscope.errors import UserError
from batchscope.host import absence
from batchscope.store import paths, states, status
from batchscope.study import config
from batchscope.tables import experiment_tables, run_table, timing_tables

TRAINED = {
    "vary": {"batch_size": [16, 32], "device": ["cpu", "gpu"]},
    "seeds": 2,
    "measure": ["evaluate", "time_epoch"],
}
TIMED = {
    "vary": {"batch_size": [1, 2, 4], "device": ["cpu", "gpu"]},
    "timing": ["throughput", "max_batch_size"],
}
STUDY = {
    "study": "devices",
    "defaults": {
        **{"dataset": "digits", "model": "small_cnn", "learning_rate": 0.05},
        **{"optimizer": "sgd", "epochs": 1},
    },
    "experiments": {"trained": TRAINED, "timed": TIMED},
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(absence.VARIABLE, "")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(absence, "gpu_present", lambda: False)


@pytest.fixture
def study():
    return written()


def written(**changed: dict):
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | changed))
    return config.study("study.yaml")


def needs_gpu(name: str) -> bool:
    return "+dev=gpu" in name


def finish(run: str) -> None:
    folder = paths.run_folder("results", run)
    for name in paths.run_files(run_names.parse_run(run)):
        disk.write_text(folder / name, "")
    disk.write_json(folder / "record.json", {"status": "finished", "epochs_run": 1})
    (folder / "history.csv").write_text("epoch,train_loss\n1,0.5\n")


def test_a_gpu_is_within_reach_here_or_where_jobs_are_sent(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(absence.Path, "exists", lambda path: False)
    monkeypatch.setattr(absence.shutil, "which", lambda name: None)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv(absence.VARIABLE, "")
    snakefile.activate(gpus=False)
    assert not absence.gpu_within_reach()
    snakefile.activate(gpus=True)
    assert absence.gpu_within_reach() and not absence.gpu_present()
    monkeypatch.setenv(absence.VARIABLE, "")
    monkeypatch.setattr(absence.shutil, "which", lambda name: name == "nvidia-smi" or None)
    assert absence.gpu_within_reach() and absence.gpu_present()


@pytest.mark.parametrize("sent", [False, True])
def test_jobs_that_need_a_gpu_are_left_out_or_sent(study, sent, monkeypatch):
    monkeypatch.setenv(absence.VARIABLE, str(sent).lower())
    made = snakefile.Jobs(study, "study.yaml", "full", False)
    assert len(study.runs) == 8
    assert [needs_gpu(path) for path in made.run_records()].count(True) == 4 * sent
    for experiment, count in (("trained", 12), ("timed", 2)):
        paths = made.table_inputs(experiment)
        assert len(paths) == count * (1 + sent)
        assert sum(map(needs_gpu, paths)) == count * sent


def test_the_plan_counts_what_waits(study):
    found = status.overview(study, "results")
    assert found.total.statuses["no_gpu"] == found.total.statuses["missing"] == 4
    ((lacking, waiting),) = found.absent.items()
    assert lacking == absence.GPU
    assert status.waiting(waiting) == "4 trainings and 2 timings"
    for run in filter(needs_gpu, study.runs):  # trained elsewhere
        finish(run)
    found = status.overview(study, "results")
    ((_, waiting),) = found.absent.items()
    assert status.waiting(waiting) == "6 timings and 4 measures"
    assert found.total.statuses["finished"] == 4 and not found.complete


def test_tables_follow_what_comes_to_be_there(study, monkeypatch):
    made = snakefile.Jobs(study, "study.yaml", "full", False)
    without = made.also("trained")
    finish(next(filter(needs_gpu, study.runs)))
    copied = made.also("trained")
    monkeypatch.setenv(absence.VARIABLE, "true")
    within = snakefile.Jobs(study, "study.yaml", "full", False).also("trained")
    assert len({without, copied, within}) == 3
    assert "left_out" not in within


def test_more_threads_than_cores_wait_where_jobs_run_here(monkeypatch):
    monkeypatch.setattr(absence, "cores", lambda: 2)
    threads = {
        "trained": {**TRAINED, "vary": {"batch_size": [16], "threads": [1, 2, 1000]}},
        "timed": {"vary": {"batch_size": [1, 2], "threads": ["all", 3]}, "timing": "throughput"},
    }
    found = written(experiments=threads)
    titles = {what.title for what in status.overview(found, "results").absent}
    assert len(titles) == 2 and all("(2)" in title for title in titles)
    assert {title.split()[2] for title in titles} == {"1000,", "3,"}
    made = snakefile.Jobs(found, "study.yaml", "full", False)
    assert len(made.run_records()) == 4
    assert not any("th=1000" in path for path in made.table_inputs("trained"))
    rows = timing_tables.summaries("results", found, "timed")
    assert rows.loc[rows["threads"] == 3, "status"].tolist() == ["no_cores"]
    monkeypatch.setenv(absence.VARIABLE, "true")  # a node decides
    assert not status.overview(found, "results").absent
    assert len(made.run_records()) == 6


def test_a_study_of_which_nothing_can_be_made_says_so(monkeypatch):
    defaults = {**STUDY["defaults"], "batch_size": 16, "device": "gpu"}
    written(experiments={"trained": {**TRAINED, "vary": {"epochs": [1, 2]}}}, defaults=defaults)
    assert "Nothing can be made here" in status.main("study.yaml", "full", "results")
    monkeypatch.setenv(absence.VARIABLE, "true")
    assert "can be made here" not in status.main("study.yaml", "full", "results")


SWEEP = "digits+small_cnn+bs=8+opt=sgd+dev=cpu+th=3"


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--run", "digits+small_cnn+bs=8+lr=1+opt=sgd+ep=1+seed=0+th=3"],
        ["time_epoch", "--timing", SWEEP, "--output", "x"],
        ["throughput", "--sweep", SWEEP.replace("small", "campbell") + "+fw=jax", "--output", "x"],
    ],
)
def test_a_job_refuses_more_threads_than_there_are_cores(words, monkeypatch):
    monkeypatch.setattr(absence, "cores", lambda: 2)
    with pytest.raises(SystemExit, match="^threads: received 3; at most 2 "):
        entry.main(words)
    monkeypatch.setattr(absence, "cores", lambda: 3)
    absence.check_threads(3)
    with pytest.raises(UserError, match="received 4; at most 3"):
        absence.check_threads(4)


def test_rows_say_what_is_left_out_and_what_was_trained_is_kept(study):
    kept, *_ = (run for run in study.runs if needs_gpu(run))
    finish(kept)
    frame = run_table.collect("results", study, "trained").set_index("run")
    expected = {run: "no_gpu" if needs_gpu(run) else "missing" for run in study.runs}
    assert frame["status"].to_dict() == {**expected, kept: "finished"}
    rows = timing_tables.summaries("results", study, "timed")
    assert set(rows["status"]) == {"no_gpu"} and set(rows["device"]) == {"gpu"}
    experiment_tables.write("results", study, "timed", Path("tables"))
    figures.write(Path("tables"), ["max_batch_size"], Path("figures"))
    assert json.loads((Path("figures") / figures.LISTING).read_text()) == []


STUDIES = Path(__file__).parents[2] / "studies"


@pytest.mark.parametrize(
    ("name", "scale", "experiment", "runs", "timings"),
    [
        ("batch_size_benchmarking2019", "full", "throughput", 0, 6),
        ("campbell2023", "full", "accuracy", 60, 0),
        ("campbell2023", "reduced", "utilisation", 0, 6),
        ("hardware", "reduced", "machine", 0, 3),
        ("mini_batches2025", "full", "utilisation", 0, 6),
    ],
)
def test_studies_plan_a_gpu_beside_the_cpu(name, scale, experiment, runs, timings):
    planned = config.study(STUDIES / f"{name}.yaml", scale)
    found = states.Table(planned, "results").experiments[experiment]
    waiting = [state.job.noun for state in found if state.waits]
    assert (waiting.count("training"), waiting.count("timing")) == (runs, timings)


def test_gpus_of_a_cluster_are_planned_with(capsys):
    words = ["plan", str(STUDIES / "hardware.yaml")]
    entry.main(words)
    assert "No NVIDIA GPU, for which " in capsys.readouterr().out
    entry.main([*words, "--gpus"])
    assert "GPU, for which" not in capsys.readouterr().out
