"""Makes the environment of a framework: a virtual environment with the framework's pins."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from batchscope import disk
from batchscope.catalogue import framework_names
from batchscope.errors import UserError
from batchscope.host import absence, framework_environments

_RETRIES = 1  # an index that cannot be reached holds pip up for long enough with this
_LAST_LINES = 12  # of pip's output that a failure shows


def install(framework: str) -> None:
    """Makes a framework's environment anew; what was there of it goes first.

    Its record is written last. Whatever fails before leaves nothing that looks installed.

    Raises:
        UserError: If the framework is unknown or takes another Python, its folder holds
            something else, or pip fails.
    """
    found = framework_names.FRAMEWORKS.get(framework)
    if found is None:
        known = ", ".join(framework_names.FRAMEWORKS)
        raise UserError(f"framework: received {framework!r}; one of {known} is expected.")
    _check_python(found)
    folder = framework_environments.folder(framework)
    _clear(folder)
    try:
        _run([sys.executable, "-m", "venv", str(folder)], found)
        _run(pip_command(framework, absence.gpu_present()), found)
        packages = _packages(framework)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    details = {
        "framework": framework,
        "lock_sha256": framework_environments.lock_digest(framework),
        "python": platform.python_version(),
        "packages": packages,
    }
    disk.write_json(framework_environments.record(framework), details)


def pip_command(framework: str, gpu: bool) -> list[str]:
    """Returns the command that puts a framework's pins into its environment."""
    found = framework_names.FRAMEWORKS[framework]
    command = [str(framework_environments.python(framework)), "-m", "pip", "install"]
    command += ["--disable-pip-version-check", "--no-input", "--retries", str(_RETRIES)]
    if found.cpu_index and not gpu:
        command += ["--extra-index-url", found.cpu_index]
    command += ["-r", str(framework_environments.lock(framework))]
    return [*command, *(found.gpu_requirements if gpu else ())]


def _check_python(framework: framework_names.Framework) -> None:
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if framework.python and running != framework.python:
        raise UserError(
            f"{framework.title}: received Python {running}; Python {framework.python} is "
            f"expected, the only one that the pins in envs/{framework.name}.lock have wheels for. "
            "Set this project up with it, or leave the framework out."
        )


def _clear(folder: Path) -> None:
    """Takes an environment away; refuses whatever else lies in its place."""
    if not folder.exists():
        return
    if any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        raise UserError(
            f"{folder}: received a folder that holds something else; an environment, an empty "
            "folder or none is expected. Remove it, or let "
            f"{framework_environments.VARIABLE} name another."
        )
    shutil.rmtree(folder)


def _run(command: list[str], framework: framework_names.Framework) -> None:
    """Runs a command, its output on this process's; shows the end of it where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()][-_LAST_LINES:]
        raise UserError(
            f"{framework.title}: cannot be installed from envs/{framework.name}.lock; a package "
            "index that can be reached, with its wheels for this machine, is expected. The last "
            "lines of what was tried:\n  " + "\n  ".join(lines)
        )
    print(done.stdout, end="")


def _packages(framework: str) -> dict[str, str]:
    """Returns the versions that are installed: those of pins may carry a local suffix."""
    code = (
        "from importlib.metadata import distributions as found\n"
        "for one in found(): print(one.metadata['Name'], one.version)"
    )
    command = [str(framework_environments.python(framework)), "-c", code]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(sorted(line.split() for line in done.stdout.splitlines()))
