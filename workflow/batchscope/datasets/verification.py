"""Check of the files of data sets and runs against the SHA-256 in their records.

`load` hashes a file if its size or times differ from `verified.json`, which each check writes next
to the record. The next job that reads a changed file therefore notices the change, and an unchanged
file costs one `stat`. A failing disk can change bytes, but not size and times. `python
workflow/run.py plan --verify` reads every byte.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope.core import disk, errors
from batchscope.core.errors import UserError
from batchscope.store import paths
from batchscope.study import plan

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


def verify(study: plan.Study, results: Path | str) -> str:
    """Check the files of a study's data sets and runs by SHA-256; return a sentence on them.

    Raises:
        UserError: If files are missing or differ from the record. The message lists every file.
    """
    data = [paths.dataset_record(results, token) for token in study.datasets]
    names = (*study.runs, *study.commands)
    runs = [paths.run_record(paths.run_folder(results, run)) for run in names]
    datasets, finished = ([path for path in records if path.exists()] for records in (data, runs))
    problems: list[str] = []
    for record in (*datasets, *finished):
        delete, files = record if record in finished else record.parent, {}
        with _noted(problems):
            files = disk.read_json(record, "sha256")["sha256"]
        for name, sha256 in files.items():
            with _noted(problems):
                disk.check_sha256(record.with_name(name), sha256, delete)
    if problems:
        raise UserError("\n".join(problems))
    counts = f"{len(datasets)} data set(s), {len(finished)} run(s)"
    return f"Verified by SHA-256: the files of {counts}."


@contextlib.contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        problems.append(str(error))
