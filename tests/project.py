"""A copy of the project to run the workflow in, and the jobs that a dry-run plans."""

import atexit
import csv
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]

TINY = {
    "study": "tiny",
    "defaults": {
        "dataset": "digits",
        "model": "small_cnn",
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "epochs": 2,
    },
    "experiments": {
        "batch_size": {
            "title": "Tiny",
            "question": "Does the whole pipeline run?",
            "vary": {"batch_size": [64, 256]},
            "seeds": 1,
            "measure": {
                "evaluate": None,
                "sharpness": {"starts": 1, "iterations": 2, "dimensions": 5, "examples": 200},
                "weight_distance": None,
                "time_epoch": {"blocks": 3, "block_seconds": 0.05},
            },
        }
    },
}


def copy(target: Path) -> Path:
    """Copy the files of a clone, with those that are not committed yet, and no results."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def write_config(project: Path, config: dict) -> None:
    (project / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


@functools.cache
def _server() -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "tests" / "snakemake_server.py")]
    # It serves every test: packages that the first test puts in its path are not for the others.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)
    atexit.register(server.communicate)  # closes its input, which ends it
    return server


def _ask(**request: object) -> tuple[int, str]:
    """Send a request to the server; return the exit status and the output."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    server = _server()
    with tempfile.NamedTemporaryFile("r") as output:
        request = {"environment": environment, "output": output.name, **request}
        print(json.dumps(request), file=server.stdin, flush=True)
        return int(server.stdout.readline()), output.read()


def snakemake(project: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run `snakemake ARGUMENTS` in a project; its output and errors are one text."""
    return subprocess.CompletedProcess(arguments, *_ask(folder=str(project), arguments=arguments))


def forked(program: str, *words: object, **environment: str) -> subprocess.CompletedProcess:
    """Run `python -c PROGRAM WORDS` in a process that has imported TensorFlow."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), **environment}
    request = {"program": program, "arguments": list(map(str, words)), "environment": environment}
    with tempfile.NamedTemporaryFile("r") as errors:
        status, output = _ask(folder=str(ROOT), errors=errors.name, **request)
        return subprocess.CompletedProcess(words, status, output, errors.read())


def python(*words: object, **environment: str) -> subprocess.CompletedProcess:
    """Run `python WORDS` in the project's folder; it can import the library."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), **environment}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


def start(
    *words: object, environment: Mapping[str, str] = {}, **options: Any
) -> subprocess.Popen[str]:
    """Start `python WORDS`; it can import the library, and it receives SIGINT."""
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow"), **environment},
        text=True,
        # Where the tests run in the background, a child would ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **{"cwd": ROOT, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options},
    )


def wait_for(condition: Callable[[], object]) -> None:
    """Wait for what takes seconds where nobody else works, and at most five minutes."""
    limit = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def rows(project: Path, place: str, table: str = "runs") -> list[dict[str, str]]:
    """Return the rows of a table below `results/studies`."""
    path = project / "results" / "studies" / place / f"{table}.csv"
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(project: Path, *arguments: str) -> str:
    done = snakemake(project, "--cores", "2", *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


def report(project: Path, place: str = "") -> str:
    """Return the report of the default configuration, or one below `results`, as HTML."""
    return (project / "results" / place / "report.html").read_text(encoding="utf-8")


def planned(project: Path, *arguments: str) -> dict[str, int]:
    """Return rule -> number of jobs that a run would start; empty for `Nothing to be done`."""
    done = snakemake(project, "-n", "-p", "--cores", "2", *arguments)
    assert done.returncode == 0, done.stdout
    if "Nothing to be done" in done.stdout:
        return {}
    table = re.search(r"^job +count\n-+ +-+\n(.*?)^total +\d+$", done.stdout, re.M | re.S)
    assert table, done.stdout
    counts: dict[str, int] = {}
    for line in table[1].splitlines():
        rule, count = line.split()
        counts[rule] = counts.get(rule, 0) + int(count)
    for rule in ("all", "complete"):  # they make no result
        counts.pop(rule, None)
    return counts
