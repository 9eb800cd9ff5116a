"""Check the arrays of a prepared data set against the SHA-256 in its record.

A check writes the sizes and times of the files to `verified.json` next to the record. The next
check hashes only files that differ from it. So every change is noticed, and an unchanged file costs
one `stat`.
"""

import contextlib
from pathlib import Path
from typing import Any

from batchscope.core import disk, errors
from batchscope.core.errors import UserError

_VERIFIED = "verified.json"


def note_verified(folder: Path, sha256: dict[str, str]) -> None:
    disk.write_json(folder / _VERIFIED, _file_states(folder, sha256))


def check_files(folder: Path, sha256: dict[str, str]) -> None:
    """Hash the prepared arrays that changed since the last check.

    Raises:
        UserError: If a file is missing or differs from the record.
    """
    # The states are read before hashing, so that the next check sees later changes.
    states = _file_states(folder, sha256)
    verified: dict[str, Any] = {}
    with contextlib.suppress(UserError):  # Before the first check, there is no file.
        verified = disk.read_json(folder / _VERIFIED)
    if states == verified:
        return
    for file, state in states.items():
        if state != verified.get(file):
            disk.check_sha256(folder / file, sha256[file], path_to_delete=folder)
    with contextlib.suppress(OSError):  # Read-only results are hashed every time.
        disk.write_json(folder / _VERIFIED, states)


def _file_states(folder: Path, sha256: dict[str, str]) -> dict[str, list[Any]]:
    """Return a map of each file to its SHA-256, size, and times of content and inode in ns."""
    states = {}
    for file, expected in sha256.items():
        with errors.reading(folder / file, "a prepared array", path_to_delete=folder):
            stat = (folder / file).stat()
        states[file] = [expected, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    return states
