"""A study whose runs a command makes, from its file to the report, and again."""

import os
import shutil
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
FILE = ("--configfile", "mine/mine.yaml")
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
    return project.planned(folder, *FILE)


def records(folder) -> dict[str, int]:
    return {
        path.parent.name: path.stat().st_mtime_ns
        for path in folder.glob("results/runs/*/record.json")
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = project.copy(tmp_path_factory.mktemp("project"))
    write(folder)
    return folder, project.run_without_tensorflow(folder, *FILE)


@pytest.fixture
def edited(finished, tmp_path):
    """A copy to edit."""
    return shutil.copytree(finished[0], tmp_path / "copy", symlinks=True)


def test_it_runs_to_its_report_without_tensorflow(finished):
    folder, output = finished
    assert "12 runs: 12 finished" in output
    assert project.planned(folder, *FILE) == {}
    assert project.snakemake(folder, "--lint", *FILE).returncode == 0
    results = folder / "results" / "studies" / "theirs" / "a"
    runs = pandas.read_csv(results / "runs.csv")
    assert len(runs) == 12 and {*runs["status"]} == {"finished"}
    assert {*runs["machine"]} == {"local"} and {*runs["own_mode"]} == {"ok"}
    assert {*runs["learning_rate"]} == {0.02, 0.04} and {*runs["steps_run"]} == {400}
    assert (runs["test_accuracy"] > 0.4).all() and (runs["memory_peak_mb"] > 5).all()
    rows = pandas.read_csv(results / "trajectories.csv")
    assert len(rows) == 12 * 20 and rows["seconds"].isna().all()
    fits = pandas.read_csv(results / "critical_batch_size.csv")
    # The script's loss falls as exp(-updates / (1 + 40 / batch size)).
    assert ((fits["critical_batch_size"] - 40).abs() < 4).all()
    drawn = {path.stem for path in (results / "figures").glob("*.png")}
    assert drawn >= {"critical_batch_size", "progress"}
    assert "fastest_batch_size" not in drawn
    page = project.report(folder, "studies/theirs")
    assert "12 runs" in page and "made elsewhere" not in page and "python script.py bs=" in page
    log = "".join(path.read_text() for path in folder.glob("logs/run_command/*.log"))
    assert log.count(": finished\n") == 12
    # Losses fall faster up to the largest rate: larger rates come before timings.
    words = [sys.executable, "workflow/run.py", "advice", "mine/mine.yaml"]
    advice = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    line = "vary: {batch_size: [8, 32, 128], learning_rate: [0.02, 0.04, 0.08, 0.16]}"
    assert line in advice and "alone: true" not in advice and "time_epoch" not in advice
    assert line in page


def test_only_what_an_edit_changes_is_made_again(edited):
    """The tables are made again in any case: the file of the study is in another folder."""
    vary = KEYS["vary"]
    new = planned(edited, vary={**vary, "batch_size": [8, 16, 32, 128]})
    assert new == {"run_command": 4, **DRAWN}
    assert planned(edited, vary={**vary, "batch_size": [8, 32]}) == DRAWN
    assert planned(edited, resources={"threads": 2, "mem_mb": 3000}, resume=True) == DRAWN
    assert planned(edited, env={"A": 1}) == {"run_command": 12, **DRAWN}
    path = edited / "mine" / "script.py"
    before, text = records(edited), path.read_text()
    path.write_text(text + "# another\n")
    assert planned(edited)["run_command"] == 12
    # One run alone, as a job of a cluster is requested.
    names = [*config.study(edited / "mine" / "mine.yaml").commands]
    project.run(edited, f"results/runs/{names[0]}/record.json", *FILE)
    after = records(edited)
    assert {*after} == {*before, names[0]} and {name: after[name] for name in before} == before
    path.write_text(text)
    assert "run_command" not in planned(edited)


def test_a_deleted_result_is_made_again(edited):
    for pattern in ("record.json", "trajectory.csv"):
        max(edited.glob(f"results/runs/*/{pattern}")).unlink()
        assert planned(edited) == {"run_command": 1, **DRAWN}
    project.run(edited, *FILE)
    for files in edited.glob("results/runs/*/files"):  # of the script: no table reads them
        shutil.rmtree(files)
    assert planned(edited) == {}


def test_a_failed_run_stops_no_other_and_a_partial_report_quotes_it(edited):
    changes = {"set": {"learning_rate": 0.1}, "seeds": 1}
    changes |= {"vary": {"batch_size": [8, 32], "mode": ["exit", "nan", "memory"]}}
    write(edited, **changes)
    done = project.snakemake(edited, *FILE, "--cores", "2", "--keep-going")
    assert done.returncode == 1 and "the script gave up" in done.stdout
    project.run(edited, "--config", "partial=true", *FILE)
    rows = project.rows(edited, "theirs/a")
    statuses = {(row["own_mode"], row["batch_size"]): row["status"] for row in rows}
    expected = {"exit": "missing", "nan": "diverged", "memory": "out_of_memory"}
    assert statuses == {(mode, size): expected[mode] for mode in expected for size in ("8", "32")}
    page = project.report(edited, "studies/theirs")
    assert "the script gave up" in page and "MemoryError: cannot have" in page
    assert planned(edited, **changes)["run_command"] == 2


def test_killed_unlocked_and_finished(edited):
    """Snakemake alone is killed: its scripts end, and finished runs are not made again."""
    changes = {"vary": {"batch_size": [8, 32], "learning_rate": [0.3]}, "seeds": 2}
    write(edited, **changes)
    wait_file = edited / "wait"
    wait_file.write_text("32")
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "4", *FILE],
        cwd=edited,
        env={**os.environ, "BATCHSCOPE_TEST_WAIT": str(wait_file)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 300
    while len([*edited.glob("results/runs/*lr=0.3+*/output.txt")]) + len(records(edited)) < 18:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    process.kill()
    process.wait()
    before = records(edited)
    assert len(before) == 14
    time.sleep(1)  # the script's processes end by themselves
    wait_file.unlink()
    time.sleep(1)  # and do not go on
    assert records(edited) == before
    project.run(edited, "--unlock", *FILE)
    project.run(edited, *FILE)
    after = records(edited)
    assert len(after) == 16 and {name: after[name] for name in before} == before
    assert planned(edited, **changes) == {}
