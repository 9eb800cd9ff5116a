"""The Python environment of each framework that is timed beside TensorFlow.

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
from pathlib import Path

from batchscope import project_files
from batchscope.catalogue import framework_names

VARIABLE = "BATCHSCOPE_FRAMEWORKS"
FOLDER = ".frameworks"
RECORD = "installed.json"


def folder(framework: str) -> Path:
    """Returns the folder of a framework's environment; it need not be there."""
    return Path(os.environ.get(VARIABLE) or FOLDER) / framework


def python(framework: str) -> Path:
    """Returns the interpreter of a framework's environment, an absolute path."""
    return Path(os.path.abspath(folder(framework))) / "bin" / "python"


def record(framework: str) -> Path:
    """Returns the file that says that a framework is installed."""
    return folder(framework) / RECORD


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
