"""Check of the files of data sets against the SHA-256 in their records.

`load` hashes a file if its size or times differ from `verified.json`, which each check writes next
to the record. The next job that reads a changed file therefore notices the change, and an unchanged
file costs one `stat`.
"""

import contextlib
from pathlib import Path
from typing import Any

from batchscope.core import disk, errors
from batchscope.core.errors import UserError

_VERIFIED = "verified.json"


def note(folder: Path, sha256: dict[str, str]) -> None:
    disk.write_json(folder / _VERIFIED, _states(folder, sha256))


def check(folder: Path, sha256: dict[str, str]) -> None:
    """Hash the prepared arrays that changed since the last check.

    Raises:
        UserError: If a file is missing or differs from the record.
    """
    states = _states(folder, sha256)  # before hashing, so that the next check sees later changes
    verified: dict[str, Any] = {}
    with contextlib.suppress(UserError):  # not verified yet
        verified = disk.read_json(folder / _VERIFIED)
    if states == verified:
        return
    for file, state in states.items():
        if state != verified.get(file):
            disk.check_sha256(folder / file, sha256[file], delete=folder)
    with contextlib.suppress(OSError):  # read-only results are hashed every time
        disk.write_json(folder / _VERIFIED, states)


def _states(folder: Path, sha256: dict[str, str]) -> dict[str, list[Any]]:
    """Return file -> SHA-256, bytes, and times of change of content and inode in ns."""
    states = {}
    for file, expected in sha256.items():
        with errors.reading(folder / file, "a prepared array", delete=folder):
            stat = (folder / file).stat()
        states[file] = [expected, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    return states
