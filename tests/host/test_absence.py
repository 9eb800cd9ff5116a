"""What needs a device that is not here is left out, shown with what mends it, and never stored."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from pathlib import Path

import pandas
import pytest
import yaml

import project
import run as door
from batchscope import disk, snakefile
from batchscope.host import absence
from batchscope.store import job_files, records, status
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
SWEEP = "digits+small_cnn+bs=8+opt=sgd+dev=cpu+th=3"
STUDY = {
    "study": "devices",
    "defaults": {
        **{"dataset": "digits", "model": "small_cnn", "learning_rate": 0.05},
        **{"optimizer": "sgd", "epochs": 1},
    },
    "experiments": {"trained": TRAINED, "timed": TIMED},
}


def test_a_gpu_is_within_reach_here_or_where_jobs_are_sent(monkeypatch):
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


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_gpu(monkeypatch) -> None:
    monkeypatch.setattr(absence, "gpu_within_reach", lambda: False)


@pytest.fixture
def study(no_gpu):
    return written()


def written(**changed: dict):
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | changed))
    return config.study("study.yaml")


def plan() -> str:
    return status.main("study.yaml", "full", "results")


def needs_gpu(name: str) -> bool:
    return "+dev=gpu" in name


def test_what_can_be_made_leaves_out_what_needs_a_gpu(study):
    made = snakefile.Jobs(study, "study.yaml", "full", False)
    assert len(study.runs) == 8
    assert [needs_gpu(path) for path in made.run_records()] == [False] * 4
    for experiment, count in (("trained", 4 + 4 + 4), ("timed", 2)):
        paths = made.table_inputs(experiment)
        assert len(paths) == count and not any(map(needs_gpu, paths))


def test_all_of_it_is_made_where_a_gpu_is_within_reach(study, monkeypatch):
    monkeypatch.setattr(absence, "gpu_within_reach", lambda: True)
    made = snakefile.Jobs(study, "study.yaml", "full", False)
    assert len(made.run_records()) == 8
    assert len(made.table_inputs("trained")) == 8 + 8 + 8 and len(made.table_inputs("timed")) == 4
    assert not status.overview(study, "results").absent


def test_the_plan_reports_what_waits(study):
    found = status.overview(study, "results")
    assert found.total.statuses["no_gpu"] == found.total.statuses["missing"] == 4
    ((lacking, waiting),) = found.absent.items()
    assert lacking == absence.GPU
    assert status.waiting(waiting) == "4 trainings and 2 timings"
    text = status.describe(study, found, "study.yaml", 2)
    assert "No NVIDIA GPU, for which 4 trainings and 2 timings wait; " in text
    assert "no gpu" in text and "set device: cpu." in text


def test_a_plan_that_lacks_nothing_has_no_column_for_it(study, monkeypatch):
    monkeypatch.setattr(absence, "gpu_within_reach", lambda: True)
    text = status.describe(study, status.overview(study, "results"), "study.yaml", 2)
    assert "no gpu" not in text and "GPU, for which" not in text


def finish(run: str) -> None:
    folder = records.run_folder("results", run)
    disk.write_json(folder / "record.json", {"status": "finished", "epochs_run": 1})
    (folder / "history.csv").write_text("epoch,train_loss\n1,0.5\n")


def test_what_is_measured_of_what_was_trained_elsewhere_waits_too(study):
    for run in filter(needs_gpu, study.runs):
        finish(run)
    ((_, waiting),) = job_files.absent(study, "results").items()
    assert status.waiting(waiting) == "6 timings and 4 measures"
    found = status.overview(study, "results")
    assert found.total.statuses["finished"] == 4 and not found.complete


def test_what_reads_weights_alone_needs_no_gpu(study):
    experiment = study.experiments["trained"]
    trainings = dataclasses.replace(
        experiment.trainings, measures={"weight_distance": {"weights": "final"}}
    )
    experiment = dataclasses.replace(experiment, trainings=trainings)

    def made():
        jobs = job_files.measure_jobs(study, experiment, "results")
        return [job.path for job in jobs if needs_gpu(job.path.as_posix())]

    assert made() == []
    finish(next(filter(needs_gpu, study.runs)))
    assert len(made()) == 1


def test_tables_follow_what_comes_to_be_there(study, monkeypatch):
    made = snakefile.Jobs(study, "study.yaml", "full", False)
    without = made.also("trained")
    finish(next(filter(needs_gpu, study.runs)))
    copied = made.also("trained")
    monkeypatch.setattr(absence, "gpu_within_reach", lambda: True)
    within = made.also("trained")
    assert len({without, copied, within}) == 3
    assert "left_out" not in within


def test_the_plan_of_what_waits_for_a_gpu_alone(no_gpu):
    only = {"trained": {**TRAINED, "vary": {"device": ["gpu"]}}}
    written(experiments=only, defaults={**STUDY["defaults"], "batch_size": 16})
    text = plan()
    assert "All that can be made here exists" in text and "Data to prepare" not in text
    assert "No NVIDIA GPU, for which 2 trainings wait; " in text


def test_more_threads_than_cores_wait_where_jobs_run_here(monkeypatch):
    monkeypatch.setenv(absence.VARIABLE, "")
    monkeypatch.setattr(absence, "cores", lambda: 2)
    threads = {
        "trained": {**TRAINED, "vary": {"batch_size": [16], "threads": [1, 2, 1000]}},
        "timed": {"vary": {"batch_size": [1, 2], "threads": ["all", 3]}, "timing": "throughput"},
    }
    found = written(experiments=threads)
    text = plan()
    assert "Fewer cores than threads, for which 2 trainings and 1 timing wait; " in text
    assert "no cores" in text
    made = snakefile.Jobs(found, "study.yaml", "full", False)
    assert len(made.run_records()) == 4
    assert not any("th=1000" in path for path in made.table_inputs("trained"))
    assert not any("th=3" in path for path in made.table_inputs("timed"))
    rows = timing_tables.summaries("results", found, "timed")
    assert rows.loc[rows["threads"] == 3, "status"].tolist() == ["no_cores"]
    monkeypatch.setenv(absence.VARIABLE, "true")  # a node decides
    assert "Fewer cores" not in plan()
    assert len(made.run_records()) == 6


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--run", "digits+small_cnn+bs=8+lr=1+opt=sgd+ep=1+seed=0+th=3"],
        ["time_epoch", "--timing", SWEEP, "--output", "x"],
        ["throughput", "--sweep", SWEEP, "--output", "x"],
        ["throughput", "--sweep", SWEEP.replace("small", "campbell") + "+fw=jax", "--output", "x"],
    ],
)
def test_a_job_refuses_more_threads_than_there_are_cores(words, monkeypatch):
    monkeypatch.setattr(absence, "cores", lambda: 2)
    with pytest.raises(SystemExit) as caught:
        door.main(words)
    expected = "at most 2 are expected, the cores that the job may use here."
    assert str(caught.value) == f"threads: received 3; {expected}"


def test_no_search_for_the_largest_batch_has_its_row(no_gpu):
    from batchscope import figures

    found = written(experiments={"timed": {**TIMED, "timing": ["max_batch_size", "profile"]}})
    for table in (timing_tables.summaries, timing_tables.profiles):
        rows = table("results", found, "timed")
        assert set(rows["status"]) == {"no_gpu"} and set(rows["device"]) == {"gpu"}
    experiment_tables.write("results", found, "timed", Path("tables"))
    figures.write(Path("tables"), ["max_batch_size", "profile"], Path("figures"))
    assert json.loads((Path("figures") / figures.LISTING).read_text()) == []


def test_its_rows_say_so_and_what_was_trained_is_kept(study):
    kept, *_ = (run for run in study.runs if needs_gpu(run))
    finish(kept)
    frame = run_table.collect("results", study, "trained").set_index("run")
    expected = {run: "no_gpu" if needs_gpu(run) else "missing" for run in study.runs}
    assert frame["status"].to_dict() == {**expected, kept: "finished"}
    experiment_tables.write("results", study, "timed", Path("tables"))
    for name, columns in (("throughput.csv", ["batch_size"]), ("sweeps.csv", [])):
        rows = pandas.read_csv(Path("tables") / name)
        assert rows["status"].tolist() == ["no_gpu"] * len(rows) and len(rows) == 3 ** len(columns)
        assert set(rows["device"]) == {"gpu"}


def test_what_waits_is_reported_below_a_figure_and_not_over_each_batch_size():
    from batchscope.figures.drawing import canvas

    runs = list(itertools.product((16, 32), (0, 1), ("cpu", "gpu")))
    frame = pandas.DataFrame(runs, columns=["batch_size", "seed", "device"])
    frame["status"] = ["diverged", *["no_gpu", "finished"] * 3, "no_gpu"]
    _, ((axes,),) = canvas.panels(1, 1)
    canvas.mark_failures(axes, frame)
    assert [text.get_text() for text in axes.texts] == ["1 div."]
    assert canvas.failure_note(frame) == "Of 8 runs: 1 diverged (div.), 4 left out (no GPU)."


STUDIES = Path(__file__).parents[2] / "studies"


@pytest.mark.parametrize(
    ("name", "scale", "experiment", "runs", "timings"),
    [
        ("batch_size_benchmarking2019", "full", "throughput", 0, 6),
        ("batch_size_benchmarking2019", "reduced", "throughput", 0, 6),
        ("campbell2023", "full", "accuracy", 60, 0),
        ("campbell2023", "reduced", "accuracy", 18, 0),
        ("campbell2023", "reduced", "training_time", 0, 6),
        ("campbell2023", "reduced", "utilisation", 0, 6),
        ("hardware", "full", "machine", 0, 3),
        ("hardware", "reduced", "machine", 0, 3),
        ("mini_batches2025", "full", "utilisation", 0, 6),
        ("mini_batches2025", "reduced", "utilisation", 0, 6),
    ],
)
def test_studies_plan_a_gpu_beside_the_cpu(
    name, scale, experiment, runs, timings, tmp_path, monkeypatch
):
    planned = config.study(STUDIES / f"{name}.yaml", scale)
    chosen = planned.experiments[experiment]

    def made() -> list[bool]:
        paths = [*chosen.trainings.runs] if runs else []
        paths = [run for run in paths if not absence.of(planned.runs[run])]
        paths += [job.path.as_posix() for job in job_files.measure_jobs(planned, chosen, tmp_path)]
        return [needs_gpu(path) for path in paths]

    monkeypatch.setattr(absence, "gpu_within_reach", lambda: True)
    within = made()
    assert any(within) and not all(within)
    monkeypatch.setattr(absence, "gpu_within_reach", lambda: False)
    assert made() == [False] * (len(within) - sum(within))
    waiting = [job for _, job in job_files.left_out(planned, chosen, tmp_path)]
    found = [job.noun for job in waiting]
    assert (found.count("training"), found.count("timing")) == (runs, timings)


@pytest.mark.parametrize("name", ["batch_size_benchmarking2019", "campbell2023", "hardware"])
def test_plan_reports_what_of_a_study_waits_for_a_gpu(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(absence, "gpu_present", lambda: False)
    monkeypatch.setenv(absence.VARIABLE, "")
    words = ["plan", str(STUDIES / f"{name}.yaml"), "--results", str(tmp_path)]
    door.main(words)
    assert "No NVIDIA GPU, for which " in capsys.readouterr().out
    door.main([*words, "--gpus"])
    assert "GPU, for which" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(absence.gpu_present(), reason="a GPU is here")
def test_a_study_of_two_devices_runs_through_without_a_gpu(tmp_path, monkeypatch):
    folder = project.copy(tmp_path / "project")
    trained = {
        **{"vary": {"device": ["cpu", "gpu"]}, "set": {"batch_size": 64}, "seeds": 1},
        "measure": ["evaluate", "time_epoch"],
    }
    project.write_config(folder, {**STUDY, "experiments": {"trained": trained}})
    monkeypatch.delenv(absence.VARIABLE, raising=False)
    project.run(folder)
    assert project.planned(folder) == {}
    rows = pandas.read_csv(folder / "results/studies/devices/trained/runs.csv")
    found = dict(zip(rows["device"], rows["status"], strict=True))
    assert found == {"cpu": "finished", "gpu": "no_gpu"}
    runs = [path.name for path in (folder / "results/runs").iterdir()]
    assert [needs_gpu(run) for run in runs if "+seed=" in run] == [False]
    page = (folder / "results/report.html").read_text()
    assert "1 finished, 1 left out (no GPU)" in page and "No NVIDIA GPU" in page
    # What a cluster's profile says of its nodes: nothing is left out.
    assert project.planned(folder, "--resources", "gpu=1")["train"] == 1
    assert project.planned(folder, "--resources", "gpu=0") == {}
