"""The workflow as a user runs it: from config to report, and only what is missing."""

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import project
from batchscope.study.versions import VERSIONS

pytestmark = pytest.mark.slow

DRAWN = {"figures": 1, "report": 1}
TABLES = {"tabulate": 1, **DRAWN}
EXPERIMENT = project.TINY["experiments"]["batch_size"]
ONE = {"figures": ["accuracy"]}  # where a study is run again, and not for its figures
ONE_MORE = {"vary": {"batch_size": [64, 256, 128]}, **ONE}
SPLIT = {"train": 100, "validation": 30, "test": 30, "seed": 0}
SMALLER = {"datasets": {"digits": {"source": "digits", "split": SPLIT}}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The tiny study, run to its report."""
    return project.finished(tmp_path_factory.mktemp("project"), project.TINY)


@pytest.fixture
def edited(finished, tmp_path) -> Path:
    """A copy of the finished study to edit."""
    return shutil.copytree(finished, tmp_path / "copy", symlinks=True)


def configured(folder: Path, top: dict | None = None, **keys) -> dict[str, int]:
    """Writes the study with other keys, its own and its experiment's; returns what is planned."""
    config = copy.deepcopy(project.TINY) | (top or {})
    config["experiments"]["batch_size"].update(keys)
    project.write_config(folder, config)
    return project.planned(folder)


def runs(folder: Path) -> list[dict[str, str]]:
    return project.rows(folder, "tiny/batch_size")


def trained(count: int) -> dict[str, int]:
    return {"train": count, "evaluate": count, "sharpness": count, "weight_distance": count}


def per_seed(count: int) -> dict[str, int]:
    return {**trained(count), "time_epoch": count}


def test_the_study_ran(finished):
    assert "Nothing to be done" in project.run(finished)
    assert project.snakemake(finished, "--lint").returncode == 0
    study = finished / "results" / "studies" / "tiny" / "batch_size"
    assert (finished / "results" / "report.html").stat().st_size > 50_000
    assert [row["status"] for row in runs(finished)] == ["finished"] * 4
    for figure in ("loss_curves", "accuracy", "time", "sharpness", "weight_distance"):
        for suffix in (".svg", ".png", ".csv"):
            assert (study / "figures" / f"{figure}{suffix}").stat().st_size > 100
    noted = (finished / "results" / "job_seconds.csv").read_text().splitlines()
    assert {line.partition(",")[0] for line in noted} == {*EXPERIMENT["measure"]}
    assert all(float(line.rpartition(",")[2]) >= 0 for line in noted)  # to a hundredth


def test_the_log_has_commands_to_paste(edited):
    """As the README says: in parentheses, for `exec` ends the shell that it is given to."""
    log = "".join(path.read_text() for path in edited.glob(".snakemake/log/*.log"))
    commands = re.findall(r"^Shell command: (exec python \S+ train .*)$", log, re.M)
    assert len(commands) == 4
    record = edited / "results" / "runs" / re.search(r"--run (\S+)", commands[0])[1] / "record.json"
    record.unlink()
    pasted = f"({commands[0]})"
    subprocess.run(["bash", "-c", pasted], cwd=edited, check=True, timeout=300)
    assert record.exists()


def test_whatever_is_deleted_behind_a_report_is_made_again(edited):
    """What `plan` calls missing, and each file of the tables and figures; or what is forced."""
    assert project.planned(edited, "--forcerun", "time_epoch") == {"time_epoch": 4, **TABLES}
    results = edited / "results"
    study = results / "studies" / "tiny" / "batch_size"
    report = results / "report.html"
    for deleted, expected in (
        (study / "figures", DRAWN),
        (study / "layers.csv", TABLES),
        (study / "default_targets.json", TABLES),
        (study / "figures" / "accuracy.csv", DRAWN),
        (results / "report.txt", {"report": 1}),
        (next(results.glob("runs/*/history.csv")), {**trained(1), **TABLES}),
        (next(results.glob("runs/*/sharpness/*.json")), {"sharpness": 1, **TABLES}),
        (next(results.glob("timing/*/*/*/*.json")), {"time_epoch": 1, **TABLES}),
        (next(results.glob("runs/*")), {**trained(1), **TABLES}),
    ):
        there = deleted.with_name("put_aside")
        deleted.rename(there)
        assert project.planned(edited) == expected, deleted
        assert report.exists()
        if deleted.parent.name != "runs" and "figures" not in deleted.parts:
            there.rename(deleted)
            continue
        if there.exists():  # a folder that lost a figure is removed
            shutil.rmtree(there) if there.is_dir() else there.unlink()
        project.run(edited)
        assert deleted.exists() and project.planned(edited) == {}


@pytest.mark.parametrize("deleted", ["data/*", "data/*/record.json", "data/*/test_labels.npy"])
def test_deleted_data_are_an_error_that_names_the_command(edited, deleted):
    """Nothing is trained again after that command."""
    path = next((edited / "results").glob(deleted))
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = project.snakemake(edited, "--cores", "2")
    assert done.returncode == 1 and "`snakemake --cores 1 data`" in done.stdout
    project.run(edited, "data")
    assert path.exists() and project.planned(edited) == {}


def test_default_targets_outlive_the_tables_that_are_made_again(edited):
    """Snakemake does not delete their file before the job, so targets of other series stay."""
    path = edited / "results" / "studies" / "tiny" / "batch_size" / "default_targets.json"
    stored = [{"series": {"dataset": "other"}, "column": "validation_loss", "value": 0.5}]
    path.write_text(json.dumps({"targets": stored}))
    project.run(edited, "--forcerun", "tabulate")
    assert json.loads(path.read_text())["targets"][:1] == stored
    assert project.planned(edited) == {}


def test_weights_after_an_epoch_that_another_study_reads(edited):
    """They are kept where they are read; runs without them are trained again, to that epoch."""

    longer = {"set": {"epochs": 3}, "measure": ["evaluate"], "seeds": 1, **ONE}
    configured(edited, **longer)
    project.run(edited)
    assert not list(edited.glob("results/runs/*/epochs"))
    # After the last epoch they are the final ones.
    early = configured(edited, at_epochs=[1, 3], **longer)
    assert early == {"snapshot": 2, "evaluate": 4, **TABLES}
    project.run(edited)
    assert project.planned(edited) == {}
    kept = list(edited.glob("results/runs/*/epochs/*"))
    assert [path.name for path in kept] == ["1.npz"] * 2
    for path in kept:  # measured: no more needed
        path.unlink()
    assert project.planned(edited) == {}
    for run in edited.glob("results/runs/*ep=3*"):
        shutil.rmtree(run)
    assert "Warning" not in project.run(edited)
    assert [path.name for path in edited.glob("results/runs/*/epochs/*")] == ["1.npz"] * 2
    assert "training" not in "".join(p.read_text() for p in edited.glob("logs/snapshot/*/*.log"))


def test_one_more_batch_size_in_a_partial_report_and_then_whole(edited):
    """Only the new jobs run, and a partial report is no excuse to leave anything out."""
    new = {**per_seed(2), **TABLES}
    assert configured(edited, **ONE_MORE) == new
    before = {path: path.stat().st_mtime_ns for path in edited.glob("results/runs/*/record.json")}
    assert project.planned(edited, "--config", "partial=true") == TABLES
    project.run(edited, "--config", "partial=true")
    assert sorted(row["status"] for row in runs(edited)) == ["finished"] * 4 + ["missing"] * 2
    assert "+bs=128+" in project.report(edited)
    assert project.planned(edited) == new
    assert project.planned(edited, "--config", "partial=false")["train"] == 2
    project.run(edited)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(edited.glob("results/runs/*/record.json"))) == len(before) + 2
    assert project.planned(edited) == {}


NUMBERS = [{"batch_size": [4, 64], "test_accuracy": [0.3, 0.7]}]
DOCUMENT = {"figure": "Table 4", "found": "It rises.", "numbers": NUMBERS}
CHANGES = {
    "one more seed": (None, {"seeds": 3}, {**per_seed(2), **TABLES}),
    "a batch size removed": (None, {"vary": {"batch_size": [64]}}, TABLES),
    "a document's numbers": (None, {"published": {"accuracy": DOCUMENT}}, TABLES),
    "a title": (None, {"title": "Another"}, DRAWN),
    "a format for papers": ({"figure_format": {"width": 84}}, {}, DRAWN),
}


@pytest.mark.parametrize(("top", "keys", "expected"), CHANGES.values(), ids=CHANGES)
def test_an_edited_experiment(edited, top, keys, expected):
    assert configured(edited, top, **keys) == expected


EDITS = {
    "a colour": ("batchscope/figures/canvas.py", "#0072b2", "#0072b3", DRAWN),
    "a font size": ("report/batchscope.mplstyle", "\nfont.size: 9", "\nfont.size: 8", DRAWN),
    "a comment": ("batchscope/training/trainer.py", "import mmap\n", "import mmap  # now\n", {}),
    **{
        f"the version of {step}": (
            *(f"batchscope/{place}.py", f'"{VERSIONS[step]}"', f'"{VERSIONS[step]}0"'),
            {**jobs, **TABLES},
        )
        for step, place, jobs in (
            ("sharpness", "measures/sharpness", {"sharpness": 4}),
            ("train", "study/versions", trained(4)),
            ("time_epoch", "timing/time_epoch", {"time_epoch": 4}),
        )
    },
}


@pytest.mark.parametrize(("file", "old", "new", "expected"), EDITS.values(), ids=EDITS)
def test_an_edited_file(edited, file, old, new, expected):
    path = edited / "workflow" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert project.planned(edited) == expected


def test_what_a_document_states_is_tested(edited):
    test = {"type": "trend", "experiment": "batch_size", "column": "test_accuracy"}
    claim = {"id": "falls", "document": "D", "place": "Figure 1", "sentence": "It falls."}
    claims = [{**claim, "test": {**test, "direction": "falls"}}]
    assert configured(edited, {"claims": claims}, **ONE) == {"claims": 1, **DRAWN}
    project.run(edited)
    (row,) = project.rows(edited, "tiny", "claims")
    assert (row["verdict"], row["n"]) == ("provisional", "2")
    assert project.planned(edited) == {}


def test_a_fresh_clone_over_existing_results(finished, tmp_path):
    clone = project.copy(tmp_path)
    project.write_config(clone, project.TINY)
    shutil.copytree(finished / "results", clone / "results", dirs_exist_ok=True)
    for initial in clone.glob("results/runs/*/initial.npz"):
        initial.touch()  # as the last training to share it does
    jobs = project.planned(clone)
    assert set(jobs) <= {"tabulate", "figures", "report"}


def test_a_users_own_model_and_a_run_that_diverges(edited):
    shutil.copy(project.ROOT / "tests" / "data" / "noisy_model.py", edited / "my_model.py")
    vary = {"batch_size": [128], "learning_rate": [0.05, 1e30]}
    own = {"set": {"model": "mine"}, "vary": vary, "seeds": 1, "measure": ["evaluate"]}
    planned = configured(edited, {"models": {"mine": "my_model.py"}}, **own, **ONE)
    assert planned == {"train": 2, "evaluate": 2, **TABLES}
    project.run(edited)
    assert [(row["model"], row["status"]) for row in runs(edited)] == [
        ("mine", "finished"),
        ("mine", "diverged"),
    ]
    assert "no longer finite" in project.report(edited)
    assert project.planned(edited) == {}


def test_own_models_are_built_before_their_data_are_prepared(edited):
    """Every fault at once, at its line, without a trace of the program; nothing stays locked."""
    texts = {
        "division": "def build(input_shape, classes):\n    return 1 / 0\n",
        "units": (
            "import keras\n\ndef build(input_shape, classes):\n    return keras.Sequential("
            "[keras.layers.Flatten(), keras.layers.Dense(classes + 1)])\n"
        ),
    }
    for name, text in texts.items():
        (edited / f"{name}.py").write_text(text)

    models = {name: f"{name}.py" for name in texts}
    vary = {"batch_size": [64], "model": [*texts, "small_cnn"]}
    planned = configured(edited, {**SMALLER, "models": models}, vary=vary)
    assert planned["prepare_data"] == 1
    before = set(edited.glob("results/**/*"))
    done = project.snakemake(edited, "--cores", "2")
    assert done.returncode == 1
    lines = done.stdout[done.stdout.index("division.py") :].strip().splitlines()
    assert lines == [
        "division.py:2: cannot be built for examples (8, 8, 1): "
        "ZeroDivisionError: division by zero",
        "units.py: Expected an output of shape (None, 10) for classification "
        "(received (None, 11)).",
    ]
    assert set(edited.glob("results/**/*")) == before
    assert project.planned(edited) == planned


def test_killed_unlocked_and_finished(edited):
    """kill -9 of everything while trainings run; what was finished is not done again."""
    # The weights of an epoch are there while a training runs.
    configured(edited, set={"epochs": 400}, measure=["evaluate"], at_epochs=[1], **ONE)
    killed_when(edited, "results/runs/*ep=400*/epochs/*.npz")
    finished = {path: path.stat().st_mtime_ns for path in edited.glob("results/runs/*/record.json")}
    project.run(edited)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert project.planned(edited) == {}
    assert [row["status"] for row in runs(edited)] == ["finished"] * 4


def started(folder: Path, pattern: str, *targets: str) -> subprocess.Popen:
    """Starts a study, and waits until a file is there."""
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *targets]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    limit = time.monotonic() + 120
    while not list(folder.glob(pattern)):
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.01)
    return process


def killed_when(folder: Path, pattern: str) -> None:
    """Runs a study and kills all of it with SIGKILL as soon as a file is there; unlocks it."""
    process = started(folder, pattern)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    project.run(folder, "--unlock")


def test_killed_when_its_data_are_there_it_is_made_to_the_report(tmp_path):
    folder = project.copy(tmp_path / "a{b} <c>")
    one = {**EXPERIMENT, "vary": {"batch_size": [256]}, "measure": ["evaluate"], "seeds": 1, **ONE}
    project.write_config(folder, {**project.TINY, "experiments": {"batch_size": one}})
    killed_when(folder, "results/data/*/record.json")
    project.run(folder)
    assert (folder / "results" / "report.html").exists() and project.planned(folder) == {}
    for deleted in ("runs/*/best.npz", "studies/*/*/figures/figures.json"):
        next((folder / "results").glob(deleted)).unlink()
    project.run(folder)
    assert len(list(folder.glob("results/runs/*/best.npz"))) == 1
    assert project.planned(folder) == {}


def test_when_snakemake_alone_is_killed_its_jobs_end(tmp_path):
    """Trainings with several threads, which have processes of their own, behind shells."""
    folder = project.copy(tmp_path / "project")
    long = {**EXPERIMENT, "set": {"epochs": 100_000, "threads": 2}}
    project.write_config(folder, {**project.TINY, "experiments": {"batch_size": long}})
    process = started(folder, "results/running/*.json", "runs")
    jobs = psutil.Process(process.pid).children(recursive=True)
    assert any("train" in job.cmdline() for job in jobs)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(jobs, timeout=60)
    for job in alive:
        job.kill()
    assert not alive


def test_a_broken_config_and_an_unknown_flag_are_refused(edited):
    done = project.snakemake(edited, "-n", "--config", "parial=true")
    assert done.returncode != 0 and "Did you mean 'partial'" in done.stdout
    (edited / "config.yaml").write_text("study: tiny\nstudy: again\n")
    done = project.snakemake(edited, "-n")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert "study" in done.stdout.splitlines()[-1]
