"""A study that is killed and interrupted: the same command continues."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import commanded
import project
from batchscope.core import disk

pytestmark = pytest.mark.slow

TIMEOUT = 600  # seconds, for a few seconds of work on an idle machine
STUDY = {
    "study": "killed",
    # Its training steps sleep as long as a file exists.
    "models": {"slow": "tests/slurm/slow_model.py"},
    "defaults": {"dataset": "digits", "optimizer": "sgd", "learning_rate": 0.05, "batch_size": 270},
    "experiments": {
        "model": {
            "question": "Does it continue?",
            # A training with more threads does not run in a fork of the server.
            "cases": [
                {"model": "small_cnn", "epochs": 2},
                {"model": "slow", "epochs": 100},
                {"model": "slow", "epochs": 100, "threads": 2},
            ],
            "seeds": 1,
            "measure": ["evaluate"],
            "at_epochs": [1],
            "figures": ["accuracy"],
        },
        # The script waits with batch size 32 as long as a file says so.
        "script": commanded.experiment(vary={"batch_size": [8, 32]}, figures=["best_losses"]),
    },
}


def start(folder: Path, files: dict[str, Path], condition: Callable[[], bool]) -> subprocess.Popen:
    """Start the study, with files that let its jobs wait, until a condition holds."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with open(folder / "output", "w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--cores", "6"],
            cwd=folder,
            env={**environment, **{f"BATCHSCOPE_TEST_{name}": str(files[name]) for name in files}},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # Where the tests run in the background, a child would ignore SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert process.poll() is None and time.monotonic() < end, (folder / "output").read_text()
        time.sleep(0.02)
    return process


def test_the_same_command_continues(tmp_path):
    folder = project.copy(tmp_path / "a{b} <c>")
    results = folder / "results"
    files = {"SLEEP": tmp_path / "sleep", "WAIT": tmp_path / "wait"}
    project.write_config(folder, STUDY)
    (folder / "script.py").write_text(commanded.SCRIPT)
    files["SLEEP"].touch()
    files["WAIT"].write_text("32")

    def glob(pattern: str) -> list[Path]:
        return [*results.glob(pattern)]

    def both_train() -> bool:
        return len(glob("runs/*+slow-*/epochs/1.npz")) == 2

    def others_finished_or_wait() -> bool:
        printed = [path for path in glob("runs/*/output.txt") if path.stat().st_size > 0]
        return len(glob("runs/*/record.json")) == 2 and len(printed) == 2

    # kill -9 of Snakemake alone: its jobs and their scripts end.
    process = start(folder, files, lambda: both_train() and others_finished_or_wait())
    jobs = psutil.Process(process.pid).children(recursive=True)
    assert sum("train" in job.cmdline() for job in jobs) >= 2
    assert sum("script.py" in job.cmdline() for job in jobs) == 2  # with its supervisor
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(jobs, timeout=TIMEOUT)
    assert not alive
    project.run(folder, "--unlock")
    records = {path: path.stat().st_mtime_ns for path in glob("runs/*/record.json")}
    assert len(records) == 2
    # The next trainings begin again, and write these files.
    for path in [*glob("runs/*+slow-*/epochs/1.npz"), *glob("runs/*/checkpoint.npz")]:
        path.unlink()

    # Ctrl-C.
    process = start(folder, files, both_train)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(TIMEOUT) == 1
    output = (folder / "output").read_text()
    assert output.strip().splitlines()[-1] == "Interrupted: the same command continues."
    assert "Traceback" not in output and "Error" not in output, output
    assert not glob("*.html") and len(glob("runs/*/record.json")) == 2

    for file in files.values():
        file.unlink()
    temporary = results / ".a.abcdefgh.tmp"
    temporary.touch()  # of a process that was killed two days ago
    os.utime(temporary, (0, time.time() - 2 * 24 * 3600))
    project.run(folder)
    assert not temporary.exists() and (results / "report.html").exists()
    assert project.planned(folder) == {}
    assert {path: path.stat().st_mtime_ns for path in records} == records
    for experiment, count in (("model", 3), ("script", 2)):
        rows = project.rows(folder, f"killed/{experiment}")
        assert [row["status"] for row in rows] == ["finished"] * count
    resumed = {path: disk.read_json(path)["resumed"] for path in glob("runs/*+slow-*/record.json")}
    assert [*resumed.values()] == [1, 1], resumed
