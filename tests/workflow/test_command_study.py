"""A study whose runs a command makes, from its file to the report, and again."""

import shutil
import subprocess
import sys

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


def test_it_runs_to_its_report_without_tensorflow(finished):
    folder, output = finished
    assert "12 runs: 12 finished" in output
    assert project.planned(folder, *FILE) == {}
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


def test_only_what_an_edit_changes_is_made_again(finished):
    folder, _ = finished
    vary = KEYS["vary"]
    new = planned(folder, vary={**vary, "batch_size": [8, 16, 32, 128]})
    assert new == {"run_command": 4, **DRAWN}
    assert planned(folder, vary={**vary, "batch_size": [8, 32]}) == DRAWN
    drawn = planned(folder, resources={"threads": 2, "mem_mb": 3000}, resume=True)
    assert drawn == {"figures": 1, "report": 1}
    assert planned(folder, env={"A": 1}) == {"run_command": 12, **DRAWN}
    path = folder / "mine" / "script.py"
    before, text = records(folder), path.read_text()
    path.write_text(text + "# another\n")
    assert planned(folder)["run_command"] == 12
    # One run alone, as a job of a cluster is requested.
    names = [*config.study(folder / "mine" / "mine.yaml").commands]
    project.run(folder, f"results/runs/{names[0]}/record.json", *FILE)
    after = records(folder)
    assert {*after} == {*before, names[0]} and {name: after[name] for name in before} == before
    path.write_text(text)
    assert "run_command" not in planned(folder)


def test_a_deleted_result_is_made_again(finished):
    folder, _ = finished
    runs = [*config.study(folder / "mine" / "mine.yaml").commands]
    for run, file in ((runs[0], "record.json"), (runs[1], "trajectory.csv")):
        (folder / "results" / "runs" / run / file).unlink()
    assert planned(folder) == {"run_command": 2, **DRAWN}
    project.run(folder, *FILE)
    for files in folder.glob("results/runs/*/files"):  # of the script: no table reads them
        shutil.rmtree(files)
    assert planned(folder) == {}


def test_a_failed_run_stops_no_other_and_a_partial_report_quotes_it(finished):
    folder, _ = finished
    changes = {"set": {"learning_rate": 0.1}, "seeds": 1}
    changes |= {"vary": {"batch_size": [8], "mode": ["exit", "nan", "memory"]}}
    write(folder, **changes)
    done = project.snakemake(folder, *FILE, "--cores", "2", "--keep-going")
    assert done.returncode == 1 and "the script gave up" in done.stdout
    project.run(folder, "--config", "partial=true", *FILE)
    rows = project.rows(folder, "theirs/a")
    statuses = {row["own_mode"]: row["status"] for row in rows}
    assert statuses == {"exit": "missing", "nan": "diverged", "memory": "out_of_memory"}
    page = project.report(folder, "studies/theirs")
    assert "the script gave up" in page and "MemoryError: cannot have" in page
    assert planned(folder, **changes)["run_command"] == 1
