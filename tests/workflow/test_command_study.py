"""A study whose runs a command makes, from its file to the report, and again."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pandas
import pytest
import yaml

import commanded
import project
from batchscope.study import config

pytestmark = pytest.mark.slow

DRAWN = {"tabulate": 1, "figures": 1, "report": 1}
WORDS = ("lr={learning_rate}", "mode={mode}")
KEYS = {
    "set": {"mode": "ok"},
    "vary": {"batch_size": [8, 32, 128], "learning_rate": [0.02, 0.04]},
    "seeds": 2,
    "margins": {"test_accuracy": 0.01},
}


def write(folder, **changes) -> None:
    study = commanded.study(folder / "mine", *WORDS, **{**KEYS, **changes})
    path = folder / "mine" / "mine.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")


def planned(folder, **changes) -> dict[str, int]:
    write(folder, **changes)
    return project.planned(folder, "--configfile", "mine/mine.yaml")


def run(folder, *more) -> str:
    return project.run(folder, *more, "--configfile", "mine/mine.yaml")


def records(folder) -> dict[str, int]:
    return {
        path.parent.name: path.stat().st_mtime_ns
        for path in folder.glob("results/runs/*/record.json")
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = project.copy(tmp_path_factory.mktemp("project"))
    write(folder)
    return folder, project.run_without_tensorflow(folder, "--configfile", "mine/mine.yaml")


@pytest.fixture
def edited(finished, tmp_path):
    """A copy to edit."""
    return shutil.copytree(finished[0], tmp_path / "copy", symlinks=True)


def test_it_runs_to_its_report_without_tensorflow(finished):
    folder, output = finished
    assert "12 runs: 12 finished" in output
    assert project.planned(folder, "--configfile", "mine/mine.yaml") == {}
    assert project.snakemake(folder, "--lint", "--configfile", "mine/mine.yaml").returncode == 0
    results = folder / "results" / "studies" / "theirs" / "a"
    runs = pandas.read_csv(results / "runs.csv")
    assert len(runs) == 12 and {*runs["status"]} == {"finished"}
    assert {*runs["machine"]} == {"local"} and {*runs["own_mode"]} == {"ok"}
    assert {*runs["learning_rate"]} == {0.02, 0.04} and {*runs["steps_run"]} == {400}
    assert (runs["test_accuracy"] > 0.4).all() and (runs["memory_peak_mb"] > 5).all()
    rows = pandas.read_csv(results / "trajectories.csv")
    assert len(rows) == 12 * 20 and rows["seconds"].isna().all()
    fits = pandas.read_csv(results / "critical_batch_size.csv")
    # Its loss falls as exp(-updates / (1 + 40 / batch size)).
    assert ((fits["critical_batch_size"] - 40).abs() < 4).all()
    drawn = {path.stem for path in (results / "figures").glob("*.png")}
    assert drawn >= {"critical_batch_size", "progress"}
    assert "fastest_batch_size" not in drawn
    page = project.report(folder, "studies/theirs")
    assert "12 runs" in page and "made elsewhere" not in page and "python script.py bs=" in page
    log = "".join(path.read_text() for path in folder.glob("logs/run_command/*.log"))
    assert log.count(": finished\n") == 12


def test_advice_and_report_try_rates_beyond_the_edge_first(finished):
    """Longer and longer steps are better up to the last rate; seconds are worth nothing before."""
    folder, _ = finished
    words = [sys.executable, "workflow/run.py", "advice", "mine/mine.yaml"]
    said = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    line = "vary: {batch_size: [8, 32, 128], learning_rate: [0.02, 0.04, 0.08, 0.16]}"
    assert line in said and "alone: true" not in said and "time_epoch" not in said
    assert line in project.report(folder, "studies/theirs")


NEW = {"run_command": 4, **DRAWN}
EDITS = {
    "one more batch size": ({"vary": {**KEYS["vary"], "batch_size": [8, 16, 32, 128]}}, NEW),
    "a batch size removed": ({"vary": {**KEYS["vary"], "batch_size": [8, 32]}}, DRAWN),
    "resources and resume": ({"resources": {"threads": 2, "mem_mb": 3000}, "resume": True}, DRAWN),
    "a variable": ({"env": {"A": 1}}, {"run_command": 12, **DRAWN}),
}


@pytest.mark.parametrize(("changes", "expected"), EDITS.values(), ids=EDITS)
def test_an_edited_study(edited, changes, expected):
    """Its copy is tabulated in any case: the file of the study lies elsewhere."""
    assert planned(edited, **changes) == expected


def test_an_edited_input_makes_new_runs_and_keeps_the_old_ones(edited):
    path = edited / "mine" / "script.py"
    before, text = records(edited), path.read_text()
    path.write_text(text + "# another\n")
    assert planned(edited)["run_command"] == 12
    # One alone, as a job of a cluster is asked for.
    names = [*config.study(edited / "mine" / "mine.yaml").commands]
    run(edited, f"results/runs/{names[0]}/record.json")
    after = records(edited)
    assert {*after} == {*before, names[0]} and {name: after[name] for name in before} == before
    path.write_text(text)
    assert "run_command" not in planned(edited)


def test_whatever_is_deleted_is_made_again(edited):
    for pattern in ("record.json", "trajectory.csv"):
        max(edited.glob(f"results/runs/*/{pattern}")).unlink()
        assert planned(edited) == {"run_command": 1, **DRAWN}
    run(edited)
    assert planned(edited) == {}
    for files in edited.glob("results/runs/*/files"):  # the script's own: no table reads them
        shutil.rmtree(files)
    assert planned(edited) == {}


def test_one_that_fails_stops_no_other_and_a_partial_report_says_why(edited):
    changes = {"set": {}, "vary": {"batch_size": [8, 32], "mode": ["exit", "nan", "memory"]}}
    changes |= {"set": {"learning_rate": 0.1}, "seeds": 1}
    write(edited, **changes)
    done = project.snakemake(
        edited, "--configfile", "mine/mine.yaml", "--cores", "2", "--keep-going"
    )
    assert done.returncode == 1 and "the script gave up" in done.stdout
    run(edited, "--config", "partial=true")
    rows = project.rows(edited, "theirs/a")
    statuses = {(row["own_mode"], row["batch_size"]): row["status"] for row in rows}
    wanted = {"exit": "missing", "nan": "diverged", "memory": "out_of_memory"}
    assert statuses == {(mode, size): wanted[mode] for mode in wanted for size in ("8", "32")}
    page = project.report(edited, "studies/theirs")
    assert "the script gave up" in page and "MemoryError: cannot have" in page
    assert planned(edited, **changes)["run_command"] == 2


@pytest.mark.parametrize("whole", [True, False], ids=["all", "snakemake"])
def test_killed_unlocked_and_finished(edited, whole):
    """kill -9 while runs are made: what had finished is not made again, and nothing goes on."""
    changes = {"vary": {"batch_size": [8, 32], "learning_rate": [0.3]}, "seeds": 2}
    write(edited, **changes)
    wait = edited / "wait"
    wait.write_text("32")
    command = [sys.executable, "-m", "snakemake", "--cores", "4", "--configfile", "mine/mine.yaml"]
    started = subprocess.Popen(
        command,
        cwd=edited,
        env={**os.environ, "BATCHSCOPE_TEST_WAIT": str(wait)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while len([*edited.glob("results/runs/*lr=0.3+*/output.txt")]) + len(records(edited)) < 18:
        assert started.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGKILL) if whole else started.kill()
    started.wait()
    finished = records(edited)
    assert len(finished) == 14
    time.sleep(1)  # the script's own processes end by themselves
    wait.unlink()
    time.sleep(1)  # and do not go on
    assert records(edited) == finished
    project.run(edited, "--unlock", "--configfile", "mine/mine.yaml")
    run(edited)
    after = records(edited)
    assert len(after) == 16 and {name: after[name] for name in finished} == finished
    assert planned(edited, **changes) == {}
