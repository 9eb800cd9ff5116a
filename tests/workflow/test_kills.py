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

import project
from batchscope.core import disk

pytestmark = pytest.mark.slow

DEAD = 2**22 + 1  # above the largest process id
TIMEOUT = 600  # seconds, for a few seconds of work on an idle machine
STUDY = {
    "study": "killed",
    # Its training steps sleep as long as a file exists.
    "models": {"slow": "tests/slurm/slow_model.py"},
    "defaults": {"dataset": "digits", "optimizer": "sgd", "learning_rate": 0.05, "batch_size": 64},
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
        }
    },
}


def start(folder: Path, sleep_file: Path, condition: Callable[[], bool]) -> subprocess.Popen:
    """Start the study and wait for a condition."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with open(folder / "output", "w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--cores", "4"],
            cwd=folder,
            env={**environment, "BATCHSCOPE_TEST_SLEEP": str(sleep_file)},
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
    results, sleep_file = folder / "results", tmp_path / "sleep"
    project.write_config(folder, STUDY)
    sleep_file.touch()

    def glob(pattern: str) -> list[Path]:
        return [*results.glob(pattern)]

    def both_train() -> bool:
        return len(glob("runs/*+slow-*/epochs/1.npz")) == 2

    # kill -9 of all processes as soon as the data exist.
    process = start(folder, sleep_file, lambda: glob("data/*/record.json"))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    project.run(folder, "--unlock")

    # kill -9 of Snakemake alone: its jobs end.
    process = start(folder, sleep_file, lambda: both_train() and glob("runs/*small_cnn*/best.npz"))
    jobs = psutil.Process(process.pid).children(recursive=True)
    assert sum("train" in job.cmdline() for job in jobs) >= 2
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(jobs, timeout=TIMEOUT)
    assert not alive
    project.run(folder, "--unlock")
    records = {path: path.stat().st_mtime_ns for path in glob("runs/*/record.json")}
    assert len(records) == 1
    # The next trainings begin again, and write these files.
    for path in [*glob("runs/*+slow-*/epochs/1.npz"), *glob("runs/*/checkpoint.npz")]:
        path.unlink()

    # Ctrl-C.
    process = start(folder, sleep_file, both_train)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(TIMEOUT) == 1
    output = (folder / "output").read_text()
    assert output.strip().splitlines()[-1] == "Interrupted: the same command continues."
    assert "Traceback" not in output and "Error" not in output, output
    assert not glob("*.html") and len(glob("runs/*/record.json")) == 1

    sleep_file.unlink()
    temporary = results / f".a.{disk._machine()}-{DEAD}-abcdefgh.tmp"
    temporary.touch()  # of a process that was killed
    project.run(folder)
    assert not temporary.exists() and (results / "report.html").exists()
    assert project.planned(folder) == {}
    assert {path: path.stat().st_mtime_ns for path in records} == records
    rows = project.rows(folder, "killed/model")
    assert [row["status"] for row in rows] == ["finished"] * 3
    resumed = {path: disk.read_json(path)["resumed"] for path in glob("runs/*/record.json")}
    assert all(resumed[path] == (0 if path in records else 1) for path in resumed), resumed
