"""Whether prepared arrays are still those that were prepared.

A record has the SHA-256 of each array. Arrays are hashed when their data set is loaded, but only
where size or times of a file are not those that it had when it was hashed last: `verified.json`
beside the record has these. So a change of a file is found by the next job that reads it, and a
job that reads what nobody changed pays for one `stat` per file. Bytes that change while size and
times stay, as those of a failing disk, are found by `python workflow/run.py plan --verify`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from batchscope import disk, errors
from batchscope.errors import UserError

_VERIFIED = "verified.json"


def note(folder: Path, sha256: dict[str, str]) -> None:
    """Notes that the files of a folder have these SHA-256, as of now."""
    disk.write_json(folder / _VERIFIED, _states(folder, sha256))


def check(folder: Path, sha256: dict[str, str], everything: bool = False) -> None:
    """Checks prepared arrays against their record.

    Args:
        everything: Whether to hash files too that have not changed since they were hashed.

    Raises:
        UserError: If a file is missing or is another one.
    """
    states = _states(folder, sha256)  # before they are hashed: a change meanwhile is found later
    known: dict[str, Any] = {}
    if not everything:
        with contextlib.suppress(UserError):  # nothing is known to be verified
            known = disk.read_json(folder / _VERIFIED)
    if states == known:
        return
    for file, state in states.items():
        if state != known.get(file):
            disk.check_sha256(folder / file, sha256[file], delete=folder)
    with contextlib.suppress(OSError):  # results that may only be read are hashed every time
        disk.write_json(folder / _VERIFIED, states)


def _states(folder: Path, sha256: dict[str, str]) -> dict[str, list[Any]]:
    """Returns file -> SHA-256, bytes, and when its content and its inode changed, in ns."""
    states = {}
    for file, expected in sha256.items():
        with errors.reading(folder / file, "a prepared array", delete=folder):
            found = (folder / file).stat()
        states[file] = [expected, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    return states
