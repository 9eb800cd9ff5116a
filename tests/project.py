"""A copy of the project to run the workflow in, and what a dry-run of it would do."""

import atexit
import csv
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
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
            "seeds": 2,
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
    """Copies what a clone would hold, with what is not committed yet, and no results."""
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
    # It serves every test: the packages that the first of them puts in its path are not for all.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen(
        command, cwd=ROOT, env=own, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(server.communicate)  # its input closes: it ends
    return server


def _asked(**request: object) -> tuple[int, str]:
    """Lets the server run something; returns its exit status and its output."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    server = _server()
    with tempfile.NamedTemporaryFile("r") as output:
        request = {"environment": environment, "output": output.name, **request}
        print(json.dumps(request), file=server.stdin, flush=True)
        return int(server.stdout.readline()), output.read()


def snakemake(project: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Runs `snakemake ARGUMENTS` in a project; its output and errors are one text."""
    return subprocess.CompletedProcess(arguments, *_asked(folder=str(project), arguments=arguments))


def forked(program: str, *words: object, **environment: str) -> subprocess.CompletedProcess:
    """Runs what `python("-c", PROGRAM, *WORDS)` does, in a process with TensorFlow imported."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), **environment}
    given = {"program": program, "arguments": [*map(str, words)], "environment": environment}
    with tempfile.NamedTemporaryFile("r") as errors:
        done = _asked(folder=str(ROOT), errors=errors.name, **given)
        return subprocess.CompletedProcess(words, *done, errors.read())


def python(*words: object, **environment: str) -> subprocess.CompletedProcess:
    """Runs `python WORDS` in the project's folder, with the library to import."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), **environment}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


def rows(project: Path, place: str, table: str = "runs") -> list[dict[str, str]]:
    """Returns the rows of a table below `results/studies`."""
    path = project / "results" / "studies" / place / f"{table}.csv"
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(project: Path, *arguments: str) -> str:
    done = snakemake(project, "--cores", "2", *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


def run_without_tensorflow(project: Path, *arguments: str) -> str:
    """Runs Snakemake where an import of TensorFlow fails, and is noticed."""
    package, started = project / "watched" / "tensorflow", project / "started"
    package.mkdir(parents=True)
    text = f"import pathlib\npathlib.Path({str(started)!r}).touch()\nraise ImportError\n"
    (package / "__init__.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(package.parent))
        output = run(project, *arguments)
    assert not started.exists()
    return output


def finished(target: Path, config: dict) -> Path:
    """Returns a copy of the project in which a study was run to its report."""
    write_config(copy(target), config)
    run(target)
    return target


def report(project: Path, place: str = "") -> str:
    """Returns a report as HTML: the default configuration's, or one below `results`."""
    return (project / "results" / place / "report.html").read_text(encoding="utf-8")


def planned(project: Path, *arguments: str) -> dict[str, int]:
    """Returns rule -> jobs that a run would start now; empty for `Nothing to be done`."""
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
    for rule in ("all", "complete"):  # these make no result
        counts.pop(rule, None)
    return counts


def locked(name: str) -> dict[str, str]:
    """Package -> version of a lock file, as it holds for Python 3.11 on Linux."""
    from packaging.markers import Marker

    environment = {
        "python_version": "3.11",
        "python_full_version": "3.11.9",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }
    versions = {}
    for line in (ROOT / name).read_text().splitlines():
        match = re.match(r"([a-z0-9-]+)(?:\[.*\])?==([^\s;\\]+)(?: ; ([^\\]+))?", line)
        if match and (not match[3] or Marker(match[3].strip()).evaluate(environment)):
            versions[match[1]] = match[2]
    return versions
