"""Ctrl-C in the middle of a study: no traceback, one last line, and the same command continues."""

import contextlib
import copy
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

import project
from batchscope import disk

pytestmark = pytest.mark.slow

DEAD = 2**22 + 1  # above the largest process id
LIMIT = 600  # seconds, for what takes a few where nobody else works


def commands(process: psutil.Process) -> list[list[str]]:
    """Return the command lines of all processes that a process started."""
    found = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found.append(child.cmdline())
    return found


def interrupt(folder: Path, step: str) -> tuple[int, str]:
    """Run Snakemake and press Ctrl-C in a job of a step; return its exit status and its output."""
    output = folder / "output"
    with open(output, "w") as file:
        process = subprocess.Popen(
            ["snakemake", "--cores", "2"],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # Where the tests run in the background, a child would ignore SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    limit = time.monotonic() + LIMIT
    while not any(step in words for words in commands(psutil.Process(process.pid))):
        assert process.poll() is None and time.monotonic() < limit, output.read_text()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(LIMIT), output.read_text()


def test_the_same_command_continues_after_ctrl_c(tmp_path):
    folder = project.copy(tmp_path)
    config = copy.deepcopy(project.TINY)
    config["experiments"]["batch_size"] |= {"seeds": 1, "measure": ["evaluate"]}
    project.write_config(folder, config)
    for step in ("train", "figures"):
        status, output = interrupt(folder, step)
        assert status == 1
        assert output.strip().splitlines()[-1] == "Interrupted: the same command continues."
        assert "Traceback" not in output and "Error" not in output, output
        assert not list(folder.glob("results/*.html"))
    temporary = folder / "results" / f".a.{disk._machine()}-{DEAD}-abcdefgh.tmp"
    temporary.touch()  # of a process that was killed
    project.run(folder)
    assert not temporary.exists()
    assert (folder / "results" / "report.html").exists()
    assert project.planned(folder) == {}
