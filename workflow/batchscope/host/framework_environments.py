"""The Python environment of each framework that is timed beside TensorFlow, and how it is made.

They cannot share one: their pins of NumPy exclude each other, and two of them in one process
would contend for its threads. An environment lies in `.frameworks/{framework}/` below the working
directory, or in `{framework}/` below the folder that BATCHSCOPE_FRAMEWORKS names, which several
projects may share. It counts as installed once its record says so, which is written last and
holds the digest of the pins that it was made from.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from batchscope import disk, project_files
from batchscope.catalogue import framework_names
from batchscope.errors import UserError

VARIABLE = "BATCHSCOPE_FRAMEWORKS"
_LAST_LINES = 12  # of pip's output that a failure shows
# Prints the versions that are installed: those of pins may carry a local suffix.
_VERSIONS = """
from importlib.metadata import distributions
for found in distributions(): print(found.metadata["Name"], found.version)
"""


def folder(framework: str) -> Path:
    """Returns the folder of a framework's environment; it need not be there."""
    return Path(os.environ.get(VARIABLE) or ".frameworks") / framework


def python(framework: str) -> Path:
    """Returns the interpreter of a framework's environment, an absolute path."""
    return Path(os.path.abspath(folder(framework))) / "bin" / "python"


def record(framework: str) -> Path:
    """Returns the file that says that a framework is installed."""
    return folder(framework) / "installed.json"


def lock(framework: str) -> Path:
    """Returns the file with a framework's pins."""
    return project_files.LOCKS / f"{framework}.lock"


def lock_digest(framework: str) -> str:
    """Returns the SHA-256 of a framework's pins."""
    return hashlib.sha256(lock(framework).read_bytes()).hexdigest()


def installed(framework: str) -> bool:
    """Whether a framework can be used here: its record is of the pins as they are now."""
    if framework == framework_names.OWN:
        return True
    try:
        found = json.loads(record(framework).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    current = isinstance(found, dict) and found.get("lock_sha256") == lock_digest(framework)
    return current and python(framework).exists()


def command(framework: str) -> str:
    """Returns the command that installs a framework."""
    return f"snakemake --cores 1 install_{framework}"


def install(framework: str, gpu: bool) -> None:
    """Makes a framework's environment anew; whatever fails leaves nothing that looks installed.

    Args:
        gpu: Whether this machine has one, and so needs what computes on it.

    Raises:
        UserError: If the framework is unknown or takes another Python, its folder holds
            something else, or pip fails.
    """
    found = framework_names.FRAMEWORKS.get(framework)
    if found is None:
        known = ", ".join(framework_names.FRAMEWORKS)
        raise UserError(f"framework: received {framework!r}; one of {known} is expected.")
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if found.python and running != found.python:
        raise UserError(
            f"{found.title}: received Python {running}; Python {found.python} is expected, the "
            f"only one that the pins in envs/{framework}.lock have wheels for. Set this project up "
            "with it, or leave the framework out."
        )
    place = folder(framework)
    if place.exists() and any(place.iterdir()) and not (place / "pyvenv.cfg").exists():
        raise UserError(
            f"{place}: received a folder that holds something else; an environment, an empty "
            f"folder or none is expected. Remove it, or let {VARIABLE} name another."
        )
    shutil.rmtree(place, ignore_errors=True)
    try:
        _run([sys.executable, "-m", "venv", str(place)], found)
        _run(pip_command(framework, gpu), found)
        asked = [str(python(framework)), "-c", _VERSIONS]
        lines = subprocess.run(
            asked, check=True, capture_output=True, text=True
        ).stdout.splitlines()
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    details = {
        "framework": framework,
        "lock_sha256": lock_digest(framework),
        "python": platform.python_version(),
        "packages": dict(sorted(line.split() for line in lines)),
    }
    disk.write_json(record(framework), details)


def pip_command(framework: str, gpu: bool) -> list[str]:
    """Returns the command that puts a framework's pins into its environment."""
    found = framework_names.FRAMEWORKS[framework]
    words = [str(python(framework)), "-m", "pip", "install", "--disable-pip-version-check"]
    # An index that cannot be reached holds pip up for long enough with one retry.
    words += ["--no-input", "--retries", "1"]
    if found.cpu_index and not gpu:
        words += ["--extra-index-url", found.cpu_index]
    return [*words, "-r", str(lock(framework)), *(found.gpu_requirements if gpu else ())]


def _run(words: list[str], framework: framework_names.Framework) -> None:
    """Runs a command, its output on this process's; shows the end of it where it fails."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()][-_LAST_LINES:]
        raise UserError(
            f"{framework.title}: cannot be installed from envs/{framework.name}.lock; a package "
            "index that can be reached, with its wheels for this machine, is expected. The last "
            "lines of what was tried:\n  " + "\n  ".join(lines)
        )
    print(done.stdout, end="")
